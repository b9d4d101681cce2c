#include "collectors/gpu/pids.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sort.h"
#include "collect/cgroup.h"
#include "collect/target.h"
#include "collectors/container/name.h"

enum { PIDS_MAX = 1 << 16, SHORT_ID = 12 };

/* The first namespace has this number in every kernel (PROC_PID_INIT_INO). */
static const char first_namespace[] = "pid:[4026531836]";

bool infp_gpu_pids_are_ours(const struct infp_env *env)
{
        char link[64];
        const ssize_t n = readlinkat(env->root_fd, "proc/self/ns/pid", link, sizeof(link) - 1);

        if (n < 0)
                return errno == ENOENT;
        link[n] = 0;
        return !strcmp(link, first_namespace);
}

/* The target's roots come first and the rest is sorted: little must be moved, and qsort(3) would allocate. */
static void sort(int32_t *pids, size_t n)
{
        for (size_t i = 1; i < n; i++) {
                const int32_t pid = pids[i];
                size_t at = i;

                for (; at && pids[at - 1] > pid; at--)
                        pids[at] = pids[at - 1];
                pids[at] = pid;
        }
}

void infp_gpu_tree_read(struct infp_gpu_tree *tree, const struct infp_env *env)
{
        size_t n = env->target ? infp_target_pids(env->target, tree->pids, tree->cap) : 0;

        if (n > tree->cap && n <= PIDS_MAX) {
                const size_t cap = n + n / 2;
                int32_t *pids = reallocarray(tree->pids, cap, sizeof(*pids));

                if (pids) {
                        tree->pids = pids;
                        tree->cap = cap;
                        n = infp_target_pids(env->target, tree->pids, tree->cap);
                }
        }
        tree->n = n < tree->cap ? n : tree->cap;
        sort(tree->pids, tree->n);
}

bool infp_gpu_tree_has(const struct infp_gpu_tree *tree, int32_t pid)
{
        return infp_find_i32(tree->pids, tree->n, sizeof(*tree->pids), pid);
}

void infp_gpu_tree_done(struct infp_gpu_tree *tree)
{
        free(tree->pids);
        *tree = (struct infp_gpu_tree){ 0 };
}

void infp_gpu_container(const struct infp_env *env, int32_t pid, char ret[INFP_GPU_CONTAINER])
{
        struct infp_cgroup_paths paths;

        *ret = 0;
        if (infp_cgroup_paths_read(env, pid, &paths) < 0)
                return;
        for (unsigned i = 0; i < INFP_CG_N; i++) {
                struct infp_container_name name;
                size_t size;

                if (!paths.at[i].size || !infp_container_name(paths.at[i], &name))
                        continue;
                size = infp_is_container_id(name.id) ? SHORT_ID : name.id.size;
                size = size < INFP_GPU_CONTAINER ? size : INFP_GPU_CONTAINER - 1;
                memcpy(ret, name.id.at, size);
                ret[size] = 0;
                return;
        }
}
