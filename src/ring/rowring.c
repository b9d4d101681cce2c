#include "ring/rowring.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
        RECORD_WRAP = 1, /* nothing more up to the end of the memory: go on at its start */
        RECORD_ROW,
        RECORD_TICK,
        MIN_BYTES = 4096,
        TICK_RESERVE = 1024, /* bytes that only ticks may use */
};

struct record { /* all sizes are multiples of 8, so that a wrap always finds room for its own head */
        uint32_t size;
        uint16_t kind, n_cells;
};

struct row_head {
        struct record record;
        const struct infp_table *table;
        uint64_t t_ns, valid[2];
        uint64_t text_size;
};

struct tick_record {
        struct record record;
        struct infp_rowring_tick tick;
};

/* Positions only grow; the place in memory is position modulo size. The two sides' positions lie in cache lines of their own. */
struct infp_rowring {
        char *data;
        size_t size;
        _Alignas(64) _Atomic uint64_t head; /* written by the writer */
        _Atomic uint64_t dropped;
        _Alignas(64) _Atomic uint64_t tail; /* written by the reader */
        uint64_t taken;                     /* reader: size of the record that it holds */
};

int infp_rowring_new(size_t bytes, struct infp_rowring **ret)
{
        struct infp_rowring *ring;
        void *data;

        if (bytes < MIN_BYTES || bytes & (bytes - 1))
                return -EINVAL;
        ring = aligned_alloc(64, sizeof *ring);
        if (!ring)
                return -ENOMEM;
        memset(ring, 0, sizeof *ring);
        data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (data == MAP_FAILED) {
                free(ring);
                return -ENOMEM;
        }
        ring->data = data;
        ring->size = bytes;
        *ret = ring;
        return 0;
}

struct infp_rowring *infp_rowring_free(struct infp_rowring *ring)
{
        if (ring) {
                munmap(ring->data, ring->size);
                free(ring);
        }
        return NULL;
}

/* Finds `size` bytes in one piece. Returns their place and the new head, or NULL. */
static char *reserve(struct infp_rowring *ring, size_t size, size_t spare, uint64_t *ret_head)
{
        uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
        uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
        size_t at = head & (ring->size - 1), to_end = ring->size - at, need = size;
        /* When the reader has seen all, and half of the ring was used, go back to the start: the ring then stays at half of
         * its memory instead of touching all of it in turn. Until the reader has followed, what follows counts as used:
         * going back any sooner would leave a burst of rows without room. */
        bool wrap = size > to_end || (head == tail && at >= ring->size / 2 && at >= size + spare);

        if (wrap)
                need += to_end;
        if (size > ring->size / 2 - TICK_RESERVE || need + spare > ring->size - (head - tail))
                return NULL;
        if (wrap) {
                struct record record = { .size = (uint32_t) to_end, .kind = RECORD_WRAP };

                memcpy(ring->data + at, &record, sizeof record);
                at = 0;
        }
        *ret_head = head + need;
        return ring->data + at;
}

int infp_rowring_put(struct infp_rowring *ring, const struct infp_row *row)
{
        unsigned n_cells = row->table->n_keys + row->table->n_columns;
        size_t cells = n_cells * sizeof row->cell[0];
        size_t size = (sizeof(struct row_head) + cells + row->text_size + 7) & ~(size_t) 7;
        struct row_head head = {
                .record = { .size = (uint32_t) size, .kind = RECORD_ROW, .n_cells = (uint16_t) n_cells },
                .table = row->table,
                .t_ns = row->t_ns,
                .valid = { row->valid[0], row->valid[1] },
                .text_size = row->text_size,
        };
        uint64_t new_head;
        char *at;

        assert(n_cells <= INFP_MAX_COLUMNS);
        at = reserve(ring, size, TICK_RESERVE, &new_head);
        if (!at) {
                atomic_fetch_add_explicit(&ring->dropped, 1, memory_order_relaxed);
                return -ENOSPC;
        }
        memcpy(at, &head, sizeof head);
        memcpy(at + sizeof head, row->cell, cells);
        if (row->text_size)
                memcpy(at + sizeof head + cells, row->text, row->text_size);
        atomic_store_explicit(&ring->head, new_head, memory_order_release);
        return 0;
}

int infp_rowring_put_tick(struct infp_rowring *ring, const struct infp_rowring_tick *tick)
{
        struct tick_record record = { .record = { .size = sizeof record, .kind = RECORD_TICK }, .tick = *tick };
        uint64_t new_head;
        char *at = reserve(ring, sizeof record, 0, &new_head);

        if (!at) {
                atomic_fetch_add_explicit(&ring->dropped, 1, memory_order_relaxed);
                return -ENOSPC;
        }
        memcpy(at, &record, sizeof record);
        atomic_store_explicit(&ring->head, new_head, memory_order_release);
        return 0;
}

static void read_row(char *at, struct infp_row *ret)
{
        struct row_head head;
        size_t cells;

        memcpy(&head, at, sizeof head);
        cells = head.record.n_cells * sizeof ret->cell[0];
        ret->table = head.table;
        ret->t_ns = head.t_ns;
        ret->valid[0] = head.valid[0];
        ret->valid[1] = head.valid[1];
        memcpy(ret->cell, at + sizeof head, cells);
        ret->text = at + sizeof head + cells;
        ret->text_size = ret->text_cap = (uint32_t) head.text_size;
}

enum infp_rowring_kind infp_rowring_next(struct infp_rowring *ring, struct infp_row *ret_row,
                                         struct infp_rowring_tick *ret_tick)
{
        uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed) + ring->taken;
        uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
        struct record record = { .kind = RECORD_WRAP };
        char *at = NULL;

        while (tail != head) {
                at = ring->data + (tail & (ring->size - 1));
                memcpy(&record, at, sizeof record);
                if (record.kind != RECORD_WRAP)
                        break;
                tail += record.size;
        }
        atomic_store_explicit(&ring->tail, tail, memory_order_release);
        ring->taken = 0;
        if (tail == head)
                return INFP_ROWRING_EMPTY;
        ring->taken = record.size;
        if (record.kind == RECORD_ROW) {
                read_row(at, ret_row);
                return INFP_ROWRING_ROW;
        }
        memcpy(ret_tick, at + offsetof(struct tick_record, tick), sizeof *ret_tick);
        return INFP_ROWRING_TICK;
}

size_t infp_rowring_used(const struct infp_rowring *ring)
{
        uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);

        return atomic_load_explicit(&ring->head, memory_order_acquire) - tail;
}

uint64_t infp_rowring_written(const struct infp_rowring *ring)
{
        return atomic_load_explicit(&ring->head, memory_order_acquire);
}

uint64_t infp_rowring_taken(const struct infp_rowring *ring)
{
        return atomic_load_explicit(&ring->tail, memory_order_acquire);
}

size_t infp_rowring_size(const struct infp_rowring *ring)
{
        return ring->size;
}

uint64_t infp_rowring_dropped(const struct infp_rowring *ring)
{
        return atomic_load_explicit(&ring->dropped, memory_order_relaxed);
}
