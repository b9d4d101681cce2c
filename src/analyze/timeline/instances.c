/* Instances of a table: how they are called and which come first. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/timeline/parts.h"
#include "base/mem.h"
#include "base/sort.h"

void infp_tracked_name(struct infp_tracked *tracked, struct infp_tracked_instance *instance,
                       const struct infp_batch *batch, uint32_t row)
{
        const struct infp_panel_table *about = tracked->about;
        bool failed = false;

        if (batch->table->n_keys && batch->table->keys[0].type == INFP_ID64)
                instance->id = infp_batch_u64(batch, INFP_FIXED_COLUMNS, row);
        if (about && !about->entity) {
                for (unsigned i = 0; i < INFP_COUNT(about->label) && about->label[i] && !instance->label; i++)
                        instance->label =
                                infp_timeline_text(batch, infp_table_find(batch->table, about->label[i]), row, &failed);
                if (about->number) {
                        const int at = infp_table_find(batch->table, about->number);

                        if (at >= 0 && infp_batch_has(batch, (unsigned) at, row))
                                instance->number = infp_batch_i64(batch, (unsigned) at, row);
                }
        }
        if (!instance->label && batch->table->n_keys && batch->table->keys[0].type == INFP_STR)
                instance->label = infp_timeline_text(batch, INFP_FIXED_COLUMNS, row, &failed);
}

static int by_label(struct infp_tracked_instance *instances, unsigned n, uint64_t id)
{
        for (unsigned i = 0; i < n; i++)
                if (instances[i].id == id)
                        return (int) i;
        return -1;
}

/* A container without a name is called by the first 12 digits of its id, as everywhere. */
static void shorten_id(char *text)
{
        if (strlen(text) >= 32 && strspn(text, "0123456789abcdef") == strlen(text))
                text[12] = 0;
}

/* The last word about each thing that is one of the instances. */
int infp_tracked_read_names(const struct infp_tracked_options *options, struct infp_tracked *tracked,
                            struct infp_err *err)
{
        const struct infp_panel_table *about = tracked->about;
        const struct infp_scan_options whole = { .catalog = options->scan->catalog };
        const char *names[] = { "id", about->label[0] ? about->label[0] : "id",
                                about->label[1] ? about->label[1] : "id", about->number ? about->number : "id", NULL };
        struct infp_scan *scan;
        struct infp_batch batch;
        bool failed = false;
        int r = infp_report_scan(options->run, about->entity, names, &whole, &scan, err);

        if (r < 0)
                return r == -ENOENT ? 0 : r;
        while (!failed && (r = infp_scan_next(scan, &batch, err)) > 0) {
                const int id = infp_table_find(batch.table, "id"),
                          number = about->number ? infp_table_find(batch.table, about->number) : -1;

                for (uint32_t row = 0; id >= 0 && row < batch.n_rows; row++) {
                        const int i = by_label(tracked->instances, tracked->n_instances,
                                               infp_batch_u64(&batch, (unsigned) id, row));
                        char *text = NULL;

                        if (i < 0)
                                continue;
                        for (unsigned k = 0; k < INFP_COUNT(about->label) && about->label[k] && !text; k++)
                                text = infp_timeline_text(&batch, infp_table_find(batch.table, about->label[k]), row,
                                                          &failed);
                        if (text) {
                                shorten_id(text);
                                free(tracked->instances[i].label);
                                tracked->instances[i].label = text;
                        }
                        if (number >= 0 && infp_batch_has(&batch, (unsigned) number, row))
                                tracked->instances[i].number = infp_batch_i64(&batch, (unsigned) number, row);
                }
        }
        infp_scan_close(scan);
        return failed ? -ENOMEM : r;
}

static int rank(const void *a, const void *b, void *context)
{
        const struct infp_tracked_instance *x = a, *y = b;
        const struct infp_tracked *tracked = context;
        const struct infp_panel_table *about = tracked->about;
        const int column = about->rank ? infp_table_find(tracked->table, about->rank) : -1;

        if (x->is_first != y->is_first)
                return x->is_first ? -1 : 1;
        if (column >= 0) {
                const double u = x->columns[column].has_last ? x->columns[column].last_per : -1,
                             v = y->columns[column].has_last ? y->columns[column].last_per : -1;

                if (u != v)
                        return u > v ? -1 : 1;
        }
        if (x->number != y->number)
                return x->number > y->number ? 1 : -1;
        return x->order > y->order ? 1 : -1;
}

void infp_tracked_sort(struct infp_tracked *tracked, const struct infp_grid *grid)
{
        const struct infp_panel_table *about = tracked->about;
        const int column = about && about->rank ? infp_table_find(tracked->table, about->rank) : -1;

        if (!about || tracked->n_instances < 2)
                return;
        /* The mean is wanted many times: it stands where a plain column has no use for it. */
        for (unsigned i = 0; column >= 0 && i < tracked->n_instances; i++) {
                struct infp_track *track = &tracked->instances[i].columns[column];
                const double mean = infp_buckets_mean(track->buckets, grid->n);

                track->last_per = isnan(mean) ? -1 : mean;
        }
        infp_sort_r(tracked->instances, tracked->n_instances, sizeof(*tracked->instances), rank, tracked);
}
