/* A ring of records of any size, each in one piece: one writer, one reader, neither waits. Within one thread it is a queue, whose
 * records may also be walked through. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <stdatomic.h>

/* Positions only grow; the place in memory is position modulo size. */
struct infp_byte_ring {
        char *data;
        size_t size;
        uint64_t begun;        /* writer: where the record that it fills lies */
        _Atomic uint64_t head; /* written by the writer */
        char apart[64];        /* the two sides' positions lie in cache lines of their own */
        _Atomic uint64_t tail; /* written by the reader */
        void *held;            /* reader: the record that `next` gave */
};

/* bytes: a power of two, at least 4 KiB; a page takes memory once a record has reached it. 0 or -ENOMEM. */
int infp_byte_ring_init(struct infp_byte_ring *ring, size_t bytes);
void infp_byte_ring_done(struct infp_byte_ring *ring); /* all zeros is fine */

/* Writer. Room for a record of up to `size` bytes, aligned to 8, that leaves `spare` bytes free; NULL: the ring is
 * too full now; a record larger than half of the ring may never fit. The reader sees nothing before commit, whose size may be less. */
void *infp_byte_ring_begin(struct infp_byte_ring *ring, size_t size, size_t spare);
void infp_byte_ring_commit(struct infp_byte_ring *ring, size_t size);

/* Reader. The next record, which stays until the next call; NULL when there is none. */
void *infp_byte_ring_next(struct infp_byte_ring *ring);
/* By hand, instead: the record after this one, for NULL the first; NULL: no more. Then the room of this one and of all before it. */
void *infp_byte_ring_after(const struct infp_byte_ring *ring, const void *record);
void infp_byte_ring_give_back(struct infp_byte_ring *ring, const void *record);
/* Within one thread, when the ring is empty: what comes next lies at the start of the memory. */
static inline void infp_byte_ring_restart(struct infp_byte_ring *ring)
{
        ring->head = ring->tail = 0;
}

/* Any thread. Bytes since the start that were written and given back; between them lies what is used. */
static inline uint64_t infp_byte_ring_written(const struct infp_byte_ring *ring)
{
        return atomic_load_explicit(&ring->head, memory_order_acquire);
}

static inline uint64_t infp_byte_ring_taken(const struct infp_byte_ring *ring)
{
        return atomic_load_explicit(&ring->tail, memory_order_acquire);
}
