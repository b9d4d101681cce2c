/* What --wall makes of the files of a thread: texts by hand, threads of a fixture tree, and real threads whose stacks are known. */
#include "machine.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>

#include "sampler/waits/syscall_names.h"
#include "sampler/waits/wall_threads.h"

enum { STACK = 4096 };

static void test_calls(void **state)
{
        static const struct {
                const char *text;
                int r;
                char letter;
                bool has_call, has_registers;
                int64_t call;
                uint64_t sp, pc, rdi;
        } cases[] = {
                { "running\n", 0, 'R', false, false, 0, 0, 0, 0 },
                { "202 0x7f01 0x80 0x2 0x0 0x0 0xffffffff 0x7ffd12345678 0x7f0011223344\n", 0, 0, true, true, 202,
                  UINT64_C(0x7ffd12345678), UINT64_C(0x7f0011223344), 0x7f01 },
                { "-1 0x7ffd12345678 0x7f0011223344\n", 0, 0, true, true, -1, UINT64_C(0x7ffd12345678),
                  UINT64_C(0x7f0011223344), 0 },
                { "-1 0x0 0x0\n", 0, 0, false, false, 0, 0, 0, 0 }, /* it is about to end */
                { "240 0x1 0x2 0x3 0x4 0x5 0x6 0xffffd000 0xf7fc0000\n", 0, 0, false, false, 0, 0, 0, 0 }, /* 32 bits */
                { "", -EBADMSG, 0, false, false, 0, 0, 0, 0 },
                { "202\n", -EBADMSG, 0, false, false, 0, 0, 0, 0 },
                { "202 0x1 0x2\n", 0, 0, false, false, 0, 0, 0, 0 },
                { "202 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffd12345678\n", -EBADMSG, 0, false, false, 0, 0, 0, 0 },
                { "202 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffd12345678 0xzz\n", -EBADMSG, 0, false, false, 0, 0, 0, 0 },
                { "202 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffd12345678 0x11112222333344445\n", -EBADMSG, 0, false, false, 0, 0,
                  0, 0 },
                { "x 0x7ffd12345678 0x7f0011223344\n", -EBADMSG, 0, false, false, 0, 0, 0, 0 },
        };

        (void) state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct infp_wall_moment moment = { 0 };

                print_message("%s", cases[i].text);
                assert_int_equal(infp_wall_parse_call(cases[i].text, strlen(cases[i].text), &moment), cases[i].r);
                assert_int_equal(moment.letter, cases[i].letter);
                assert_int_equal(moment.has_call, cases[i].has_call);
                assert_int_equal(moment.has_registers, cases[i].has_registers);
                if (!cases[i].has_registers)
                        continue;
                assert_int_equal(moment.call, cases[i].call);
                assert_int_equal(moment.registers[INFP_RSP], cases[i].sp);
                assert_int_equal(moment.registers[INFP_RIP], cases[i].pc);
                assert_false(moment.unknown >> INFP_RSP & 1);
                assert_false(moment.unknown >> INFP_RIP & 1);
                assert_true(moment.unknown >> INFP_RBP & 1);
                assert_int_equal(moment.unknown >> INFP_RDI & 1, cases[i].call < 0);
                if (cases[i].call >= 0)
                        assert_int_equal(moment.registers[INFP_RDI], cases[i].rdi);
        }
}

static void test_words(void **state)
{
        static const struct {
                struct infp_wall_moment moment;
                const char *state, *call;
        } cases[] = {
                { { .letter = 'S', .has_call = true, .call = SYS_futex, .wchan = "futex_do_wait" },
                  "sleeping in futex",
                  "sys_futex" },
                { { .letter = 'D', .has_call = true, .call = SYS_pread64 },
                  "uninterruptible in pread64",
                  "sys_pread64" },
                { { .letter = 'S', .has_call = true, .call = 4000 }, "sleeping in system call 4000", "sys_4000" },
                { { .letter = 'D', .has_call = true, .call = -1, .wchan = "folio_wait_bit" },
                  "uninterruptible in folio_wait_bit",
                  "" },
                { { .letter = 'S', .wchan = "do_epoll_wait" }, "sleeping in do_epoll_wait", "" },
                { { .letter = 'T' }, "stopped", "" },
                { { .letter = 0 }, "blocked", "" },
        };
        char text[96];

        (void) state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                infp_wall_state(&cases[i].moment, text, sizeof(text));
                assert_string_equal(text, cases[i].state);
                infp_wall_call_name(&cases[i].moment, text, sizeof(text));
                assert_string_equal(text, cases[i].call);
        }
        assert_string_equal(infp_syscall_name(SYS_epoll_wait), "epoll_wait");
        assert_null(infp_syscall_name(-1));
        assert_null(infp_syscall_name(INT64_MAX));
        assert_int_equal(infp_wall_parse_letter("7 (a) b) D 1 2", 14), 'D');
        assert_int_equal(infp_wall_parse_letter("7 (a", 4), 0);
        assert_int_equal(infp_wall_parse_letter("", 0), 0);
}

/* ---- a thread of a fixture tree ---- */

struct tree {
        char top[64];
        int proc_fd;
        struct infp_wall_keeper keeper;
        struct infp_wall_thread thread;
        struct infp_wall_moment moment;
        struct infp_wall_refused refused;
        uint32_t stack_size;
};

static void put(struct tree *tree, const char *name, const char *text)
{
        char path[64];

        snprintf(path, sizeof(path), "proc/7/task/8/%s", name);
        tree_put(tree->top, path, text);
}

static void open_tree(struct tree *tree)
{
        char path[96];

        memset(tree, 0, sizeof(*tree));
        tree_new(tree->top);
        put(tree, "schedstat", "1000 20 3\n");
        put(tree, "syscall", "0 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffd12345678 0x7f0011223344\n");
        put(tree, "stat", "8 (name) S 1 7 7 0 -1 0 0 0 0 0 12 3 0 0\n");
        put(tree, "wchan", "pipe_read");
        snprintf(path, sizeof(path), "%s/proc", tree->top);
        tree->proc_fd = open(path, O_RDONLY | O_DIRECTORY);
        assert_true(tree->proc_fd >= 0);
        infp_wall_thread_init(&tree->thread, 7, 8, STACK);
}

static unsigned n_also;

static void read_also(void *context, struct infp_wall_thread *thread, const struct infp_wall_moment *moment)
{
        (void) context;
        assert_int_equal(thread->tid, 8);
        assert_int_not_equal(moment->letter, 'R');
        n_also++;
}

static enum infp_wall_found read_tree(struct tree *tree)
{
        static const struct infp_wall_also also = { read_also, NULL };

        n_also = 0;
        return infp_wall_thread_read(&tree->keeper, tree->proc_fd, &tree->thread, &tree->moment, NULL, 0,
                                     &tree->stack_size, &also, &tree->refused);
}

static void close_tree(struct tree *tree)
{
        infp_wall_thread_close(&tree->keeper, &tree->thread);
        assert_int_equal(tree->keeper.n_kept, 0);
        close(tree->proc_fd);
        tree_remove(tree->top);
}

static void test_thread(void **state)
{
        struct tree tree;

        (void) state;
        open_tree(&tree);
        assert_int_equal(read_tree(&tree), INFP_WALL_CHANGED);
        assert_int_equal(tree.moment.letter, 'S');
        assert_int_equal(tree.moment.call, 0);
        assert_string_equal(tree.moment.wchan, "pipe_read");
        assert_int_equal(n_also, 1);
        assert_int_equal(read_tree(&tree), INFP_WALL_IDLE);
        assert_int_equal(n_also, 0); /* it is where it was */
        /* It ran, and is back where it was. */
        put(&tree, "schedstat", "1001 20 4\n");
        assert_int_equal(read_tree(&tree), INFP_WALL_CHANGED);
        assert_int_equal(read_tree(&tree), INFP_WALL_IDLE);
        /* It has been woken and has no CPU yet: its times are the same. */
        put(&tree, "syscall", "running\n");
        assert_int_equal(read_tree(&tree), INFP_WALL_CHANGED);
        assert_int_equal(tree.moment.letter, 'R');
        assert_int_equal(n_also, 0);
        assert_string_equal(tree.moment.wchan, "");
        /* Whoever runs is never idle, whatever the kernel has counted meanwhile. */
        assert_int_equal(read_tree(&tree), INFP_WALL_CHANGED);
        put(&tree, "syscall", "-1 0x0 0x0\n");
        put(&tree, "stat", "8 (name) Z 1 7 7 0\n");
        assert_int_equal(read_tree(&tree), INFP_WALL_GONE);
        close_tree(&tree);
}

#define SCHED(counted, ended)                                                                         \
        "name (8, #threads: 2)\n-----\nse.exec_start                                :  " counted "\n" \
        "se.vruntime                                  :           494.167026\n"                       \
        "nr_switches                                  :  " ended                                      \
        "\nnr_voluntary_switches                        :  0\n"

static void test_turns(void **state)
{
        static const struct {
                const char *text;
                int r;
                uint64_t counted_ns, n_ended;
        } cases[] = {
                { SCHED("199597.414698", "12"), 0, UINT64_C(199597414698), 12 },
                { SCHED("0.000000", "0"), 0, 0, 0 }, /* it has just come from another CPU */
                { SCHED("199597", "12"), -EBADMSG, 0, 0 },
                { SCHED("199597.41469", "12"), -EBADMSG, 0, 0 },
                { SCHED("-1.414698", "12"), -EBADMSG, 0, 0 },
                { SCHED("199597.414698", "x"), -EBADMSG, 0, 0 },
                { "se.exec_start : 1.000002\n", -EBADMSG, 0, 0 }, /* cut */
                { "nr_switches : 12\n", -EBADMSG, 0, 0 },
                { "", -EBADMSG, 0, 0 },
        };
        struct infp_wall_turns turns;
        uint64_t cpu_ns;
        struct tree tree;
        char letter;

        (void) state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                print_message("%s", cases[i].text);
                turns = (struct infp_wall_turns){ 0 };
                assert_int_equal(infp_wall_parse_turns(cases[i].text, strlen(cases[i].text), &turns), cases[i].r);
                if (cases[i].r < 0)
                        continue;
                assert_int_equal(turns.counted_ns, cases[i].counted_ns);
                assert_int_equal(turns.n_ended, cases[i].n_ended);
        }
        open_tree(&tree);
        assert_int_equal(infp_wall_thread_time(&tree.keeper, tree.proc_fd, &tree.thread, &cpu_ns, &letter), 0);
        assert_int_equal(infp_wall_thread_turns(&tree.keeper, tree.proc_fd, &tree.thread, &turns), -ENOENT);
        put(&tree, "sched", SCHED("7.000001", "2"));
        assert_int_equal(infp_wall_thread_turns(&tree.keeper, tree.proc_fd, &tree.thread, &turns), 0);
        assert_int_equal(turns.n_begun, 3);
        assert_int_equal(turns.n_ended, 2);
        put(&tree, "schedstat", "1000\n");
        assert_int_equal(infp_wall_thread_turns(&tree.keeper, tree.proc_fd, &tree.thread, &turns), -EBADMSG);
        close_tree(&tree);
}

static void test_without_files(void **state)
{
        struct tree tree;

        (void) state;
        open_tree(&tree);
        /* A kernel that counts no times: nothing proves that it did not run. */
        put(&tree, "schedstat", "0 0 0\n");
        assert_int_equal(read_tree(&tree), INFP_WALL_CHANGED);
        assert_int_equal(read_tree(&tree), INFP_WALL_CHANGED);
        assert_int_equal(n_also, 0);
        tree_command("rm '%s/proc/7/task/8/schedstat'", tree.top);
        assert_int_equal(read_tree(&tree), INFP_WALL_CHANGED);
        /* A kernel without /proc/TID/syscall, or one that refuses it: the state is that of stat. */
        tree_command("rm '%s/proc/7/task/8/syscall'", tree.top);
        infp_wall_thread_init(&tree.thread, 7, 8, STACK);
        assert_int_equal(read_tree(&tree), INFP_WALL_CHANGED);
        assert_int_equal(tree.refused.call, ENOENT);
        assert_int_equal(tree.refused.pid, 7);
        assert_int_equal(tree.moment.letter, 'S');
        assert_false(tree.moment.has_call);
        assert_string_equal(tree.moment.wchan, "pipe_read");
        tree_command("rm -r '%s/proc/7/task/8'", tree.top);
        assert_int_equal(read_tree(&tree), INFP_WALL_GONE);
        close_tree(&tree);
}

/* ---- real threads ---- */

static int go_on[2];
static _Atomic uint64_t frame_of_waiter;

static __attribute__((noinline)) void wait_here(void)
{
        char c;

        frame_of_waiter = (uint64_t) __builtin_frame_address(0);
        (void) !read(go_on[0], &c, 1);
        __asm__ volatile("" ::: "memory");
}

static void *waiter(void *tid)
{
        *(_Atomic int *) tid = (int) syscall(SYS_gettid);
        wait_here();
        return NULL;
}

static void test_real_thread(void **state)
{
        struct infp_wall_keeper keeper = { .cap = 8 };
        struct infp_wall_refused refused = { 0 };
        struct infp_wall_thread thread;
        struct infp_wall_moment moment;
        static uint8_t stack[STACK];
        int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY);
        _Atomic int tid = 0;
        uint32_t size = 0;
        pthread_t id;

        (void) state;
        assert_int_equal(pipe(go_on), 0);
        assert_int_equal(pthread_create(&id, NULL, waiter, (void *) &tid), 0);
        while (!tid)
                usleep(1000);
        infp_wall_thread_init(&thread, getpid(), tid, STACK);
        do
                usleep(1000);
        while (infp_wall_thread_read(&keeper, proc_fd, &thread, &moment, stack, STACK, &size, NULL, &refused) !=
                       INFP_WALL_CHANGED ||
               moment.letter == 'R');
        if (refused.call || refused.stack) {
                print_message("not allowed here: errno %d, %d\n", refused.call, refused.stack);
        } else {
                assert_int_equal(moment.letter, 'S');
                assert_int_equal(moment.call, SYS_read);
                assert_int_equal(moment.registers[INFP_RDI], go_on[0]);
                assert_int_equal(size, STACK);
                /* The stack is its own: the word above the frame of wait_here is where that returns to. */
                assert_true(moment.registers[INFP_RSP] < frame_of_waiter);
                assert_true(frame_of_waiter + 16 < moment.registers[INFP_RSP] + size);
                assert_memory_equal(stack + (frame_of_waiter + 8 - moment.registers[INFP_RSP]),
                                    (void *) (frame_of_waiter + 8), 8);
        }
        assert_int_equal(infp_wall_thread_read(&keeper, proc_fd, &thread, &moment, stack, STACK, &size, NULL, &refused),
                         INFP_WALL_IDLE);
        assert_int_equal(keeper.n_kept, 2);
        assert_int_equal(write(go_on[1], "x", 1), 1);
        pthread_join(id, NULL);
        /* The number may live on for a moment. */
        while (infp_wall_thread_read(&keeper, proc_fd, &thread, &moment, stack, STACK, &size, NULL, &refused) !=
               INFP_WALL_GONE)
                usleep(1000);
        infp_wall_thread_close(&keeper, &thread);
        assert_int_equal(keeper.n_kept, 0);
        close(proc_fd);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_calls),         cmocka_unit_test(test_words),       cmocka_unit_test(test_thread),
                cmocka_unit_test(test_without_files), cmocka_unit_test(test_real_thread), cmocka_unit_test(test_turns),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
