#include "sampler/python/deep.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sampler/python/join.h"

/* The kernel's ring (BPF_MAP_TYPE_RINGBUF), read in place: pieces are large, and stay until their sample has come. Its data can be
 * mapped twice, one after the other, but each of its pages counts as memory of ours as often as it is mapped. */
struct infp_deep {
        uint64_t *consumer;       /* position that was read; ours */
        const uint64_t *producer; /* position that is written */
        const uint8_t *data;
        size_t page, size;
        /* The position of the piece in `joined`, which begins at the ring's end and goes on at its begin; or NOWHERE. */
        uint64_t joined_at;
        struct infp_deep_piece joined;
};
#define NOWHERE UINT64_MAX

int infp_deep_open(int map, uint32_t bytes, struct infp_deep **ret)
{
        const size_t page = (size_t) sysconf(_SC_PAGESIZE);
        struct infp_deep *deep = calloc(1, sizeof(*deep));
        void *at;

        if (!deep)
                return -ENOMEM;
        deep->page = page;
        deep->size = bytes;
        deep->joined_at = NOWHERE;
        at = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, map, 0);
        deep->consumer = at == MAP_FAILED ? NULL : at;
        at = mmap(NULL, page + deep->size, PROT_READ, MAP_SHARED, map, (off_t) page);
        deep->producer = at == MAP_FAILED ? NULL : at;
        if (!deep->consumer || !deep->producer) {
                infp_deep_free(deep);
                return -ENOMEM;
        }
        deep->data = (const uint8_t *) deep->producer + page;
        *ret = deep;
        return 0;
}

struct infp_deep *infp_deep_free(struct infp_deep *deep)
{
        if (!deep)
                return NULL;
        if (deep->consumer)
                munmap(deep->consumer, deep->page);
        if (deep->producer)
                munmap((void *) (uintptr_t) deep->producer, deep->page + deep->size);
        free(deep);
        return NULL;
}

bool infp_deep_is_filling(const struct infp_deep *deep)
{
        return __atomic_load_n(deep->producer, __ATOMIC_ACQUIRE) - *deep->consumer > deep->size / 4;
}

/* The piece after the head at a position; it does not change until it is given back. */
static const struct infp_deep_piece *piece_at(struct infp_deep *deep, uint64_t position)
{
        const size_t at = (position + BPF_RINGBUF_HDR_SZ) & (deep->size - 1), left = deep->size - at;

        if (left >= sizeof(deep->joined))
                return (const struct infp_deep_piece *) (const void *) (deep->data + at);
        if (deep->joined_at != position) {
                memcpy(&deep->joined, deep->data + at, left);
                memcpy((uint8_t *) &deep->joined + left, deep->data, sizeof(deep->joined) - left);
                deep->joined_at = position;
        }
        return &deep->joined;
}

/* The piece at a position, which moves on; NULL: there is none yet. */
static const struct infp_deep_piece *next(struct infp_deep *deep, uint64_t *position)
{
        uint64_t begin;

        while (*position < __atomic_load_n(deep->producer, __ATOMIC_ACQUIRE)) {
                const uint8_t *at = deep->data + (*position & (deep->size - 1));
                const uint32_t head = __atomic_load_n((const uint32_t *) (const void *) at, __ATOMIC_ACQUIRE),
                               size = head & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);

                if (head & BPF_RINGBUF_BUSY_BIT)
                        return NULL;
                begin = *position;
                *position += (size + BPF_RINGBUF_HDR_SZ + 7) & ~UINT32_C(7);
                if (!(head & BPF_RINGBUF_DISCARD_BIT) && size == sizeof(struct infp_deep_piece))
                        return piece_at(deep, begin);
        }
        return NULL;
}

/* Pages of a piece that lie side by side are one part. */
static uint32_t add_pages(const struct infp_deep_piece *piece, struct infp_unwind_dump *ret, uint32_t n)
{
        for (uint32_t k = 0; k < INFP_DEEP_PAGES; k++) {
                const uint64_t page = piece->pages[k];

                if (!page)
                        continue;
                if (k && page == piece->pages[k - 1] + INFP_DEEP_PAGE && n)
                        ret[n - 1].size += INFP_DEEP_PAGE;
                else if (n < INFP_DEEP_DUMPS)
                        ret[n++] = (struct infp_unwind_dump){ piece->bytes + (size_t) k * INFP_DEEP_PAGE, page,
                                                              INFP_DEEP_PAGE, true };
                else
                        return n;
        }
        return n;
}

uint32_t infp_deep_take(struct infp_deep *deep, const struct infp_perf_sample *sample, struct infp_unwind_dump *ret)
{
        const uint64_t longest_ns = infp_python_join_distance(sample);
        uint64_t position = *deep->consumer, first = position, nearest_ns = longest_ns + 1, t_ns = 0;
        const struct infp_deep_piece *piece;
        uint32_t n = 0;

        while ((piece = next(deep, &position)) && piece->t_ns + INFP_JOIN_LONGEST_NS < sample->t_ns)
                first = position;
        __atomic_store_n(deep->consumer, first, __ATOMIC_RELEASE);
        for (; piece && piece->t_ns < sample->t_ns + INFP_JOIN_LONGEST_NS; piece = next(deep, &position)) {
                const uint64_t ns =
                        piece->t_ns < sample->t_ns ? sample->t_ns - piece->t_ns : piece->t_ns - sample->t_ns;

                if (ns > nearest_ns || !infp_python_join_is_of(sample, piece->pid, piece->tid, piece->address))
                        continue;
                if (piece->t_ns != t_ns)
                        n = 0;
                nearest_ns = ns;
                t_ns = piece->t_ns;
                n = add_pages(piece, ret, n);
        }
        return n;
}

/* Saved registers lie below a return address. */
enum { BELOW = 128 };

static bool add_wanted(struct infp_deep_want *want, uint64_t address)
{
        const uint64_t page = address & ~(uint64_t) (INFP_DEEP_PAGE - 1);

        for (unsigned i = 0; i < INFP_DEEP_WANTED; i++)
                if (want->wanted.pages[i] == page)
                        return false;
        want->wanted.pages[want->next++ % INFP_DEEP_WANTED] = page;
        return true;
}

const struct infp_deep_wanted *infp_deep_want(struct infp_deep_wants *wants, int32_t tid, uint64_t address)
{
        struct infp_deep_want *want = &wants->threads[(uint32_t) tid % INFP_DEEP_THREADS];
        bool is_new;

        if (want->tid != tid)
                *want = (struct infp_deep_want){ .tid = tid };
        if (address < BELOW)
                return NULL;
        is_new = add_wanted(want, address);
        is_new |= add_wanted(want, address - BELOW);
        return is_new ? &want->wanted : NULL;
}
