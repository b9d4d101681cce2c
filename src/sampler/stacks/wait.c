#include "sampler/stacks/wait.h"

#include <string.h>
#include <sys/mman.h>

enum { LARGE = 1 << 20 };

int infp_wait_init(struct infp_wait *wait, size_t bytes)
{
        *wait = (struct infp_wait){ 0 };
        return infp_byte_ring_init(&wait->ring, bytes);
}

void infp_wait_done(struct infp_wait *wait)
{
        infp_byte_ring_done(&wait->ring);
}

struct infp_waiting *infp_wait_put(struct infp_wait *wait, const struct infp_perf_sample *sample)
{
        const size_t kernel = sample->n_kernel * sizeof(sample->kernel[0]), stack = sample->stack_size;
        const size_t python = infp_python_moment_bytes(sample->python);
        const size_t rest = infp_perf_rest_bytes(sample);
        const size_t size = sizeof(struct infp_waiting) + kernel + python + rest + stack;
        struct infp_waiting *waiting = infp_byte_ring_begin(&wait->ring, size, 0);
        char *data;

        if (!waiting)
                return NULL;
        data = (char *) (waiting + 1);
        *waiting = (struct infp_waiting){ .size = size, .sample = *sample };
        if (kernel)
                memcpy(data, sample->kernel, kernel);
        waiting->sample.python = infp_python_moment_copy(sample->python, data + kernel, &waiting->python);
        if (stack)
                memcpy(data + kernel + python + rest, sample->stack, stack);
        infp_perf_rest_copy(sample, data + kernel + python, &waiting->sample);
        waiting->sample.kernel = (const uint64_t *) (void *) data;
        waiting->sample.stack = (const uint8_t *) data + kernel + python + rest;
        infp_byte_ring_commit(&wait->ring, size);
        wait->used += size;
        wait->n++;
        wait->n_by_thread[infp_wait_bucket(sample->tid)]++;
        wait->was_large |= wait->used > LARGE;
        return waiting;
}

struct infp_waiting *infp_wait_next(struct infp_wait *wait, const struct infp_waiting *before)
{
        struct infp_waiting *at = infp_byte_ring_after(&wait->ring, before);

        while (at && at->is_done)
                at = infp_byte_ring_after(&wait->ring, at);
        return at;
}

void infp_wait_remove(struct infp_wait *wait, struct infp_waiting *waiting)
{
        const struct infp_waiting *first;

        waiting->is_done = true;
        wait->used -= waiting->size;
        wait->n--;
        wait->n_by_thread[infp_wait_bucket(waiting->sample.tid)]--;
        while ((first = infp_byte_ring_after(&wait->ring, NULL)) && first->is_done)
                infp_byte_ring_give_back(&wait->ring, first);
        if (first)
                return;
        infp_byte_ring_restart(&wait->ring);
        if (wait->was_large)
                madvise(wait->ring.data, wait->ring.size, MADV_DONTNEED);
        wait->was_large = false;
}
