/* The kernel's buffer of one CPU: records of up to 64 KiB, one after the other in a ring whose head the kernel moves and whose
 * tail we do. */
#pragma once

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INFP_PERF_RECORD_BYTES = 1 << 16 };

struct infp_perf_ring {
        struct perf_event_mmap_page *page; /* NULL: none */
        const uint8_t *data;
        uint64_t size;     /* a power of two */
        uint64_t head;     /* as read last */
        uint64_t tail;     /* after what was given back */
        uint64_t n_broken; /* times that what lay there made no sense and was left out */
        uint8_t *whole;    /* a record that goes over the end of the ring, put together */
        /* The record at the tail. */
        const uint8_t *record; /* NULL: none, or not looked at yet */
        size_t record_size;
        uint64_t t_ns;
};

/* page and data: one mapping of 1 + 2^n pages, which stays the caller's. 0 or -ENOMEM. */
int infp_perf_ring_init(struct infp_perf_ring *ring, void *page, size_t page_size, size_t size);
void infp_perf_ring_done(struct infp_perf_ring *ring);

/* Sees what the kernel has written until now. */
void infp_perf_ring_look(struct infp_perf_ring *ring);
/* The record at the tail; false: none. */
bool infp_perf_ring_peek(struct infp_perf_ring *ring);
/* Gives its room back. */
void infp_perf_ring_pop(struct infp_perf_ring *ring);

/* The ring with the oldest record that is not newer than until_ns, or NULL. */
struct infp_perf_ring *infp_perf_ring_oldest(struct infp_perf_ring *rings, unsigned n, uint64_t until_ns);
