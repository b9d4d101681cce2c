/* A smaller tree for places with little room: frames that have next to nothing are merged into their callers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/profile/flame_parts.h"
#include "analyze/profile/parts.h"
#include "base/mem.h"
#include "base/sort.h"

static int by_bucket(const void *a, const void *b)
{
        const struct infp_flame_moment *x = a, *y = b;

        if (x->bucket != y->bucket)
                return x->bucket < y->bucket ? -1 : 1;
        return (x->node > y->node) - (x->node < y->node);
}

void infp_flame_join_moments(struct infp_flame *f)
{
        uint32_t n = 0;

        infp_sort(f->moments, f->n_moments, sizeof(*f->moments), by_bucket);
        for (uint32_t i = 0; i < f->n_moments; i++) {
                struct infp_flame_moment *m = &f->moments[i], *last = n ? &f->moments[n - 1] : NULL;

                if (last && last->bucket == m->bucket && last->node == m->node) {
                        last->samples += m->samples;
                        last->weight += m->weight;
                } else {
                        f->moments[n++] = *m;
                }
        }
        f->n_moments = n;
}

void infp_flame_coarsen(struct infp_flame *f, uint32_t k)
{
        for (uint32_t i = 0; i < f->n_moments; i++)
                f->moments[i].bucket /= k;
        f->n_buckets /= k;
        infp_flame_join_moments(f);
}

/* Callers come first. to[node]: its place among those that are left, or that of the caller that it is merged into. */
static uint32_t merge_nodes(struct infp_flame *f, double least, uint32_t *to)
{
        uint32_t n = 1;

        for (uint32_t i = 1; i < f->n_nodes; i++) {
                struct infp_flame_node *node = &f->nodes[i], *caller = &f->nodes[to[node->parent]];

                /* Only what hangs on a caller that is left itself: a frame has at most its caller's weight. */
                if (node->total_weight >= least) {
                        to[i] = n;
                        node->parent = to[node->parent];
                        f->nodes[n++] = *node;
                        continue;
                }
                to[i] = to[node->parent];
                caller->self_samples += node->self_samples;
                caller->self_weight += node->self_weight;
                /* A wait stays one of the same function: that of the innermost frame outside the kernel. */
                caller->is_wait |= node->is_wait && caller->function != UINT32_MAX &&
                                   f->functions[caller->function].kind == INFP_FRAME_KERNEL;
        }
        return n;
}

/* Leaves the functions that a node has. */
static int drop_functions(struct infp_flame *f, struct infp_err *err)
{
        infp_autofree uint32_t *to = calloc((size_t) f->n_functions + 1, sizeof(*to)); /* 0: not seen; else 1 + place */
        uint32_t n = 0;

        if (!to)
                return infp_profile_no_memory(err);
        for (uint32_t i = 1; i < f->n_nodes; i++)
                to[f->nodes[i].function] = 1;
        for (uint32_t i = 0; i < f->n_functions; i++)
                if (to[i]) {
                        f->functions[n++] = f->functions[i];
                        to[i] = n;
                }
        f->n_functions = n;
        for (uint32_t i = 1; i < f->n_nodes; i++)
                f->nodes[i].function = to[f->nodes[i].function] - 1;
        return 0;
}

int infp_flame_prune(struct infp_flame *f, double least, struct infp_err *err)
{
        infp_autofree uint32_t *to = calloc((size_t) f->n_nodes + 1, sizeof(*to)), *new = NULL;

        const uint32_t n_before = f->n_nodes;

        if (!to)
                return infp_profile_no_memory(err);
        f->n_nodes = merge_nodes(f, least, to);
        new = calloc(f->n_nodes, sizeof(*new));
        if (!new)
                return infp_profile_no_memory(err);
        INFP_TRY(drop_functions(f, err));
        INFP_TRY(infp_flame_order(f, new, err));
        if (f->n_nodes == n_before)
                return 0; /* all are where they were */
        for (uint32_t i = 0; i < f->n_moments; i++)
                f->moments[i].node = new[to[f->moments[i].node]];
        infp_flame_join_moments(f);
        return 0;
}
