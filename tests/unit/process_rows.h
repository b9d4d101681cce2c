/* Rows of the collector `processes` in tests. */
#pragma once

#include "process_tree.h"

/* The collector on a machine with a target: what a recording does at each tick. */
struct watch {
        struct machine *m;
        struct infp_target *target;
        struct infp_collector_state state;
};

static inline void watch_open(struct watch *w, struct machine *m, struct infp_target *target)
{
        *w = (struct watch){ .m = m, .target = target };
        m->env.target = target;
        refresh(target, &m->env);
        assert_int_equal(
                infp_collector_open(&w->state, infp_collector_find("processes"), &m->env, &m->emit, machine_notice, m),
                0);
}

static inline void watch_sample(struct watch *w)
{
        w->m->emit.t_ns = w->m->env.now_ns(&w->m->env);
        assert_int_equal(infp_collector_sample(&w->state, &w->m->env, &w->m->emit, machine_notice, w->m), 0);
}

/* The first tick's refresh was made by open. */
static inline void watch_tick(struct watch *w)
{
        refresh(w->target, &w->m->env);
        watch_sample(w);
}

static inline void watch_close(struct watch *w)
{
        infp_collector_close(&w->state);
        infp_target_free(w->target);
        machine_close(w->m);
}

/* The last row of the entity of a pid, NULL when there is none. */
static inline const struct kept *entity_of(const struct machine *m, int64_t pid)
{
        for (size_t i = m->n; i-- > 0;)
                if (!strcmp(m->rows[i].table->name, "process") &&
                    m->rows[i].cell[kept_cell(&m->rows[i], "pId")].i64 == pid)
                        return &m->rows[i];
        return NULL;
}

/* The last row of `processes` of an id; `n`: how many there are. */
static inline const struct kept *facts_of_id(const struct machine *m, uint64_t id, size_t *ret_n)
{
        const struct kept *last = NULL;
        size_t n = 0;

        for (size_t i = 0; i < m->n; i++)
                if (!strcmp(m->rows[i].table->name, "processes") && m->rows[i].cell[0].u64 == id) {
                        last = &m->rows[i];
                        n++;
                }
        if (ret_n)
                *ret_n = n;
        return last;
}

static inline const struct kept *facts_of(const struct machine *m, int64_t pid)
{
        const struct kept *entity = entity_of(m, pid);
        const struct kept *facts = entity ? facts_of_id(m, entity->cell[0].u64, NULL) : NULL;

        if (!facts)
                fail_msg("no row of pid %" PRId64, pid);
        return facts;
}

static inline int64_t value(const struct kept *k, const char *column)
{
        unsigned cell = kept_cell(k, column);

        if (!kept_has(k, cell))
                fail_msg("%s is absent", column);
        return k->cell[cell].i64;
}

static inline bool has(const struct kept *k, const char *column)
{
        return kept_has(k, kept_cell(k, column));
}

static inline bool is_text(const struct kept *k, const char *column, const char *right)
{
        char text[INFP_ROW_TEXT];

        return has(k, column) && strcmp(kept_text(k, kept_cell(k, column), text, sizeof(text)), right) == 0;
}

static inline void assert_text(const struct kept *k, const char *column, const char *right)
{
        char text[INFP_ROW_TEXT];

        assert_true(has(k, column));
        assert_string_equal(kept_text(k, kept_cell(k, column), text, sizeof(text)), right);
}

static inline int64_t tree_value(const struct machine *m, const char *column)
{
        return value(machine_need(m, "tree", NULL), column);
}

/* No counter of the tree ever falls. */
static inline void assert_tree_rises(const struct machine *m)
{
        const struct kept *before = NULL;

        for (size_t i = 0; i < m->n; i++) {
                const struct kept *k = &m->rows[i];

                if (strcmp(k->table->name, "tree"))
                        continue;
                for (unsigned c = 0; before && c < k->table->n_columns; c++)
                        if (k->table->columns[c].kind == INFP_COUNTER && kept_has(k, c) && kept_has(before, c) &&
                            k->cell[c].i64 < before->cell[c].i64)
                                fail_msg("%s fell from %" PRId64 " to %" PRId64, k->table->columns[c].name,
                                         before->cell[c].i64, k->cell[c].i64);
                before = k;
        }
}
