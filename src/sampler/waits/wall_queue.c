#include "sampler/waits/wall_queue.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Positions only grow; the place in memory is position modulo size. */
struct infp_wall_queue {
        char *data;
        size_t size;
        uint64_t begun; /* writer: where the message that it fills lies */
        _Alignas(64) _Atomic uint64_t head;
        _Alignas(64) _Atomic uint64_t tail;
        uint64_t next; /* reader: after the message that it holds */
};

enum { ALIGNMENT = 8 };

static uint64_t aligned(uint64_t size)
{
        return (size + ALIGNMENT - 1) & ~(uint64_t) (ALIGNMENT - 1);
}

int infp_wall_queue_new(size_t bytes, struct infp_wall_queue **ret)
{
        struct infp_wall_queue *queue = aligned_alloc(64, sizeof(*queue));

        if (!queue)
                return -ENOMEM;
        memset(queue, 0, sizeof(*queue));
        queue->data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (queue->data == MAP_FAILED) {
                free(queue);
                return -ENOMEM;
        }
        queue->size = bytes;
        *ret = queue;
        return 0;
}

struct infp_wall_queue *infp_wall_queue_free(struct infp_wall_queue *queue)
{
        if (queue) {
                munmap(queue->data, queue->size);
                free(queue);
        }
        return NULL;
}

static void *at(const struct infp_wall_queue *queue, uint64_t position)
{
        return queue->data + (position & (queue->size - 1));
}

struct infp_wall_message *infp_wall_queue_begin(struct infp_wall_queue *queue, uint32_t stack_bytes)
{
        const uint64_t size = aligned(sizeof(struct infp_wall_message) + stack_bytes);
        const uint64_t tail = atomic_load_explicit(&queue->tail, memory_order_acquire);
        uint64_t head = atomic_load_explicit(&queue->head, memory_order_relaxed);
        const uint64_t to_end = queue->size - (head & (queue->size - 1));
        const uint64_t skip = to_end < size ? to_end : 0;

        if (queue->size - (head - tail) < size + skip)
                return NULL;
        if (skip) {
                struct infp_wall_message *wrap = at(queue, head);

                /* The rest of the memory may be smaller than a whole message: these two are all that is written. */
                wrap->size = (uint32_t) skip;
                *((uint8_t *) wrap + offsetof(struct infp_wall_message, kind)) = INFP_WALL_MESSAGE_WRAP;
                head += skip;
        }
        queue->begun = head;
        memset(at(queue, head), 0, sizeof(struct infp_wall_message));
        return at(queue, head);
}

void infp_wall_queue_commit(struct infp_wall_queue *queue, struct infp_wall_message *message)
{
        message->size = (uint32_t) aligned(sizeof(*message) + message->stack_size);
        atomic_store_explicit(&queue->head, queue->begun + message->size, memory_order_release);
}

const struct infp_wall_message *infp_wall_queue_next(struct infp_wall_queue *queue)
{
        const uint64_t head = atomic_load_explicit(&queue->head, memory_order_acquire);
        const struct infp_wall_message *message;

        atomic_store_explicit(&queue->tail, queue->next, memory_order_release);
        if (queue->next == head)
                return NULL;
        message = at(queue, queue->next);
        queue->next += message->size;
        if (message->kind != INFP_WALL_MESSAGE_WRAP)
                return message;
        message = at(queue, queue->next); /* a wrap is told with what follows it */
        queue->next += message->size;
        return message;
}

struct infp_perf_sample infp_wall_sample(const struct infp_wall_message *message)
{
        struct infp_perf_sample sample = {
                .t_ns = message->moment.t_ns,
                .pid = message->pid,
                .tid = message->tid,
                .cpu = -1,
                .has_registers = true,
                .unknown = message->moment.unknown,
                .stack = message->stack,
                .stack_size = message->stack_size,
                .is_cut = message->is_whole,
        };

        memcpy(sample.registers, message->moment.registers, sizeof(sample.registers));
        return sample;
}
