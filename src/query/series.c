#include "query/series.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "model/builder.h"
#include "model/tables.h"
#include "query/instances.h"
#include "query/joins.h"
#include "query/series_plan.h"

enum { ROWS = 256 };

struct cell {
        bool has;
        union infp_cell value;
        char *text;
        size_t size, cap;
};

/* The last row of a slot that is not later than the tick. */
struct last {
        bool has;
        uint64_t t_ns;
        int64_t unix_ms;
        struct cell *cells; /* by column of the table */
        unsigned n;
};

/* One table, read in step with the ticks. */
struct feed {
        struct infp_scan *scan;
        struct infp_batch batch;
        uint32_t at;
        bool ended;
};

struct tick {
        uint64_t t_ns;
        int64_t unix_ms;
};

struct infp_series {
        struct infp_series_plan plan;
        uint64_t t0, t1;
        struct feed *feeds, ticks;
        struct last *lasts; /* by slot */
        struct infp_builder *builder;
        struct tick next; /* read ahead: rows up to it belong to the tick before it */
        bool has_next;
        bool is_waiting; /* a tick's row did not fit into the last batch */
        struct tick waiting;
        struct infp_str key;
};

static void feed_done(struct feed *feed)
{
        infp_scan_close(feed->scan);
}

struct infp_series *infp_series_close(struct infp_series *s)
{
        if (!s)
                return NULL;
        for (unsigned i = 0; s->feeds && i < s->plan.n_feeds; i++)
                feed_done(&s->feeds[i]);
        feed_done(&s->ticks);
        for (unsigned i = 0; s->lasts && i < s->plan.n_slots; i++) {
                for (unsigned k = 0; s->lasts[i].cells && k < s->lasts[i].n; k++)
                        free(s->lasts[i].cells[k].text);
                free(s->lasts[i].cells);
        }
        free(s->feeds);
        free(s->lasts);
        infp_builder_free(s->builder);
        infp_str_done(&s->key);
        infp_series_plan_done(&s->plan);
        free(s);
        return NULL;
}

static void free_series(struct infp_series **s)
{
        infp_series_close(*s);
}

const struct infp_table *infp_series_table(const struct infp_series *series)
{
        return &series->plan.made->table;
}

static int64_t to_ms(int64_t unix_ns)
{
        return unix_ns / (int64_t) INFP_NS_PER_MS - (unix_ns % (int64_t) INFP_NS_PER_MS < 0);
}

/* The row at feed->at is there: 1; 0: the table has ended. */
static int look(struct feed *feed, struct infp_err *err)
{
        int r = 1;

        while (!feed->ended && feed->at >= feed->batch.n_rows) {
                feed->at = 0;
                feed->batch.n_rows = 0;
                r = infp_scan_next(feed->scan, &feed->batch, err);
                if (r < 0)
                        return r;
                feed->ended = r == 0;
        }
        return !feed->ended;
}

static int next_tick(struct infp_series *s, struct infp_err *err)
{
        int r = s->ticks.scan ? look(&s->ticks, err) : 0;

        s->has_next = r > 0;
        if (r <= 0)
                return r;
        s->next.t_ns = (uint64_t) infp_batch_i64(&s->ticks.batch, 0, s->ticks.at);
        s->next.unix_ms = to_ms(infp_batch_i64(&s->ticks.batch, 1, s->ticks.at));
        s->ticks.at++;
        return 1;
}

static int keep_text(struct cell *cell, const char *text, size_t size)
{
        if (size > cell->cap || !cell->text) {
                char *more = realloc(cell->text, size + 64);

                if (!more)
                        return -ENOMEM;
                cell->text = more;
                cell->cap = size + 64;
        }
        memcpy(cell->text, text, size);
        cell->size = size;
        return 0;
}

static int keep_cell(struct cell *cell, const struct infp_batch *batch, unsigned column, uint32_t row)
{
        size_t size;
        const char *text;

        cell->has = infp_batch_has(batch, column, row);
        if (!cell->has)
                return 0;
        switch (infp_table_column(batch->table, column)->type) {
        case INFP_STR:
                text = infp_batch_str(batch, column, row, &size);
                return keep_text(cell, text, size);
        case INFP_BOOL:
                cell->value.b = infp_batch_bool(batch, column, row);
                break;
        case INFP_F64:
                cell->value.f64 = infp_batch_f64(batch, column, row);
                break;
        case INFP_U64:
        case INFP_ID64:
                cell->value.u64 = infp_batch_u64(batch, column, row);
                break;
        case INFP_I64:
        case INFP_TS_NS:
                cell->value.i64 = infp_batch_i64(batch, column, row);
        }
        return 0;
}

static int keep_row(struct infp_series *s, unsigned feed_index, uint32_t row)
{
        const struct infp_batch *batch = &s->feeds[feed_index].batch;
        struct last *last;
        int slot;

        infp_str_clear(&s->key);
        infp_instance_key(&s->key, batch, row);
        slot = infp_series_slot_of(&s->plan, feed_index, &s->key);
        if (slot < 0)
                return 0;
        last = &s->lasts[slot];
        last->has = true;
        last->t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        last->unix_ms = to_ms(infp_batch_i64(batch, 1, row));
        for (unsigned i = INFP_FIXED_COLUMNS; i < last->n; i++)
                INFP_TRY(keep_cell(&last->cells[i], batch, i, row));
        return 0;
}

/* Takes the rows of all tables that were stamped before `end`. */
static int advance(struct infp_series *s, uint64_t end, struct infp_err *err)
{
        for (unsigned i = 0; i < s->plan.n_feeds; i++) {
                struct feed *feed = &s->feeds[i];
                int r;

                while ((r = look(feed, err)) > 0 && (uint64_t) infp_batch_i64(&feed->batch, 0, feed->at) < end) {
                        if (keep_row(s, i, feed->at) < 0)
                                return infp_fail(err, -ENOMEM, "out of memory");
                        feed->at++;
                }
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Not older than two of its periods. */
static bool is_fresh(const struct infp_series *s, unsigned slot, uint64_t tick_ns)
{
        const struct last *last = &s->lasts[slot];
        uint64_t reach = 2 * s->plan.feeds[s->plan.slots[slot].feed].period_ns;

        return last->has && (last->t_ns >= tick_ns || tick_ns - last->t_ns <= reach);
}

static void put_attribute(const struct infp_series *s, unsigned index)
{
        const struct infp_series_column *c = &s->plan.columns[index];
        const struct infp_series_slot *slot = &s->plan.slots[c->slot];
        const struct infp_entities *things = s->plan.feeds[slot->feed].things;
        const struct infp_value *value = things ? infp_entities_value(things, slot->id, c->source) : NULL;
        const enum infp_type type = infp_table_column(infp_series_table(s), index + 1)->type;
        union infp_cell cell = { .u64 = 0 };

        if (!value)
                return;
        if (type == INFP_F64)
                cell.f64 = value->as.f64;
        else if (type == INFP_BOOL)
                cell.b = value->as.b;
        else if (type == INFP_U64)
                cell.u64 = value->as.u64;
        else if (type != INFP_STR)
                cell.i64 = value->as.i64;
        infp_builder_set(s->builder, index + 1, cell, value->text, value->size);
}

static int put_row(struct infp_series *s, const struct tick *tick)
{
        INFP_TRY(infp_builder_row_begin(s->builder, 0, 0));
        infp_builder_set(s->builder, 0, (union infp_cell){ .i64 = tick->unix_ms }, NULL, 0);
        for (unsigned i = 0; i < s->plan.n_columns; i++) {
                const struct infp_series_column *c = &s->plan.columns[i];
                const struct last *last = &s->lasts[c->slot];
                const struct cell *cell = c->is_attribute ? NULL : &last->cells[c->source];

                if (!is_fresh(s, c->slot, tick->t_ns))
                        continue;
                if (c->is_attribute)
                        put_attribute(s, i);
                else if (cell->has && c->is_time)
                        infp_builder_set(s->builder, i + 1, (union infp_cell){ .i64 = last->unix_ms }, NULL, 0);
                else if (cell->has)
                        infp_builder_set(s->builder, i + 1, cell->value, cell->text, cell->size);
        }
        return infp_builder_row_end(s->builder);
}

static size_t text_size(const struct infp_series *s, const struct infp_series_column *c)
{
        const struct infp_series_slot *slot = &s->plan.slots[c->slot];
        const struct infp_entities *things = s->plan.feeds[slot->feed].things;
        const struct infp_value *value;

        if (!c->is_attribute)
                return s->lasts[c->slot].cells[c->source].size;
        value = things ? infp_entities_value(things, slot->id, c->source) : NULL;
        return value ? value->size : 0;
}

static size_t texts_size(const struct infp_series *s)
{
        size_t size = 0;

        for (unsigned i = 0; i < s->plan.n_columns; i++)
                size += text_size(s, &s->plan.columns[i]);
        return size;
}

static int put_waiting(struct infp_series *s, struct infp_err *err)
{
        int r = put_row(s, &s->waiting);

        if (r == -ENOSPC && infp_builder_rows(s->builder) == 0) {
                r = infp_builder_grow(s->builder, texts_size(s));
                if (r == 0)
                        r = put_row(s, &s->waiting);
        }
        s->is_waiting = r == -ENOSPC;
        return r == -ENOSPC ? 0 : r < 0 ? infp_fail(err, r, "out of memory for a row of the time series") : 0;
}

static bool in_range(const struct infp_series *s, const struct tick *tick)
{
        return tick->t_ns >= s->t0 && (!s->t1 || tick->t_ns < s->t1);
}

int infp_series_next(struct infp_series *s, struct infp_batch *ret, struct infp_err *err)
{
        infp_builder_reset(s->builder);
        if (s->is_waiting)
                INFP_TRY(put_waiting(s, err));
        while (s->has_next && !s->is_waiting) {
                s->waiting = s->next;
                INFP_TRY(next_tick(s, err));
                INFP_TRY(advance(s, s->has_next ? s->next.t_ns : UINT64_MAX, err));
                if (in_range(s, &s->waiting))
                        INFP_TRY(put_waiting(s, err));
        }
        *ret = infp_builder_batch(s->builder, 0);
        return ret->n_rows > 0;
}

static int open_feed(struct infp_series *s, struct infp_run *run, unsigned index, struct infp_err *err)
{
        const struct infp_series_feed *plan = &s->plan.feeds[index];
        struct infp_scan_options options = { .catalog = &s->plan.catalog };

        /* Rows before the range still stand at its first ticks. */
        if (s->t0 > 2 * plan->period_ns)
                options.t0 = s->t0 - 2 * plan->period_ns;
        return infp_scan_open(run, plan->table->name, &options, &s->feeds[index].scan, err);
}

static int open_feeds(struct infp_series *s, struct infp_run *run, struct infp_err *err)
{
        static const char *const nothing[] = { "tick", NULL };
        struct infp_scan_options ticks = { .catalog = &s->plan.catalog, .columns = nothing };
        int r;

        for (unsigned i = 0; i < s->plan.n_feeds; i++)
                INFP_TRY(open_feed(s, run, i, err));
        for (unsigned i = 0; i < s->plan.n_slots; i++) {
                struct last *last = &s->lasts[i];

                last->n = infp_table_width(s->plan.feeds[s->plan.slots[i].feed].table);
                last->cells = calloc(last->n + 1, sizeof(*last->cells));
                if (!last->cells)
                        return infp_fail(err, -ENOMEM, "out of memory");
        }
        r = infp_scan_open(run, infp_table_ticks.name, &ticks, &s->ticks.scan, err);
        return r == -ENOENT ? 0 : r; /* a run without ticks has no rows */
}

int infp_series_open(struct infp_run *run, uint64_t t0, uint64_t t1, struct infp_series **ret, struct infp_err *err)
{
        infp_cleanup(free_series) struct infp_series *s = calloc(1, sizeof(*s));

        *ret = NULL;
        if (!s)
                return infp_fail(err, -ENOMEM, "out of memory");
        s->t0 = t0;
        s->t1 = t1;
        INFP_TRY(infp_series_plan_make(run, &s->plan, err));
        s->feeds = calloc(s->plan.n_feeds + 1, sizeof(*s->feeds));
        s->lasts = calloc(s->plan.n_slots + 1, sizeof(*s->lasts));
        s->builder = infp_builder_new(infp_series_table(s), ROWS);
        if (!s->feeds || !s->lasts || !s->builder)
                return infp_fail(err, -ENOMEM, "out of memory");
        INFP_TRY(open_feeds(s, run, err));
        INFP_TRY(next_tick(s, err));
        *ret = INFP_TAKE(s);
        return 0;
}
