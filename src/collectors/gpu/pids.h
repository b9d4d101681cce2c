/* Whose pids a GPU driver reports, what is known of them, and which are the target's. Drivers know nothing of pid namespaces:
 * they report the host's pids, and in a container's own namespace the same number is another process, or none. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/env.h"

/* We are in the machine's first pid namespace, or the kernel has none. */
bool infp_gpu_pids_are_ours(const struct infp_env *env);

/* The target's pids of this sample, sorted. All zero is empty. */
struct infp_gpu_tree {
        int32_t *pids;
        size_t n, cap;
};
void infp_gpu_tree_read(struct infp_gpu_tree *tree, const struct infp_env *env);
bool infp_gpu_tree_has(const struct infp_gpu_tree *tree, int32_t pid);
void infp_gpu_tree_done(struct infp_gpu_tree *tree);

enum { INFP_GPU_CONTAINER = 80 };
/* The first 12 digits of the id of a process's container, else its name, as in the table of containers; "": not in a
 * container. */
void infp_gpu_container(const struct infp_env *env, int32_t pid, char ret[INFP_GPU_CONTAINER]);
