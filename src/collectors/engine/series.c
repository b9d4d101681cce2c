/* Series of an engine's page and their values: one look-up a sample, rows only for changes. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "base/json/json.h"
#include "base/sort.h"
#include "base/text.h"
#include "base/time.h"
#include "collectors/engine/parts.h"
#include "collectors/engine/tables.h"

enum {
        MIN_SLOTS = 256,
        PACE_BYTES = 1 << 20, /* of rows, then the recorder gets time: its ring holds a few of these */
        VALUE_MAX = 1024,     /* of one label */
        LABELS_MAX = 32 * 1024,
        HELP_MAX = 512,
};
static const uint64_t say_again_ns = 300 * INFP_NS_PER_S; /* the recorder forgets what no fact of two segments named */

/* A first page of 20,000 series exceeds a ring. Returns whether the row found room. */
static bool commit(struct engine *engine)
{
        static const struct timespec pause = { .tv_nsec = 20 * 1000 * 1000 };
        struct engines *all = engine->all;
        const struct infp_row *row = &all->emit->row;
        uint64_t n_dropped = all->emit->n_dropped;

        all->n_paced += 64 + 8 * (uint64_t) (row->table->n_keys + row->table->n_columns) + row->text_size;
        infp_emit_commit(all->emit);
        if (all->n_paced > PACE_BYTES && all->env->stats) {
                nanosleep(&pause, NULL);
                all->n_paced = 0;
        }
        return all->emit->n_dropped == n_dropped;
}

static int compare_labels(const void *a, const void *b)
{
        const struct infp_prom_text *x = &(*(const struct infp_prom_label *const *) a)->name;
        const struct infp_prom_text *y = &(*(const struct infp_prom_label *const *) b)->name;
        int order = memcmp(x->at, y->at, x->size < y->size ? x->size : y->size);

        return order ? order : x->size < y->size ? -1 : x->size > y->size;
}

static bool text_is(struct infp_prom_text text, const char *word)
{
        return text.size == strlen(word) && !memcmp(text.at, word, text.size);
}

/* Labels by name, without the one that distinguishes the parts of a histogram. */
static unsigned sort_labels(const struct infp_prom_sample *sample, const struct infp_prom_label **ret)
{
        const char *own = sample->part == INFP_PROM_BUCKET     ? "le"
                          : sample->part == INFP_PROM_QUANTILE ? "quantile"
                                                               : NULL;
        unsigned n = 0;

        for (unsigned i = 0; i < sample->n_labels; i++)
                if (!own || !text_is(sample->labels[i].name, own))
                        ret[n++] = &sample->labels[i];
        infp_sort(ret, n, sizeof(ret[0]), compare_labels);
        return n;
}

static uint64_t id_of(const struct engine *engine, const struct infp_prom_sample *sample)
{
        const struct infp_prom_label *labels[INFP_PROM_LABELS];
        unsigned n = sort_labels(sample, labels);
        uint64_t id = infp_hash64(sample->name.at, sample->name.size, engine->id);

        for (unsigned i = 0; i < n; i++) {
                id = infp_hash64(labels[i]->name.at, labels[i]->name.size, id);
                id = infp_hash64(labels[i]->value.at, labels[i]->value.size, id);
        }
        /* As a number: "1", "1.0" and "1e0" are one edge. */
        if (sample->part == INFP_PROM_BUCKET || sample->part == INFP_PROM_QUANTILE)
                id = infp_hash64(&sample->le, sizeof(sample->le), id);
        return id ? id : 1;
}

static struct engine_slot *find(struct engine_slot *slots, uint32_t n_slots, uint64_t key)
{
        for (uint64_t i = key;; i++) {
                struct engine_slot *slot = &slots[i & (n_slots - 1)];

                if (!slot->key || slot->key == key)
                        return slot;
        }
}

/* Moves those of this round, or all, into a table with room for `n`. */
static bool rebuild(struct engine_series *series, uint32_t n, const uint32_t *round)
{
        uint32_t n_slots = MIN_SLOTS, n_used = 0;
        struct engine_slot *slots;

        while (n_slots / 4 * 3 <= n)
                n_slots *= 2;
        slots = calloc(n_slots, sizeof(*slots));
        if (!slots)
                return false;
        for (uint32_t i = 0; i < series->n_slots; i++) {
                const struct engine_slot *slot = &series->slots[i];

                if (!slot->key || (round && slot->round != *round && !slot->is_kept))
                        continue;
                *find(slots, n_slots, slot->key) = *slot;
                n_used++;
        }
        free(series->slots);
        series->slots = slots;
        series->n_slots = n_slots;
        series->n_used = n_used;
        return true;
}

static bool is_counter(const struct infp_prom_sample *sample)
{
        if (sample->part == INFP_PROM_VALUE)
                return sample->type == INFP_PROM_COUNTER;
        return (sample->type == INFP_PROM_HISTOGRAM || sample->type == INFP_PROM_SUMMARY) &&
               (sample->part == INFP_PROM_COUNT || sample->part == INFP_PROM_BUCKET);
}

static int by_id(const void *a, const void *b)
{
        const struct engine_known *x = a, *y = b;

        return (x->id > y->id) - (x->id < y->id);
}

static void forget_known(struct engine_series *series)
{
        free(series->known);
        series->known = NULL;
        series->n_known = 0;
}

static bool list_known(struct engine_series *series)
{
        series->known = calloc(series->n_used, sizeof(*series->known));
        if (!series->known)
                return false;
        for (uint32_t i = 0; i < series->n_slots; i++) {
                const struct engine_slot *slot = &series->slots[i];

                if (slot->key)
                        series->known[series->n_known++] = (struct engine_known){ slot->id, slot->key };
        }
        infp_sort(series->known, series->n_known, sizeof(*series->known), by_id);
        return true;
}

/* A new text may be a known series: with its labels in another order, its edge in another spelling. The new slot takes over
 * what was written, and the old one has nothing to take back. */
static void take_over(struct engine *engine, struct engine_slot *slot)
{
        struct engine_series *series = &engine->series;
        const struct engine_known wanted = { .id = slot->id }, *known;
        struct engine_slot *old;

        if (engine->round == 1 || (!series->known && !list_known(series)))
                return;
        known = bsearch(&wanted, series->known, series->n_known, sizeof(wanted), by_id);
        if (!known)
                return;
        old = find(series->slots, series->n_slots, known->key);
        slot->value = old->value;
        slot->round = old->round == engine->round ? engine->round : 0; /* the page has it twice */
        slot->is_said = old->is_said;
        slot->is_written = old->is_written;
        slot->has_value = old->has_value;
        slot->is_kept = old->is_kept;
        old->has_value = old->is_kept = false;
}

void infp_engine_series_begin(struct engine *engine)
{
        struct engine_series *series = &engine->series;

        engine->round++;
        if (engine->t_ns - series->said_t_ns < say_again_ns)
                return;
        series->said_t_ns = engine->t_ns;
        for (uint32_t i = 0; i < series->n_slots; i++)
                series->slots[i].is_said = false;
}

struct engine_slot *infp_engine_slot(struct engine *engine, const struct infp_prom_sample *sample, bool *ret_is_new)
{
        struct engine_series *series = &engine->series;
        uint64_t key = infp_hash64(sample->series.at, sample->series.size, 1);
        struct engine_slot *slot;

        key = key ? key : 1;
        *ret_is_new = false;
        if (series->n_slots) {
                slot = find(series->slots, series->n_slots, key);
                if (slot->key)
                        return slot;
        }
        if (series->n_used >= ENGINE_SERIES_MAX ||
            (series->n_used >= series->n_slots / 4 * 3 && !rebuild(series, series->n_used + 1, NULL)))
                return NULL;
        slot = find(series->slots, series->n_slots, key);
        slot->id = id_of(engine, sample);
        slot->round = 0;
        slot->is_counter = is_counter(sample);
        slot->n_feeds = (uint8_t) infp_engine_alias_find(engine->about.make, sample, slot->feeds);
        take_over(engine, slot);
        slot->key = key;
        series->n_used++;
        *ret_is_new = true;
        return slot;
}

static void set_text(struct infp_row *row, unsigned cell, struct infp_prom_text text)
{
        if (text.size)
                infp_row_bytes(row, cell, text.at, infp_utf8_cut(text.at, text.size, HELP_MAX));
}

static void set_labels(struct infp_row *row, const struct infp_prom_sample *sample)
{
        const struct infp_prom_label *labels[INFP_PROM_LABELS];
        unsigned n = sort_labels(sample, labels), i;
        infp_autostr struct infp_str text = { 0 };
        infp_autostr struct infp_str name = { 0 };
        struct infp_json json;

        infp_json_begin(&json, &text, 0);
        infp_json_object(&json);
        /* bound: the labels that are shown; the id covers all */
        for (i = 0; i < n && text.size < LABELS_MAX; i++) {
                struct infp_prom_text value = labels[i]->value;
                size_t size = infp_utf8_cut(value.at, value.size, VALUE_MAX);

                infp_str_clear(&name);
                infp_str_put(&name, labels[i]->name.at, labels[i]->name.size);
                if (name.failed)
                        return;
                infp_json_key(&json, name.data);
                infp_json_strn(&json, value.at, size);
        }
        infp_json_object_end(&json);
        if (!text.failed)
                infp_row_str(row, INFP_SERIES_LABELS, text.data);
}

static const char *part_name(enum infp_prom_part part)
{
        switch (part) {
        case INFP_PROM_SUM:
                return "sum";
        case INFP_PROM_COUNT:
                return "count";
        case INFP_PROM_BUCKET:
                return "bucket";
        case INFP_PROM_QUANTILE:
                return "quantile";
        default:
                return "value";
        }
}

static bool write_series(struct engine *engine, const struct engine_slot *slot, const struct infp_prom_sample *sample)
{
        struct infp_row *row = infp_emit_begin(engine->all->emit, &infp_table_series, engine->t_ns);
        const char *metric = infp_engine_alias_metric(slot->feeds, slot->n_feeds);

        infp_row_id(row, INFP_SERIES_ID, slot->id);
        infp_row_id(row, INFP_SERIES_ENGINE, engine->id);
        infp_row_bytes(row, INFP_SERIES_NAME, sample->name.at, sample->name.size);
        set_labels(row, sample);
        infp_row_str(row, INFP_SERIES_TYPE, infp_prom_type_name(sample->type));
        set_text(row, INFP_SERIES_UNIT, sample->unit);
        set_text(row, INFP_SERIES_HELP, sample->help);
        infp_row_bytes(row, INFP_SERIES_FAMILY, sample->family.at, sample->family.size);
        infp_row_str(row, INFP_SERIES_PART, part_name(sample->part));
        infp_row_f64(row, INFP_SERIES_LE, sample->le); /* not where it is infinite */
        if (metric)
                infp_row_str(row, INFP_SERIES_METRIC, metric);
        return commit(engine);
}

static bool write_stamp(struct engine *engine, uint64_t id, int64_t unix_ns)
{
        struct infp_row *row = infp_emit_begin(engine->all->emit, &infp_table_engine_stamps, engine->t_ns);

        infp_row_id(row, INFP_STAMPS_SERIES, id);
        infp_row_ts(row, INFP_STAMPS_SOURCE_TIME, unix_ns);
        return commit(engine);
}

static bool write_value(struct engine *engine, uint64_t id, double value)
{
        struct infp_row *row = infp_emit_begin(engine->all->emit, &infp_table_engine_samples, engine->t_ns);

        infp_row_id(row, INFP_SAMPLES_SERIES, id);
        infp_row_f64(row, INFP_SAMPLES_VALUE, value);
        return commit(engine);
}

static void note_fall(struct engine_falls *falls, const struct engine_slot *slot, const struct infp_prom_sample *sample)
{
        size_t size = sample->name.size < sizeof(falls->name) ? sample->name.size : sizeof(falls->name) - 1;

        if (falls->n++)
                return;
        memcpy(falls->name, sample->name.at, size);
        falls->name[size] = 0;
        falls->from = slot->value;
        falls->to = sample->value;
}

void infp_engine_write(struct engine *engine, struct engine_slot *slot, const struct infp_prom_sample *sample)
{
        bool is_number = isfinite(sample->value);

        if (slot->is_counter && (slot->has_value || slot->is_kept) && sample->value < slot->value)
                note_fall(&engine->falls, slot, sample);
        engine->series.n_kept -= slot->is_kept;
        slot->is_kept = false;
        /* A row without room in the ring is tried again with the next page. */
        if (!slot->is_said)
                slot->is_said = write_series(engine, slot, sample);
        if (!slot->is_said)
                return;
        if (slot->is_written && slot->has_value == is_number && (!is_number || slot->value == sample->value))
                return;
        if (sample->has_time && !write_stamp(engine, slot->id, sample->unix_ns))
                return;
        if (!write_value(engine, slot->id, sample->value))
                return;
        slot->is_written = true;
        slot->has_value = is_number;
        slot->value = is_number ? sample->value : 0;
}

static bool is_part_of_sum(const struct infp_engine_alias *feed)
{
        return feed->cell >= 0 && feed->join == INFP_ENGINE_SUM &&
               infp_table_column(&infp_table_vllm, INFP_FIXED_COLUMNS + (unsigned) feed->cell)->kind == INFP_COUNTER;
}

static void keep(struct engine_series *series, struct engine_slot *slot)
{
        /* bound: without it its counter falls, which looks like a restart */
        for (unsigned i = 0; i < slot->n_feeds && series->n_kept < ENGINE_KEPT_MAX && !slot->is_kept; i++)
                slot->is_kept = is_part_of_sum(slot->feeds[i]);
        series->n_kept += slot->is_kept;
        slot->has_value = false;
}

void infp_engine_series_add_kept(struct engine *engine)
{
        const struct engine_series *series = &engine->series;
        struct infp_engine_fields *fields = &engine->fields;

        for (uint32_t i = 0; series->n_kept && i < series->n_slots; i++) {
                const struct engine_slot *slot = &series->slots[i];

                /* A field that is no longer on the page stays absent. */
                for (unsigned k = 0; slot->is_kept && k < slot->n_feeds; k++)
                        if (is_part_of_sum(slot->feeds[k]) && infp_engine_alias_is_of(slot->feeds[k], slot->share) &&
                            fields->rank[slot->feeds[k]->cell] == slot->feeds[k]->rank + 1)
                                infp_engine_fields_add(fields, slot->feeds[k], slot->value);
        }
}

void infp_engine_series_drop_kept(struct engine *engine)
{
        struct engine_series *series = &engine->series;
        uint32_t n_left = series->n_used - series->n_kept;

        if (!series->n_kept)
                return;
        for (uint32_t i = 0; i < series->n_slots; i++)
                series->slots[i].is_kept = false;
        series->n_kept = 0;
        rebuild(series, n_left, &engine->round);
}

void infp_engine_series_end(struct engine *engine)
{
        struct engine_series *series = &engine->series;
        uint32_t n_here = 0;

        forget_known(series);
        for (uint32_t i = 0; i < series->n_slots; i++)
                n_here += series->slots[i].key && series->slots[i].round == engine->round;
        if (n_here + series->n_kept == series->n_used)
                return;
        /* A series that is no longer on the page has no value from now on; its last one must not stay. */
        for (uint32_t i = 0; i < series->n_slots; i++) {
                struct engine_slot *slot = &series->slots[i];

                if (slot->key && slot->round != engine->round && slot->has_value) {
                        write_value(engine, slot->id, NAN);
                        keep(series, slot);
                }
        }
        rebuild(series, n_here + series->n_kept, &engine->round);
}

void infp_engine_series_done(struct engine_series *series)
{
        free(series->slots);
        free(series->known);
        *series = (struct engine_series){ 0 };
}
