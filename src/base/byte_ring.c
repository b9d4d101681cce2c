#include "base/byte_ring.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>

struct record { /* before each record; sizes are multiples of 8, so that there is always room for one of these */
        uint32_t size;
        uint32_t is_wrap; /* nothing more up to the end of the memory: go on at its start */
};

int infp_byte_ring_init(struct infp_byte_ring *ring, size_t bytes)
{
        void *data;

        assert(bytes >= 4096 && (bytes & (bytes - 1)) == 0);
        *ring = (struct infp_byte_ring){ .size = bytes };
        data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (data == MAP_FAILED)
                return -ENOMEM;
        ring->data = data;
        return 0;
}

void infp_byte_ring_done(struct infp_byte_ring *ring)
{
        if (ring->data)
                munmap(ring->data, ring->size);
        ring->data = NULL;
}

static struct record *record_at(const struct infp_byte_ring *ring, uint64_t position)
{
        return (struct record *) (void *) (ring->data + (position & (ring->size - 1)));
}

static uint64_t whole(size_t size)
{
        return (sizeof(struct record) + size + 7) & ~UINT64_C(7);
}

void *infp_byte_ring_begin(struct infp_byte_ring *ring, size_t size, size_t spare)
{
        const uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
        const uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
        const uint64_t at = head & (ring->size - 1), to_end = ring->size - at, need = whole(size);
        /* When the reader has seen all, and half of the ring was used, go back to the start: the ring then stays at half of
         * its memory instead of touching all of it in turn. Until the reader has followed, what follows counts as used:
         * going back any sooner would leave a burst of records without room. */
        const bool wraps = need > to_end || (head == tail && at >= ring->size / 2 && at >= need + spare);

        if (need + spare + (wraps ? to_end : 0) > ring->size - (head - tail))
                return NULL;
        if (wraps)
                *record_at(ring, head) = (struct record){ .size = (uint32_t) to_end, .is_wrap = 1 };
        ring->begun = head + (wraps ? to_end : 0);
        return record_at(ring, ring->begun) + 1;
}

void infp_byte_ring_commit(struct infp_byte_ring *ring, size_t size)
{
        *record_at(ring, ring->begun) = (struct record){ .size = (uint32_t) whole(size) };
        atomic_store_explicit(&ring->head, ring->begun + whole(size), memory_order_release);
}

/* Where the record ends. */
static uint64_t end_of(const struct infp_byte_ring *ring, const void *record)
{
        const struct record *head = (const struct record *) record - 1;
        const uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);

        return tail + (((uint64_t) ((const char *) head - ring->data) - tail) & (ring->size - 1)) + head->size;
}

void *infp_byte_ring_after(const struct infp_byte_ring *ring, const void *record)
{
        const uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
        uint64_t at = record ? end_of(ring, record) : atomic_load_explicit(&ring->tail, memory_order_relaxed);

        if (at != head && record_at(ring, at)->is_wrap)
                at += record_at(ring, at)->size; /* a record was committed with it */
        return at != head ? record_at(ring, at) + 1 : NULL;
}

void infp_byte_ring_give_back(struct infp_byte_ring *ring, const void *record)
{
        atomic_store_explicit(&ring->tail, end_of(ring, record), memory_order_release);
}

void *infp_byte_ring_next(struct infp_byte_ring *ring)
{
        if (ring->held)
                infp_byte_ring_give_back(ring, ring->held);
        ring->held = infp_byte_ring_after(ring, NULL);
        return ring->held;
}
