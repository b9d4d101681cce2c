#include "sampler/stacks/wait.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum { LARGE = 1 << 20 };

int infp_wait_init(struct infp_wait *wait, size_t bytes)
{
        void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        *wait = (struct infp_wait){ 0 };
        if (memory == MAP_FAILED)
                return -errno;
        wait->bytes = memory;
        wait->cap = bytes;
        return 0;
}

void infp_wait_done(struct infp_wait *wait)
{
        if (wait->bytes)
                munmap(wait->bytes, wait->cap);
        wait->bytes = NULL;
}

static struct infp_waiting *at(const struct infp_wait *wait, size_t place)
{
        return (struct infp_waiting *) (void *) (wait->bytes + place);
}

static size_t follow(const struct infp_wait *wait, size_t place)
{
        place += at(wait, place)->size;
        return place == wait->cap ? 0 : place;
}

/* Whether a record of size has room at the tail, which goes to the ring's begin for it. The tail never reaches the head, since equal
 * is empty, and before the ring's end there is always room for the head of a record that says that nothing more comes. */
static bool make_room(struct infp_wait *wait, size_t size)
{
        if (wait->tail < wait->head)
                return size < wait->head - wait->tail;
        if (size + sizeof(struct infp_waiting) <= wait->cap - wait->tail)
                return true;
        if (size >= wait->head)
                return false;
        *at(wait, wait->tail) = (struct infp_waiting){ .size = wait->cap - wait->tail, .is_done = true };
        wait->tail = 0;
        return true;
}

struct infp_waiting *infp_wait_put(struct infp_wait *wait, const struct infp_perf_sample *sample)
{
        const size_t kernel = sample->n_kernel * sizeof(sample->kernel[0]), stack = sample->stack_size;
        const size_t size = (sizeof(struct infp_waiting) + kernel + stack + 15) & ~(size_t) 15;
        struct infp_waiting *waiting;
        char *data;

        if (!make_room(wait, size))
                return NULL;
        waiting = at(wait, wait->tail);
        data = (char *) (waiting + 1);
        *waiting = (struct infp_waiting){ .size = size, .sample = *sample };
        if (kernel)
                memcpy(data, sample->kernel, kernel);
        if (stack)
                memcpy(data + kernel, sample->stack, stack);
        waiting->sample.kernel = (const uint64_t *) (void *) data;
        waiting->sample.stack = (const uint8_t *) data + kernel;
        wait->tail += size;
        wait->used += size;
        wait->n++;
        wait->n_by_thread[infp_wait_bucket(sample->tid)]++;
        wait->was_large |= wait->used > LARGE;
        return waiting;
}

struct infp_waiting *infp_wait_next(struct infp_wait *wait, const struct infp_waiting *before)
{
        size_t place = before ? follow(wait, (size_t) ((const char *) before - wait->bytes)) : wait->head;

        while (place != wait->tail && at(wait, place)->is_done)
                place = follow(wait, place);
        return place != wait->tail ? at(wait, place) : NULL;
}

void infp_wait_remove(struct infp_wait *wait, struct infp_waiting *waiting)
{
        waiting->is_done = true;
        wait->used -= waiting->size;
        wait->n--;
        wait->n_by_thread[infp_wait_bucket(waiting->sample.tid)]--;
        while (wait->head != wait->tail && at(wait, wait->head)->is_done)
                wait->head = follow(wait, wait->head);
        if (wait->head != wait->tail)
                return;
        wait->head = wait->tail = 0;
        if (wait->was_large)
                madvise(wait->bytes, wait->cap, MADV_DONTNEED);
        wait->was_large = false;
}
