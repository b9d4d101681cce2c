/* Who a pid is that the driver names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "collect/process_stat.h"
#include "collectors/gpu/nvidia/nvidia.h"
#include "collectors/gpu/pids.h"
#include "model/id.h"

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
        if (nvidia->pids_are_ours)
                infp_gpu_tree_read(&nvidia->tree, env);
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
                infp_gpu_container(env, (int32_t) who->pid, who->container);
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
