#include "agent/heap/exact.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "agent/core/area.h"
#include "agent/core/machine.h"
#include "agent/core/stack.h"
#include "agent/core/tables.h"
#include "agent/heap/blocks.h"
#include "agent/heap/heap_parts.h"
#include "ring/writer.h"

enum {
        LANES = 4, /* sites of a stack, so that threads do not write to the same cache line all the time */
        PLACES = 1 << INFP_BLOCK_SITE_BITS,
        MOST_SITES = 1 << 18,
        MANY_SITES = 4096,
        TURNS = 4096,   /* blocks of a thread until it looks whether anybody reads */
        YIELDS = 10000, /* for a work area: as often the others have the CPU first, then each time for a millisecond */
        NAPS = 1000,
        NEAR = 8,        /* a lane keeps to itself changes of 1/256 of all bytes in use */
        STEP = 6,        /* the peak is looked at when it has grown by 1/64 */
        STEP_OF_MANY = 5 /* or 1/32 */
};
#define WAIT_NS UINT64_C(3000000000)     /* for unwind tables */
#define STOPPED_NS UINT64_C(60000000000) /* a recorder that has not read for so long will not */
#define GONE_NS UINT64_C(5000000000)     /* nor one that is not there; it may be in another pid namespace */
#define YOUNG (UINT64_C(1) << INFP_BLOCK_SITE_BITS)

/* A child of fork has zeros, also of a fork that libc does not make: its sums are its own. */
struct sums {
        struct {
                _Alignas(64) _Atomic int64_t change; /* of bytes in use, that is not in them yet */
        } lanes[LANES];
        _Alignas(64) _Atomic int64_t in_use; /* but for at most 1/256 a lane */
        _Atomic int64_t look_at;             /* at so many bytes in use the peak is looked at again */
        _Atomic uint32_t is_looking, is_aging;
        _Atomic uint64_t aged; /* head->heap_window when ages were added up */
        _Atomic uint32_t n_sites;
        _Atomic uint32_t sites[MOST_SITES];
        _Atomic uint32_t site_of[LANES][PLACES]; /* by place of the stack */
};
static struct sums *sums;
static struct infp_preload_heap *hooks;
static bool has_python;
static int32_t recorder;
static char recorder_stat[32];
static _Thread_local struct {
        uint32_t lane, n;
} own __attribute__((tls_model("initial-exec")));

static void add(_Atomic uint64_t *to, uint64_t by)
{
        atomic_fetch_add_explicit(to, by, memory_order_relaxed);
}

static uint64_t value(const _Atomic uint64_t *of)
{
        return atomic_load_explicit(of, memory_order_relaxed);
}

static uint64_t in_use(const struct infp_wire_site *site)
{
        const uint64_t freed = value(&site->freed), allocated = value(&site->allocated);

        return allocated > freed ? allocated - freed : 0;
}

static uint32_t window_of(const struct infp_wire_head *head)
{
        return (uint32_t) value(&head->heap_window);
}

/* ---- the peak ---- */

static void look_at_peak(struct infp_wire_head *head, int64_t total)
{
        const uint32_t n = atomic_load(&sums->n_sites);

        if (atomic_exchange(&sums->is_looking, 1))
                return;
        add(&head->heap_looks, 1);
        for (uint32_t i = 0; i < n && i < MOST_SITES; i++) {
                const uint32_t place = atomic_load_explicit(&sums->sites[i], memory_order_acquire);
                struct infp_wire_site *site = infp_writer_site_at(place);
                uint64_t blocks;

                if (!place)
                        continue;
                blocks = value(&site->allocations) - value(&site->frees);
                atomic_store_explicit(&site->peak, in_use(site), memory_order_relaxed);
                atomic_store_explicit(&site->peak_blocks, blocks < INT64_MAX ? blocks : 0, memory_order_relaxed);
        }
        atomic_store(&head->heap_peak, (uint64_t) total);
        atomic_store(&head->heap_peak_ns, infp_writer_now_ns());
        add(&head->heap_looks, 1);
        atomic_store(&sums->look_at, total + (total >> (n > MANY_SITES ? STEP_OF_MANY : STEP)));
        atomic_store(&sums->is_looking, 0);
}

static void change(struct infp_wire_head *head, int64_t by)
{
        _Atomic int64_t *lane = &sums->lanes[own.lane].change;
        const int64_t kept = atomic_fetch_add_explicit(lane, by, memory_order_relaxed) + by,
                      near = atomic_load_explicit(&sums->in_use, memory_order_relaxed) >> NEAR;
        int64_t all, total;

        if (kept <= near && -kept <= near)
                return;
        all = atomic_exchange_explicit(lane, 0, memory_order_relaxed);
        total = atomic_fetch_add_explicit(&sums->in_use, all, memory_order_relaxed) + all;
        if (total > atomic_load_explicit(&sums->look_at, memory_order_relaxed))
                look_at_peak(head, total);
}

/* ---- ages ---- */

static void add_age(const struct infp_block *block, void *context)
{
        const uint64_t *window = context;
        struct infp_wire_site *site = infp_writer_site_at(block->site);

        if (block->window < *window >> 32)
                add(&site->old, block->size);
        if (block->window < value(&site->oldest))
                atomic_store_explicit(&site->oldest, block->window, memory_order_relaxed);
}

/* When a window has begun. */
static void __attribute__((noinline, cold)) add_ages(struct infp_wire_head *head, uint64_t window)
{
        const uint32_t n = atomic_load(&sums->n_sites);

        if (atomic_exchange(&sums->is_aging, 1))
                return;
        atomic_store(&sums->aged, window);
        for (uint32_t i = 0; i < n && i < MOST_SITES; i++) {
                const uint32_t place = atomic_load_explicit(&sums->sites[i], memory_order_acquire);

                if (!place)
                        continue;
                atomic_store_explicit(&infp_writer_site_at(place)->old, 0, memory_order_relaxed);
                atomic_store_explicit(&infp_writer_site_at(place)->oldest, UINT64_MAX, memory_order_relaxed);
        }
        infp_agent_blocks_each(add_age, &window);
        atomic_store(&head->heap_aged, (uint32_t) window);
        atomic_store(&sums->is_aging, 0);
}

static void look_for_window(struct infp_wire_head *head)
{
        const uint64_t window = value(&head->heap_window);

        if (__builtin_expect(window != value(&sums->aged), 0))
                add_ages(head, window);
}

/* ---- sites ---- */

/* Its place; 0: there is no room. When two threads make the same at once, both stay. */
static uint32_t new_site(struct infp_writer_thread *thread, uint32_t stack)
{
        const uint32_t place = atomic_load(&sums->n_sites) < MOST_SITES ? infp_writer_site(thread, stack) : 0;
        uint32_t n;

        if (!place)
                return 0;
        n = atomic_fetch_add(&sums->n_sites, 1);
        if (n >= MOST_SITES)
                return 0;
        atomic_store_explicit(&sums->sites[n], place, memory_order_release);
        return place;
}

/* stack 0: all that found no room, which has one of its own from the begin. */
static uint32_t site_of(struct infp_writer_thread *thread, uint32_t stack)
{
        _Atomic uint32_t *at = &sums->site_of[stack ? own.lane : 0][stack];
        uint32_t place = atomic_load_explicit(at, memory_order_relaxed);

        if (__builtin_expect(place != 0, 1))
                return place;
        place = new_site(thread, stack);
        if (!place && stack)
                return site_of(thread, 0); /* this time: the file may grow */
        if (place)
                atomic_store_explicit(at, place, memory_order_relaxed);
        return place;
}

/* ---- blocks ---- */

static uint64_t handle_of(const struct infp_block *block, const struct infp_wire_head *head)
{
        return block->size << (INFP_BLOCK_SITE_BITS + 1) | block->site | (block->window == window_of(head) ? YOUNG : 0);
}

struct call {
        uint64_t registers[INFP_N_REGISTERS];
        uint64_t address, size;
        bool is_counted;
};

static uint32_t stack_of(struct infp_agent_stack *stack, struct infp_writer_thread *thread, const struct call *call)
{
        struct infp_agent_moment *moment = &stack->moment;
        struct infp_agent_walk walked;

        moment->flags = 0;
        moment->may_recur = true;
        memcpy(moment->registers, call->registers, sizeof(moment->registers));
        walked = infp_agent_stack_walk(stack, moment, true);
        moment->n_python = has_python ? infp_agent_python_frames(&stack->python, thread, walked.is_python,
                                                                 moment->python, &moment->flags)
                                      : 0;
        if (walked.is_unmapped)
                add(&infp_writer_head()->sampler_unmapped, 1);
        return infp_agent_heap_stack(stack, moment, &walked, thread);
}

static void __attribute__((noinline, cold)) look_for_reader(struct infp_wire_head *head);

static void count(uint32_t its_site, struct call *call)
{
        struct infp_wire_head *head = infp_writer_head();
        struct infp_block block = { .size = call->size, .site = its_site, .window = window_of(head) };
        struct infp_wire_site *site;
        struct infp_block old;
        bool is_put;

        if (!block.site)
                return;
        is_put = infp_agent_blocks_put(call->address, &block, &old);
        if (old.site)
                infp_agent_exact_freed(handle_of(&old, head));
        if (!is_put)
                return;
        call->is_counted = true;
        site = infp_writer_site_at(block.site);
        add(&site->allocated, call->size);
        add(&site->allocations, 1);
        change(head, (int64_t) call->size);
        if (own.n % TURNS == 0)
                look_for_reader(head);
}

static void work(void *memory, void *context)
{
        struct infp_writer_thread *thread = infp_writer_begin();

        if (!thread)
                return;
        own.lane = thread->index % LANES;
        look_for_window(infp_writer_head());
        infp_agent_heap_look_for_tables(infp_writer_head());
        count(site_of(thread, stack_of(memory, thread, context)), context);
        infp_writer_end();
}

/* All areas are taken where many threads allocate and have no CPU: they go on soon. Where they do not (each was left by longjmp) it is enough
 * to wait once. */
static void __attribute__((noinline, cold)) wait_for_area(struct call *call)
{
        static _Atomic bool is_stuck;
        const struct timespec nap = { .tv_nsec = 1000000 };

        for (unsigned i = 0; i < YIELDS + NAPS && !atomic_load(&is_stuck); i++) {
                if (i < YIELDS)
                        sched_yield();
                else
                        nanosleep(&nap, NULL);
                if (infp_agent_area_work(work, call))
                        return;
        }
        atomic_store(&is_stuck, true);
}

__attribute__((noinline)) int64_t infp_agent_exact_allocated(uint64_t address, uint64_t size)
{
        const int error = errno;
        struct call call = { .address = address, .size = size };
        uint64_t missed;
        int cancel_state;

        infp_agent_registers_here(call.registers);
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
        if (!infp_agent_area_work(work, &call))
                wait_for_area(&call);
        pthread_setcancelstate(cancel_state, NULL);
        missed = !call.is_counted;
        if (__builtin_expect(atomic_load_explicit(&hooks->nested, memory_order_relaxed) != 0, 0))
                missed += atomic_exchange(&hooks->nested, 0);
        if (missed && infp_writer_head())
                add(&infp_writer_head()->heap_missed, missed);
        errno = error;
        own.n++;
        return -1;
}

uint64_t infp_agent_exact_taken(uint64_t address)
{
        struct infp_block block;

        if (!infp_agent_blocks_take(address, &block))
                return 0;
        return handle_of(&block, infp_writer_head());
}

static void lower(struct infp_wire_site *site, uint32_t window)
{
        const uint64_t most = (UINT64_C(1) << INFP_WIRE_HEAP_LOW) - 1, low = value(&site->low), now = in_use(site);

        if (low >> INFP_WIRE_HEAP_LOW != window || now < (low & most))
                atomic_store_explicit(&site->low, (uint64_t) window << INFP_WIRE_HEAP_LOW | (now < most ? now : most),
                                      memory_order_relaxed);
}

void infp_agent_exact_freed(uint64_t id)
{
        struct infp_wire_head *head = infp_writer_head();
        struct infp_wire_site *site = infp_writer_site_at(id & (YOUNG - 1));
        const uint64_t size = id >> (INFP_BLOCK_SITE_BITS + 1);

        look_for_window(head);
        add(&site->freed, size);
        add(&site->frees, 1);
        if (id & YOUNG)
                add(&site->temporary, size);
        lower(site, window_of(head));
        change(head, -(int64_t) size);
}

void infp_agent_exact_kept(uint64_t address, uint64_t id)
{
        const uint32_t window = window_of(infp_writer_head());
        const struct infp_block block = { .size = id >> (INFP_BLOCK_SITE_BITS + 1),
                                          .site = id & (YOUNG - 1),
                                          .window = id & YOUNG || !window ? window : window - 1 };

        struct infp_block old;

        if (!infp_agent_blocks_put(address, &block, &old))
                infp_agent_exact_freed(id);
}

/* ---- begin, again in a child, and end ---- */

static int64_t allocated(uint64_t address, uint64_t size, int64_t left, bool is_new)
{
        (void) left;
        (void) is_new;
        return infp_agent_exact_allocated(address, size);
}

static int64_t left_out(uint64_t address, uint64_t size, int64_t left, bool is_new)
{
        (void) address;
        (void) size;
        (void) left;
        (void) is_new;
        return INT64_MAX / 2;
}

static uint64_t none_taken(uint64_t address)
{
        (void) address;
        return 0;
}

/* As many blocks there may be in each place, of all that are freed: 0 or the most, which stays. */
static void ask_for(uint8_t most)
{
        for (unsigned i = 0; i < INFP_HEAP_PAGES; i++)
                atomic_store_explicit(&hooks->pages[i], most, memory_order_relaxed);
        for (unsigned i = 0; i < INFP_HEAP_FILTER; i++)
                atomic_store_explicit(&hooks->filter[i], most, memory_order_relaxed);
}

/* 'Z', 'T' and the like, as in /proc; 0: not known. */
static char state_of_recorder(void)
{
        const int file = open(recorder_stat, O_RDONLY | O_CLOEXEC);
        char text[256] = ""; /* the name is at most 16 bytes of it, and may have a parenthesis */
        const char *end;

        if (file < 0)
                return 0;
        if (read(file, text, sizeof(text) - 1) < 0)
                text[0] = 0;
        close(file);
        end = strrchr(text, ')');
        return end && end[1] ? end[2] : 0;
}

/* One that was killed is still there as long as nobody waits for it. */
static bool is_recorder_there(void)
{
        return (kill(recorder, 0) == 0 || errno != ESRCH) && state_of_recorder() != 'Z';
}

/* Without a reader it would cost its time and memory for nothing. */
static void look_for_reader(struct infp_wire_head *head)
{
        const uint64_t seen_ns = value(&head->consumer_seen_ns), since_ns = seen_ns ? seen_ns : head->created_ns;

        if (since_ns + GONE_NS > infp_writer_now_ns() ||
            (since_ns + STOPPED_NS > infp_writer_now_ns() && is_recorder_there()))
                return;
        atomic_store(&head->heap_state, INFP_WIRE_HEAP_LEFT);
        atomic_store(&hooks->allocated, left_out);
        atomic_store(&hooks->taken, none_taken);
        ask_for(0);
        infp_agent_blocks_reset();
}

void infp_agent_exact_forked(void)
{
        madvise((void *) sums, sizeof(*sums), MADV_DONTNEED);
        infp_agent_blocks_reset();
        atomic_store(&hooks->nested, 0);
}

/* A program whose first blocks have no stacks would not be told exactly: it waits, once, before its own code runs. */
static void wait_for_tables(void)
{
        const struct timespec pause = { .tv_nsec = 1000000 };
        const uint64_t until_ns = infp_writer_now_ns() + WAIT_NS;
        struct infp_writer_thread *thread = infp_writer_begin();

        if (!thread)
                return;
        for (;;) {
                infp_agent_heap_look_for_tables(infp_writer_head());
                if (infp_agent_tables_number() || !is_recorder_there() || state_of_recorder() == 'T' ||
                    infp_writer_now_ns() > until_ns)
                        break;
                nanosleep(&pause, NULL);
        }
        site_of(thread, 0);
        atomic_store(&infp_writer_head()->heap_state, INFP_WIRE_HEAP_RUNS);
        infp_writer_end();
}

bool infp_agent_exact_begin(struct infp_preload_heap *given, int32_t its_recorder, bool with_python)
{
        void *memory =
                mmap(NULL, sizeof(*sums), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (memory == MAP_FAILED || infp_agent_blocks_make() < 0)
                return false;
        madvise(memory, sizeof(*sums), MADV_NOHUGEPAGE);
        madvise(memory, sizeof(*sums), MADV_WIPEONFORK);
        sums = memory;
        hooks = given;
        recorder = its_recorder;
        snprintf(recorder_stat, sizeof(recorder_stat), "/proc/%" PRIi32 "/stat", recorder);
        has_python = with_python;
        wait_for_tables();
        atomic_store(&hooks->nested, 0);
        ask_for(UINT8_MAX);
        atomic_store(&hooks->kept, infp_agent_exact_kept);
        atomic_store(&hooks->freed, infp_agent_exact_freed);
        atomic_store(&hooks->taken, infp_agent_exact_taken);
        atomic_store(&hooks->allocated, allocated);
        hooks->heard();
        return true;
}
