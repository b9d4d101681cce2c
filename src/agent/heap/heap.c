#include "agent/heap/heap.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/core/area.h"
#include "agent/core/machine.h"
#include "agent/core/stack.h"
#include "agent/core/tables.h"
#include "agent/heap/exact.h"
#include "agent/heap/heap_parts.h"
#include "agent/heap/maps.h"
#include "ring/writer.h"

enum {
        GIVEN = 8,   /* blocks that waited for tables, with each sample */
        TOLD = 16,   /* samples of a thread until their time is told: others write to the same cache line */
        SHARE = 50,  /* of a thread's time: where its samples take more, the distance between them doubles */
        SMALLER = 4, /* than that: it halves again */
};
#define FREE_NS UINT64_C(50000000) /* of a thread's samples are not bounded: the start of a program, or a short one */
#define MOST_NS UINT64_C(1000000)  /* of a sample: in more it had no CPU */
#define RECORDER_NS 1000           /* of a sample: what the recorder and the run do with it, about */
#define WAIT_NS UINT64_C(60000000000) /* for a recorder */
#define GONE_NS UINT64_C(5000000000)  /* a recorder that has not read for so long is stopped or dead */

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _etext[] __attribute__((visibility("hidden")));

static struct infp_preload_heap *hooks;
static uint64_t least_mean, most_mean;
static bool has_python, is_begun, is_exact;
static _Atomic uint64_t begin_ns; /* of the process, or since it was forked */
static _Thread_local struct {
        uint64_t random, ns, all_ns, begin_ns; /* begin: of the CPU time that ns are a part of; all: of all samples */
        uint64_t mean;                         /* 0: the least */
        uint64_t drawn[2]; /* means of the distances that are being used up: of malloc's blocks, of objects */
        uint32_t n;
} own __attribute__((tls_model("initial-exec")));

static uint64_t clock_ns(clockid_t clock)
{
        struct timespec now;

        clock_gettime(clock, &now);
        return (uint64_t) now.tv_sec * 1000000000 + (uint64_t) now.tv_nsec;
}

/* ---- how far it is to the next sample ---- */

/* xorshift64* (Vigna, 2016) */
static uint64_t random_bits(void)
{
        uint64_t x = own.random;

        if (!x)
                x = (infp_agent_thread_pointer() ^ clock_ns(CLOCK_MONOTONIC) * UINT64_C(0x9e3779b97f4a7c15)) | 1;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        own.random = x;
        return x * UINT64_C(0x2545f4914f6cdd1d);
}

/* Of a number above 0. By 2 atanh((m - 1) / (m + 1)) of its mantissa m, whose series ends where the rest is below 1e-11: libm is no part
 * of the agent. */
static double natural_logarithm(double x)
{
        double mantissa, z, square, term, sum;
        uint64_t bits;
        int exponent;

        memcpy(&bits, &x, sizeof(bits));
        exponent = (int) (bits >> 52 & 2047) - 1023;
        bits = (bits & ~(UINT64_C(2047) << 52)) | UINT64_C(1023) << 52;
        memcpy(&mantissa, &bits, sizeof(bits));
        if (mantissa > 1.4142135623730951) {
                mantissa /= 2;
                exponent++;
        }
        z = (mantissa - 1) / (mantissa + 1);
        square = z * z;
        term = sum = z;
        for (int i = 3; i < 17; i += 2) {
                term *= square;
                sum += term / i;
        }
        return 2 * sum + exponent * 0.69314718055994531;
}

/* Distances of a Poisson process over the bytes that are allocated. */
static int64_t draw(bool is_object)
{
        const double uniform = ((double) (random_bits() >> 11) + 0.5) * 0x1p-53;

        own.mean = own.mean ? own.mean : least_mean;
        own.drawn[is_object] = own.mean;
        return (int64_t) (-natural_logarithm(uniform) * (double) own.mean);
}

/* ---- a block ---- */

struct call {
        uint64_t registers[INFP_N_REGISTERS];
        uint64_t address, size, mean, t_ns, id; /* id: 0: it has none yet */
        uint8_t flags;
        bool is_taken;
};

static void count(_Atomic uint64_t *counter, uint64_t by)
{
        atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

static bool is_ours(uint64_t pc)
{
        return (pc >= hooks->begin && pc < hooks->end) || (pc >= (uintptr_t) __ehdr_start && pc < (uintptr_t) _etext);
}

static uint32_t intern(struct infp_agent_stack *stack, const struct infp_agent_moment *moment,
                       const struct infp_agent_walk *walked, struct infp_writer_thread *thread)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < walked->n; i++) /* Python calls malloc by way of objects.c */
                if (!is_ours(stack->native[i]))
                        stack->native[n++] = stack->native[i];
        if (n && n < walked->n)
                stack->native[0]--; /* a return address, where an instruction is expected: into the call */
        return infp_writer_stack(thread, &(struct infp_writer_stack){ .native = stack->native,
                                                                      .python = moment->python,
                                                                      .n_native = n,
                                                                      .n_python = moment->n_python,
                                                                      .epoch = (uint32_t) walked->epoch,
                                                                      .flags = moment->flags | walked->flags });
}

uint32_t infp_agent_heap_stack(struct infp_agent_stack *stack, const struct infp_agent_moment *moment,
                               const struct infp_agent_walk *walked, struct infp_writer_thread *thread)
{
        struct infp_agent_way *way = walked->way;

        if (!way || moment->n_python || moment->flags)
                return intern(stack, moment, walked, thread);
        if (!way->stack || way->file_number != infp_writer_file_number()) {
                way->stack = intern(stack, moment, walked, thread);
                way->file_number = infp_writer_file_number();
        }
        return way->stack;
}

static void put_block(struct infp_agent_stack *stack, const struct infp_agent_moment *moment,
                      const struct infp_agent_walk *walked, struct infp_writer_thread *thread)
{
        struct infp_wire_block block = {
                .record = { .kind = INFP_WIRE_BLOCK, .flags = moment->block.flags, .t_ns = moment->t_ns },
                .id = moment->block.id,
                .address = moment->block.address,
                .size = moment->block.size,
                .mean = moment->block.mean,
                .tid = moment->tid
        };
        uint64_t taken;

        block.stack = infp_agent_heap_stack(stack, moment, walked, thread);
        if (infp_writer_put(thread, INFP_WIRE_KEEP, &block, sizeof(block), NULL, 0))
                return;
        count(&infp_writer_head()->heap_missed, 1);
        if (moment->block.flags & INFP_WIRE_MAPPED)
                return;
        taken = infp_agent_live_take(moment->block.address);
        if (taken && taken != moment->block.id) /* it was freed while it was kept, and the address is another one's */
                infp_agent_heap_kept(moment->block.address, taken);
}

void infp_agent_heap_look_for_tables(struct infp_wire_head *head)
{
        const uint64_t tables = atomic_load_explicit(&head->tables, memory_order_relaxed);

        if (tables && tables != infp_agent_tables_number())
                infp_agent_tables_load(tables, head->pid, head->start_ticks);
}

/* It will be known when it is freed. */
static bool remember(const struct call *call, uint64_t id)
{
        if (call->id)
                return true;
        if (call->flags & INFP_WIRE_MAPPED)
                return infp_agent_mapped_put(call->address, call->size, id, call->mean);
        return infp_agent_live_put(call->address, id);
}

static void take_block(struct infp_agent_stack *stack, struct infp_writer_thread *thread, struct call *call)
{
        struct infp_agent_moment *moment = &stack->moment;
        struct infp_agent_walk walked;

        moment->t_ns = call->t_ns;
        moment->tid = atomic_load_explicit(&thread->tid, memory_order_relaxed);
        moment->flags = 0;
        moment->may_recur = true;
        moment->put = put_block;
        moment->block.id = call->id ? call->id : infp_writer_new_id(thread);
        moment->block.address = call->address;
        moment->block.size = call->size;
        moment->block.mean = call->mean;
        moment->block.flags = call->flags;
        memcpy(moment->registers, call->registers, sizeof(moment->registers));
        if (!remember(call, moment->block.id))
                return;
        call->is_taken = true;
        walked = infp_agent_stack_walk(stack, moment, true);
        moment->n_python = has_python ? infp_agent_python_frames(&stack->python, thread, walked.is_python,
                                                                 moment->python, &moment->flags)
                                      : 0;
        if (walked.is_unmapped)
                count(&infp_writer_head()->sampler_unmapped, 1);
        /* A child of fork has its parent's at first: it may end before it has others. */
        if ((walked.has_tables && !walked.is_unmapped) || !infp_agent_stack_keep(moment))
                put_block(stack, moment, &walked, thread);
}

/* False: nobody reads, and nobody will. */
static bool is_read(struct infp_wire_head *head, uint64_t now_ns)
{
        const uint64_t seen_ns = atomic_load(&head->consumer_seen_ns);

        return atomic_load(&head->consumer_pid) ? seen_ns + GONE_NS >= now_ns
                                                : !seen_ns && atomic_load(&begin_ns) + WAIT_NS >= now_ns;
}

/* What the samples cost is bounded, not how many there are: a program may allocate gigabytes a second. */
static void adapt(void)
{
        const uint64_t now_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID), elapsed_ns = now_ns - own.begin_ns,
                       cost_ns = own.ns + TOLD * RECORDER_NS;

        own.all_ns += cost_ns;
        if (own.begin_ns && own.all_ns > FREE_NS && cost_ns > elapsed_ns / SHARE && own.mean < most_mean)
                own.mean *= 2;
        else if (own.begin_ns && cost_ns < elapsed_ns / (SHARE * SMALLER) && own.mean > least_mean)
                own.mean /= 2;
        own.begin_ns = now_ns;
}

static void work(void *memory, void *context)
{
        struct infp_agent_stack *stack = memory;
        struct infp_writer_thread *thread = infp_writer_begin();
        struct call *call = context;
        struct infp_wire_head *head;
        uint64_t took_ns;

        if (!thread)
                return;
        call->t_ns = infp_writer_now_ns();
        head = infp_writer_head();
        if (atomic_load_explicit(&head->heap_state, memory_order_relaxed) != INFP_WIRE_HEAP_RUNS)
                atomic_store_explicit(&head->heap_state, INFP_WIRE_HEAP_RUNS, memory_order_relaxed);
        if (is_read(head, call->t_ns)) {
                infp_agent_heap_look_for_tables(head);
                take_block(stack, thread, call);
                infp_agent_moments_give(stack, thread, GIVEN, false);
        } else {
                call->is_taken = true;
        }
        took_ns = infp_writer_now_ns() - call->t_ns; /* the clock of CPU time is a system call */
        own.ns += took_ns < MOST_NS ? took_ns : MOST_NS;
        if (own.n++ % TOLD == 0) {
                count(&head->heap_own_ns, own.ns);
                adapt();
                own.ns = 0;
        }
        infp_writer_end();
}

static void take_call(struct call *call)
{
        const int error = errno;
        int cancel_state;

        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
        infp_agent_area_work(work, call);
        if (!call->is_taken && infp_writer_head())
                count(&infp_writer_head()->heap_missed, 1);
        pthread_setcancelstate(cancel_state, NULL);
        errno = error;
}

__attribute__((noinline)) int64_t infp_agent_heap_allocated(uint64_t address, uint64_t size, int64_t left, bool is_new,
                                                            uint8_t flags)
{
        const bool is_object = flags & INFP_WIRE_OBJECT;
        struct call call = { .address = address, .size = size, .flags = flags };

        if (is_exact)
                return infp_agent_exact_allocated(address, size);
        left += is_new ? draw(is_object) : 0;
        if (left >= 0) {
                if (flags & INFP_WIRE_MAPPED)
                        infp_agent_mapped_put(address, size, 0, 0);
                return left;
        }
        call.mean = own.drawn[is_object];
        infp_agent_registers_here(call.registers);
        take_call(&call);
        return draw(is_object);
}

__attribute__((noinline)) void infp_agent_heap_again(uint64_t id, uint64_t address, uint64_t size, uint64_t mean,
                                                     uint8_t flags)
{
        struct call call = { .id = id, .address = address, .size = size, .mean = mean, .flags = flags };

        infp_agent_registers_here(call.registers);
        take_call(&call);
}

static int64_t allocated(uint64_t address, uint64_t size, int64_t left, bool is_new)
{
        return infp_agent_heap_allocated(address, size, left, is_new, 0);
}

void infp_agent_heap_freed(uint64_t id)
{
        const int error = errno;
        struct infp_wire_block_end record = { .record = { .kind = INFP_WIRE_BLOCK_END }, .id = id };
        struct infp_writer_thread *thread = infp_writer_begin();
        bool is_put = false;

        if (thread) {
                record.record.t_ns = infp_writer_now_ns();
                is_put = infp_writer_put(thread, INFP_WIRE_KEEP, &record, sizeof(record), NULL, 0);
                infp_writer_end();
        }
        if (!is_put && infp_writer_head())
                count(&infp_writer_head()->heap_kept, 1);
        errno = error;
}

void infp_agent_heap_kept(uint64_t address, uint64_t id)
{
        if (!infp_agent_live_put(address, id))
                infp_agent_heap_freed(id);
}

/* ---- begin, again in a child, and end ---- */

static void forked(void)
{
        own.random = 0; /* else all children of a thread would draw the same */
        infp_agent_stacks_forked();
        infp_agent_maps_forked();
        if (is_exact)
                infp_agent_exact_forked();
        atomic_store(&begin_ns, infp_writer_now_ns());
}

static void give_last(void *memory, void *context)
{
        struct infp_writer_thread *thread = infp_writer_begin();

        (void) context;
        if (!thread)
                return;
        infp_agent_heap_look_for_tables(infp_writer_head());
        infp_agent_moments_give(memory, thread, UINT_MAX, true);
        infp_writer_end();
}

/* Of a program that ends before there are tables: its blocks without their stacks. */
__attribute__((destructor)) static void end_heap(void)
{
        const int error = errno;

        if (is_begun && infp_writer_is_on())
                infp_agent_area_work(give_last, NULL);
        errno = error;
}

/* A program with an allocator of its own, linked statically, never calls the preloaded functions. */
static bool is_called(void)
{
        const int64_t before = hooks->left();
        void *volatile block = malloc(1);

        free(block);
        return hooks->left() != before;
}

static void begin_exact(int32_t recorder)
{
        is_exact = infp_agent_exact_begin(hooks, recorder, has_python);
        if (!is_exact) {
                if (infp_writer_enable() == 0)
                        atomic_store(&infp_writer_head()->heap_state, INFP_WIRE_HEAP_FULL);
                return;
        }
        hooks->busy(true); /* else texts of dlerror were blocks of the program */
        pthread_atfork(NULL, NULL, forked);
        infp_agent_allocators_begin(hooks);
        if (has_python)
                infp_agent_heap_objects_begin(hooks, infp_agent_python_is_free_threaded());
        hooks->busy(false);
}

void infp_agent_heap_announce(uint64_t least)
{
        hooks = dlsym(RTLD_DEFAULT, INFP_PRELOAD_HEAP);
        if (INFP_AGENT_IS_SUPPORTED && hooks)
                infp_writer_heap_mean = least;
}

void infp_agent_heap_begin(uint64_t least, uint64_t most, const char *tables)
{
        uint32_t version;

        infp_agent_heap_announce(least);
        if (!infp_writer_heap_mean)
                return;
        least_mean = least;
        most_mean = most;
        if (!is_called()) {
                if (infp_writer_enable() == 0)
                        atomic_store(&infp_writer_head()->heap_state, INFP_WIRE_HEAP_OTHER);
                return;
        }
        has_python = infp_agent_python_find(&version) == 0;
        if (!infp_agent_stacks_begin(tables))
                return;
        if (least == INFP_WIRE_HEAP_EXACT) {
                begin_exact((int32_t) most);
                return;
        }
        if (infp_agent_live_make(hooks) < 0)
                return;
        pthread_atfork(NULL, NULL, forked);
        atomic_store(&begin_ns, infp_writer_now_ns());
        is_begun = true;
        atomic_store(&hooks->ended, end_heap);
        atomic_store(&hooks->kept, infp_agent_heap_kept);
        atomic_store(&hooks->freed, infp_agent_heap_freed);
        atomic_store(&hooks->taken, infp_agent_live_take);
        atomic_store(&hooks->allocated, allocated);
        hooks->heard();
        infp_agent_mapped_begin(hooks);
        infp_agent_allocators_begin(hooks);
        if (has_python)
                infp_agent_heap_objects_begin(hooks, infp_agent_python_is_free_threaded());
}
