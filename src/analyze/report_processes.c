#include "analyze/report_processes.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/report_scan.h"
#include "analyze/report_uses.h"
#include "base/mem.h"

void infp_report_processes_done(struct infp_report_processes *processes)
{
        for (unsigned i = 0; i < processes->n; i++) {
                free(processes->list[i].name);
                free(processes->list[i].command);
        }
        *processes = (struct infp_report_processes){ 0 };
}

static bool has(const struct infp_batch *batch, int column, uint32_t row)
{
        return column >= 0 && infp_batch_has(batch, (unsigned) column, row);
}

static void take(struct infp_report_processes *ret, const struct infp_use *use)
{
        ret->list[ret->n++] = (struct infp_report_process){
                .id = use->id,
                .pid = -1,
                .cpu_s = use->cpu_s,
                .cpu_share_percent = NAN,
                .rss_peak_bytes = use->rss,
                .first_unix_ns = use->first_unix_ns,
                .last_unix_ns = use->last_unix_ns,
        };
}

static void choose(struct infp_uses *uses, struct infp_report_processes *ret)
{
        size_t biggest = 0;

        for (size_t i = 0; i < uses->n; i++) {
                if (i < INFP_REPORT_BUSIEST)
                        take(ret, &uses->list[i]);
                if (infp_uses_compare(uses->list[i].rss, uses->list[biggest].rss) < 0)
                        biggest = i;
        }
        if (biggest >= INFP_REPORT_BUSIEST)
                take(ret, &uses->list[biggest]);
        ret->n_seen = (unsigned) uses->n;
        ret->n_rows_left_out = uses->n_rows_left_out;
        ret->beyond_tree = uses->beyond_tree;
}

static int set_text(char **ret, const struct infp_batch *batch, int column, uint32_t row)
{
        size_t size;
        const char *text;

        if (!has(batch, column, row))
                return 0;
        text = infp_batch_str(batch, (unsigned) column, row, &size);
        free(*ret);
        *ret = strndup(text, size);
        return *ret ? 0 : -ENOMEM;
}

/* The last word about each of those that were chosen. */
static int read_names(struct infp_run *run, const struct infp_report_processes_options *options,
                      struct infp_report_processes *ret, struct infp_err *err)
{
        static const char *const names[] = { "id", "pId", "pName", "pCmdline", NULL };
        int at[INFP_COUNT(names) - 1];
        struct infp_scan *scan;
        struct infp_batch batch;
        int r = infp_uses_scan_processes(run, options, names, &scan, err);

        if (r < 0)
                return r == -ENOENT ? 0 : r;
        for (unsigned i = 0; i < INFP_COUNT(at); i++)
                at[i] = infp_table_find(infp_scan_table(scan), names[i]);
        while (at[0] >= 0 && r >= 0 && (r = infp_scan_next(scan, &batch, err)) > 0)
                for (uint32_t row = 0; row < batch.n_rows && r > 0; row++)
                        for (unsigned i = 0; i < ret->n; i++) {
                                struct infp_report_process *p = &ret->list[i];

                                if (infp_batch_u64(&batch, (unsigned) at[0], row) != p->id)
                                        continue;
                                if (has(&batch, at[1], row))
                                        p->pid = infp_batch_i64(&batch, (unsigned) at[1], row);
                                if (set_text(&p->name, &batch, at[2], row) < 0 ||
                                    set_text(&p->command, &batch, at[3], row) < 0)
                                        r = infp_fail(err, -ENOMEM, "no memory for the report");
                        }
        infp_scan_close(scan);
        return r;
}

int infp_report_processes_read(struct infp_run *run, const struct infp_report_processes_options *options,
                               struct infp_report_processes *ret, const char **ret_table, struct infp_err *err)
{
        infp_cleanup(infp_uses_done) struct infp_uses uses = { 0 };
        int r;

        *ret = (struct infp_report_processes){ 0 };
        INFP_TRY(infp_uses_read(run, options, NULL, NULL, NULL, &uses, ret_table, err));
        if (!uses.n)
                return 0;
        choose(&uses, ret);
        r = read_names(run, options, ret, err);
        if (r < 0)
                infp_report_processes_done(ret);
        return r;
}
