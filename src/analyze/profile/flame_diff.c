/* Two flame graphs as one: the nodes of either, with what each run has of them. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/profile/flame_parts.h"
#include "analyze/profile/parts.h"
#include "base/hash.h"
#include "base/mem.h"

struct merge {
        struct infp_flame *to, *from;
        struct infp_map functions, children;
        uint32_t cap_functions, cap_nodes;
        uint32_t *function; /* of `from`: number in `to` */
        uint32_t *node;
};

static void merge_done(struct merge *m)
{
        infp_map_done(&m->functions);
        infp_map_done(&m->children);
        free(m->function);
        free(m->node);
}

static uint64_t text_hash(const char *text, uint64_t seed)
{
        return text ? infp_hash64(text, strlen(text), seed) : seed;
}

static uint64_t function_key(const struct infp_flame_function *f)
{
        const uint64_t parts[] = { text_hash(f->name, 1), text_hash(f->object, 2), f->kind, f->is_group,
                                   f->is_line ? (uint64_t) f->line : 0 };

        return infp_hash64(parts, sizeof(parts), 0);
}

static uint64_t child_key(uint32_t parent, uint32_t function)
{
        return (uint64_t) parent << 32 | function;
}

static int index_newer(struct merge *m)
{
        const struct infp_flame *f = m->to;

        for (uint32_t i = 0; i < f->n_functions; i++) {
                const uint64_t key = function_key(&f->functions[i]);

                if (!infp_map_get(&m->functions, key) && infp_map_put(&m->functions, key, i) < 0)
                        return -ENOMEM;
        }
        for (uint32_t i = 1; i < f->n_nodes; i++) {
                const struct infp_flame_node *n = &f->nodes[i];

                if (infp_map_put(&m->children, child_key(n->parent, n->function), i) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* Arrays of a flame that was made are as long as they are full. */
static int make_room(void *array, uint32_t *cap, uint32_t n, size_t size, struct infp_err *err)
{
        void *old, *more;

        if (*cap || !n)
                return infp_profile_room(array, cap, n, size, err);
        memcpy(&old, array, sizeof(old));
        more = reallocarray(old, 2 * (size_t) n, size);
        if (!more)
                return infp_profile_no_memory(err);
        memcpy(array, &more, sizeof(more));
        *cap = 2 * n;
        return 0;
}

static int take_function(struct merge *m, uint32_t i, struct infp_err *err)
{
        const uint64_t key = function_key(&m->from->functions[i]);
        const uint64_t *known = infp_map_get(&m->functions, key);
        struct infp_flame *to = m->to;
        struct infp_flame_function *f;

        if (known) {
                m->function[i] = (uint32_t) *known;
                return 0;
        }
        INFP_TRY(make_room(&to->functions, &m->cap_functions, to->n_functions, sizeof(*to->functions), err));
        if (infp_map_put(&m->functions, key, to->n_functions) < 0)
                return infp_profile_no_memory(err);
        f = &to->functions[to->n_functions];
        *f = m->from->functions[i];
        f->self_samples = f->total_samples = f->guessed_samples = 0;
        f->self_weight = f->total_weight = 0;
        m->function[i] = to->n_functions++;
        return 0;
}

static void add_base(struct infp_flame_function *to, const struct infp_flame_function *from)
{
        to->base_self_samples += from->self_samples;
        to->base_total_samples += from->total_samples;
        to->base_self_weight += from->self_weight;
        to->base_total_weight += from->total_weight;
}

static int take_node(struct merge *m, uint32_t i, struct infp_err *err)
{
        const struct infp_flame_node *n = &m->from->nodes[i];
        const uint32_t parent = m->node[n->parent], function = m->function[n->function];
        const uint64_t key = child_key(parent, function);
        const uint64_t *known = infp_map_get(&m->children, key);
        struct infp_flame *to = m->to;

        if (known) {
                m->node[i] = (uint32_t) *known;
                to->nodes[*known].is_wait |= n->is_wait;
                return 0;
        }
        INFP_TRY(make_room(&to->nodes, &m->cap_nodes, to->n_nodes, sizeof(*to->nodes), err));
        if (infp_map_put(&m->children, key, to->n_nodes) < 0)
                return infp_profile_no_memory(err);
        to->nodes[to->n_nodes] = (struct infp_flame_node){ .parent = parent,
                                                           .function = function,
                                                           .depth = n->depth,
                                                           .is_inlined = n->is_inlined,
                                                           .is_wait = n->is_wait };
        m->node[i] = to->n_nodes++;
        return 0;
}

static int merge(struct merge *m, struct infp_err *err)
{
        struct infp_flame *to = m->to, *from = m->from;
        infp_autofree uint32_t *new = NULL;

        m->function = calloc((size_t) from->n_functions + 1, sizeof(*m->function));
        m->node = calloc((size_t) from->n_nodes + 1, sizeof(*m->node));
        if (!m->function || !m->node || index_newer(m) < 0)
                return infp_profile_no_memory(err);
        for (uint32_t i = 0; i < from->n_functions; i++) {
                INFP_TRY(take_function(m, i, err));
                add_base(&to->functions[m->function[i]], &from->functions[i]);
        }
        for (uint32_t i = 1; i < from->n_nodes; i++)
                INFP_TRY(take_node(m, i, err));
        to->base = calloc(to->n_nodes, sizeof(*to->base));
        new = calloc(to->n_nodes, sizeof(*new));
        if (!to->base || !new)
                return infp_profile_no_memory(err);
        for (uint32_t i = 0; i < from->n_nodes; i++) {
                to->base[m->node[i]].self_samples += from->nodes[i].self_samples;
                to->base[m->node[i]].self_weight += from->nodes[i].self_weight;
        }
        INFP_TRY(infp_flame_order(to, new, err));
        for (uint32_t i = 0; i < to->n_moments; i++)
                to->moments[i].node = new[to->moments[i].node];
        return 0;
}

bool infp_flame_cuts_differ(const struct infp_flame *f)
{
        const double n = (double) f->samples, n_before = (double) f->base_samples;
        double now, before;

        if (!f->base || !f->samples || !f->base_samples)
                return false;
        now = (double) f->truncated_samples / n;
        before = (double) f->base_truncated_samples / n_before;
        return fabs(now - before) > 0.05 &&
               fabs(now - before) > 1.959964 * sqrt(now * (1 - now) / n + before * (1 - before) / n_before);
}

int infp_flame_diff(struct infp_flame *older, struct infp_flame *newer, struct infp_flame *ret, struct infp_err *err)
{
        infp_cleanup(merge_done) struct merge m = { .to = newer, .from = older };
        int r = 0;

        if (strcmp(older->mode, newer->mode) != 0)
                r = infp_fail(err, -EINVAL,
                              "the older run was sampled by mode '%s', the newer by '%s': they cannot be compared",
                              older->mode, newer->mode);
        if (r >= 0)
                r = merge(&m, err);
        if (r >= 0) {
                struct infp_flame_memory **last = &newer->memory;

                newer->base_samples = older->samples;
                newer->base_weight = older->weight;
                newer->base_effective_samples = older->effective_samples;
                newer->base_truncated_samples = older->truncated_samples;
                while (*last) /* names of the older run */
                        last = &(*last)->other;
                *last = INFP_TAKE(older->memory);
                *ret = *newer;
                *newer = (struct infp_flame){ 0 };
        }
        infp_flame_done(older);
        infp_flame_done(newer);
        if (r < 0)
                *ret = (struct infp_flame){ 0 };
        return r;
}
