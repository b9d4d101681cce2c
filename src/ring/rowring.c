#include "ring/rowring.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/byte_ring.h"

enum {
        RECORD_ROW,
        RECORD_TICK,
        MIN_BYTES = 4096,
        TICK_RESERVE = 1024, /* bytes that only ticks may use */
};

struct row_head {
        uint16_t kind, n_cells;
        uint32_t text_size;
        const struct infp_table *table;
        uint64_t t_ns, valid[2];
};

struct tick_record {
        uint16_t kind;
        struct infp_rowring_tick tick;
};

struct infp_rowring {
        struct infp_byte_ring bytes;
        _Atomic uint64_t dropped;
};

int infp_rowring_new(size_t bytes, struct infp_rowring **ret)
{
        struct infp_rowring *ring;
        int r;

        if (bytes < MIN_BYTES || bytes & (bytes - 1))
                return -EINVAL;
        ring = calloc(1, sizeof *ring);
        if (!ring)
                return -ENOMEM;
        r = infp_byte_ring_init(&ring->bytes, bytes);
        if (r < 0)
                free(ring);
        else
                *ret = ring;
        return r;
}

struct infp_rowring *infp_rowring_free(struct infp_rowring *ring)
{
        if (ring) {
                infp_byte_ring_done(&ring->bytes);
                free(ring);
        }
        return NULL;
}

static int drop(struct infp_rowring *ring)
{
        atomic_fetch_add_explicit(&ring->dropped, 1, memory_order_relaxed);
        return -ENOSPC;
}

int infp_rowring_put(struct infp_rowring *ring, const struct infp_row *row)
{
        unsigned n_cells = row->table->n_keys + row->table->n_columns;
        size_t cells = n_cells * sizeof row->cell[0];
        size_t size = sizeof(struct row_head) + cells + row->text_size;
        struct row_head head = {
                .kind = RECORD_ROW,
                .n_cells = (uint16_t) n_cells,
                .text_size = row->text_size,
                .table = row->table,
                .t_ns = row->t_ns,
                .valid = { row->valid[0], row->valid[1] },
        };
        char *at;

        assert(n_cells <= INFP_MAX_COLUMNS);
        at = size <= ring->bytes.size / 2 - TICK_RESERVE ? infp_byte_ring_begin(&ring->bytes, size, TICK_RESERVE)
                                                         : NULL;
        if (!at)
                return drop(ring);
        memcpy(at, &head, sizeof head);
        memcpy(at + sizeof head, row->cell, cells);
        if (row->text_size)
                memcpy(at + sizeof head + cells, row->text, row->text_size);
        infp_byte_ring_commit(&ring->bytes, size);
        return 0;
}

int infp_rowring_put_tick(struct infp_rowring *ring, const struct infp_rowring_tick *tick)
{
        struct tick_record *at = infp_byte_ring_begin(&ring->bytes, sizeof *at, 0);

        if (!at)
                return drop(ring);
        *at = (struct tick_record){ .kind = RECORD_TICK, .tick = *tick };
        infp_byte_ring_commit(&ring->bytes, sizeof *at);
        return 0;
}

static void read_row(char *at, struct infp_row *ret)
{
        struct row_head head;
        size_t cells;

        memcpy(&head, at, sizeof head);
        cells = head.n_cells * sizeof ret->cell[0];
        ret->table = head.table;
        ret->t_ns = head.t_ns;
        ret->valid[0] = head.valid[0];
        ret->valid[1] = head.valid[1];
        memcpy(ret->cell, at + sizeof head, cells);
        ret->text = at + sizeof head + cells;
        ret->text_size = ret->text_cap = head.text_size;
}

enum infp_rowring_kind infp_rowring_next(struct infp_rowring *ring, struct infp_row *ret_row,
                                         struct infp_rowring_tick *ret_tick)
{
        void *at = infp_byte_ring_next(&ring->bytes);

        if (!at)
                return INFP_ROWRING_EMPTY;
        if (*(const uint16_t *) at == RECORD_ROW) {
                read_row(at, ret_row);
                return INFP_ROWRING_ROW;
        }
        *ret_tick = ((const struct tick_record *) at)->tick;
        return INFP_ROWRING_TICK;
}

size_t infp_rowring_used(const struct infp_rowring *ring)
{
        uint64_t tail = infp_byte_ring_taken(&ring->bytes);

        return infp_byte_ring_written(&ring->bytes) - tail;
}

uint64_t infp_rowring_written(const struct infp_rowring *ring)
{
        return infp_byte_ring_written(&ring->bytes);
}

uint64_t infp_rowring_taken(const struct infp_rowring *ring)
{
        return infp_byte_ring_taken(&ring->bytes);
}

size_t infp_rowring_size(const struct infp_rowring *ring)
{
        return ring->bytes.size;
}

uint64_t infp_rowring_dropped(const struct infp_rowring *ring)
{
        return atomic_load_explicit(&ring->dropped, memory_order_relaxed);
}
