/* Accounts of memory from the text of /proc/PID/smaps: each kind, hostile names, bounds; and those of a process of a tree made here. */
#include "process_tree.h"

#include "base/mem.h"
#include "collect/collector.h"
#include "collectors/memory/smaps.h"

/* What the kernel writes of a mapping, as far as it is told apart from the fields that are read. */
#define MAPPING(header, rss, anonymous)                                                                      \
        header "\nSize:               1234 kB\nKernelPageSize:        4 kB\nRss:             " #rss          \
               " kB\nPss:                9999 kB\nShared_Clean:       7777 kB\nAnonymous:       " #anonymous \
               " kB\nAnonHugePages:      5555 kB\nSwap:               3333 kB\nVmFlags: rd wr mr mw me ac sd \n"

static struct infp_smaps smaps;
static struct infp_smaps_row rows[INFP_SMAPS_MOST_ROWS];

/* In pieces of `step` bytes: a line may be cut anywhere. */
static unsigned account(const char *text, size_t size, size_t step, uint64_t *ret_bytes)
{
        unsigned n;

        infp_smaps_begin(&smaps);
        for (size_t i = 0; i < size; i += step)
                infp_smaps_add(&smaps, text + i, size - i < step ? size - i : step);
        n = infp_smaps_end(&smaps, rows, ret_bytes);
        assert_true(n <= INFP_SMAPS_MOST_ROWS);
        return n;
}

struct wanted {
        enum infp_memory_kind kind;
        const char *name;
        uint64_t kb;
        enum infp_quality quality;
};

/* The fields of that name, each with 3333 kB; they have a row of their own, and no part in the sum. */
static unsigned check_swap(const char *text, unsigned n)
{
        uint64_t kb = 0;

        for (const char *at = text; (at = strstr(at, "Swap:")) != NULL; at++)
                kb += 3333;
        if (!kb)
                return n;
        assert_int_equal(rows[n - 1].kind, INFP_MEMORY_SWAP);
        assert_int_equal(rows[n - 1].bytes, kb << 10);
        assert_true(rows[n - 1].quality == INFP_MEASURED && !rows[n - 1].name);
        return n - 1;
}

static void expect(const char *text, const struct wanted *wanted, unsigned n)
{
        static const size_t steps[] = { 1, 7, 4096, SIZE_MAX };

        for (unsigned k = 0; k < INFP_COUNT(steps); k++) {
                const size_t size = strlen(text);
                uint64_t bytes, sum = 0;
                unsigned found = account(text, size, steps[k] < size ? steps[k] : size, &bytes);

                found = check_swap(text, found);
                for (unsigned i = 0; i < found && i < n; i++) {
                        assert_string_equal(infp_memory_kind_name(rows[i].kind), infp_memory_kind_name(wanted[i].kind));
                        assert_int_equal(rows[i].bytes, wanted[i].kb << 10);
                        assert_int_equal(rows[i].quality, wanted[i].quality ? wanted[i].quality : INFP_MEASURED);
                        assert_int_equal(rows[i].size, wanted[i].name ? strlen(wanted[i].name) : 0);
                        assert_true(!rows[i].name == !wanted[i].name);
                        if (wanted[i].name)
                                assert_memory_equal(rows[i].name, wanted[i].name, rows[i].size);
                        sum += rows[i].bytes;
                }
                assert_int_equal(found, n);
                assert_int_equal(sum, bytes);
        }
}
#define EXPECT_ROWS(text, ...)                                             \
        do {                                                               \
                static const struct wanted wanted_[] = { __VA_ARGS__ };    \
                expect(text, wanted_, sizeof(wanted_) / sizeof(*wanted_)); \
        } while (0)

static void each_kind(void **state)
{
        (void) state;
        EXPECT_ROWS(
                MAPPING("55d0c0000000-55d0c0002000 r--p 00000000 08:01 11                         /usr/bin/serve", 8,
                        0) MAPPING("55d0c0002000-55d0c0102000 r-xp 00002000 08:01 11                         "
                                   "/usr/bin/serve",
                                   600,
                                   0) MAPPING("55d0c0102000-55d0c0104000 rw-p 00102000 08:01 11                        "
                                              " /usr/bin/serve",
                                              8, 4) MAPPING("55d0c0104000-55d0c0108000 rw-p 00000000 00:00 0 ", 12, 12)
                        MAPPING("55d0c1000000-55d0c1100000 rw-p 00000000 00:00 0                          [heap]", 1000,
                                1000) MAPPING("7f0000000000-7f0010000000 r--s 00000000 08:01 22                        "
                                              " /models/a b.gguf",
                                              200000,
                                              0) MAPPING("7f0010000000-7f0010800000 rw-s 00000000 00:01 33             "
                                                         "            /memfd:shared (deleted)",
                                                         8192,
                                                         0) MAPPING("7f0010800000-7f0010900000 rw-s 00000000 00:01 34  "
                                                                    "                       /dev/zero (deleted)",
                                                                    16, 0)
                                MAPPING("7f0010900000-7f0010a00000 rw-s 00000000 00:01 35                         "
                                        "/SYSV00000000 (deleted)",
                                        20, 0) MAPPING("7f0010a00000-7f0010b00000 rw-s 00000000 00:06 36               "
                                                       "          /dev/nvidiactl",
                                                       4, 0) MAPPING("7f0010b00000-7f0010c00000 rw-p 00000000 00:06 37 "
                                                                     "                        /dev/zero",
                                                                     24, 24) MAPPING("7f0010c00000-7f0010d00000 rw-p "
                                                                                     "00000000 00:00 0                 "
                                                                                     "         [anon:arena]",
                                                                                     28, 28)
                                        MAPPING("7f0011000000-7f0011100000 rw-p 00000000 00:00 0 ", 300, 300) MAPPING(
                                                "7f0012000000-7f0012001000 ---p 00000000 00:00 0 ", 0,
                                                0) MAPPING("7f0012001000-7f0012801000 rw-p 00000000 00:00 0 ", 64, 64)
                                                MAPPING("7f0013000000-7f0013021000 r-xp 00000000 08:01 44              "
                                                        "           /lib/libc.so.6",
                                                        130, 2) MAPPING("7ffc00000000-7ffc00021000 rw-p 00000000 00:00 "
                                                                        "0                          [stack]",
                                                                        132, 132)
                                                        MAPPING("7ffc00100000-7ffc00102000 r-xp 00000000 00:00 0       "
                                                                "                   [vdso]",
                                                                4, 0)
                                                                MAPPING("ffffffffff600000-ffffffffff601000 --xp "
                                                                        "00000000 00:00 0                  [vsyscall]",
                                                                        0, 0),
                { INFP_MEMORY_FILE, "/models/a b.gguf", 200000 },
                { INFP_MEMORY_SHARED, "/memfd:shared (deleted)", 8192 },
                { INFP_MEMORY_SHARED, "/SYSV00000000 (deleted)", 20 },
                { INFP_MEMORY_SHARED, "/dev/zero (deleted)", 16 }, { INFP_MEMORY_HEAP, NULL, 1000 },
                { INFP_MEMORY_ANONYMOUS, NULL, 324 }, { INFP_MEMORY_ANONYMOUS, "[anon:arena]", 28 },
                { INFP_MEMORY_STACK, "main thread", 132 }, { INFP_MEMORY_STACK, "other threads", 64, INFP_ESTIMATED },
                { INFP_MEMORY_CODE, "/usr/bin/serve", 612 }, { INFP_MEMORY_CODE, "/lib/libc.so.6", 128 },
                { INFP_MEMORY_DATA, NULL, 18 }, /* copies of the two files, and the program's .bss */
                { INFP_MEMORY_DEVICE, "/dev/nvidiactl", 4 }, { INFP_MEMORY_VDSO, NULL, 4 });
}

/* A private mapping of weights of which some pages were written: those are the process's own. */
static void copies_of_a_file(void **state)
{
        (void) state;
        EXPECT_ROWS(MAPPING("7f0000000000-7f0010000000 rw-p 00000000 08:01 22                         /w", 100, 40),
                    { INFP_MEMORY_FILE, "/w", 60 }, { INFP_MEMORY_DATA, NULL, 40 });
}

static void what_is_no_stack(void **state)
{
        (void) state;
        EXPECT_ROWS(
                /* An arena of glibc after the unused end of another one; a hole that is too large; one that is not beside it; code. */
                MAPPING("7f0003ff0000-7f0004000000 ---p 00000000 00:00 0 ", 0,
                        0) MAPPING("7f0004000000-7f0004100000 rw-p 00000000 00:00 0 ", 1,
                                   1) MAPPING("7f0005000000-7f0005011000 ---p 00000000 00:00 0 ", 0,
                                              0) MAPPING("7f0005011000-7f0005111000 rw-p 00000000 00:00 0 ", 2, 2)
                        MAPPING("7f0006000000-7f0006001000 ---p 00000000 00:00 0 ", 0, 0)
                                MAPPING("7f0006002000-7f0006102000 rw-p 00000000 00:00 0 ", 4, 4)
                                        MAPPING("7f0007000000-7f0007001000 ---p 00000000 00:00 0 ", 0, 0)
                                                MAPPING("7f0007001000-7f0007101000 rwxp 00000000 00:00 0 ", 8, 8),
                { INFP_MEMORY_ANONYMOUS, NULL, 15 });
        /* Up to 64 MiB: what is larger is a stack and what the kernel has joined to it. */
        EXPECT_ROWS(MAPPING("7f0008000000-7f0008001000 ---p 00000000 00:00 0 ", 0, 0)
                            MAPPING("7f0008001000-7f000c001000 rw-p 00000000 00:00 0 ", 16, 16)
                                    MAPPING("7f0010000000-7f0010001000 ---p 00000000 00:00 0 ", 0, 0)
                                            MAPPING("7f0010001000-7f0014002000 rw-p 00000000 00:00 0 ", 32, 32),
                    { INFP_MEMORY_ANONYMOUS, NULL, 32 }, { INFP_MEMORY_STACK, "other threads", 16, INFP_ESTIMATED });
        EXPECT_ROWS(
                MAPPING("7f0007001000-7f0007101000 rw-p 00000000 00:00 0 [anon: glibc: pthread stack: 12]", 8, 8)
                        MAPPING("7f0007201000-7f0007301000 rw-p 00000000 00:00 0 [anon: glibc: malloc arena]", 4, 4),
                { INFP_MEMORY_ANONYMOUS, "[anon: glibc: malloc arena]", 4 },
                { INFP_MEMORY_STACK, "other threads", 8, INFP_MEASURED });
}

static void hostile_text(void **state)
{
        static char text[INFP_SMAPS_LINE * 2 + 512];
        uint64_t bytes;
        size_t n;

        (void) state;
        assert_int_equal(account("", 0, 1, &bytes), 0);
        EXPECT_ROWS("Rss: 5 kB\nnonsense\n7f0-7f0 rw-p 0 0:0 0 x\n-\n7f0\n7f00-7g00 rw-p 0 0:0 0\nRss: 7 kB\n"
                    "1000-2000 rw\nRss: 9 kB\n1000-2000 rw-p 0 0:0 0 /\\012a\\012\nRss: 1x kB\nRss:\nRss: "
                    "99999999999999999999 "
                    "kB\nRss: 2 kB\nAnonymous: 77 kB\n",
                    { INFP_MEMORY_DATA, NULL, 2 });
        /* The kernel's own escape stays until the row is written; a line that is too long is cut. */
        EXPECT_ROWS("1000-2000 r--s 0 0:0 7 /\\012a (deleted)\nRss: 4 kB\n",
                    { INFP_MEMORY_FILE, "/\\012a (deleted)", 4 });
        n = (size_t) snprintf(text, sizeof(text), "1000-2000 r--s 0 0:0 7 /");
        memset(text + n, 'x', INFP_SMAPS_LINE + 100);
        n += INFP_SMAPS_LINE + 100;
        n += (size_t) snprintf(text + n, sizeof(text) - n, "\nRss: 4 kB\n");
        assert_int_equal(account(text, n, 100, &bytes), 1);
        assert_int_equal(bytes, 4096);
        assert_true(rows[0].size < INFP_SMAPS_LINE && rows[0].size > INFP_SMAPS_LINE - 64);
        assert_int_equal(account(text, n, n, &bytes), 1);
        assert_int_equal(bytes, 4096);
}

/* More names than there is room for, by number and by bytes: each byte counts once, the largest that are known have rows. */
static void many_names(void **state)
{
        static char line[5000];
        uint64_t bytes;
        unsigned n;

        (void) state;
        for (unsigned length = 1; length <= 4000; length += 3999) {
                const unsigned n_files = 20000;

                infp_smaps_begin(&smaps);
                for (unsigned i = 0; i < n_files; i++) {
                        const int size =
                                snprintf(line, sizeof(line), "%x000-%x000 %s 0 08:01 9 /%0*u\nRss: %u kB\n", i + 1,
                                         i + 2, i % 2 ? "r-xp" : "r--s", (int) length, i, i == 7 ? 50 : 4);

                        infp_smaps_add(&smaps, line, (size_t) size);
                }
                n = infp_smaps_end(&smaps, rows, &bytes);
                assert_int_equal(bytes, (n_files * 4 + 46) * 1024);
                assert_int_equal(n, INFP_SMAPS_SHOWN + 2);
                assert_int_equal(rows[n - 1].kind, INFP_MEMORY_CODE);
                assert_true(rows[n - 1].is_others);
                for (unsigned i = 0; i < n; i++)
                        assert_true(rows[i].bytes <= 50 * 1024 || rows[i].is_others);
        }
}

/* A machine with one process. */
static struct machine *open_one(const char *top, const char *statm)
{
        static const struct infp_setting settings[] = { { "memory", "1" }, { NULL, NULL } };
        struct machine *m;
        int32_t pid = 10;

        put_process(top, (struct fake_process){ .pid = pid, .ppid = 1 });
        put_process(top, (struct fake_process){ .pid = 1 });
        tree_put(top, "proc/10/statm", statm);
        m = machine_open(top);
        m->env.settings = settings;
        m->env.target = new_target(INFP_MODE_PID, false, pid);
        refresh(m->env.target, &m->env);
        return m;
}

/* Its account is taken by the collector. */
static struct machine *take(const char *top, const char *statm, int result)
{
        struct machine *m = open_one(top, statm);

        assert_int_equal(machine_sample(m, infp_collector_find("memory")), result);
        m->env.target = infp_target_free(m->env.target);
        return m;
}

static int64_t bytes_of(const struct machine *m, const char *of, const char *kind)
{
        char text[64];
        int64_t ret = 0;

        for (size_t i = 0; i < m->n; i++) {
                const struct kept *k = &m->rows[i];

                if (k->table == &infp_table_memory_account &&
                    strcmp(kept_text(k, INFP_MEMORY_ACCOUNT_OF, text, sizeof(text)), of) == 0 &&
                    (!kind || !strcmp(kept_text(k, INFP_MEMORY_ACCOUNT_KIND, text, sizeof(text)), kind)))
                        ret += k->cell[INFP_MEMORY_ACCOUNT_BYTES].i64;
        }
        return ret;
}

static void an_account_adds_up_to_rss(void **state)
{
        static const struct {
                const char *statm;
                int64_t unexplained_kb;
        } cases[] = { { "500 30 2 1 0 28 0\n", 0 }, { "500 33 2 1 0 28 0\n", 12 }, { "500 29 2 1 0 28 0\n", -4 } };
        const struct kept *row;
        struct machine *m;
        char top[64], text[64];

        (void) state;
        for (unsigned i = 0; i < INFP_COUNT(cases); i++) {
                tree_new(top);
                tree_put(top, "proc/10/smaps",
                         MAPPING("7f0000000000-7f0010000000 r--s 00000000 08:01 22      /m\\012\xff (deleted)", 100, 0)
                                 MAPPING("7f0011000000-7f0011100000 rw-p 00000000 00:00 0 ", 20, 20));
                m = take(top, cases[i].statm, 0);
                assert_int_equal(bytes_of(m, "rss", "anonymous"), 20 << 10);
                assert_int_equal(bytes_of(m, "rss", "unexplained"), cases[i].unexplained_kb * 1024);
                assert_int_equal(bytes_of(m, "rss", NULL), (120 + cases[i].unexplained_kb) << 10);
                assert_int_equal(bytes_of(m, "swap", "swap"), 2 * 3333 << 10);
                assert_int_equal(machine_count(m, "memory_account"), cases[i].unexplained_kb ? 4 : 3);
                row = &m->rows[0];
                while (row->table != &infp_table_memory_account)
                        row++;
                assert_string_equal(kept_text(row, INFP_MEMORY_ACCOUNT_NAME, text, sizeof(text)),
                                    "/m\n\\xFF (deleted)");
                assert_string_equal(kept_text(row, INFP_MEMORY_ACCOUNT_OF, text, sizeof(text)), "rss");
                assert_string_equal(machine_state(m, "memory_account", NULL, NULL, 0), "");
                machine_close(m);
                tree_remove(top);
        }
}

static void put_pages(const char *top, unsigned first, unsigned n, unsigned swapped, unsigned end)
{
        static const uint64_t present = UINT64_C(1) << 63, is_swapped = UINT64_C(1) << 62;
        char path[128];
        FILE *file;

        snprintf(path, sizeof(path), "%s/proc/10/pagemap", top);
        file = fopen(path, "w");
        assert_non_null(file);
        for (unsigned i = 0; i < end; i++) {
                const uint64_t entry = i >= first && i < first + n ? present : i == swapped ? is_swapped : 0;

                assert_int_equal(fwrite(&entry, sizeof(entry), 1, file), 1);
        }
        fclose(file);
}

/* A mapping of 4 MiB, above a guard page, where stacks have 1 MiB: with the topmost page of a stack of that length in use it is one, and data above. */
static void a_stack_and_what_is_above(void **state)
{
        static const struct {
                unsigned first, n, swapped, end; /* pages from 0x1000 on: the mapping begins at 0x1001 */
                int64_t stack_kb;
        } cases[] = {
                { 0x1101 - 20, 40, 0, 0x1401, 80 },       /* 20 pages of it, and 20 more */
                { 0x1101 - 21, 20, 0x1100, 0x1401, 80 },  /* the topmost one is swapped out */
                { 0x1101 - 21, 20, 0, 0x1401, 1000 },     /* it has not been touched: a long stack */
                { 0x1101 - 20, 20, 0, 0x1101 - 1, 1000 }, /* the file is cut: not known */
                { 0, 0, 0, 0, 1000 },
        };
        struct machine *m;
        char top[64];

        (void) state;
        for (unsigned i = 0; i < INFP_COUNT(cases); i++) {
                tree_new(top);
                tree_put(top, "proc/10/smaps",
                         MAPPING("01000000-01001000 ---p 00000000 00:00 0 ", 0, 0)
                                 MAPPING("01001000-01401000 rw-p 00000000 00:00 0 ", 1000, 1000));
                tree_put(top, "proc/10/limits",
                         "Limit                     Soft Limit           Hard Limit           Units     \n"
                         "Max stack size            1048576              unlimited            bytes     \n");
                put_pages(top, cases[i].first, cases[i].n, cases[i].swapped, cases[i].end);
                m = take(top, "500 250 2 1 0 28 0\n", 0);
                assert_int_equal(bytes_of(m, "rss", "stack"), cases[i].stack_kb << 10);
                assert_int_equal(bytes_of(m, "rss", "anonymous"), (1000 - cases[i].stack_kb) << 10);
                machine_close(m);
                tree_remove(top);
        }
}

/* Without memory, as a process that has ended; and of a kernel without the file. */
static void no_account(void **state)
{
        struct machine *m;
        char top[64], reason[256];

        (void) state;
        tree_new(top);
        tree_put(top, "proc/10/smaps", "");
        m = take(top, "500 30 2 1 0 28 0\n", 0);
        assert_int_equal(machine_count(m, "memory_account"), 0);
        machine_close(m);
        tree_put(top, "proc/10/smaps", MAPPING("7f0011000000-7f0011100000 rw-p 00000000 00:00 0 ", 20, 20));
        m = take(top, "0 0 0 0 0 0 0\n", 0);
        assert_int_equal(machine_count(m, "memory_account"), 0);
        machine_close(m);
        tree_command("rm '%s/proc/10/smaps'", top);
        m = take(top, "500 30 2 1 0 28 0\n", -ENODEV);
        assert_int_equal(machine_count(m, "memory_account"), 0);
        assert_string_equal(machine_state(m, "*", NULL, reason, sizeof(reason)), "absent");
        assert_non_null(strstr(reason, "CONFIG_PROC_PAGE_MONITOR"));
        machine_close(m);
        tree_remove(top);
}

/* Each 0.1 ms of the machine's clock 0.5 us of CPU time may be used, and to look at the process takes more: all that was saved is soon gone,
 * and a look leaves nothing for an account. There is one all the same, each 10 s. */
static void a_look_takes_all_that_was_saved(void **state)
{
        struct infp_collector_state collector;
        struct machine *m;
        unsigned n;
        char top[64];

        (void) state;
        tree_new(top);
        tree_put(top, "proc/10/smaps", MAPPING("7f0011000000-7f0011100000 rw-p 00000000 00:00 0 ", 20, 20));
        m = open_one(top, "500 30 2 1 0 28 0\n");
        assert_int_equal(
                infp_collector_open(&collector, infp_collector_find("memory"), &m->env, &m->emit, machine_notice, m),
                0);
        for (unsigned i = 0; i < 250000; i++) {
                m->clock_ns += 100000;
                assert_int_equal(infp_collector_sample(&collector, &m->env, &m->emit, machine_notice, m), 0);
        }
        infp_collector_close(&collector);
        /* Three rows each: 20 KiB, what RSS has more, and swap. */
        n = machine_count(m, "memory_account");
        if (n != 3 * 3)
                fail_msg("%u rows of accounts", n);
        assert_string_equal(machine_state(m, "memory_account", NULL, NULL, 0), "");
        m->env.target = infp_target_free(m->env.target);
        machine_close(m);
        tree_remove(top);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_kind),
                cmocka_unit_test(copies_of_a_file),
                cmocka_unit_test(what_is_no_stack),
                cmocka_unit_test(hostile_text),
                cmocka_unit_test(many_names),
                cmocka_unit_test(a_stack_and_what_is_above),
                cmocka_unit_test(an_account_adds_up_to_rss),
                cmocka_unit_test(no_account),
                cmocka_unit_test(a_look_takes_all_that_was_saved),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
