#include "agent/heap/blocks.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

/* A block is in one of the two lines of 8 slots that its address leads to, the one with more room (so that lines fill evenly: Azar and
 * others, 1999), of any of the tables. When both are full in all of them a larger table is mapped, and nothing is moved: a thread that
 * never comes back, or a signal handler, finds all as it should be. Old tables fill up again as the new one gets full. */
enum { LINE = 8, FIRST_BITS = 9 /* of lines: 64 KiB */, TABLES = 17 /* up to 4 GiB, of 268 million blocks */ };
enum { BUSY = 1 };
#define ENOUGH (LINE / 2) /* free slots of a line: then the other one is not looked at */

struct line {
        _Atomic uint64_t keys[LINE];   /* address / 8 << WINDOW_BITS | window; 0: free; BUSY: being filled */
        _Atomic uint64_t values[LINE]; /* size << SITE_BITS | site */
};
static struct line *_Atomic tables[TABLES];
static _Atomic uint32_t n_tables;

static uint32_t n_now(void)
{
        const uint32_t n = atomic_load_explicit(&n_tables, memory_order_acquire);

        return n < TABLES ? n : TABLES;
}

static size_t lines_of(unsigned table)
{
        return (size_t) 1 << (FIRST_BITS + table);
}

static struct line *map(unsigned table)
{
        const size_t bytes = lines_of(table) * sizeof(struct line);
        void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (memory == MAP_FAILED)
                return NULL;
        madvise(memory, bytes, MADV_WIPEONFORK); /* a child has blocks of its own, also one that libc does not make */
        return memory;
}

/* One more than n. False: there is none. */
static bool grow(uint32_t n)
{
        struct line *nobody = NULL, *made;

        if (n >= TABLES || n != atomic_load_explicit(&n_tables, memory_order_acquire))
                return n < TABLES;
        made = map(n);
        if (!made)
                return false;
        if (!atomic_compare_exchange_strong(&tables[n], &nobody, made))
                munmap(made, lines_of(n) * sizeof(struct line));
        atomic_compare_exchange_strong(&n_tables, &n, n + 1);
        return true;
}

int infp_agent_blocks_make(void)
{
        return grow(0) ? 0 : -ENOMEM;
}

void infp_agent_blocks_reset(void)
{
        const uint32_t n = n_now();

        for (uint32_t i = 0; i < n; i++)
                madvise(atomic_load(&tables[i]), lines_of(i) * sizeof(struct line), MADV_DONTNEED);
}

/* The two lines of an address, of all tables: the upper bits of these. */
struct hash {
        uint64_t a, b;
};
static inline struct hash hash_of(uint64_t address)
{
        const uint64_t a = (address >> 3) * UINT64_C(0x9e3779b97f4a7c15);

        return (struct hash){ a, (a ^ a >> 32) * UINT64_C(0xc2b2ae3d27d4eb4f) };
}

static inline struct line *line_at(unsigned table, uint64_t hash)
{
        return atomic_load_explicit(&tables[table], memory_order_relaxed) + (hash >> (64 - FIRST_BITS - table));
}

static inline unsigned room_in(const struct line *line)
{
        unsigned n = 0;

        for (unsigned i = 0; i < LINE; i++)
                n += atomic_load_explicit(&line->keys[i], memory_order_relaxed) == 0;
        return n;
}

static bool put_into(struct line *line, uint64_t key, uint64_t value)
{
        for (unsigned i = 0; i < LINE; i++) {
                uint64_t nobody = 0;

                if (atomic_load_explicit(&line->keys[i], memory_order_relaxed) ||
                    !atomic_compare_exchange_strong_explicit(&line->keys[i], &nobody, BUSY, memory_order_relaxed,
                                                             memory_order_relaxed))
                        continue;
                atomic_store_explicit(&line->values[i], value, memory_order_relaxed);
                atomic_store_explicit(&line->keys[i], key, memory_order_release);
                return true;
        }
        return false;
}

static bool put_into_table(unsigned table, struct hash hash, uint64_t key, uint64_t value)
{
        struct line *a = line_at(table, hash.a), *b = line_at(table, hash.b), *other = b;
        const unsigned room = room_in(a);

        if (room < ENOUGH && room_in(b) > room) {
                other = a;
                a = b;
        }
        return put_into(a, key, value) || put_into(other, key, value);
}

static bool take_from(struct line *line, uint64_t address, struct infp_block *ret)
{
        for (unsigned i = 0; i < LINE; i++) {
                const uint64_t key = atomic_load_explicit(&line->keys[i], memory_order_acquire);
                uint64_t value;

                if (key >> INFP_BLOCK_WINDOW_BITS != address >> 3)
                        continue;
                value = atomic_load_explicit(&line->values[i], memory_order_relaxed);
                atomic_store_explicit(&line->keys[i], 0, memory_order_relaxed);
                ret->size = value >> INFP_BLOCK_SITE_BITS;
                ret->site = value & ((UINT32_C(1) << INFP_BLOCK_SITE_BITS) - 1);
                ret->window = key & ((UINT32_C(1) << INFP_BLOCK_WINDOW_BITS) - 1);
                return true;
        }
        return false;
}

/* Else the slots of an address whose blocks are freed unseen would fill with them. */
static void take_old(unsigned table, struct hash hash, uint64_t address, struct infp_block *ret)
{
        struct line *a = line_at(table, hash.a);

        if (!take_from(a, address, ret) && room_in(a) < ENOUGH)
                take_from(line_at(table, hash.b), address, ret);
}

bool infp_agent_blocks_put(uint64_t address, const struct infp_block *block, struct infp_block *ret_old)
{
        const uint64_t key = address >> 3 << INFP_BLOCK_WINDOW_BITS |
                             (block->window & ((UINT64_C(1) << INFP_BLOCK_WINDOW_BITS) - 1)),
                       value = block->size << INFP_BLOCK_SITE_BITS | block->site;
        const struct hash hash = hash_of(address);
        uint32_t n = n_now();

        ret_old->site = 0;
        if (!n || address & 7 || address >> (64 - INFP_BLOCK_WINDOW_BITS + 3) || block->size >= INFP_BLOCK_MOST)
                return false;
        take_old(n - 1, hash, address, ret_old);
        do {
                n = n_now();
                for (uint32_t i = n; i-- > 0;)
                        if (put_into_table(i, hash, key, value))
                                return true;
        } while (grow(n));
        return false;
}

bool infp_agent_blocks_take(uint64_t address, struct infp_block *ret)
{
        const struct hash hash = hash_of(address);

        for (uint32_t i = n_now(); i-- > 0 && address >> 3;)
                if (take_from(line_at(i, hash.a), address, ret) || take_from(line_at(i, hash.b), address, ret))
                        return true;
        return false;
}

void infp_agent_blocks_each(void (*take)(const struct infp_block *block, void *context), void *context)
{
        const uint32_t n = n_now();

        for (uint32_t t = 0; t < n; t++)
                for (size_t i = 0; i < lines_of(t) * LINE; i++) {
                        const struct line *line = &atomic_load(&tables[t])[i / LINE];
                        const uint64_t key = atomic_load_explicit(&line->keys[i % LINE], memory_order_acquire);
                        const uint64_t value = atomic_load_explicit(&line->values[i % LINE], memory_order_relaxed);

                        if (key > BUSY)
                                take(&(struct infp_block){ value >> INFP_BLOCK_SITE_BITS,
                                                           value & ((UINT32_C(1) << INFP_BLOCK_SITE_BITS) - 1),
                                                           key & ((UINT32_C(1) << INFP_BLOCK_WINDOW_BITS) - 1) },
                                     context);
                }
}
