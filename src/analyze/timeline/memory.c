/* What the memory of the largest process holds, by kind: a stacked panel. An account holds until the next one, the last one as long as the next
 * one takes to come as a rule. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/timeline/parts.h"
#include "base/mem.h"
#include "base/time.h"

static const char *const columns[] = { "process", "kind", "bytes", "quality", NULL };
enum { PROCESS, KIND, BYTES, QUALITY };

struct kinds {
        const struct infp_grid *grid;
        uint64_t process, t_ns; /* t_ns: of the account that is being read; 0: none yet */
        double bytes[INFP_MEMORY_KINDS];
        enum infp_quality quality[INFP_MEMORY_KINDS]; /* the worst of all its rows */
        struct infp_bucket_stat *buckets[INFP_MEMORY_KINDS];
};

static int put_account(struct kinds *kinds, uint64_t until)
{
        for (unsigned i = 0; i < INFP_MEMORY_KINDS; i++) {
                /* More was found than RSS says: nothing of a stack. */
                const double bytes = fmax(kinds->bytes[i], 0);

                kinds->bytes[i] = 0;
                if (!kinds->buckets[i] && bytes > 0)
                        kinds->buckets[i] = calloc(kinds->grid->n, sizeof(*kinds->buckets[i]));
                if (!kinds->buckets[i] && bytes > 0)
                        return -ENOMEM;
                if (kinds->buckets[i])
                        infp_buckets_hold(kinds->grid, kinds->buckets[i], kinds->t_ns, until, bytes);
        }
        return 0;
}

static void keep_worst(struct kinds *kinds, enum infp_memory_kind kind, const struct infp_batch *batch, int column,
                       uint32_t row)
{
        for (enum infp_quality q = INFP_ESTIMATED; q > kinds->quality[kind]; q--)
                if (infp_cell_is(batch, column, row, infp_quality_name(q)))
                        kinds->quality[kind] = q;
}

static int take(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct kinds *kinds = context;
        const uint64_t t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        size_t size;
        const char *name = infp_cell_str(batch, at[KIND], row, &size);
        const enum infp_memory_kind kind = infp_memory_kind_by_name(name, size);

        if (!infp_cell_has(batch, at[PROCESS], row) || !infp_cell_has(batch, at[BYTES], row) ||
            kind >= INFP_MEMORY_KINDS || !infp_memory_kind_is_rss(kind) ||
            infp_batch_u64(batch, (unsigned) at[PROCESS], row) != kinds->process)
                return 0;
        if (t_ns != kinds->t_ns && kinds->t_ns)
                INFP_TRY(put_account(kinds, t_ns));
        kinds->t_ns = t_ns;
        kinds->bytes[kind] += infp_cell_number(batch, at[BYTES], row);
        keep_worst(kinds, kind, batch, at[QUALITY], row);
        return 0;
}

static int draw(struct infp_timeline *timeline, const struct infp_memory_process *process, struct kinds *kinds)
{
        struct infp_timeline_panel *panel = infp_timeline_add_panel(timeline);

        if (!panel)
                return -ENOMEM;
        *panel = (struct infp_timeline_panel){
                .id = strdup("memory-account"),
                .note = strdup("By kind; an account holds until the next one, the last one for 10 s at most"),
                .group = "tree",
                .unit = "bytes",
                .kind = "stack",
                .max = NAN,
        };
        if (asprintf(&panel->title, "What the memory of %s holds",
                     process->name ? process->name : "the largest process") < 0)
                panel->title = NULL;
        if (!panel->id || !panel->note || !panel->title)
                return -ENOMEM;
        for (unsigned i = 0; i < INFP_MEMORY_KINDS; i++) {
                struct infp_timeline_series *series;

                if (!kinds->buckets[i])
                        continue;
                series = infp_timeline_add_series(panel);
                if (!series)
                        return -ENOMEM;
                *series = (struct infp_timeline_series){
                        .name = strdup(infp_memory_kind_name(i)),
                        .metric = strdup(columns[BYTES]),
                        .table = strdup(infp_table_memory_account.name),
                        .help = strdup(""),
                        .quality = kinds->quality[i],
                        .buckets = INFP_TAKE(kinds->buckets[i]),
                };
                if (!series->name || !series->metric || !series->table || !series->help)
                        return -ENOMEM;
        }
        return 0;
}

static uint64_t end_of_last(const struct infp_timeline *timeline, const struct kinds *kinds)
{
        uint64_t ret = kinds->t_ns + INFP_MEMORY_ACCOUNT_PERIOD_S * INFP_NS_PER_S;

        for (unsigned i = 0; i < timeline->n_processes; i++) {
                const struct infp_timeline_process *p = &timeline->processes[i];

                if (p->id == kinds->process && p->end_t_ns > kinds->t_ns && p->end_t_ns < ret)
                        ret = p->end_t_ns;
        }
        return ret;
}

/* After the processes: it asks them when they ended. */
int infp_timeline_memory(struct infp_timeline_reading *reading, struct infp_err *err)
{
        const struct infp_memory_accounts *memory = &reading->report->memory;
        struct kinds kinds = { .grid = &reading->timeline->grid };
        int r;

        if (!memory->n)
                return 0;
        kinds.process = memory->list[0].id;
        reading->table = infp_table_memory_account.name;
        r = infp_scan_rows(reading->run, reading->table, columns, reading->scan, take, &kinds, err);
        if (r >= 0)
                r = put_account(&kinds, end_of_last(reading->timeline, &kinds));
        if (r >= 0)
                r = draw(reading->timeline, &memory->list[0], &kinds);
        for (unsigned i = 0; i < INFP_MEMORY_KINDS; i++)
                free(kinds.buckets[i]);
        return r;
}
