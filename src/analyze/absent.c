#include "analyze/absent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/scan_some.h"
#include "base/hash.h"
#include "base/human.h"
#include "base/map.h"
#include "base/mem.h"

enum { MAX_SOURCES = 10000, N_KEYS = 4, N_TEXTS = 7 };

static const char *const names[N_TEXTS + 1] = { "collector", "instance", "table_name", "column_name",
                                                "state",     "reason",   "fix",        NULL };

/* The members in the order of `names`. */
static char **member(struct infp_absence *absence, unsigned i)
{
        char **const members[N_TEXTS] = { &absence->collector, &absence->instance, &absence->table, &absence->column,
                                          &absence->state,     &absence->reason,   &absence->fix };

        return members[i];
}

static void clear(struct infp_absence *absence)
{
        for (unsigned i = 0; i < N_TEXTS; i++)
                free(*member(absence, i));
        *absence = (struct infp_absence){ 0 };
}

const struct infp_absence *infp_absences_find(const struct infp_absences *absences, const char *collector,
                                              const char *instance)
{
        for (unsigned i = 0; i < absences->n; i++)
                if (!strcmp(absences->list[i].collector, collector) && !strcmp(absences->list[i].instance, instance))
                        return &absences->list[i];
        return NULL;
}

void infp_absences_done(struct infp_absences *absences)
{
        for (unsigned i = 0; i < absences->n; i++)
                clear(&absences->list[i]);
        free(absences->list);
        *absences = (struct infp_absences){ 0 };
}

static int fill(struct infp_absence *absence, const struct infp_batch *batch, const int *columns, uint32_t row)
{
        clear(absence);
        for (unsigned i = 0; i < N_TEXTS; i++) {
                size_t size;
                const char *text = infp_cell_str(batch, columns[i], row, &size);

                *member(absence, i) = strndup(text, size);
                if (!*member(absence, i))
                        return -ENOMEM;
        }
        return 0;
}

struct reading {
        struct infp_absences *absences;
        struct infp_map places;
};

static int take(void *context, const struct infp_batch *batch, const int *columns, uint32_t row)
{
        struct infp_absences *absences = ((struct reading *) context)->absences;
        struct infp_map *places = &((struct reading *) context)->places;
        uint64_t key = 0;
        const uint64_t *place;

        for (unsigned i = 0; i < N_KEYS; i++) {
                size_t size;
                const char *text = infp_cell_str(batch, columns[i], row, &size);

                key = infp_hash64(text, size, key + 1);
        }
        place = infp_map_get(places, key);
        if (place)
                return fill(&absences->list[*place], batch, columns, row);
        if (absences->n == MAX_SOURCES) {
                absences->n_left_out++;
                return 0;
        }
        if (!INFP_MAKE_ROOM(absences->list, absences->n, absences->cap, 32))
                return -ENOMEM;
        INFP_TRY(infp_map_put(places, key, absences->n));
        absences->list[absences->n] = (struct infp_absence){ 0 };
        return fill(&absences->list[absences->n++], batch, columns, row);
}

static void drop_what_works(struct infp_absences *absences)
{
        unsigned kept = 0;

        for (unsigned i = 0; i < absences->n; i++) {
                if (!strcmp(absences->list[i].state, "ok"))
                        clear(&absences->list[i]);
                else
                        absences->list[kept++] = absences->list[i];
        }
        absences->n = kept;
}

int infp_absences_read(struct infp_run *run, uint64_t t1, struct infp_absences *ret, struct infp_err *err)
{
        const struct infp_scan_options options = { .t1 = t1 };
        struct reading reading = { .absences = ret };
        int r;

        *ret = (struct infp_absences){ 0 };
        r = infp_scan_rows(run, "sources", names, &options, take, &reading, err);
        if (ret->n_left_out)
                infp_run_note(run, "%s rows of table sources are left out: the report keeps at most %d sources",
                              infp_count(ret->n_left_out).text, MAX_SOURCES);
        infp_map_done(&reading.places);
        if (r < 0)
                infp_absences_done(ret);
        else
                drop_what_works(ret);
        return r;
}
