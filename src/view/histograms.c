#include "view/histograms.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/sort.h"

/* Where the columns of the tables are; found by name, since view may not include collectors. */
struct places {
        int series, value;                   /* of samples */
        int owner, part, le, metric, labels; /* of series */
};

struct bucket {
        uint64_t owner;
        double le;
        uint32_t row;  /* of the samples */
        uint32_t name; /* where its histogram's name begins in `texts` */
        uint32_t edge; /* likewise: "0.001", "inf" */
};

struct infp_histograms {
        struct bucket *buckets; /* by owner, name and edge */
        size_t n_buckets, cap_buckets;
        struct infp_str texts; /* each ended by 0 */
        double *values;        /* by row of the samples; NAN: none */
        size_t n_values, cap_values;
        uint64_t samples_changes, series_changes; /* when it was worked out */
};

struct infp_histograms *infp_histograms_new(void)
{
        return calloc(1, sizeof(struct infp_histograms));
}

struct infp_histograms *infp_histograms_free(struct infp_histograms *h)
{
        if (!h)
                return NULL;
        free(h->buckets);
        free(h->values);
        infp_str_done(&h->texts);
        free(h);
        return NULL;
}

static const struct infp_table *table_named(const struct infp_last *last, const char *name)
{
        const struct infp_table *table;

        for (unsigned i = 0; (table = last->table(last->context, i)); i++)
                if (!strcmp(table->name, name))
                        return table;
        return NULL;
}

static int find(const struct infp_table *table, const char *name, enum infp_type type)
{
        const int at = infp_table_find(table, name);

        return at >= 0 && infp_table_column(table, (unsigned) at)->type == type ? at : -1;
}

/* The entity's table, when both have all that it takes; else NULL. */
static const struct infp_table *find_places(const struct infp_last *last, const struct infp_table *samples,
                                            struct places *ret)
{
        const struct infp_table *series =
                samples->n_keys && samples->keys[0].type == INFP_ID64 ? table_named(last, samples->keys[0].key) : NULL;

        if (!series)
                return NULL;
        *ret = (struct places){
                .series = INFP_FIXED_COLUMNS,
                .value = find(samples, "value", INFP_F64),
                .owner = find(series, "engine", INFP_ID64),
                .part = find(series, "part", INFP_STR),
                .le = find(series, "le", INFP_F64),
                .metric = find(series, "metric", INFP_STR),
                .labels = find(series, "labels", INFP_STR),
        };
        return ret->value < 0 || ret->owner < 0 || ret->part < 0 || ret->le < 0 || ret->metric < 0 || ret->labels < 0
                       ? NULL
                       : series;
}

/* Labels as engine=0,model_name=x, in the order in which the page has them. */
static void put_labels(struct infp_str *out, const char *text, size_t size)
{
        json_t *labels = json_loadb(text, size, 0, NULL), *value;
        const char *name, *before = "_";

        json_object_foreach(labels, name, value)
        {
                if (!json_is_string(value))
                        continue;
                infp_str_printf(out, "%s%s=", before, name);
                infp_str_put(out, json_string_value(value), json_string_length(value));
                before = ",";
        }
        json_decref(labels);
}

/* Searches names from the end: the buckets of a histogram are adjacent on a page. */
static uint32_t name_of(struct infp_histograms *h, const struct places *at, const struct infp_batch *series)
{
        const uint32_t from = (uint32_t) h->texts.size;
        size_t size;
        const char *text = infp_batch_str(series, (unsigned) at->metric, 0, &size);

        infp_str_put(&h->texts, text, size);
        text = infp_batch_str(series, (unsigned) at->labels, 0, &size);
        if (size)
                put_labels(&h->texts, text, size);
        infp_str_puts(&h->texts, "_histogram");
        infp_str_putc(&h->texts, 0);
        if (h->texts.failed)
                return 0;
        for (size_t i = h->n_buckets; i-- > 0;)
                if (!strcmp(h->texts.data + h->buckets[i].name, h->texts.data + from)) {
                        h->texts.size = from;
                        return h->buckets[i].name;
                }
        return from;
}

static int add_bucket(struct infp_histograms *h, const struct places *at, const struct infp_batch *series, uint32_t row)
{
        size_t size;
        const char *part = infp_batch_str(series, (unsigned) at->part, 0, &size);
        struct bucket *b;

        if (size != strlen("bucket") || memcmp(part, "bucket", size) != 0 ||
            !infp_batch_has(series, (unsigned) at->metric, 0))
                return 0;
        if (!INFP_MAKE_ROOM(h->buckets, h->n_buckets, h->cap_buckets, 256))
                return -ENOMEM;
        b = &h->buckets[h->n_buckets];
        *b = (struct bucket){
                .owner = infp_batch_u64(series, (unsigned) at->owner, 0),
                .le = infp_batch_has(series, (unsigned) at->le, 0) ? infp_batch_f64(series, (unsigned) at->le, 0)
                                                                   : (double) INFINITY,
                .row = row,
                .name = name_of(h, at, series),
                .edge = (uint32_t) h->texts.size,
        };
        infp_str_f64(&h->texts, b->le);
        infp_str_putc(&h->texts, 0);
        h->n_buckets++;
        return h->texts.failed ? -ENOMEM : 0;
}

/* Names are equal when their places are. */
static int compare(const void *a, const void *b)
{
        const struct bucket *x = a, *y = b;

        if (x->owner != y->owner)
                return x->owner < y->owner ? -1 : 1;
        if (x->name != y->name)
                return x->name < y->name ? -1 : 1;
        return x->le < y->le ? -1 : x->le > y->le;
}

static int work_out(struct infp_histograms *h, const struct infp_last *last, const struct infp_table *samples,
                    const struct infp_table *series, const struct places *at)
{
        struct infp_batch batch, thing;

        h->n_buckets = 0;
        infp_str_clear(&h->texts);
        for (uint32_t from = 0; last->rows(last->context, samples, from, &batch); from += batch.n_rows)
                for (uint32_t row = 0; row < batch.n_rows; row++)
                        if (last->entity(last->context, series->name,
                                         infp_batch_u64(&batch, (unsigned) at->series, row), &thing))
                                INFP_TRY(add_bucket(h, at, &thing, from + row));
        infp_sort(h->buckets, h->n_buckets, sizeof(*h->buckets), compare);
        return 0;
}

static int take_values(struct infp_histograms *h, const struct infp_last *last, const struct infp_table *samples,
                       const struct places *at)
{
        struct infp_batch batch;

        h->n_values = 0;
        for (uint32_t from = 0; last->rows(last->context, samples, from, &batch); from += batch.n_rows) {
                if (h->n_values + batch.n_rows > h->cap_values) {
                        const size_t cap = 2 * h->cap_values + batch.n_rows;
                        double *more = reallocarray(h->values, cap, sizeof(*more));

                        if (!more)
                                return -ENOMEM;
                        h->values = more;
                        h->cap_values = cap;
                }
                for (uint32_t row = 0; row < batch.n_rows; row++)
                        h->values[h->n_values++] = infp_batch_f64(&batch, (unsigned) at->value, row);
        }
        return 0;
}

/* Plan and values up to date. */
static int refresh(struct infp_histograms *h, const struct infp_last *last, const char *name)
{
        const struct infp_table *samples = table_named(last, name), *series;
        uint64_t samples_changes, series_changes;
        struct places at;

        series = samples ? find_places(last, samples, &at) : NULL;
        if (!series) {
                h->n_buckets = 0;
                return 0;
        }
        samples_changes = last->changes ? last->changes(last->context, samples->name) : 0;
        series_changes = last->changes ? last->changes(last->context, series->name) : 0;
        if (!last->changes || h->samples_changes != samples_changes || h->series_changes != series_changes) {
                INFP_TRY(work_out(h, last, samples, series, &at));
                h->samples_changes = samples_changes;
                h->series_changes = series_changes;
        }
        return take_values(h, last, samples, &at);
}

int infp_histograms_refresh(struct infp_histograms *h, const struct infp_last *last, const char *samples)
{
        const int r = refresh(h, last, samples);

        /* Drops half a plan; it is made again. */
        if (r < 0)
                h->n_buckets = h->samples_changes = h->series_changes = 0;
        return r;
}

/* Counts are written as whole numbers, except decayed ones. */
static void put_count(struct infp_json *json, double value)
{
        if (value >= 0 && value < 9007199254740992.0 && value == floor(value))
                infp_json_u64(json, (uint64_t) value);
        else
                infp_json_f64(json, value);
}

/* A bucket without a value is no longer on the page. */
static bool has_value(const struct infp_histograms *h, const struct bucket *bucket)
{
        return bucket->row < h->n_values && !isnan(h->values[bucket->row]);
}

void infp_histograms_put(const struct infp_histograms *h, struct infp_json *json, uint64_t owner)
{
        const struct bucket *open = NULL;

        infp_json_object(json);
        for (size_t i = 0; i < h->n_buckets; i++) {
                const struct bucket *b = &h->buckets[i];

                if (b->owner != owner || !has_value(h, b))
                        continue;
                if (!open || open->name != b->name) {
                        if (open)
                                infp_json_object_end(json);
                        infp_json_key(json, h->texts.data + b->name);
                        infp_json_object(json);
                        open = b;
                }
                infp_json_key(json, h->texts.data + b->edge);
                put_count(json, h->values[b->row]);
        }
        if (open)
                infp_json_object_end(json);
        infp_json_object_end(json);
}
