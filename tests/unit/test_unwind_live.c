/* This process unwinds itself: known depths, signal handlers on both stacks, cut dumps, code that was made at run time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <ucontext.h>

#include "skip_because.h"
#include "unwind_space.h"

/* Guessing looks for a return address in the 128 words above; the address sanitizer's frames are larger, and full of old ones. */
#ifdef __SANITIZE_ADDRESS__
#define NEEDS_SMALL_FRAMES() SKIP_BECAUSE("guessing looks no further than the address sanitizer's frames are large")
#else
#define NEEDS_SMALL_FRAMES() ((void) 0)
#endif

enum { DEPTH = 300, MAX_FRAMES = 1024, STACK_BYTES = 1 << 18 };

#ifdef __clang__
#define NO_INLINE __attribute__((noinline))
#else
#define NO_INLINE __attribute__((noinline, noclone, optimize("omit-frame-pointer", "no-optimize-sibling-calls")))
#endif

static struct unwind_self self;
static struct infp_unwind_cached cached[16384];
static struct infp_unwind_cache cache;
static volatile long sink;

/* What was seen of a moment. */
struct moment {
        uint64_t values[INFP_N_REGISTERS];
        uint8_t stack[STACK_BYTES];
        struct infp_unwind_dump dump;
        struct infp_unwind_frame frames[MAX_FRAMES];
        struct infp_unwind_result result;
};
static struct moment now, other;

static void take_registers(const ucontext_t *context, uint64_t values[INFP_N_REGISTERS])
{
        static const int order[INFP_N_REGISTERS] = { REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
                                                     REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                                     REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP };

        for (unsigned i = 0; i < INFP_N_REGISTERS; i++)
                values[i] = (uint64_t) context->uc_mcontext.gregs[order[i]];
}

/* Copies the stack above the stack pointer, byte by byte: the sanitizers have red zones in it. */
__attribute__((no_sanitize_address, no_sanitize_thread)) static void copy_stack(struct moment *moment,
                                                                                const ucontext_t *context)
{
        const volatile uint8_t *from;

        take_registers(context, moment->values);
        from = (const volatile uint8_t *) moment->values[INFP_RSP];
        moment->dump =
                (struct infp_unwind_dump){ moment->stack, (uint64_t) from, self.stack_end - (uint64_t) from, false };
        if (moment->dump.size > STACK_BYTES) {
                moment->dump.size = STACK_BYTES;
                moment->dump.is_cut = true;
        }
        for (uint64_t i = 0; i < moment->dump.size; i++)
                moment->stack[i] = from[i];
}

static void unwind(struct moment *moment, bool may_guess, uint32_t max_frames)
{
        struct infp_unwind_start start = { &self.space, &moment->dump, 1, may_guess, moment->values };

        infp_unwind(&start, &cache, moment->frames, max_frames, &moment->result);
}

static NO_INLINE void look(void)
{
        ucontext_t context;

        getcontext(&context);
        copy_stack(&now, &context);
        sink++;
}

static void (*at_the_bottom)(void);

static NO_INLINE long recurse(long n)
{
        long below;

        if (n == 0) {
                at_the_bottom();
                return sink;
        }
        below = recurse(n - 1);
        return below + sink;
}

static bool is_in(uint64_t pc, const void *function)
{
        const struct infp_unwind_mapping *mapping =
                &self.mappings[infp_unwind_find_mapping(&self.space, (uint64_t) function)];
        uint64_t begin, end;

        return infp_unwind_table_function(mapping->table, (uint64_t) function - mapping->bias, &begin, &end) &&
               pc >= begin + mapping->bias && pc < end + mapping->bias;
}

static unsigned count(const struct moment *moment, const void *function)
{
        unsigned n = 0;

        for (uint32_t i = 0; i < moment->result.n_frames; i++)
                n += is_in(moment->frames[i].pc, function);
        return n;
}

static void test_known_depth(void **state)
{
        (void) state;
        at_the_bottom = look;
        recurse(DEPTH - 1);
        unwind(&now, false, MAX_FRAMES);
        assert_string_equal(infp_unwind_end_name(now.result.end), "complete");
        assert_int_equal(count(&now, recurse), DEPTH);
        assert_int_equal(count(&now, test_known_depth), 1);
        assert_true(is_in(now.frames[0].pc, look));
        for (unsigned i = 1; i <= DEPTH; i++)
                assert_true(is_in(now.frames[i].pc, recurse));
        /* Again from the cache, and without one. */
        other = now;
        unwind(&other, false, MAX_FRAMES);
        assert_memory_equal(&other.frames, &now.frames, now.result.n_frames * sizeof(now.frames[0]));
        assert_int_equal(other.result.n_frames, now.result.n_frames);
        {
                struct infp_unwind_start start = { &self.space, &other.dump, 1, false, other.values };

                infp_unwind(&start, NULL, other.frames, MAX_FRAMES, &other.result);
        }
        assert_memory_equal(&other.frames, &now.frames, now.result.n_frames * sizeof(now.frames[0]));
}

/* A table in a file that is damaged after it was checked: stacks are wrong then, and nothing outside of the table is read or written. */
static void test_damaged_tables(void **state)
{
        const uint32_t at = infp_unwind_find_mapping(&self.space, (uint64_t) test_damaged_tables);
        struct infp_unwind_mapping *mapping = &self.mappings[at];
        const struct infp_unwind_table *whole = mapping->table;
        uint64_t random = 88172645463325252;
        unsigned n_wrong = 0;

        (void) state;
        at_the_bottom = look;
        recurse(DEPTH - 1);
        unwind(&now, false, MAX_FRAMES);
        for (unsigned round = 0; round < 400; round++) {
                /* Of the exact size, for the address sanitizer. */
                struct infp_unwind_table *table = malloc(whole->size);

                memcpy(table, whole, whole->size);
                for (uint64_t i = 0; i < whole->size / (round % 20 + 1); i++) {
                        random ^= random << 13;
                        random ^= random >> 7;
                        random ^= random << 17;
                        ((uint8_t *) table)[sizeof(*table) + random % (whole->size - sizeof(*table))] =
                                (uint8_t) (random >> 32);
                }
                mapping->table = table;
                other = now;
                infp_unwind_cache_init(&cache, cached, sizeof(cached) / sizeof(cached[0]));
                unwind(&other, round % 2, MAX_FRAMES);
                n_wrong += other.result.n_frames != now.result.n_frames;
                free(table);
        }
        assert_in_range(n_wrong, 200, 400);
        mapping->table = whole;
        infp_unwind_cache_init(&cache, cached, sizeof(cached) / sizeof(cached[0]));
}

/* A frame of a size that only its frame pointer knows. */
static NO_INLINE long recurse_with_array(long n)
{
        volatile char *bytes = __builtin_alloca((size_t) (16 * n + 32));
        long below;

        bytes[0] = (char) n;
        if (n == 0) {
                at_the_bottom();
                return sink;
        }
        below = n % 3 ? recurse_with_array(n - 1) : recurse(2);
        return below + sink + bytes[0];
}

static void unwind_with_trail(struct moment *moment, struct infp_unwind_trail *trail)
{
        struct infp_unwind_start start = { &self.space, &moment->dump, 1, true, moment->values, .trail = trail };

        infp_unwind(&start, &cache, moment->frames, MAX_FRAMES, &moment->result);
}

/* All but what is in the trail becomes something else. */
static void change_the_rest(struct moment *moment, const struct infp_unwind_trail *trail)
{
        for (unsigned i = 0; i < INFP_N_REGISTERS; i++)
                if (!(trail->registers >> i & 1))
                        moment->values[i] ^= UINT64_C(0x5555555555555555);
        for (uint64_t i = 0; i < moment->dump.size; i++)
                moment->stack[i] ^= 0x55;
        for (uint32_t i = 0; i < trail->n; i++)
                memcpy(moment->stack + trail->at[i], &trail->words[i], sizeof(trail->words[i]));
}

/* A walk depends on nothing but its trail. */
static void test_trail(void **state)
{
        struct infp_unwind_trail trail, again;

        (void) state;
        at_the_bottom = look;
        for (long depth = 0; depth < 60; depth++) {
                if (depth % 2)
                        recurse(depth);
                else
                        recurse_with_array(depth);
                unwind_with_trail(&now, &trail);
                assert_string_equal(infp_unwind_end_name(now.result.end), "complete");
                assert_true(trail.is_whole);
                assert_in_range(trail.n, now.result.n_frames - 2, 2 * now.result.n_frames);
                other = now;
                other.dump.bytes = other.stack;
                change_the_rest(&other, &trail);
                memset(other.frames, 0, sizeof(other.frames));
                unwind_with_trail(&other, &again);
                assert_int_equal(other.result.n_frames, now.result.n_frames);
                assert_memory_equal(other.frames, now.frames, now.result.n_frames * sizeof(now.frames[0]));
                assert_int_equal(again.n, trail.n);
                assert_int_equal(again.registers, trail.registers);
                assert_memory_equal(again.words, trail.words, trail.n * sizeof(trail.words[0]));
        }
        recurse(DEPTH);
        unwind_with_trail(&now, &trail);
        assert_false(trail.is_whole);
}

static void test_too_deep(void **state)
{
        (void) state;
        at_the_bottom = look;
        recurse(DEPTH - 1);
        unwind(&now, false, 100);
        assert_string_equal(infp_unwind_end_name(now.result.end), "too deep");
        assert_int_equal(now.result.n_frames, 100);
}

/* Each size of the dump: a prefix of the whole stack, said to be cut, or said to be broken when nothing was cut. */
static void test_truncated(void **state)
{
        uint64_t size;

        (void) state;
        at_the_bottom = look;
        recurse(50);
        other = now;
        unwind(&now, false, MAX_FRAMES);
        assert_string_equal(infp_unwind_end_name(now.result.end), "complete");
        for (size = 0; size < 1024; size += 8) {
                other.dump.size = size;
                other.dump.is_cut = true;
                unwind(&other, true, MAX_FRAMES);
                assert_string_equal(infp_unwind_end_name(other.result.end), "truncated");
                assert_true(other.result.n_frames >= 1 && other.result.n_frames < now.result.n_frames);
                assert_int_equal(other.result.n_guessed, 0);
                assert_memory_equal(&other.frames, &now.frames, other.result.n_frames * sizeof(now.frames[0]));
                assert_true(other.result.address + 8 > other.dump.begin + size);
                other.dump.is_cut = false;
                unwind(&other, false, MAX_FRAMES);
                assert_string_equal(infp_unwind_end_name(other.result.end), "broken");
        }
}

static void on_signal(int number, siginfo_t *info, void *context)
{
        (void) number;
        (void) info;
        copy_stack(&other, context);
        look();
}

static NO_INLINE void interrupt(void)
{
        raise(SIGUSR1);
        sink++;
}

/* From the handler through the kernel's frame: the same callers as from the registers that the kernel saved. */
static void test_signal(void **state)
{
        struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO }, old;
        unsigned at = 0;

        (void) state;
        sigaction(SIGUSR1, &action, &old);
        at_the_bottom = interrupt;
        recurse(DEPTH - 1);
        sigaction(SIGUSR1, &old, NULL);
        unwind(&now, false, MAX_FRAMES);
        unwind(&other, false, MAX_FRAMES);
        assert_string_equal(infp_unwind_end_name(now.result.end), "complete");
        assert_string_equal(infp_unwind_end_name(other.result.end), "complete");
        while (at < now.result.n_frames && !(now.frames[at].flags & INFP_FRAME_SIGNAL))
                at++;
        assert_true(at >= 1 && at < 10); /* on_signal() may have jumped to look() */
        assert_int_equal(now.frames[at + 1].flags, INFP_FRAME_EXACT);
        assert_int_equal(now.result.n_frames - at - 1, other.result.n_frames);
        assert_memory_equal(&now.frames[at + 1], &other.frames, other.result.n_frames * sizeof(now.frames[0]));
        assert_int_equal(count(&other, recurse), DEPTH);
        assert_int_equal(count(&other, interrupt), 1);
}

static uint8_t alternate[65536] __attribute__((aligned(16)));
static struct moment handler;

__attribute__((no_sanitize_address, no_sanitize_thread)) static void on_alternate(int number, siginfo_t *info,
                                                                                  void *context)
{
        ucontext_t here;

        (void) number;
        (void) info;
        copy_stack(&other, context);
        getcontext(&here);
        take_registers(&here, handler.values);
        handler.dump.begin = handler.values[INFP_RSP];
        handler.dump.size = (uint64_t) (alternate + sizeof(alternate)) - handler.dump.begin;
        handler.dump.bytes = handler.stack;
        for (uint64_t i = 0; i < handler.dump.size; i++)
                handler.stack[i] = ((const volatile uint8_t *) handler.dump.begin)[i];
}

static void test_alternate_stack(void **state)
{
        struct sigaction action = { .sa_sigaction = on_alternate, .sa_flags = SA_SIGINFO | SA_ONSTACK }, old;
        stack_t stack = { .ss_sp = alternate, .ss_size = sizeof(alternate) }, old_stack;
        struct infp_unwind_dump dumps[2];
        struct infp_unwind_start start = { &self.space, dumps, 2, false, handler.values };

        (void) state;
        sigaltstack(&stack, &old_stack);
        sigaction(SIGUSR1, &action, &old);
        at_the_bottom = interrupt;
        recurse(DEPTH - 1);
        sigaction(SIGUSR1, &old, NULL);
        sigaltstack(&old_stack, NULL);
        dumps[0] = handler.dump;
        dumps[1] = other.dump;
        infp_unwind(&start, &cache, handler.frames, MAX_FRAMES, &handler.result);
        assert_string_equal(infp_unwind_end_name(handler.result.end), "complete");
        assert_int_equal(count(&handler, recurse), DEPTH);
        /* Without the other stack: its frames are missing, not made up. */
        start.n_dumps = 1;
        infp_unwind(&start, &cache, handler.frames, MAX_FRAMES, &handler.result);
        assert_string_not_equal(infp_unwind_end_name(handler.result.end), "complete");
        assert_int_equal(count(&handler, recurse), 0);
}

/* ---- code that was made at run time ---- */

/* push rbx; sub rsp, 0x50; mov rbx, rdi; call rbx; add rsp, 0x50; pop rbx; ret */
static const uint8_t plain[] = { 0x53, 0x48, 0x83, 0xec, 0x50, 0x48, 0x89, 0xfb,
                                 0xff, 0xd3, 0x48, 0x83, 0xc4, 0x50, 0x5b, 0xc3 };
/* push rbp; mov rbp, rsp; call rdi; pop rbp; ret */
static const uint8_t framed[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };

/* push rbp; mov rbp, rsp; if (--esi) call itself else call rdi; pop rbp; ret */
static const uint8_t nested[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xce, 0x74, 0x07, 0xe8, 0xf3,
                                  0xff, 0xff, 0xff, 0xeb, 0x02, 0xff, 0xd7, 0x5d, 0xc3 };

static uint8_t *page;

static NO_INLINE void through_page(void)
{
        ((void (*)(void (*)(void), int))(uintptr_t) page)(look, 10);
        sink++;
}

static void make_page(const uint8_t *code, size_t size)
{
        mprotect(page, 4096, PROT_READ | PROT_WRITE);
        memset(page, 0xcc, 4096);
        memcpy(page, code, size);
        mprotect(page, 4096, PROT_READ | PROT_EXEC);
        at_the_bottom = through_page;
        recurse(20);
}

static unsigned first_in_page(const struct moment *moment)
{
        unsigned at = 0;

        while (at < moment->result.n_frames && moment->frames[at].pc - (uint64_t) page > 4096)
                at++;
        return at;
}

static void test_code_without_tables(void **state)
{
        unsigned at;

        (void) state;
        NEEDS_SMALL_FRAMES();
        make_page(plain, sizeof(plain));
        unwind(&now, false, MAX_FRAMES);
        assert_true(now.result.end == INFP_UNWIND_NO_MAPPING || now.result.end == INFP_UNWIND_NO_TABLE);
        assert_int_equal(now.result.n_frames, 2);
        assert_int_equal(now.result.address, (uint64_t) page + 10);
        unwind(&now, true, MAX_FRAMES);
        assert_string_equal(infp_unwind_end_name(now.result.end), "complete");
        at = first_in_page(&now);
        assert_int_equal(at, 1);
        assert_false(now.frames[at].flags & INFP_FRAME_GUESSED);
        assert_true(is_in(now.frames[at + 1].pc, through_page));
        assert_int_equal(count(&now, recurse), 21);
        assert_int_equal(now.result.n_guessed, now.result.n_frames - at - 1);
        for (uint32_t i = at + 1; i < now.result.n_frames; i++)
                assert_true(now.frames[i].flags & INFP_FRAME_GUESSED);
}

/* What an old call has left in the frame: its own end is no outermost frame. */
static void test_old_return_address(void **state)
{
        uint64_t *words, size, found;

        (void) state;
        NEEDS_SMALL_FRAMES();
        make_page(plain, sizeof(plain));
        unwind(&now, true, MAX_FRAMES);
        found = first_in_page(&now);
        assert_true(is_in(now.frames[found + 3].pc, recurse));
        size = now.frames[found + 4].sp - now.frames[found + 3].sp;
        if (size > 0x40)
                SKIP_BECAUSE("the frames of this build are too large to stand within another");
        words = (uint64_t *) (void *) (now.stack + (now.frames[found].sp - now.dump.begin));
        memset(words, 0, 0x50);
        words[0] = now.frames[found + 3].pc;
        unwind(&now, true, MAX_FRAMES);
        assert_string_equal(infp_unwind_end_name(now.result.end), "complete");
        assert_true(is_in(now.frames[found + 1].pc, through_page));
        assert_int_equal(count(&now, recurse), 21);
}

/* push rbx; push rbp; sub rsp, 0x48; mov ebp, 1; call rdi; add rsp, 0x48; pop rbp; pop rbx; ret */
static const uint8_t using_rbp[] = { 0x53, 0x55, 0x48, 0x83, 0xec, 0x48, 0xbd, 0x01, 0x00, 0x00,
                                     0x00, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x48, 0x5d, 0x5b, 0xc3 };

static NO_INLINE void through_page_by_frame_pointer(void)
{
        volatile char *array = __builtin_alloca(8 + (size_t) (sink & 7)); /* its frame is found by rbp alone */

        array[0] = 1;
        ((void (*)(void (*)(void), int))(uintptr_t) page)(look, 10);
        sink += array[0];
}

/* oneDNN's kernels: the caller's frame pointer is saved and the register has another value. */
static void test_code_that_uses_the_frame_pointer(void **state)
{
        (void) state;
        NEEDS_SMALL_FRAMES();
        make_page(using_rbp, sizeof(using_rbp));
        at_the_bottom = through_page_by_frame_pointer;
        recurse(20);
        unwind(&now, true, MAX_FRAMES);
        assert_string_equal(infp_unwind_end_name(now.result.end), "complete");
        assert_true(is_in(now.frames[first_in_page(&now) + 1].pc, through_page_by_frame_pointer));
        assert_int_equal(count(&now, recurse), 21);
}

/* push rbx; mov rbx, rsp; sub rsp, 0x7080; and rsp, -0x1000; call rdi; mov rsp, rbx; pop rbx; ret */
static const uint8_t aligned[] = { 0x53, 0x48, 0x89, 0xe3, 0x48, 0x81, 0xec, 0x80, 0x70, 0x00, 0x00, 0x48, 0x81,
                                   0xe4, 0x00, 0xf0, 0xff, 0xff, 0xff, 0xd7, 0x48, 0x89, 0xdc, 0x5b, 0xc3 };

/* OpenBLAS's kernels of Haswell: 28 KiB of numbers, above which a register leads. */
static void test_code_that_aligns_its_stack(void **state)
{
        uint64_t sp;
        unsigned at;

        (void) state;
        NEEDS_SMALL_FRAMES();
        make_page(aligned, sizeof(aligned));
        unwind(&now, false, MAX_FRAMES);
        at = first_in_page(&now);
        sp = now.frames[at].sp;
        memset(now.stack + (sp - now.dump.begin), 0, 0x7080);
        unwind(&now, true, MAX_FRAMES);
        assert_string_equal(infp_unwind_end_name(now.result.end), "complete");
        assert_true(is_in(now.frames[at + 1].pc, through_page));
        assert_true(now.frames[at + 1].sp - sp >= 0x7080 + 16);
        assert_true(now.frames[at + 1].flags & INFP_FRAME_GUESSED);
        assert_int_equal(count(&now, recurse), 21);
}

/* A frame pointer is followed first. */
static void test_code_with_frame_pointer(void **state)
{
        static struct infp_unwind_mapping mappings[UNWIND_MAPPINGS];
        struct infp_unwind_space space = { mappings, 0, 2 };
        struct infp_unwind_start start = { &space, &now.dump, 1, false, now.values };
        const struct infp_unwind_mapping jit = { .begin = (uint64_t) page,
                                                 .end = (uint64_t) page + 4096,
                                                 .flags = INFP_MAPPING_FRAME_POINTERS };
        bool is_in_place = false;

        (void) state;
        make_page(framed, sizeof(framed));
        unwind(&now, true, MAX_FRAMES);
        assert_string_equal(infp_unwind_end_name(now.result.end), "complete");
        assert_true(now.result.n_guessed > 20);
        assert_int_equal(count(&now, recurse), 21);
        /* Told that its code keeps frame pointers, nothing is looked for; but that this function has a frame, nobody says. */
        for (uint32_t i = 0; i < self.space.n_mappings; i++) {
                if (self.mappings[i].begin > jit.begin && !is_in_place) {
                        mappings[space.n_mappings++] = jit;
                        is_in_place = true;
                }
                if (self.mappings[i].begin != jit.begin)
                        mappings[space.n_mappings++] = self.mappings[i];
        }
        infp_unwind(&start, &cache, now.frames, MAX_FRAMES, &now.result);
        assert_string_equal(infp_unwind_end_name(now.result.end), "complete");
        assert_int_equal(now.result.n_guessed, now.result.n_frames - first_in_page(&now) - 1);
        assert_int_equal(count(&now, recurse), 21);
        assert_true(now.frames[first_in_page(&now)].flags & INFP_FRAME_FRAME_POINTER);
}

/* Frames of code made at run time are found as well where it keeps frame pointers and its memory is known. */
static void test_chain(void **state)
{
        static struct infp_unwind_mapping mappings[UNWIND_MAPPINGS];
        struct infp_unwind_space space = { mappings, 0, 3 };
        struct infp_unwind_start start = { &space, &now.dump, 1, true, now.values };
        bool is_in_place = false;
        unsigned n = 0;

        (void) state;
        make_page(nested, sizeof(nested));
        for (uint32_t i = 0; i < self.space.n_mappings; i++) {
                if (self.mappings[i].begin > (uint64_t) page && !is_in_place) {
                        mappings[space.n_mappings++] =
                                (struct infp_unwind_mapping){ .begin = (uint64_t) page, .end = (uint64_t) page + 4096 };
                        is_in_place = true;
                }
                mappings[space.n_mappings++] = self.mappings[i];
        }
        infp_unwind(&start, &cache, now.frames, MAX_FRAMES, &now.result);
        assert_string_equal(infp_unwind_end_name(now.result.end), "complete");
        for (uint32_t i = 0; i < now.result.n_frames; i++) {
                if (now.frames[i].pc - (uint64_t) page > 4096)
                        continue;
                assert_true(now.frames[i].flags & INFP_FRAME_FRAME_POINTER);
                assert_int_equal(!(now.frames[i].flags & INFP_FRAME_GUESSED), n == 0);
                n++;
        }
        assert_int_equal(n, 10);
        assert_int_equal(count(&now, recurse), 21);
        assert_int_equal(count(&now, through_page), 1);
}

/* A call of address 0: the caller is on top of the stack. */
static void test_null_call(void **state)
{
        (void) state;
        NEEDS_SMALL_FRAMES();
        at_the_bottom = look;
        recurse(20);
        other = now;
        unwind(&now, false, MAX_FRAMES);
        /* As if look() had called 0 in its first instruction. */
        other.values[INFP_RSP] = now.frames[1].sp - 8;
        other.values[INFP_RIP] = 0;
        unwind(&other, true, MAX_FRAMES);
        assert_string_equal(infp_unwind_end_name(other.result.end), "complete");
        assert_int_equal(other.frames[0].mapping, INFP_NO_MAPPING);
        assert_int_equal(other.result.n_frames, now.result.n_frames);
        for (uint32_t i = 1; i < now.result.n_frames; i++)
                assert_int_equal(other.frames[i].pc, now.frames[i].pc);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_known_depth),
                cmocka_unit_test(test_damaged_tables),
                cmocka_unit_test(test_trail),
                cmocka_unit_test(test_too_deep),
                cmocka_unit_test(test_truncated),
                cmocka_unit_test(test_signal),
                cmocka_unit_test(test_alternate_stack),
                cmocka_unit_test(test_code_without_tables),
                cmocka_unit_test(test_old_return_address),
                cmocka_unit_test(test_code_that_uses_the_frame_pointer),
                cmocka_unit_test(test_code_that_aligns_its_stack),
                cmocka_unit_test(test_code_with_frame_pointer),
                cmocka_unit_test(test_chain),
                cmocka_unit_test(test_null_call),
        };

        page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED)
                return 1;
        unwind_self(&self);
        infp_unwind_cache_init(&cache, cached, 16384);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
