#include "sampler/spaces/thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"

enum { MAX_THREADS = 262144 };

struct infp_space_thread *infp_threads_find(const struct infp_threads *threads, int32_t tid)
{
        const uint64_t *at = infp_map_get(&threads->by_tid, (uint32_t) tid);

        return at ? (struct infp_space_thread *) (uintptr_t) *at : NULL;
}

struct infp_space_thread *infp_threads_add(struct infp_threads *threads, int32_t pid, int32_t tid)
{
        struct infp_space_thread *thread = infp_threads_find(threads, tid);

        if (!thread) {
                thread = threads->by_tid.n < MAX_THREADS ? malloc(sizeof(*thread)) : NULL;
                if (!thread || infp_map_put(&threads->by_tid, (uint32_t) tid, (uintptr_t) thread) < 0) {
                        free(thread);
                        return NULL;
                }
        }
        *thread = (struct infp_space_thread){ .pid = pid, .tid = tid };
        return thread;
}

void infp_threads_drop(struct infp_threads *threads, int32_t tid)
{
        free(infp_threads_find(threads, tid));
        infp_map_delete(&threads->by_tid, (uint32_t) tid);
}

void infp_threads_done(struct infp_threads *threads)
{
        for (size_t i = 0; i < threads->by_tid.cap; i++)
                if (threads->by_tid.slots[i].key)
                        free((void *) (uintptr_t) threads->by_tid.slots[i].value);
        infp_map_done(&threads->by_tid);
}

void infp_thread_set_name(struct infp_space_thread *thread, const char *name)
{
        if (thread->is_named && strncmp(thread->name, name, sizeof(thread->name) - 1) == 0)
                return;
        snprintf(thread->name, sizeof(thread->name), "%s", name);
        thread->is_named = true;
        thread->id = 0;
}

void infp_thread_read_name(struct infp_space_thread *thread, int root_fd)
{
        char path[64], name[INFP_THREAD_NAME];
        ssize_t n;

        snprintf(path, sizeof(path), "proc/%d/task/%d/comm", (int) thread->pid, (int) thread->tid);
        n = infp_read_at(root_fd, path, name, sizeof(name));
        if (n > 0 && name[n - 1] == '\n')
                name[n - 1] = 0;
        infp_thread_set_name(thread, n > 0 ? name : "");
}
