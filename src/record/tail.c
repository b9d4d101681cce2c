#include "record/tail.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/time.h"
#include "collect/collector.h"
#include "record/shelf.h"

/* Texts of views: 500 processes take 1.5 MiB. Beyond the limit rows are shown without them. */
enum { FEW_THINGS = 256, MAX_VIEW_TEXTS = 16 << 20, MAX_VIEW_TEXT = 64 << 10 };

/* `processes` repeats an unchanged row each 60 s (design.md: readers carry the last row forward). */
static const uint64_t repeat_ns = 60 * INFP_NS_PER_S;

struct tail {
        struct infp_sink sink;
        uint32_t run_period_ms;
        const struct infp_env *env; /* may be NULL */
        struct infp_shelf *shelves;
        unsigned n_shelves;
        uint64_t tick, n_dropped;
        size_t n_view_texts; /* bytes of memory for texts of views */
};

static struct tail *tail_of(const struct infp_sink *sink)
{
        return (struct tail *) (uintptr_t) sink;
}

static struct infp_shelf *shelf_find(const struct tail *tail, const char *name)
{
        for (unsigned i = 0; i < tail->n_shelves; i++)
                if (!strcmp(tail->shelves[i].table->name, name))
                        return &tail->shelves[i];
        return NULL;
}

/* For each row of a snapshot: tables are nearly always known by their address, and few are entities. */
static struct infp_shelf *shelf_of(const struct tail *tail, const struct infp_table *table)
{
        for (unsigned i = 0; i < tail->n_shelves; i++)
                if (tail->shelves[i].table == table)
                        return &tail->shelves[i];
        return shelf_find(tail, table->name);
}

static struct infp_shelf *things_find(const struct tail *tail, const char *name)
{
        for (unsigned i = 0; i < tail->n_shelves; i++)
                if (tail->shelves[i].table->entity && !strcmp(tail->shelves[i].table->name, name))
                        return &tail->shelves[i];
        return NULL;
}

void infp_tail_use_env(struct infp_sink *sink, const struct infp_env *env)
{
        tail_of(sink)->env = env;
}

static uint32_t period_of(const struct tail *tail, const struct infp_table *table)
{
        for (const struct infp_collector *const *c = infp_collectors; *c; c++)
                for (const struct infp_table *const *t = (*c)->tables; *t; t++)
                        if (*t == table)
                                return tail->env ? infp_collector_effective_ms(*c, tail->env)
                                                 : infp_collector_period_ms(*c, tail->run_period_ms);
        return tail->run_period_ms;
}

static int table_begin(struct infp_sink *sink, const struct infp_table *table, struct infp_err *err)
{
        struct tail *tail = tail_of(sink);
        struct infp_shelf *shelves, *s;

        if (table->bulk || shelf_find(tail, table->name))
                return 0;
        shelves = reallocarray(tail->shelves, tail->n_shelves + 1, sizeof(*shelves));
        if (!shelves)
                return infp_fail(err, -ENOMEM, "no memory for the last rows of table %s", table->name);
        tail->shelves = shelves;
        s = &shelves[tail->n_shelves++];
        infp_shelf_init(s, table);
        if (table->section && !table->on_change)
                s->max_age_ns = 2 * INFP_NS_PER_MS * period_of(tail, table);
        else if (table->on_change && s->state_cell >= 0)
                s->max_age_ns = 2 * repeat_ns;
        return 0;
}

static int batch(struct infp_sink *sink, const struct infp_batch *rows, struct infp_err *err)
{
        struct tail *tail = tail_of(sink);
        struct infp_shelf *s = shelf_of(tail, rows->table);

        if (!s)
                return 0;
        for (uint32_t row = 0; row < rows->n_rows; row++) {
                const int r = infp_shelf_take(s, rows, row, tail->tick);

                if (r == -ENOSPC)
                        tail->n_dropped++;
                else if (r < 0)
                        return infp_fail(err, r, "no memory for the last rows of table %s", rows->table->name);
        }
        return 0;
}

/* Marks the things that the rows of other tables name. */
static void mark_named(const struct tail *tail, const struct infp_shelf *facts)
{
        for (unsigned i = 0; i < facts->n_cells; i++) {
                const struct infp_column *c = infp_table_column(facts->table, INFP_FIXED_COLUMNS + i);
                const struct infp_shelf *things = NULL;

                if (c->type == INFP_ID64 && c->key && *c->key)
                        things = shelf_find(tail, c->key);
                for (size_t place = 0; things && place < facts->n_order; place++) {
                        const struct infp_slot *fact = infp_shelf_at(facts, place);
                        struct infp_slot *thing = NULL;

                        if (fact->valid[i / 64] >> (i % 64) & 1)
                                thing = infp_shelf_by_id(things, fact->cells[i].u64);
                        if (thing)
                                thing->mark = true;
                }
        }
}

/* An entity row is written once a segment, before the first fact that names it, and nothing says when it is no longer needed:
 * a tree that starts 200 processes a second would fill the memory. When the rows of such a table have doubled, those that no
 * other row names are dropped; rows of this tick may wait for their first fact. */
static void sweep_unnamed(struct tail *tail, struct infp_shelf *things)
{
        if (things->n_order < 2 * things->n_after_sweep + FEW_THINGS)
                return;
        for (size_t place = 0; place < things->n_order; place++) {
                struct infp_slot *thing = infp_shelf_at(things, place);

                thing->mark = thing->tick + 1 >= tail->tick;
        }
        for (unsigned i = 0; i < tail->n_shelves; i++)
                mark_named(tail, &tail->shelves[i]);
        infp_shelf_drop_unmarked(things);
        things->n_after_sweep = things->n_order;
}

static bool is_over(const struct tail *tail, const struct infp_shelf *s, const struct infp_slot *slot, uint64_t now_ns)
{
        if (slot->is_last && slot->tick < tail->tick)
                return true;
        return s->max_age_ns && now_ns > slot->t_ns && now_ns - slot->t_ns > s->max_age_ns;
}

static int tick_end(struct infp_sink *sink, uint64_t t_ns, int64_t unix_ms, struct infp_err *err)
{
        struct tail *tail = tail_of(sink);

        (void) unix_ms;
        (void) err;
        for (unsigned i = 0; i < tail->n_shelves; i++) {
                struct infp_shelf *s = &tail->shelves[i];

                for (size_t place = s->n_order; place-- > 0;)
                        if (is_over(tail, s, infp_shelf_at(s, place), t_ns))
                                infp_shelf_drop(s, place);
                if (s->table->entity)
                        sweep_unnamed(tail, s);
        }
        tail->tick++;
        return 0;
}

int infp_tail_new(uint32_t run_period_ms, struct infp_sink **ret, struct infp_err *err)
{
        struct tail *tail = calloc(1, sizeof(*tail));

        if (!tail)
                return infp_fail(err, -ENOMEM, "no memory for the last rows");
        tail->run_period_ms = run_period_ms;
        tail->sink = (struct infp_sink){
                .name = "tail",
                .each_tick = true,
                .table_begin = table_begin,
                .batch = batch,
                .tick_end = tick_end,
        };
        *ret = &tail->sink;
        return 0;
}

struct infp_sink *infp_tail_free(struct infp_sink *sink)
{
        struct tail *tail = tail_of(sink);

        if (!tail)
                return NULL;
        for (unsigned i = 0; i < tail->n_shelves; i++)
                infp_shelf_done(&tail->shelves[i]);
        free(tail->shelves);
        free(tail);
        return NULL;
}

uint64_t infp_tail_dropped(const struct infp_sink *sink)
{
        return tail_of(sink)->n_dropped;
}

static const struct infp_table *last_table(void *context, unsigned index)
{
        const struct tail *tail = context;

        return index < tail->n_shelves ? tail->shelves[index].table : NULL;
}

static bool last_rows(void *context, const struct infp_table *table, uint32_t from, struct infp_batch *ret)
{
        struct infp_shelf *s = shelf_of(context, table);

        return s && infp_shelf_rows(s, from, ret);
}

static bool last_entity(void *context, const char *table, uint64_t id, struct infp_batch *ret)
{
        struct infp_shelf *s = table ? things_find(context, table) : NULL;
        const struct infp_slot *slot = s ? infp_shelf_by_id(s, id) : NULL;

        return slot && infp_shelf_row(s, slot, ret);
}

static int64_t last_first(void *context, const struct infp_table *table)
{
        const struct infp_shelf *s = shelf_of(context, table);

        return s ? infp_shelf_first(s) : -1;
}

static uint64_t last_changes(void *context, const char *table)
{
        const struct infp_shelf *s = shelf_find(context, table);

        return !s ? 0 : 1 + s->n_changes + (s->table->entity ? s->n_versions : 0);
}

static bool last_row(void *context, const struct infp_table *table, uint32_t index, struct infp_batch *ret)
{
        struct infp_shelf *s = shelf_of(context, table);

        return s && index < s->n_order && infp_shelf_row(s, infp_shelf_at(s, index), ret);
}

/* Changes whenever the row, or one of the things that its keys name, changes. */
static uint64_t stamp_of(const struct tail *tail, const struct infp_shelf *s, const struct infp_slot *slot)
{
        uint64_t stamp = slot->version;

        for (unsigned i = 0; i < s->n_key_cells; i++) {
                const struct infp_column *c = infp_table_column(s->table, INFP_FIXED_COLUMNS + i);
                const struct infp_shelf *things =
                        c->type == INFP_ID64 && c->key && *c->key ? things_find(tail, c->key) : NULL;
                const struct infp_slot *thing = things ? infp_shelf_by_id(things, slot->cells[i].u64) : NULL;

                stamp = infp_hash64(&(uint64_t){ thing ? thing->version : 0 }, sizeof(uint64_t), stamp + 1);
        }
        return stamp;
}

static int last_kept(void *context, const struct infp_table *table, uint32_t index, const char **ret_text,
                     size_t *ret_size)
{
        const struct infp_shelf *s = shelf_of(context, table);
        const struct infp_slot *slot;

        if (!s || index >= s->n_order)
                return -ENOENT;
        slot = infp_shelf_at(s, index);
        if (!slot->view_text.size || slot->view_stamp != stamp_of(context, s, slot))
                return 0;
        *ret_text = slot->view_text.data;
        *ret_size = slot->view_text.size;
        return 1;
}

/* The memory stays with the slot, and grows by powers of two: a row whose numbers get longer rarely needs more. */
static void last_keep(void *context, const struct infp_table *table, uint32_t index, const char *text, size_t size)
{
        struct tail *tail = context;
        struct infp_shelf *s = shelf_of(tail, table);
        struct infp_slot *slot;

        if (!s || index >= s->n_order)
                return;
        slot = infp_shelf_at(s, index);
        infp_str_clear(&slot->view_text);
        if (size >= MAX_VIEW_TEXT || (size >= slot->view_text.cap && tail->n_view_texts + 2 * size > MAX_VIEW_TEXTS))
                return;
        tail->n_view_texts -= slot->view_text.cap;
        infp_str_put(&slot->view_text, text, size);
        tail->n_view_texts += slot->view_text.cap;
        if (slot->view_text.failed)
                infp_str_clear(&slot->view_text);
        else
                slot->view_stamp = stamp_of(tail, s, slot);
}

struct infp_last infp_tail_last(struct infp_sink *sink)
{
        return (struct infp_last){
                .context = tail_of(sink),
                .table = last_table,
                .rows = last_rows,
                .entity = last_entity,
                .kept = last_kept,
                .keep = last_keep,
                .first = last_first,
                .changes = last_changes,
                .row = last_row,
        };
}
