/* The names that programs give their threads. A tid comes again when its thread has ended: the start time tells them apart where
 * it is known. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ring/reader_parts.h"

const char *ring_thread_name(const struct infp_ring *ring, uint32_t tid, uint64_t start)
{
        const uint64_t *index = infp_map_get(&ring->threads, tid);
        const struct ring_thread *thread = index ? &ring->names[*index] : NULL;

        if (!thread || (start && thread->start && start != thread->start))
                return NULL;
        return thread->name;
}

void ring_threads_done(struct infp_ring *ring)
{
        for (uint32_t i = 0; i < ring->n_names; i++)
                free(ring->names[i].name);
        ring->n_names = 0;
        infp_map_done(&ring->threads);
}

static struct ring_thread *thread_new(struct infp_ring *ring, uint32_t tid)
{
        if (ring->n_names == INFP_RING_THREADS)
                ring_threads_done(ring); /* most of them have ended long ago */
        if (ring->n_names == ring->cap_names) {
                const uint32_t cap = ring->cap_names ? 2 * ring->cap_names : 16;
                struct ring_thread *more = reallocarray(ring->names, cap, sizeof(*more));

                if (!more)
                        return NULL;
                ring->names = more;
                ring->cap_names = cap;
        }
        if (infp_map_put(&ring->threads, tid, ring->n_names) < 0)
                return NULL;
        ring->names[ring->n_names] = (struct ring_thread){ 0 };
        return &ring->names[ring->n_names++];
}

int ring_set_thread_name(struct infp_ring *ring, uint32_t tid, uint64_t start, const char *name, size_t size)
{
        const uint64_t *index = infp_map_get(&ring->threads, tid);
        struct ring_thread *thread = index ? &ring->names[*index] : thread_new(ring, tid);
        char *copy = thread ? strndup(name, size) : NULL;

        if (!copy)
                return -ENOMEM;
        free(thread->name);
        *thread = (struct ring_thread){ .start = start, .name = copy };
        return 0;
}
