/* Who a pid is. The driver knows nothing of pid namespaces: it gives the host's pids, and in a container's own namespace the same
 * number is somebody else, or nobody. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "collect/cgroup.h"
#include "collect/process_stat.h"
#include "collect/target.h"
#include "collectors/container_name.h"
#include "collectors/nvidia.h"
#include "model/id.h"

/* The first namespace has a number of its own in every kernel (PROC_PID_INIT_INO). */
static const char first_namespace[] = "pid:[4026531836]";
enum { ID_DIGITS = 12, MOST_OF_TREE = 1 << 16 };

bool infp_nvidia_pids_are_ours(const struct infp_env *env)
{
        char text[64];
        const ssize_t n = readlinkat(env->root_fd, "proc/self/ns/pid", text, sizeof(text) - 1);

        return n == (ssize_t) sizeof(first_namespace) - 1 && !memcmp(text, first_namespace, (size_t) n);
}

static int by_value(const void *a, const void *b)
{
        const int32_t x = *(const int32_t *) a, y = *(const int32_t *) b;

        return x < y ? -1 : x > y;
}

static void list_tree(struct nvidia *nvidia, const struct infp_env *env)
{
        size_t n;

        nvidia->n_tree = 0;
        if (!env->target || !nvidia->pids_are_ours)
                return;
        n = infp_target_pids(env->target, nvidia->tree, nvidia->cap_tree);
        if (n > nvidia->cap_tree && n <= MOST_OF_TREE) {
                int32_t *more = reallocarray(nvidia->tree, 2 * n, sizeof(*more));

                if (!more)
                        return;
                nvidia->tree = more;
                nvidia->cap_tree = 2 * n;
                n = infp_target_pids(env->target, nvidia->tree, nvidia->cap_tree);
        }
        nvidia->n_tree = n < nvidia->cap_tree ? n : nvidia->cap_tree;
        if (nvidia->n_tree)
                qsort(nvidia->tree, nvidia->n_tree, sizeof(*nvidia->tree), by_value);
}

/* Those that no GPU named at the last sample are forgotten. */
static void drop_unused(struct nvidia *nvidia)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < nvidia->n_who; i++)
                if (nvidia->who[i].used + 1 >= nvidia->sample)
                        nvidia->who[n++] = nvidia->who[i];
        nvidia->n_who = n;
}

void infp_nvidia_who_begin(struct nvidia *nvidia, const struct infp_env *env)
{
        nvidia->sample++;
        drop_unused(nvidia);
        list_tree(nvidia, env);
}

bool infp_nvidia_in_tree(const struct nvidia *nvidia, uint32_t pid)
{
        const int32_t wanted = (int32_t) pid;

        return nvidia->n_tree && bsearch(&wanted, nvidia->tree, nvidia->n_tree, sizeof(wanted), by_value);
}

/* The first 12 digits of a container's id, else its name, as the table of containers has them. */
static void find_container(const struct infp_env *env, struct nvidia_who *who)
{
        struct infp_cgroup_paths paths;

        who->container_size = 0;
        if (infp_cgroup_paths_read(env, (int32_t) who->pid, &paths) < 0)
                return;
        for (unsigned i = 0; i < INFP_CG_N; i++) {
                struct infp_container_name name;

                if (!paths.at[i].size || !infp_container_name(paths.at[i], &name))
                        continue;
                if (infp_is_container_id(name.id))
                        name.id.size = ID_DIGITS;
                who->container_size =
                        (uint8_t) (name.id.size < sizeof(who->container) ? name.id.size : sizeof(who->container));
                memcpy(who->container, name.id.at, who->container_size);
                return;
        }
}

/* Name and start are read at each sample: a name changes at exec, and the pid may have another owner since. */
static void look(const struct infp_env *env, struct nvidia_who *who)
{
        char path[32], text[1024];
        struct infp_process process = { 0 };
        ssize_t n;

        snprintf(path, sizeof(path), "proc/%u/stat", who->pid);
        n = infp_read_at(env->root_fd, path, text, sizeof(text));
        if (n <= 0 || infp_process_stat_parse(text, (size_t) n, &process) < 0) {
                who->is_known = false;
                return;
        }
        if (!who->is_known || process.start_ticks != who->start_ticks) {
                who->start_ticks = process.start_ticks;
                who->id = infp_process_id(env->boot_id, (int32_t) who->pid, process.start_ticks);
                find_container(env, who);
        }
        memcpy(who->name, process.comm, process.comm_size);
        who->name_size = process.comm_size;
        who->is_known = true;
}

static struct nvidia_who *find(struct nvidia *nvidia, uint32_t pid)
{
        for (uint32_t i = 0; i < nvidia->n_who; i++)
                if (nvidia->who[i].pid == pid)
                        return &nvidia->who[i];
        if (nvidia->n_who == nvidia->cap_who) {
                const uint32_t cap = nvidia->cap_who ? 2 * nvidia->cap_who : 32;
                struct nvidia_who *who = reallocarray(nvidia->who, cap, sizeof(*who));

                if (!who)
                        return NULL;
                nvidia->who = who;
                nvidia->cap_who = cap;
        }
        nvidia->who[nvidia->n_who] = (struct nvidia_who){ .pid = pid };
        return &nvidia->who[nvidia->n_who++];
}

const struct nvidia_who *infp_nvidia_who(struct nvidia *nvidia, const struct infp_env *env, uint32_t pid)
{
        struct nvidia_who *who = nvidia->pids_are_ours ? find(nvidia, pid) : NULL;

        if (!who)
                return NULL;
        if (who->used != nvidia->sample)
                look(env, who);
        who->used = nvidia->sample;
        return who->is_known ? who : NULL;
}
