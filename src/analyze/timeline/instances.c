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
static int take_name(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct infp_tracked *tracked = context;
        const struct infp_panel_table *about = tracked->about;
        const int i = at[0] < 0 ? -1
                                : by_label(tracked->instances, tracked->n_instances,
                                           infp_batch_u64(batch, (unsigned) at[0], row));
        bool failed = false;
        char *text = NULL;

        if (i < 0)
                return 0;
        for (unsigned k = 0; k < INFP_COUNT(about->label) && about->label[k] && !text; k++)
                text = infp_timeline_text(batch, at[1 + k], row, &failed);
        if (text) {
                shorten_id(text);
                free(tracked->instances[i].label);
                tracked->instances[i].label = text;
        }
        if (about->number && infp_cell_has(batch, at[3], row))
                tracked->instances[i].number = infp_batch_i64(batch, (unsigned) at[3], row);
        return failed ? -ENOMEM : 0;
}

int infp_tracked_read_names(const struct infp_tracked_options *options, struct infp_tracked *tracked,
                            struct infp_err *err)
{
        const struct infp_panel_table *about = tracked->about;
        const struct infp_scan_options whole = { .catalog = options->scan->catalog };
        const char *names[] = { "id", about->label[0] ? about->label[0] : "id",
                                about->label[1] ? about->label[1] : "id", about->number ? about->number : "id", NULL };

        return infp_scan_rows(options->run, about->entity, names, &whole, take_name, tracked, err);
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
