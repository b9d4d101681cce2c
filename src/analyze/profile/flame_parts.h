/* What the files flame*.c share. */
#pragma once

#include "analyze/profile/flame.h"
#include "analyze/profile/profile.h"

enum { INFP_FLAME_DEEPEST = 16384 }; /* the deepest node; what is deeper belongs to it */

struct infp_flame_memory {
        struct infp_strings strings;
        struct infp_flame_memory *other; /* of a difference: the older tree's */
};

struct infp_flame_builder {
        const struct infp_flame_options *options;
        struct infp_profile *profile;
        struct infp_flame *flame;
        uint32_t mode; /* string: the samples that are taken, unless has_all */
        bool has_all;
        struct infp_map functions, children, known; /* known: (start, stack node) to node of the tree */
        uint32_t *level_functions;                  /* of each level of the stacks */
        bool *has_function_line;
        uint32_t cap_nodes, cap_functions, cap_lines;
        uint32_t *sum_nodes; /* of each sum: its node of the tree */
        uint32_t *path;      /* stack nodes, innermost first */
};

static inline bool infp_flame_has(const struct infp_flame_builder *builder, const struct infp_profile_sum *sum)
{
        return builder->has_all || sum->mode == builder->mode;
}

/* flame_functions.c: functions of all levels; of groups, which are not functions. */
int infp_flame_name_levels(struct infp_flame_builder *builder, struct infp_err *err);
int infp_flame_group(struct infp_flame_builder *builder, const char *name, uint32_t *ret, struct infp_err *err);
/* Of a process, thread, state or mode by options->by; none: INFP_PROFILE_NONE. */
int infp_flame_group_of(struct infp_flame_builder *builder, const struct infp_profile_sum *sum, uint32_t *ret,
                        struct infp_err *err);

/* flame_folded.c: which sums are waits of threads that did little else (an array of n_sums, to free); counted in
 * flame->folded. NULL: none, or nothing else would be left. -ENOMEM. */
int infp_flame_fold(struct infp_flame_builder *builder, bool **ret, struct infp_err *err);

/* flame_prune.c: by bucket, then node; those of one node in one bucket become one. */
void infp_flame_join_moments(struct infp_flame *flame);

/* flame_tree.c */
int infp_flame_child(struct infp_flame_builder *builder, uint32_t parent, uint32_t function, bool is_inlined,
                     uint32_t *ret, struct infp_err *err);
/* Sums up, orders siblings by name and numbers nodes so that each stands before its children and next to them; ret_new (of n_nodes
 * elements, may be NULL) says where each went. Then the functions' totals. */
int infp_flame_order(struct infp_flame *flame, uint32_t *ret_new, struct infp_err *err);
