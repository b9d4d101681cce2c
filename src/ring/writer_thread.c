#include "ring/writer_parts.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

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
                infp_writer_park(&thread->slot[class], class);
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
        size_t at = infp_writer_append(path, sizeof path, 0, "/proc/self/task/");
        uint64_t ticks, begin_ns;

        at = infp_writer_number(path, sizeof path, at, tid);
        infp_writer_append(path, sizeof path, at, "/stat");
        ticks = infp_writer_start_ticks(path);
        clock_gettime(CLOCK_BOOTTIME, &boot);
        clock_gettime(CLOCK_MONOTONIC, &mono);
        begin_ns = thread->begin_ns + (uint64_t) (boot.tv_sec - mono.tv_sec) * 1000000000 +
                   (uint64_t) (boot.tv_nsec - mono.tv_nsec);
        return ticks > begin_ns / (1000000000 / (uint64_t) sysconf(_SC_CLK_TCK)) + 1;
}

/* Threads that ended without their destructors (a bare exit of the thread, keys all taken). */
void infp_writer_reap(uint64_t now_ns)
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
