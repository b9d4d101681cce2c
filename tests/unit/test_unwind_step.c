/* A small program is executed instruction by instruction; at each one the unwind must give exactly the callers that a shadow stack
 * of its calls and returns has: prologues, epilogues, linkage tables, the lazy resolver, realigned stacks, signal handlers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <alloca.h>
#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

#include "skip_because.h"
#include "unwind_space.h"

enum { MAX_STEPS = 60000, MAX_FRAMES = 256, STACK_BYTES = 1 << 18, RED_ZONE = 128 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED 0
#endif

#define NO_INLINE __attribute__((noinline, noclone))
#ifdef __clang__
#undef NO_INLINE
#define NO_INLINE __attribute__((noinline))
#endif

static volatile long sink;

/* ---- the program that is executed ---- */

static NO_INLINE long leaf(long a)
{
        return a * 3 + sink;
}

/* Every callee-saved register is in use. */
static NO_INLINE long registers(long a, long b, long c, long d, long e, long f)
{
        long sum = 0;

        for (long i = 0; i < 3; i++) {
                sum += leaf(a) + b;
                a += leaf(b) * c;
                b += leaf(c) - d;
                c ^= leaf(d) + e;
                d += leaf(e) ^ f;
                e -= leaf(f) + a;
                f += leaf(sum);
        }
        return sum + a + b + c + d + e + f;
}

static NO_INLINE long recurse(long n)
{
        long below = n > 0 ? recurse(n - 1) + 1 : leaf(n);

        sink = below;
        return below;
}

/* A size that is known late: the frame is found by rbp. */
static NO_INLINE long allocate(size_t n)
{
        char *bytes = alloca(n);

        memset(bytes, 1, n);
        sink = bytes[n / 2];
        return leaf(bytes[n - 1]);
}

/* A realigned stack with a size that is known late: CFA = *(rbp + n). */
static NO_INLINE long realign(size_t n)
{
        _Alignas(64) volatile char aligned[64];
        char *bytes = alloca(n);

        memset(bytes, 2, n);
        aligned[n % 64] = bytes[n - 1];
        return leaf(aligned[n % 64]) + registers((long) n, 1, 2, 3, 4, (long) &aligned[0] & 63);
}

static NO_INLINE long early_return(long n)
{
        if (n < 0)
                return n;
        if (n > 5)
                return registers(n, n, n, n, n, n);
        return early_return(n + 3) + leaf(n);
}

static int compare_longs(const void *a, const void *b)
{
        const long x = *(const long *) a, y = *(const long *) b;

        return x < y ? -1 : x > y;
}

static void on_signal(int number)
{
        sink += leaf(number);
}

static NO_INLINE void the_end(void)
{
        sink = 0;
        __asm__ volatile("");
}

static NO_INLINE void program(void)
{
        long numbers[12] = { 5, 3, 9, 1, 7, 2, 8, 4, 6, 0, 11, 10 };
        struct timespec now;
        char text[64];

        registers(1, 2, 3, 4, 5, 6);
        recurse(40);
        allocate((size_t) sink % 7 + 100);
        realign((size_t) sink % 7 + 100);
        early_return(1);
        qsort(numbers, 12, sizeof(numbers[0]), compare_longs);
        snprintf(text, sizeof(text), "%ld %s %.3f", numbers[3], "text", 2.5);
        clock_gettime(CLOCK_MONOTONIC, &now);
        free(malloc(100));
        raise(SIGUSR1);
        sink += strtol(text, NULL, 10);
        the_end();
}

static void child(void)
{
        struct sigaction action = { .sa_handler = on_signal };

        sigaction(SIGUSR1, &action, NULL);
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
                _exit(77);
        raise(SIGSTOP);
        program();
        _exit(0);
}

/* ---- the one who executes it ---- */

struct shadow {
        uint64_t callers[MAX_FRAMES];
        unsigned n;
};

static void push(struct shadow *shadow, uint64_t address)
{
        assert_true(shadow->n < MAX_FRAMES);
        shadow->callers[shadow->n++] = address;
}

static uint64_t pop(struct shadow *shadow)
{
        assert_true(shadow->n > 0);
        return shadow->callers[--shadow->n];
}

enum what { OTHER, CALL, RETURN, SIGRETURN };

/* The child's code is ours: it was forked. */
static enum what decode(const struct user_regs_struct *regs)
{
        const uint8_t *code = (const uint8_t *) regs->rip;

        if (code[0] == 0x0f && code[1] == 0x05 && regs->rax == 15)
                return SIGRETURN;
        while (*code == 0xf2 || *code == 0xf3 || *code == 0x3e || *code == 0x66 || (*code & 0xf0) == 0x40)
                code++;
        if (*code == 0xe8 || (*code == 0xff && (code[1] >> 3 & 7) == 2))
                return CALL;
        return *code == 0xc3 || *code == 0xc2 ? RETURN : OTHER;
}

struct traced {
        pid_t pid;
        struct unwind_self *self;
        struct infp_unwind_cache cache;
        struct user_regs_struct regs;
        uint8_t stack[STACK_BYTES + RED_ZONE];
        struct infp_unwind_frame frames[MAX_FRAMES];
        struct infp_unwind_result result;
        unsigned n_steps, n_different, n_whole;
};

static void take_registers(const struct user_regs_struct *regs, uint64_t values[INFP_N_REGISTERS])
{
        const uint64_t all[INFP_N_REGISTERS] = { regs->rax, regs->rdx, regs->rcx, regs->rbx, regs->rsi, regs->rdi,
                                                 regs->rbp, regs->rsp, regs->r8,  regs->r9,  regs->r10, regs->r11,
                                                 regs->r12, regs->r13, regs->r14, regs->r15, regs->rip };

        memcpy(values, all, sizeof(all));
}

/* Registers that a thread which was not stopped does not tell. */
static const uint32_t untold =
        1 << INFP_RAX | 1 << INFP_RBX | 1 << INFP_RBP | 1 << INFP_R12 | 1 << INFP_R13 | 1 << INFP_R14 | 1 << INFP_R15;

/* below: bytes of the dump below the stack pointer. perf has none. */
static void unwind(struct traced *traced, uint64_t below, uint32_t unknown)
{
        const uint64_t begin = traced->regs.rsp - below, size = traced->self->stack_end - begin;
        struct infp_unwind_dump dump = { traced->stack, begin, size, false };
        struct iovec local = { traced->stack, size }, remote = { (void *) begin, size };
        uint64_t values[INFP_N_REGISTERS];
        struct infp_unwind_start start = { &traced->self->space, &dump, 1, false, values, unknown };

        assert_true(size <= sizeof(traced->stack));
        assert_int_equal(process_vm_readv(traced->pid, &local, 1, &remote, 1, 0), size);
        take_registers(&traced->regs, values);
        for (unsigned i = 0; i < INFP_N_REGISTERS; i++)
                if (unknown >> i & 1)
                        values[i] = traced->regs.rsp + 8 * i; /* what would be taken for a frame pointer */
        infp_unwind(&start, &traced->cache, traced->frames, MAX_FRAMES, &traced->result);
}

/* No frame that the calls did not make. */
static bool begins_as_shadow(const struct traced *traced, const struct shadow *shadow)
{
        if (traced->result.n_frames > shadow->n + 1 || traced->frames[0].pc != traced->regs.rip)
                return false;
        for (unsigned i = 1; i < traced->result.n_frames; i++)
                if (traced->frames[i].pc != shadow->callers[shadow->n - i])
                        return false;
        return true;
}

static bool is_as_shadow(const struct traced *traced, const struct shadow *shadow)
{
        return traced->result.end == INFP_UNWIND_COMPLETE && traced->result.n_frames == shadow->n + 1 &&
               begins_as_shadow(traced, shadow);
}

static void say(const struct traced *traced, const struct shadow *shadow, const char *how)
{
        const uint32_t mapping = infp_unwind_find_mapping(&traced->self->space, traced->regs.rip);

        print_message("%s at %#llx (%s+%#llx): %s, %u frames, %u wanted\n", how, traced->regs.rip,
                      mapping == INFP_NO_MAPPING ? "?" : traced->self->files[mapping].path,
                      mapping == INFP_NO_MAPPING ? 0 : traced->regs.rip - traced->self->mappings[mapping].bias,
                      infp_unwind_end_name(traced->result.end), traced->result.n_frames, shadow->n + 1);
}

static void check(struct traced *traced, const struct shadow *shadow)
{
        for (uint64_t below = 0; below <= RED_ZONE; below += RED_ZONE) {
                unwind(traced, below, 0);
                if (!is_as_shadow(traced, shadow)) {
                        if (traced->n_different++ < 10)
                                say(traced, shadow, below ? "with red zone" : "as perf sees it");
                }
        }
        unwind(traced, RED_ZONE, untold);
        traced->n_whole += traced->result.end == INFP_UNWIND_COMPLETE;
        if (traced->result.end == INFP_UNWIND_COMPLETE ? !is_as_shadow(traced, shadow)
                                                       : !begins_as_shadow(traced, shadow)) {
                if (traced->n_different++ < 10)
                        say(traced, shadow, "without its registers");
        }
}

/* Keeps the shadow stack after the instruction at before. */
static void follow(struct traced *traced, struct shadow *shadow, const struct user_regs_struct *before)
{
        switch (decode(before)) {
        case CALL:
                push(shadow, (uint64_t) ptrace(PTRACE_PEEKDATA, traced->pid, traced->regs.rsp, NULL));
                break;
        case RETURN:
                assert_int_equal(pop(shadow), traced->regs.rip);
                break;
        case SIGRETURN:
                assert_int_equal(pop(shadow), traced->regs.rip);
                break;
        case OTHER:
                break;
        }
}

/* Executes one instruction, or the delivery of the signal that it waits for. False: the child has ended. */
static bool execute(struct traced *traced, struct shadow *shadow, int *signal)
{
        const struct user_regs_struct before = traced->regs;
        const int delivered = *signal;
        int status;

        assert_int_equal(ptrace(PTRACE_SINGLESTEP, traced->pid, NULL, (long) delivered), 0);
        assert_int_equal(waitpid(traced->pid, &status, 0), traced->pid);
        if (!WIFSTOPPED(status))
                return false;
        assert_int_equal(ptrace(PTRACE_GETREGS, traced->pid, NULL, &traced->regs), 0);
        *signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
        if (delivered) {
                push(shadow, before.rip);
                push(shadow, (uint64_t) ptrace(PTRACE_PEEKDATA, traced->pid, traced->regs.rsp, NULL));
        } else if (*signal == 0 || traced->regs.rip != before.rip) {
                follow(traced, shadow, &before);
        }
        return true;
}

static void test_each_instruction(void **state)
{
        static struct unwind_self self;
        static struct traced traced;
        static struct infp_unwind_cached cached[16384];
        struct shadow shadow = { .n = 0 };
        int status, signal = 0;

        (void) state;
        if (IS_SANITIZED)
                SKIP_BECAUSE("a sanitizer's own code has frames without call frame information");
        unwind_self(&self);
        traced.self = &self;
        infp_unwind_cache_init(&traced.cache, cached, 16384);
        traced.pid = fork();
        if (traced.pid == 0)
                child();
        assert_int_equal(waitpid(traced.pid, &status, 0), traced.pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
                SKIP_BECAUSE("ptrace is refused here: nothing can be executed step by step");
        assert_true(WIFSTOPPED(status));
        assert_int_equal(ptrace(PTRACE_SETOPTIONS, traced.pid, NULL, (long) PTRACE_O_EXITKILL), 0);
        assert_int_equal(ptrace(PTRACE_GETREGS, traced.pid, NULL, &traced.regs), 0);
        unwind(&traced, 0, 0);
        assert_int_equal(traced.result.end, INFP_UNWIND_COMPLETE);
        for (uint32_t i = traced.result.n_frames; i-- > 1;)
                push(&shadow, traced.frames[i].pc);
        while (traced.regs.rip != (uint64_t) the_end && traced.n_steps < MAX_STEPS) {
                if (!execute(&traced, &shadow, &signal))
                        break;
                traced.n_steps++;
                check(&traced, &shadow);
        }
        print_message(
                "%u instructions, each unwound thrice: %u stacks differ from the calls that were made; %u were whole "
                "without registers\n",
                traced.n_steps, traced.n_different, traced.n_whole);
        assert_int_equal(traced.regs.rip, (uint64_t) the_end);
        kill(traced.pid, SIGKILL);
        waitpid(traced.pid, &status, 0);
        assert_int_equal(traced.n_different, 0);
        assert_true(traced.n_steps > 2000);
        assert_true(traced.n_whole > traced.n_steps / 2);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_each_instruction) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
