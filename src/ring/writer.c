#include "ring/writer_parts.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ring/where.h"

enum {
        RETRY_CALLS = 1024, /* a full disk costs a clock only each so many calls */
        WAIT_STEPS = 400,   /* 20 ms at least; a step takes as long as the kernel's timers are slow */
};
#define RETRY_FIRST_NS UINT64_C(30000000000)
#define RETRY_MAX_NS UINT64_C(600000000000)

static struct infp_writer_page no_page; /* epoch 0, for ever */

_Atomic uint32_t infp_writer_state;
struct infp_writer_page *_Atomic infp_writer_page = &no_page;
_Thread_local struct infp_writer_self infp_writer_self __attribute__((tls_model("initial-exec")));
struct infp_writer_config infp_writer_config;
struct infp_writer_file infp_writer_file;

static _Atomic uint32_t last_epoch;
static uint32_t fork_epoch; /* the first of this file */
static _Atomic uint64_t retry_at_ns, retry_after_ns;
static _Atomic uint32_t skipped_calls; /* while there was no room for a file */
static _Atomic uint64_t missed_calls;  /* while another thread made the file: counted in it when it is there */

uint32_t infp_writer_fork_epoch(void)
{
        return fork_epoch;
}

uint32_t infp_writer_file_number(void)
{
        return fork_epoch;
}

struct infp_wire_head *infp_writer_head(void)
{
        return infp_writer_file.head;
}

bool infp_writer_try_lock(_Atomic uint32_t *lock, unsigned tries)
{
        do {
                uint32_t is_free = 0;

                if (atomic_compare_exchange_weak_explicit(lock, &is_free, 1, memory_order_acquire,
                                                          memory_order_relaxed))
                        return true;
#if defined(__x86_64__) || defined(__i386__)
                __builtin_ia32_pause();
#endif
        } while (tries-- > 1);
        return false;
}

static const struct timespec pause_time = { .tv_nsec = 50000 };

bool infp_writer_wait_lock(_Atomic uint32_t *lock)
{
        for (unsigned i = 0; i < WAIT_STEPS; i++) {
                if (infp_writer_try_lock(lock, 100))
                        return true;
                nanosleep(&pause_time, NULL);
        }
        return false;
}

/* Where the kernel does not know MADV_WIPEONFORK (before 4.14), for programs that fork by libc. */
static void wipe(void)
{
        memset((void *) atomic_load(&infp_writer_page), 0, sizeof(struct infp_writer_page));
}

int infp_writer_make_page(void)
{
        struct infp_writer_page *expected = &no_page;
        void *page;

        if (atomic_load(&infp_writer_page) != &no_page)
                return 0;
        page = mmap(NULL, INFP_WIRE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED)
                return -ENOMEM;
        if (!atomic_compare_exchange_strong(&infp_writer_page, &expected, page))
                munmap(page, INFP_WIRE_PAGE);
        else if (madvise(page, INFP_WIRE_PAGE, MADV_WIPEONFORK) < 0)
                pthread_atfork(NULL, NULL, wipe);
        return 0;
}

static void wait_to_retry(void)
{
        uint64_t after = atomic_load(&retry_after_ns);

        after = after ? after * 2 : RETRY_FIRST_NS;
        after = after < RETRY_MAX_NS ? after : RETRY_MAX_NS;
        atomic_store(&retry_after_ns, after);
        atomic_store(&retry_at_ns, infp_writer_now_ns() + after);
}

static int open_locked(struct infp_writer_page *page)
{
        static struct infp_writer_file old, file; /* not on the stack, which may be a handler's */
        int r;

        if (atomic_load_explicit(&page->epoch, memory_order_acquire))
                return 0;
        old = infp_writer_file;
        r = infp_writer_make_file(&file);
        if (r < 0)
                return r;
        r = infp_writer_pool_reset();
        if (r == 0 && !infp_writer_wait_lock(&page->metric_lock))
                r = -EAGAIN;
        if (r < 0) {
                infp_writer_unlink(&file);
                infp_writer_unmap(&file);
                return r;
        }
        infp_writer_unmap(&old); /* the parent's */
        infp_writer_file = file;
        infp_writer_thread_reset();
        infp_writer_metric_all();
        infp_writer_settings_all();
        fork_epoch = atomic_fetch_add(&last_epoch, 1) + 1;
        infp_writer_add(&file.head->dropped_busy, atomic_exchange(&missed_calls, 0));
        infp_writer_add(&file.head->dropped_full, atomic_exchange(&skipped_calls, 0));
        atomic_store_explicit(&page->epoch, fork_epoch, memory_order_release);
        infp_writer_unlock(&page->metric_lock);
        return 0;
}

/* Makes the file of this process when it has none. -EBUSY: another thread does. */
static int open_file(void)
{
        struct infp_writer_page *page;
        int r = infp_writer_make_page();
        sigset_t before;

        if (r < 0)
                return r;
        page = atomic_load(&infp_writer_page);
        infp_writer_block_signals(&before);
        r = -EBUSY;
        if (infp_writer_try_lock(&page->opening, 1)) {
                r = open_locked(page);
                infp_writer_unlock(&page->opening);
        }
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return r;
}

/* The very first calls of several threads at once: one makes the file, which takes less than a millisecond, and the others wait
 * for it that one time, with an end. */
static uint32_t wait_for_file(void)
{
        struct infp_writer_page *page = atomic_load(&infp_writer_page);
        uint32_t epoch = 0;

        for (unsigned i = 0; i < WAIT_STEPS && !epoch && atomic_load(&page->opening); i++) {
                nanosleep(&pause_time, NULL);
                epoch = atomic_load(&page->epoch);
        }
        return epoch ? epoch : atomic_load(&page->epoch);
}

static struct infp_writer_thread *begin_anew(struct infp_writer_self *self)
{
        uint32_t state, epoch;

        infp_writer_settings_look();
        state = atomic_load(&infp_writer_state);
        epoch = atomic_load(&atomic_load(&infp_writer_page)->epoch);
        if (state == INFP_WRITER_OFF)
                return NULL;
        if (!epoch) { /* a child of one that is paused has a file, too: else nothing could be asked of it */
                uint64_t at = atomic_load(&retry_at_ns);
                int r;

                if (at && (atomic_fetch_add(&skipped_calls, 1) % RETRY_CALLS || infp_writer_now_ns() < at))
                        return NULL;
                r = open_file();
                if (r == -EBUSY && !wait_for_file()) {
                        infp_writer_add(&missed_calls, 1);
                        return NULL;
                }
                if (r < 0 && r != -EBUSY) {
                        atomic_fetch_add(&skipped_calls, 1);
                        wait_to_retry();
                        if (state != INFP_WRITER_PAUSED)
                                atomic_compare_exchange_strong(&infp_writer_state, &state, INFP_WRITER_DUE);
                        return NULL;
                }
                atomic_store(&retry_at_ns, 0);
                if (state != INFP_WRITER_PAUSED)
                        atomic_compare_exchange_strong(&infp_writer_state, &state, INFP_WRITER_ON);
                epoch = atomic_load(&atomic_load(&infp_writer_page)->epoch);
        }
        if (state == INFP_WRITER_PAUSED)
                return NULL;
        if (self->thread && self->epoch == epoch) /* it came to look at settings */
                return self->thread;
        if (!self->thread || self->epoch < fork_epoch)
                self->thread = infp_writer_thread_new();
        else
                memset(self->thread->own, 0, sizeof self->thread->own);
        if (!self->thread) {
                infp_writer_add(&infp_writer_file.head->dropped_full, 1);
                return NULL;
        }
        self->epoch = epoch;
        return self->thread;
}

/* The first call of all, of a thread, of a child, after enable; while a setting has stopped recording; when settings were asked for. */
struct infp_writer_thread *infp_writer_begin_anew(void)
{
        struct infp_writer_quiet quiet = infp_writer_quiet_begin();
        struct infp_writer_thread *thread = begin_anew(&infp_writer_self);

        infp_writer_quiet_end(quiet);
        if (!thread)
                infp_writer_end();
        return thread;
}

void infp_writer_count_busy(void)
{
        if (!infp_writer_is_off() && atomic_load(&atomic_load(&infp_writer_page)->epoch))
                infp_writer_add(&infp_writer_file.head->dropped_busy, 1);
}

/* What threads think to be their open spans was maybe ended in the meantime. */
static void begin_epoch(struct infp_writer_page *page, uint32_t from)
{
        atomic_compare_exchange_strong(&page->epoch, &from, atomic_fetch_add(&last_epoch, 1) + 1);
}

bool infp_writer_pause(bool is_paused)
{
        const uint32_t to = is_paused ? INFP_WRITER_PAUSED : INFP_WRITER_ON;
        struct infp_writer_page *page = atomic_load(&infp_writer_page);
        uint32_t state = is_paused ? INFP_WRITER_ON : INFP_WRITER_PAUSED;

        if (!atomic_compare_exchange_strong(&infp_writer_state, &state, to))
                return state == to;
        if (is_paused)
                begin_epoch(page, atomic_load(&page->epoch));
        return true;
}

int infp_writer_enable(void)
{
        struct infp_writer_quiet quiet;
        struct infp_writer_page *page;
        int r;

        if (atomic_load(&infp_writer_state) == INFP_WRITER_ON && atomic_load(&atomic_load(&infp_writer_page)->epoch))
                return 0;
        if (atomic_exchange_explicit(&infp_writer_self.busy, 1, memory_order_relaxed))
                return -EBUSY;
        quiet = infp_writer_quiet_begin();
        r = open_file();
        if (r == -EBUSY && wait_for_file())
                r = 0;
        page = atomic_load(&infp_writer_page);
        if (r == 0) {
                uint32_t epoch = atomic_load(&page->epoch);

                atomic_store(&retry_at_ns, 0);
                if (epoch && atomic_load(&infp_writer_state) == INFP_WRITER_OFF)
                        begin_epoch(page, epoch);
                atomic_store(&infp_writer_state, INFP_WRITER_ON);
                infp_writer_settings_switch(true);
        }
        infp_writer_quiet_end(quiet);
        infp_writer_end();
        return r;
}

void infp_writer_remove(void)
{
        if (atomic_load(&atomic_load(&infp_writer_page)->epoch))
                infp_writer_unlink(&infp_writer_file);
}

void infp_writer_disable(void)
{
        atomic_store(&infp_writer_state, INFP_WRITER_OFF);
        infp_writer_settings_switch(false);
}

bool infp_writer_is_on(void)
{
        uint32_t state = atomic_load_explicit(&infp_writer_state, memory_order_relaxed);

        /* Programs that ask before they call would not see that they are to go on. */
        if (state == INFP_WRITER_PAUSED &&
            (infp_writer_is_asked() || !atomic_load(&atomic_load(&infp_writer_page)->epoch))) {
                if (infp_writer_begin())
                        infp_writer_end();
                state = atomic_load(&infp_writer_state);
        }
        return state == INFP_WRITER_ON ||
               (state == INFP_WRITER_DUE && !atomic_load_explicit(&retry_at_ns, memory_order_relaxed));
}

uint32_t infp_writer_measure(const char *text, uint32_t max, uint8_t *flags)
{
        uint32_t size = infp_writer_size(text, max);

        if (__builtin_expect(!text[size], 1))
                return size;
        *flags |= INFP_WIRE_CUT;
        infp_writer_add(&infp_writer_file.head->cut_texts, 1);
        return size;
}

/* Words are stored one by one, relaxed: a reader whose chunk is claimed anew under its hands reads nonsense, but defined. */
static void put_words(uint64_t *to, const void *from, uint32_t size)
{
        const char *at = from;

        for (uint32_t i = 0; i < size / 8; i++) {
                uint64_t word;

                memcpy(&word, at + i * 8, 8);
                __atomic_store_n(to + i, word, __ATOMIC_RELAXED);
        }
}

void infp_writer_copy(uint64_t *to, const char *text, uint32_t size)
{
        uint64_t word = 0;

        put_words(to, text, size);
        if (size % 8) {
                memcpy(&word, text + size / 8 * 8, size % 8);
                __atomic_store_n(to + size / 8, word, __ATOMIC_RELAXED);
        }
}

uint64_t *infp_writer_put(struct infp_writer_thread *thread, enum infp_wire_class class, void *record, uint32_t size,
                          const struct infp_writer_text *texts, unsigned n_texts)
{
        struct infp_wire_record *head = record;
        struct infp_writer_slot *slot = &thread->slot[class];
        uint32_t whole = infp_writer_lay(head, size, texts, n_texts), at = size;
        uint64_t *to;

        head->tid = atomic_load_explicit(&thread->tid, memory_order_relaxed);
        if (__builtin_expect(slot->used + whole > INFP_WRITER_ROOM, 0) &&
            !infp_writer_claim(thread, class, whole, infp_writer_now_ns())) { /* a row's t_ns may be long ago */
                infp_writer_add(class == INFP_WIRE_STAY ? &infp_writer_file.head->refused_stacks
                                                        : &infp_writer_file.head->dropped_full,
                                1);
                return NULL;
        }
        to = (uint64_t *) ((char *) (slot->chunk + 1) + slot->used);
        put_words(to, record, size);
        for (unsigned i = 0; i < n_texts; at += (texts[i].size + 7) & ~UINT32_C(7), i++)
                infp_writer_copy(to + at / 8, texts[i].text, texts[i].size);
        slot->used += whole;
        atomic_store_explicit(&slot->chunk->used, slot->used, memory_order_release);
        return to;
}

static void copy_variable(const char *name, char *ret, size_t cap)
{
        const char *value = secure_getenv(name);

        if (value && strlen(value) < cap)
                strcpy(ret, value);
}

static uint32_t parse_bytes(const char *text)
{
        uint64_t bytes = text ? infp_writer_parse(&text) : 0;

        if (!bytes)
                return 0;
        if (*text == 'k' || *text == 'K')
                bytes *= 1024;
        else if (*text == 'm' || *text == 'M')
                bytes *= 1024 * 1024;
        if (bytes > INFP_WIRE_MAX_BYTES)
                return INFP_WIRE_MAX_BYTES;
        return bytes < INFP_WRITER_LEAST_BYTES ? INFP_WRITER_LEAST_BYTES : (uint32_t) bytes;
}

__attribute__((constructor(101))) static void begin_program(void)
{
        const char *ring = secure_getenv(INFP_RING_ENV);

        infp_writer_thread_setup();
        copy_variable("XDG_RUNTIME_DIR", infp_writer_config.runtime_directory,
                      sizeof infp_writer_config.runtime_directory);
        copy_variable("INFPROF_RUN", infp_writer_config.run, sizeof infp_writer_config.run);
        infp_writer_config.bytes = parse_bytes(secure_getenv("INFPROF_RING_BYTES"));
        if (!ring || !ring[0] || strcmp(ring, "0") == 0)
                return;
        if (ring[0] == '/')
                copy_variable(INFP_RING_ENV, infp_writer_config.directory, sizeof infp_writer_config.directory);
        if (infp_writer_make_page() == 0)
                atomic_store(&infp_writer_state, INFP_WRITER_DUE);
}

__attribute__((destructor(101))) static void end_program(void)
{
        bool is_ours = atomic_load(&atomic_load(&infp_writer_page)->epoch) != 0; /* not the parent's */

        infp_writer_disable();
        infp_writer_thread_done();
        if (!is_ours)
                return;
        atomic_store(&infp_writer_file.head->ended, 1);
        /* Nobody has read it and nobody is to: else the recorder removes it when it has taken the rest. One of a sampler alone is empty
         * then, and programs that start long after the recording would leave one each. */
        if (!atomic_load(&infp_writer_file.head->consumer_seen_ns) &&
            !atomic_load(&infp_writer_file.head->consumer_pid) &&
            (!infp_writer_config.run[0] || (infp_writer_sampler_hz_1000 && !infp_writer_heap_mean)))
                infp_writer_unlink(&infp_writer_file);
}
