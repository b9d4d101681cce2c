/* Samples of a process as perf_event_open gives them, registers and a copy of the stack, without src/sampler: what the unwinder
 * is compared on must not come from the code that uses it. */
#pragma once

#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "unwind/rule.h"

enum { PERF_STACK_BYTES = 32 * 1024, PERF_RING_PAGES = 512 };

struct perf_moment {
        uint64_t values[INFP_N_REGISTERS];
        uint64_t size; /* of the stack */
        uint8_t stack[PERF_STACK_BYTES];
};

struct perf_ring {
        int fd;
        struct perf_event_mmap_page *page;
        uint64_t n_lost;
};

/* Register numbers of perf's mask, in DWARF's order. */
static const uint8_t perf_order[INFP_N_REGISTERS] = { 0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23, 8 };
#define PERF_REGISTERS UINT64_C(0xff01ff)

/* 0, or a negative errno where events are not allowed. */
static int perf_open(struct perf_ring *ring, pid_t tid, uint64_t hz)
{
        struct perf_event_attr attr = {
                .size = sizeof(attr),
                .type = PERF_TYPE_SOFTWARE,
                .config = PERF_COUNT_SW_CPU_CLOCK,
                .sample_period = 1000000000 / hz,
                .sample_type = PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
                .sample_regs_user = PERF_REGISTERS,
                .sample_stack_user = PERF_STACK_BYTES,
                .exclude_callchain_user = 1,
                .watermark = 1,
                .wakeup_watermark = PERF_RING_PAGES * 4096 / 4,
        };
        void *memory;

        *ring = (struct perf_ring){ .fd = (int) syscall(SYS_perf_event_open, &attr, tid, -1, -1,
                                                        PERF_FLAG_FD_CLOEXEC) };
        if (ring->fd < 0) {
                attr.exclude_kernel = 1;
                ring->fd = (int) syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
        }
        if (ring->fd < 0)
                return -errno;
        memory = mmap(NULL, (1 + PERF_RING_PAGES) * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
        if (memory == MAP_FAILED) {
                const int r = -errno;

                close(ring->fd);
                return r;
        }
        ring->page = memory;
        return 0;
}

static void perf_close(struct perf_ring *ring)
{
        munmap(ring->page, (1 + PERF_RING_PAGES) * 4096);
        close(ring->fd);
}

static void perf_copy(const struct perf_ring *ring, uint64_t at, void *to, size_t size)
{
        const uint8_t *data = (const uint8_t *) ring->page + 4096;
        const uint64_t room = PERF_RING_PAGES * 4096;

        for (size_t i = 0; i < size;) {
                const uint64_t from = (at + i) % room;
                const size_t n = size - i < room - from ? size - i : (size_t) (room - from);

                memcpy((uint8_t *) to + i, data + from, n);
                i += n;
        }
}

/* Takes what lies in the ring, at most n_moments; returns their number. Samples without user registers are passed over. */
static unsigned perf_take(struct perf_ring *ring, struct perf_moment *moments, unsigned n_moments)
{
        const uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
        uint64_t tail = ring->page->data_tail;
        unsigned n = 0;

        while (tail < head && n < n_moments) {
                struct perf_event_header header;
                struct perf_moment *moment = &moments[n];
                uint64_t at = tail + sizeof(header), abi, registers[INFP_N_REGISTERS], size, slots[24] = { 0 };

                perf_copy(ring, tail, &header, sizeof(header));
                tail += header.size;
                if (header.type == PERF_RECORD_LOST) {
                        perf_copy(ring, at + 8, &size, 8);
                        ring->n_lost += size;
                }
                if (header.type != PERF_RECORD_SAMPLE)
                        continue;
                perf_copy(ring, at, &abi, 8);
                if (abi != PERF_SAMPLE_REGS_ABI_64)
                        continue;
                perf_copy(ring, at + 8, registers, sizeof(registers));
                for (unsigned bit = 0, i = 0; bit < 24; bit++)
                        if (PERF_REGISTERS >> bit & 1)
                                slots[bit] = registers[i++];
                for (unsigned i = 0; i < INFP_N_REGISTERS; i++)
                        moment->values[i] = slots[perf_order[i]];
                at += 8 + sizeof(registers);
                perf_copy(ring, at, &size, 8);
                if (size == 0 || size > PERF_STACK_BYTES)
                        continue;
                perf_copy(ring, at + 8 + size, &moment->size, 8); /* what was copied really */
                perf_copy(ring, at + 8, moment->stack, (size_t) moment->size);
                n++;
        }
        __atomic_store_n(&ring->page->data_tail, tail, __ATOMIC_RELEASE);
        return n;
}
