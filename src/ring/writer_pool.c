/* Who writes: threads, and which chunk each gets next. */
#include "ring/writer_parts.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ring/where.h"

/* Which chunk a thread gets next. Chunks are claimed by one compare-and-swap of their stamp; what else is here are hints that are
 * looked at before the chunk itself, since a look at each of 4,000 heads in as many pages would take longer than writing. */

/* A note for each chunk: 0, that it is parked (2 + class), or sealed (time of its first record * 2 | class). Of class
 * stay, sealed chunks have none: nobody needs to look at them. */
enum { NOTE_PARKED = 2, NOTE_PARKED_END = NOTE_PARKED + INFP_WIRE_CLASSES, NOTE_MIN_TIME = 4 };
enum {
        FEW_LOOKS = 4,
        MANY_LOOKS = 64,
        STEPS = 512,
        EVICT_TRIES = 8,
        LEAST_LEFT = 64,
        GROW_EARLY = 64,
        KEPT_SHARE = 8,
        HELD_SHARE = 4
};
#define FULL_NS UINT64_C(1000000)

struct pool { /* of this process, for one file */
        _Atomic uint64_t note[INFP_WRITER_MAX_CHUNKS];
        _Atomic uint64_t interned[INFP_WRITER_INTERNED]; /* writer_text.c's */
        _Atomic uint64_t stacks[INFP_WRITER_STACKS];     /* writer_stack.c's */
        _Atomic uint64_t full_until_ns[INFP_WIRE_CLASSES];
        _Atomic uint32_t n_parked[INFP_WIRE_CLASSES], parked_hint[INFP_WIRE_CLASSES]; /* number + 1 */
        _Atomic uint32_t n_sealed_recent, n_fresh, n_stay, cursor;
        _Atomic uint32_t n_active; /* and those that stay, as if a thread held them for ever */
};
static struct pool *pool;
_Atomic uint64_t *infp_writer_stacks;

int infp_writer_pool_reset(void)
{
        void *memory;

        if (pool) { /* the parent's: pages of zeros instead */
                munmap(pool, sizeof *pool);
                pool = NULL;
        }
        memory = mmap(NULL, sizeof *pool, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
                return -ENOMEM;
        pool = memory;
        infp_writer_interned = pool->interned;
        infp_writer_stacks = pool->stacks;
        return 0;
}

static struct infp_wire_chunk *chunk_at(uint32_t i)
{
        return (struct infp_wire_chunk *) (infp_writer_file.base + INFP_WRITER_CHUNKS_AT +
                                           (size_t) i * INFP_WIRE_CHUNK);
}

static uint32_t number_of(const struct infp_wire_chunk *chunk)
{
        return (uint32_t) (((const char *) chunk - infp_writer_file.base - INFP_WRITER_CHUNKS_AT) / INFP_WIRE_CHUNK);
}

static enum infp_wire_state state_of(uint64_t stamp)
{
        return (enum infp_wire_state)(stamp & 7);
}

/* Forgets what was noted of a chunk that has just been taken. */
static void forget_note(uint32_t i)
{
        uint64_t note = atomic_exchange_explicit(&pool->note[i], 0, memory_order_relaxed);

        if (note >= NOTE_PARKED && note < NOTE_PARKED_END)
                atomic_fetch_sub_explicit(&pool->n_parked[note - NOTE_PARKED], 1, memory_order_relaxed);
        else if (note && (note & 1) == INFP_WIRE_RECENT)
                atomic_fetch_sub_explicit(&pool->n_sealed_recent, 1, memory_order_relaxed);
}

static uint32_t drained_bytes(const struct infp_wire_chunk *chunk, uint64_t stamp)
{
        uint64_t drained = atomic_load_explicit(&chunk->drained, memory_order_acquire);

        return drained >> 32 == (uint32_t) (stamp >> 3) ? (uint32_t) drained : 0;
}

/* Rows of tables among the records of a chunk. The file is memory that others of this user can write too. */
static uint64_t count_rows(const struct infp_wire_chunk *chunk, uint32_t from, uint32_t to)
{
        uint64_t n = 0;

        while (from % 8 == 0 && from + sizeof(struct infp_wire_record) <= to) {
                const struct infp_wire_record *record = (const void *) ((const char *) (chunk + 1) + from);

                if (record->size < sizeof *record)
                        break;
                n += record->kind == INFP_WIRE_ROW;
                from += record->size;
        }
        return n;
}

/* Counts what the chunk held that nobody has read. Once it is ours: a parked one may have been used and parked again since it was
 * looked at. */
static void count_lost(const struct infp_wire_chunk *chunk, uint64_t stamp)
{
        uint32_t used = atomic_load_explicit(&chunk->used, memory_order_relaxed);
        uint32_t drained = drained_bytes(chunk, stamp);

        if (used > drained && used <= INFP_WRITER_ROOM) {
                infp_writer_add(&infp_writer_file.head->evicted_chunks, 1);
                infp_writer_add(&infp_writer_file.head->evicted_bytes, used - drained);
                infp_writer_add(&infp_writer_file.head->evicted_rows, count_rows(chunk, drained, used));
        }
}

/* Between the stamp of a chunk or the like and the payload after it. The thread sanitizer knows no fences; all that they order
 * here is atomic. */
static void fence(void)
{
#ifndef __SANITIZE_THREAD__
        atomic_thread_fence(memory_order_release);
#endif
}

/* Makes chunk `i`, whose stamp was read as `stamp`, an empty one of ours. */
static bool take(uint32_t i, uint64_t stamp, enum infp_wire_class class, uint32_t tid, uint64_t now_ns)
{
        struct infp_wire_chunk *chunk = chunk_at(i);
        uint64_t generation = (stamp >> 3) + 1;

        if (!atomic_compare_exchange_strong_explicit(&chunk->stamp, &stamp, generation << 3 | INFP_WIRE_CLAIMING,
                                                     memory_order_acq_rel, memory_order_relaxed))
                return false;
        fence(); /* a reader of what follows sees that the generation has changed */
        forget_note(i);
        count_lost(chunk, stamp);
        if (class == INFP_WIRE_STAY)
                atomic_fetch_add_explicit(&pool->n_stay, 1, memory_order_relaxed);
        atomic_store_explicit(&chunk->used, 0, memory_order_relaxed);
        __atomic_store_n(&chunk->class, class, __ATOMIC_RELAXED);
        atomic_store_explicit(&chunk->tid, tid, memory_order_relaxed);
        atomic_store_explicit(&chunk->first_ns, now_ns, memory_order_relaxed);
        atomic_store_explicit(&chunk->stamp, generation << 3 | INFP_WIRE_ACTIVE, memory_order_release);
        return true;
}

static struct infp_wire_chunk *take_fresh(enum infp_wire_class class, uint32_t tid, uint64_t now_ns)
{
        uint32_t n_chunks = atomic_load_explicit(&infp_writer_file.n_chunks, memory_order_acquire);
        uint32_t i = atomic_load_explicit(&pool->n_fresh, memory_order_relaxed);

        while (i < n_chunks)
                if (atomic_compare_exchange_weak_explicit(&pool->n_fresh, &i, i + 1, memory_order_relaxed,
                                                          memory_order_relaxed)) {
                        uint64_t stamp = atomic_load_explicit(&chunk_at(i)->stamp, memory_order_relaxed);

                        return take(i, stamp, class, tid, now_ns) ? chunk_at(i) : NULL;
                }
        return NULL;
}

/* Goes on after the records of a thread that has ended; its generation stays. */
static struct infp_wire_chunk *adopt(uint32_t i, enum infp_wire_class class, uint32_t tid)
{
        struct infp_wire_chunk *chunk = chunk_at(i);
        uint64_t stamp = atomic_load_explicit(&chunk->stamp, memory_order_acquire);

        if (state_of(stamp) != INFP_WIRE_PARKED || __atomic_load_n(&chunk->class, __ATOMIC_RELAXED) != class ||
            !atomic_compare_exchange_strong_explicit(&chunk->stamp, &stamp, (stamp & ~UINT64_C(7)) | INFP_WIRE_ACTIVE,
                                                     memory_order_acq_rel, memory_order_relaxed))
                return NULL;
        forget_note(i);
        atomic_store_explicit(&chunk->tid, tid, memory_order_relaxed);
        return chunk;
}

static struct infp_wire_chunk *adopt_any(enum infp_wire_class class, uint32_t tid)
{
        uint32_t hint = atomic_exchange_explicit(&pool->parked_hint[class], 0, memory_order_relaxed), n;
        struct infp_wire_chunk *chunk = hint ? adopt(hint - 1, class, tid) : NULL;

        if (chunk || !atomic_load_explicit(&pool->n_parked[class], memory_order_relaxed))
                return chunk;
        n = atomic_load_explicit(&pool->n_fresh, memory_order_relaxed);
        for (uint32_t i = 0; i < n && !chunk; i++)
                if (atomic_load_explicit(&pool->note[i], memory_order_relaxed) == NOTE_PARKED + (uint64_t) class)
                        chunk = adopt(i, class, tid);
        return chunk;
}

/* What the consumer has read. It reads all in one go, and chunks are sealed about in the order in which the cursor comes by. */
static struct infp_wire_chunk *take_drained(enum infp_wire_class class, unsigned max_looks, uint32_t tid,
                                            uint64_t now_ns)
{
        uint32_t n = atomic_load_explicit(&pool->n_fresh, memory_order_relaxed), looks = 0, steps;
        uint32_t first = atomic_load_explicit(&pool->cursor, memory_order_relaxed);

        if (!n || !atomic_load_explicit(&infp_writer_file.head->consumer_seen_ns, memory_order_relaxed))
                return NULL;
        for (steps = 0; steps < n && steps < STEPS && looks < max_looks; steps++) {
                uint32_t i = (first + steps) % n;
                struct infp_wire_chunk *chunk = chunk_at(i);
                uint64_t stamp;

                if (!atomic_load_explicit(&pool->note[i], memory_order_relaxed))
                        continue;
                looks++;
                stamp = atomic_load_explicit(&chunk->stamp, memory_order_acquire);
                if ((state_of(stamp) == INFP_WIRE_SEALED || state_of(stamp) == INFP_WIRE_PARKED) &&
                    __atomic_load_n(&chunk->class, __ATOMIC_RELAXED) != INFP_WIRE_STAY &&
                    drained_bytes(chunk, stamp) >= atomic_load_explicit(&chunk->used, memory_order_relaxed) &&
                    take(i, stamp, class, tid, now_ns)) {
                        atomic_store_explicit(&pool->cursor, i + 1, memory_order_relaxed);
                        return chunk;
                }
        }
        atomic_store_explicit(&pool->cursor, first + steps, memory_order_relaxed);
        return NULL;
}

/* The oldest of `recent`. The other classes get it too, but leave a part to recent. */
static struct infp_wire_chunk *evict(enum infp_wire_class class, uint32_t tid, uint64_t now_ns)
{
        uint32_t n = atomic_load_explicit(&pool->n_fresh, memory_order_relaxed);
        uint64_t above = 0;

        for (unsigned tries = 0; tries < EVICT_TRIES; tries++) {
                uint32_t n_recent = atomic_load_explicit(&pool->n_sealed_recent, memory_order_relaxed), oldest = n;
                uint64_t best = UINT64_MAX, stamp;

                if (n_recent == 0 || (class != INFP_WIRE_RECENT && n_recent <= n / KEPT_SHARE))
                        return NULL;
                for (uint32_t i = 0; i < n; i++) {
                        uint64_t note = atomic_load_explicit(&pool->note[i], memory_order_relaxed);

                        if ((note & 1) == INFP_WIRE_RECENT && note >= NOTE_PARKED_END && note > above && note < best) {
                                best = note;
                                oldest = i;
                        }
                }
                if (oldest == n)
                        return NULL;
                above = best;
                stamp = atomic_load_explicit(&chunk_at(oldest)->stamp, memory_order_acquire);
                /* Since its note was read it may have become another's: of `keep`, that nobody may throw away. */
                if (state_of(stamp) == INFP_WIRE_SEALED &&
                    __atomic_load_n(&chunk_at(oldest)->class, __ATOMIC_RELAXED) == INFP_WIRE_RECENT &&
                    take(oldest, stamp, class, tid, now_ns))
                        return chunk_at(oldest);
        }
        return NULL;
}

static void seal(struct infp_wire_chunk *chunk, enum infp_wire_class class)
{
        uint64_t stamp = atomic_load_explicit(&chunk->stamp, memory_order_relaxed);
        uint64_t first_ns = atomic_load_explicit(&chunk->first_ns, memory_order_relaxed);

        if (class == INFP_WIRE_RECENT)
                atomic_fetch_add_explicit(&pool->n_sealed_recent, 1, memory_order_relaxed);
        if (class != INFP_WIRE_STAY) {
                atomic_fetch_sub_explicit(&pool->n_active, 1, memory_order_relaxed);
                atomic_store_explicit(&pool->note[number_of(chunk)],
                                      (first_ns > NOTE_MIN_TIME ? first_ns : NOTE_MIN_TIME) << 1 | class,
                                      memory_order_relaxed);
        }
        atomic_store_explicit(&chunk->stamp, (stamp & ~UINT64_C(7)) | INFP_WIRE_SEALED, memory_order_release);
}

static void park(struct infp_writer_slot *slot, enum infp_wire_class class)
{
        struct infp_wire_chunk *chunk = slot->chunk;
        uint64_t stamp;
        uint32_t i;

        if (!chunk)
                return;
        slot->chunk = NULL;
        atomic_store_explicit(&chunk->tid, 0, memory_order_relaxed);
        if (slot->used + LEAST_LEFT > INFP_WRITER_ROOM) {
                seal(chunk, class);
                return;
        }
        i = number_of(chunk);
        stamp = atomic_load_explicit(&chunk->stamp, memory_order_relaxed);
        atomic_fetch_sub_explicit(&pool->n_active, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&pool->n_parked[class], 1, memory_order_relaxed);
        atomic_store_explicit(&pool->note[i], NOTE_PARKED + (uint64_t) class, memory_order_relaxed);
        atomic_store_explicit(&chunk->stamp, (stamp & ~UINT64_C(7)) | INFP_WIRE_PARKED, memory_order_release);
        atomic_store_explicit(&pool->parked_hint[class], i + 1, memory_order_relaxed);
}

enum {
        SLAB = 1024, /* threads a piece of memory */
        SLABS = 64,
        KEYS_WITHOUT_HEAP = 32, /* glibc takes memory from the heap for values of later keys */
        REAP_STARTS = 64,       /* of so many threads a reap reads when they started */
};
#define REAP_NS UINT64_C(10000000000)

static struct infp_writer_thread *_Atomic slabs[SLABS];
static _Atomic uint32_t n_threads;
static _Atomic uint64_t free_list; /* change count << 32 | index + 1 */
static pthread_key_t key;
static bool has_key;
static _Atomic uint64_t reap_at_ns;
static uint32_t reap_from; /* under reap_lock */

struct infp_writer_thread *infp_writer_thread_at(uint32_t index)
{
        struct infp_writer_thread *slab =
                index < SLAB * SLABS ? atomic_load_explicit(&slabs[index / SLAB], memory_order_acquire) : NULL;

        return slab ? slab + index % SLAB : NULL;
}

static void give_back(struct infp_writer_thread *thread)
{
        uint64_t head = atomic_load(&free_list);

        for (unsigned class = 0; class < INFP_WIRE_CLASSES; class ++)
                park(&thread->slot[class], class);
        atomic_store(&thread->tid, 0);
        do
                atomic_store(&thread->next_free, (uint32_t) head);
        while (!atomic_compare_exchange_weak(&free_list, &head, ((head >> 32) + 1) << 32 | (thread->index + 1)));
}

static void end_thread(void *value)
{
        struct infp_writer_self *self = &infp_writer_self;
        struct infp_writer_page *page = atomic_load(&infp_writer_page);

        (void) value;
        atomic_store_explicit(&self->busy, 1, memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst);
        /* In a child of fork that has not opened its own file this is the parent's. */
        if (self->thread && atomic_load(&page->epoch) && self->epoch >= infp_writer_fork_epoch())
                give_back(self->thread);
        self->thread = NULL;
        self->epoch = 0;
        infp_writer_end();
}

void infp_writer_thread_setup(void)
{
        if (pthread_key_create(&key, end_thread) != 0)
                return;
        has_key = (unsigned long) key < KEYS_WITHOUT_HEAP;
        if (!has_key)
                pthread_key_delete(key);
}

void infp_writer_thread_done(void)
{
        if (has_key)
                pthread_key_delete(key);
        has_key = false;
}

void infp_writer_thread_reset(void)
{
        atomic_store(&free_list, 0);
        atomic_store(&n_threads, 0);
}

static struct infp_writer_thread *take_free(void)
{
        uint64_t head = atomic_load(&free_list);

        while ((uint32_t) head) {
                struct infp_writer_thread *thread = infp_writer_thread_at((uint32_t) head - 1);
                uint64_t next = ((head >> 32) + 1) << 32 | atomic_load(&thread->next_free);

                if (atomic_compare_exchange_weak(&free_list, &head, next))
                        return thread;
        }
        return NULL;
}

static struct infp_writer_thread *take_next(void)
{
        uint32_t index = atomic_load(&n_threads);
        struct infp_writer_thread *expected = NULL, *slab;
        size_t bytes = SLAB * sizeof(struct infp_writer_thread);

        do {
                if (index >= SLAB * SLABS)
                        return NULL;
                if (atomic_load(&slabs[index / SLAB]))
                        continue;
                slab = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                if (slab == MAP_FAILED)
                        return NULL;
                expected = NULL;
                if (!atomic_compare_exchange_strong(&slabs[index / SLAB], &expected, slab))
                        munmap(slab, bytes);
        } while (!atomic_compare_exchange_weak(&n_threads, &index, index + 1));
        slab = infp_writer_thread_at(index);
        slab->index = index;
        return slab;
}

struct infp_writer_thread *infp_writer_thread_new(void)
{
        struct infp_writer_thread *thread = take_free();
        uint32_t serial;

        if (!thread && !(thread = take_next()))
                return NULL;
        for (unsigned class = 0; class < INFP_WIRE_CLASSES; class ++)
                thread->slot[class] = (struct infp_writer_slot){ .used = INFP_WRITER_ROOM };
        memset(thread->own, 0, sizeof thread->own);
        serial = atomic_fetch_add(&infp_writer_file.head->n_threads, 1);
        thread->next_id = infp_writer_file.salt + ((uint64_t) serial << 32) + 1;
        thread->begin_ns = infp_writer_now_ns();
        atomic_store(&thread->tid, (uint32_t) syscall(SYS_gettid));
        if (has_key)
                pthread_setspecific(key, thread);
        return thread;
}

/* Whether the thread that runs under this tid is another one, which began after ours had written its first record. */
static bool is_another(const struct infp_writer_thread *thread, uint32_t tid)
{
        char path[64];
        struct timespec boot, mono;
        size_t at = infp_ring_append(path, sizeof path, 0, "/proc/self/task/");
        uint64_t ticks, begin_ns;

        at = infp_ring_append_number(path, sizeof path, at, tid);
        infp_ring_append(path, sizeof path, at, "/stat");
        ticks = infp_writer_start_ticks(path);
        clock_gettime(CLOCK_BOOTTIME, &boot);
        clock_gettime(CLOCK_MONOTONIC, &mono);
        begin_ns = thread->begin_ns + (uint64_t) (boot.tv_sec - mono.tv_sec) * 1000000000 +
                   (uint64_t) (boot.tv_nsec - mono.tv_nsec);
        return ticks > begin_ns / (1000000000 / (uint64_t) sysconf(_SC_CLK_TCK)) + 1;
}

/* Threads that ended without their destructors (a bare exit of the thread, keys all taken). */
static void reap(uint64_t now_ns)
{
        struct infp_writer_page *page = atomic_load(&infp_writer_page);
        uint32_t n = atomic_load(&n_threads), starts = 0;
        pid_t pid = getpid();

        if (now_ns < atomic_load(&reap_at_ns) || !infp_writer_try_lock(&page->reap_lock, 1))
                return;
        atomic_store(&reap_at_ns, now_ns + REAP_NS);
        for (uint32_t i = 0; i < n; i++) {
                struct infp_writer_thread *thread = infp_writer_thread_at((reap_from + i) % n);
                uint32_t tid = atomic_load(&thread->tid);
                bool is_gone;

                if (!tid || thread == infp_writer_self.thread)
                        continue;
                is_gone = syscall(SYS_tgkill, pid, tid, 0) < 0 && errno == ESRCH;
                if (!is_gone && starts < REAP_STARTS) {
                        is_gone = is_another(thread, tid);
                        if (++starts == REAP_STARTS)
                                reap_from = (reap_from + i) % n;
                }
                if (is_gone && atomic_load(&thread->tid) == tid)
                        give_back(thread);
        }
        infp_writer_unlock(&page->reap_lock);
}

/* For a consumer that will read more, and for threads, when half of the pool is held by living ones. Before the last fresh chunk
 * is gone, since who comes while the file grows finds nothing. */
static void grow(uint64_t now_ns)
{
        struct infp_writer_file *file = &infp_writer_file;
        uint32_t n_chunks = atomic_load_explicit(&file->n_chunks, memory_order_relaxed);
        bool is_held = atomic_load_explicit(&pool->n_active, memory_order_relaxed) * 2 >= n_chunks;

        if ((is_held || atomic_load_explicit(&pool->n_fresh, memory_order_relaxed) + GROW_EARLY >= n_chunks) &&
            n_chunks < infp_writer_chunk_limit(file, is_held, now_ns))
                infp_writer_grow(file, is_held, now_ns);
}

/* Half of the chunks, or seven eighths. */
static bool has_room_to_stay(uint32_t n_chunks)
{
        return atomic_load_explicit(&pool->n_stay, memory_order_relaxed) * 8 <
               n_chunks * (infp_writer_heap_mean == INFP_WIRE_HEAP_EXACT ? 7 : 4);
}

/* For more the file has to grow. */
static bool may_stay(uint64_t now_ns)
{
        grow(now_ns);
        return has_room_to_stay(atomic_load_explicit(&infp_writer_file.n_chunks, memory_order_relaxed));
}

bool infp_writer_is_full(void)
{
        return !has_room_to_stay(infp_writer_file.max_chunks);
}

static struct infp_wire_chunk *find(enum infp_wire_class class, uint32_t tid, uint64_t now_ns)
{
        struct infp_wire_chunk *chunk = adopt_any(class, tid);

        if (!chunk && class == INFP_WIRE_STAY && !may_stay(now_ns))
                return NULL;
        if (!chunk)
                chunk = take_drained(class, FEW_LOOKS, tid, now_ns);
        if (!chunk) {
                grow(now_ns);
                chunk = take_fresh(class, tid, now_ns);
        }
        if (!chunk)
                chunk = take_drained(class, MANY_LOOKS, tid, now_ns);
        if (!chunk)
                chunk = evict(class, tid, now_ns);
        /* Asking who lives takes system calls, which a sandbox may punish: only where something may be gained. */
        if (!chunk && atomic_load_explicit(&pool->n_active, memory_order_relaxed) * HELD_SHARE >=
                              atomic_load_explicit(&infp_writer_file.n_chunks, memory_order_relaxed)) {
                reap(now_ns);
                chunk = adopt_any(class, tid);
        }
        return chunk;
}

bool infp_writer_claim(struct infp_writer_thread *thread, enum infp_wire_class class, uint32_t size, uint64_t now_ns)
{
        struct infp_writer_slot *slot = &thread->slot[class];
        struct infp_writer_quiet quiet;
        struct infp_wire_chunk *chunk;

        if (slot->chunk) {
                seal(slot->chunk, class);
                slot->chunk = NULL;
                slot->used = INFP_WRITER_ROOM;
        }
        for (;;) {
                uint32_t n_chunks = atomic_load_explicit(&infp_writer_file.n_chunks, memory_order_relaxed);

                if (now_ns < atomic_load_explicit(&pool->full_until_ns[class], memory_order_relaxed))
                        return false;
                quiet = infp_writer_quiet_begin();
                chunk = find(class, atomic_load_explicit(&thread->tid, memory_order_relaxed), now_ns);
                infp_writer_quiet_end(quiet);
                if (!chunk && (infp_writer_is_growing() || /* in another thread: now or soon there is room */
                               n_chunks != atomic_load(&infp_writer_file.n_chunks)))
                        return false;
                if (!chunk) {
                        atomic_store_explicit(&pool->full_until_ns[class], now_ns + FULL_NS, memory_order_relaxed);
                        return false;
                }
                atomic_fetch_add_explicit(&pool->n_active, 1, memory_order_relaxed);
                slot->chunk = chunk;
                slot->used = atomic_load_explicit(&chunk->used, memory_order_relaxed);
                /* The file is memory that others of this user can write too. */
                if (slot->used % 8 == 0 && slot->used <= INFP_WRITER_ROOM && slot->used + size <= INFP_WRITER_ROOM)
                        return true;
                /* Adopted, and too full for what is to come. */
                seal(chunk, class);
                slot->chunk = NULL;
                slot->used = INFP_WRITER_ROOM;
        }
}
