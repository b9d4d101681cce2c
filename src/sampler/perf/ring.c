#include "sampler/perf/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sampler/perf/record.h"

int infp_perf_ring_init(struct infp_perf_ring *ring, void *page, size_t page_size, size_t size)
{
        *ring = (struct infp_perf_ring){ .page = page, .data = (const uint8_t *) page + page_size, .size = size };
        ring->whole = malloc(INFP_PERF_RECORD_BYTES);
        return ring->whole ? 0 : -ENOMEM;
}

void infp_perf_ring_done(struct infp_perf_ring *ring)
{
        free(ring->whole);
        *ring = (struct infp_perf_ring){ 0 };
}

void infp_perf_ring_look(struct infp_perf_ring *ring)
{
        if (ring->page)
                ring->head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
}

static void give_back(struct infp_perf_ring *ring, uint64_t tail)
{
        ring->tail = tail;
        ring->record = NULL;
        __atomic_store_n(&ring->page->data_tail, tail, __ATOMIC_RELEASE);
}

static void copy_out(const struct infp_perf_ring *ring, void *to, size_t size)
{
        const uint64_t at = ring->tail & (ring->size - 1), until_end = ring->size - at;
        const size_t first = size < until_end ? size : (size_t) until_end;

        memcpy(to, ring->data + at, first);
        memcpy((uint8_t *) to + first, ring->data, size - first);
}

bool infp_perf_ring_peek(struct infp_perf_ring *ring)
{
        const uint64_t there = ring->head - ring->tail;
        struct perf_event_header head;

        if (ring->record)
                return true;
        if (!there || !ring->page)
                return false;
        if (there >= sizeof(head))
                copy_out(ring, &head, sizeof(head));
        /* Nobody knows where the next record begins: all that lies there is left out. */
        if (there < sizeof(head) || there > ring->size || head.size < sizeof(head) || head.size > there ||
            head.size % 8) {
                ring->n_broken++;
                give_back(ring, ring->head);
                return false;
        }
        ring->record = ring->data + (ring->tail & (ring->size - 1));
        ring->record_size = head.size;
        if (ring->record + head.size > ring->data + ring->size) {
                copy_out(ring, ring->whole, head.size);
                ring->record = ring->whole;
        }
        ring->t_ns = infp_perf_record_time(ring->record, head.size);
        return true;
}

void infp_perf_ring_pop(struct infp_perf_ring *ring)
{
        give_back(ring, ring->tail + ring->record_size);
}

struct infp_perf_ring *infp_perf_ring_oldest(struct infp_perf_ring *rings, unsigned n, uint64_t until_ns)
{
        struct infp_perf_ring *ret = NULL;

        for (unsigned i = 0; i < n; i++)
                if (infp_perf_ring_peek(&rings[i]) && rings[i].t_ns <= until_ns && (!ret || rings[i].t_ns < ret->t_ns))
                        ret = &rings[i];
        return ret;
}
