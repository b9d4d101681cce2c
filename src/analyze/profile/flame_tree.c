/* Nodes of a flame graph: made, summed up, put in order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/profile/flame_parts.h"
#include "analyze/profile/parts.h"
#include "base/mem.h"
#include "base/sort.h"

int infp_flame_child(struct infp_flame_builder *b, uint32_t parent, uint32_t function, bool is_inlined, uint32_t *ret,
                     struct infp_err *err)
{
        const uint64_t key = (uint64_t) parent << 32 | function;
        const uint64_t *known = infp_map_get(&b->children, key);
        struct infp_flame *f = b->flame;

        *ret = parent;
        if (f->nodes[parent].depth >= INFP_FLAME_DEEPEST)
                return 0;
        if (known) {
                *ret = (uint32_t) *known;
                f->nodes[*ret].is_inlined &= is_inlined;
                return 0;
        }
        INFP_TRY(infp_profile_room(&f->nodes, &b->cap_nodes, f->n_nodes, sizeof(*f->nodes), err));
        if (infp_map_put(&b->children, key, f->n_nodes) < 0)
                return infp_profile_no_memory(err);
        f->nodes[f->n_nodes] = (struct infp_flame_node){ .parent = parent,
                                                         .function = function,
                                                         .depth = (uint16_t) (f->nodes[parent].depth + 1),
                                                         .is_inlined = is_inlined };
        *ret = f->n_nodes++;
        return 0;
}

/* Parents have lower numbers than their children. */
static void sum_up(struct infp_flame *f)
{
        for (uint32_t i = 0; i < f->n_nodes; i++) {
                f->nodes[i].total_samples = f->nodes[i].self_samples;
                f->nodes[i].total_weight = f->nodes[i].self_weight;
        }
        for (uint32_t i = f->n_nodes; --i > 0;) {
                f->nodes[f->nodes[i].parent].total_samples += f->nodes[i].total_samples;
                f->nodes[f->nodes[i].parent].total_weight += f->nodes[i].total_weight;
        }
}

static void sum_up_base(struct infp_flame *f)
{
        for (uint32_t i = 0; i < f->n_nodes; i++) {
                f->base[i].total_samples = f->base[i].self_samples;
                f->base[i].total_weight = f->base[i].self_weight;
        }
        for (uint32_t i = f->n_nodes; --i > 0;) {
                f->base[f->nodes[i].parent].total_samples += f->base[i].total_samples;
                f->base[f->nodes[i].parent].total_weight += f->base[i].total_weight;
        }
}

static int text_order(const char *a, const char *b)
{
        if (!a || !b)
                return (a != NULL) - (b != NULL);
        return strcmp(a, b);
}

struct ranked {
        const struct infp_flame_function *function;
        uint32_t number;
};

static int by_name(const void *a, const void *b)
{
        const struct ranked *x = a, *y = b;
        int r = text_order(x->function->name, y->function->name);

        if (!r)
                r = text_order(x->function->object, y->function->object);
        if (!r)
                r = (int) x->function->kind - (int) y->function->kind;
        if (!r)
                r = (x->function->line > y->function->line) - (x->function->line < y->function->line);
        return r ? r : (x->number > y->number) - (x->number < y->number);
}

struct sibling {
        uint32_t parent, rank, node;
};

static int by_parent(const void *a, const void *b)
{
        const struct sibling *x = a, *y = b;

        if (x->parent != y->parent)
                return x->parent < y->parent ? -1 : 1;
        if (x->rank != y->rank)
                return x->rank < y->rank ? -1 : 1;
        return (x->node > y->node) - (x->node < y->node);
}

/* ranks[function]: its place in the order of names. */
static int rank(const struct infp_flame *f, uint32_t *ranks)
{
        struct ranked *list = reallocarray(NULL, f->n_functions + 1, sizeof(*list));

        if (!list)
                return -ENOMEM;
        for (uint32_t i = 0; i < f->n_functions; i++)
                list[i] = (struct ranked){ &f->functions[i], i };
        infp_sort(list, f->n_functions, sizeof(*list), by_name);
        for (uint32_t i = 0; i < f->n_functions; i++)
                ranks[list[i].number] = i;
        free(list);
        return 0;
}

/* Links first_child and next_sibling in the order of names. */
static int link_siblings(struct infp_flame *f, const uint32_t *ranks)
{
        struct sibling *list = reallocarray(NULL, f->n_nodes, sizeof(*list));

        if (!list)
                return -ENOMEM;
        for (uint32_t i = 1; i < f->n_nodes; i++)
                list[i - 1] = (struct sibling){ f->nodes[i].parent, ranks[f->nodes[i].function], i };
        infp_sort(list, f->n_nodes - 1, sizeof(*list), by_parent);
        for (uint32_t i = 0; i < f->n_nodes; i++)
                f->nodes[i].first_child = f->nodes[i].next_sibling = 0;
        for (uint32_t i = f->n_nodes - 1; i-- > 0;) {
                struct infp_flame_node *parent = &f->nodes[list[i].parent];

                f->nodes[list[i].node].next_sibling = parent->first_child;
                parent->first_child = list[i].node;
        }
        free(list);
        return 0;
}

/* new[node]: its number when each is followed by all that is below it. */
static void number(const struct infp_flame *f, uint32_t *new)
{
        uint32_t at = 0, n = 0;

        for (;;) {
                new[at] = n++;
                if (f->nodes[at].first_child) {
                        at = f->nodes[at].first_child;
                        continue;
                }
                while (at && !f->nodes[at].next_sibling)
                        at = f->nodes[at].parent;
                if (!at)
                        return;
                at = f->nodes[at].next_sibling;
        }
}

static int renumber(struct infp_flame *f, const uint32_t *new)
{
        struct infp_flame_node *nodes = reallocarray(NULL, f->n_nodes, sizeof(*nodes));
        struct infp_flame_base *base = f->base ? reallocarray(NULL, f->n_nodes, sizeof(*base)) : NULL;

        if (!nodes || (f->base && !base)) {
                free(nodes);
                free(base);
                return -ENOMEM;
        }
        for (uint32_t i = 0; i < f->n_nodes; i++) {
                struct infp_flame_node *node = &nodes[new[i]];

                *node = f->nodes[i];
                node->parent = new[node->parent];
                node->first_child = node->first_child ? new[node->first_child] : 0;
                node->next_sibling = node->next_sibling ? new[node->next_sibling] : 0;
                if (base)
                        base[new[i]] = f->base[i];
        }
        free(f->nodes);
        free(f->base);
        f->nodes = nodes;
        f->base = base;
        return 0;
}

/* A sample counts once for a function, at its outermost call. */
static int sum_functions(struct infp_flame *f)
{
        uint32_t *open = calloc((size_t) f->n_functions + 1, sizeof(*open));
        uint32_t *path = reallocarray(NULL, INFP_FLAME_DEEPEST + 1, sizeof(*path));
        uint32_t n_path = 0;

        if (!open || !path) {
                free(open);
                free(path);
                return -ENOMEM;
        }
        for (uint32_t i = 0; i < f->n_functions; i++)
                f->functions[i].total_samples = 0, f->functions[i].total_weight = 0;
        for (uint32_t i = 1; i < f->n_nodes; i++) {
                const struct infp_flame_node *node = &f->nodes[i];

                while (n_path >= node->depth)
                        open[path[--n_path]]--;
                if (!open[node->function]++) {
                        f->functions[node->function].total_samples += node->total_samples;
                        f->functions[node->function].total_weight += node->total_weight;
                }
                path[n_path++] = node->function;
        }
        free(open);
        free(path);
        return 0;
}

int infp_flame_order(struct infp_flame *f, uint32_t *ret_new, struct infp_err *err)
{
        infp_autofree uint32_t *ranks = reallocarray(NULL, f->n_functions + 1, sizeof(*ranks));
        infp_autofree uint32_t *new = reallocarray(NULL, f->n_nodes, sizeof(*new));
        int r = ranks && new ? rank(f, ranks) : -ENOMEM;

        sum_up(f);
        if (f->base)
                sum_up_base(f);
        if (r >= 0)
                r = link_siblings(f, ranks);
        if (r >= 0) {
                number(f, new);
                if (ret_new)
                        memcpy(ret_new, new, f->n_nodes * sizeof(*new));
                r = renumber(f, new);
        }
        if (r >= 0)
                r = sum_functions(f);
        return r < 0 ? infp_profile_no_memory(err) : 0;
}
