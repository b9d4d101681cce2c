/* The report's view of what the memory of processes holds: which accounts are shown, what they add up to, the blocks of the heap of that
 * moment, memory of GPUs. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/stack_tables.h"
#include "report_sample.h"

static void put(struct sample_run *s, uint64_t t_ns, uint64_t process, enum infp_memory_kind kind, const char *name,
                int64_t bytes)
{
        struct infp_row *row = sample_row(s, &infp_table_memory_account, t_ns);

        infp_row_id(row, INFP_MEMORY_ACCOUNT_PROCESS, process);
        infp_row_str(row, INFP_MEMORY_ACCOUNT_OF, infp_memory_kind_of(kind));
        infp_row_str(row, INFP_MEMORY_ACCOUNT_KIND, infp_memory_kind_name(kind));
        if (name)
                infp_row_str(row, INFP_MEMORY_ACCOUNT_NAME, name);
        infp_row_i64(row, INFP_MEMORY_ACCOUNT_BYTES, bytes);
        infp_row_str(row, INFP_MEMORY_ACCOUNT_QUALITY, infp_quality_name(INFP_MEASURED));
        sample_put(s);
}

static void put_block(struct sample_run *s, uint64_t t_ns, uint64_t process, int64_t size, double weight,
                      uint64_t freed_ns)
{
        struct infp_row *row = sample_row(s, &infp_table_heap_samples, t_ns);

        infp_row_id(row, INFP_HEAP_SAMPLES_PROCESS, process);
        infp_row_i64(row, INFP_HEAP_SAMPLES_SIZE, size);
        infp_row_f64(row, INFP_HEAP_SAMPLES_WEIGHT, weight);
        if (freed_ns)
                infp_row_i64(row, INFP_HEAP_SAMPLES_FREED_NS, (int64_t) freed_ns);
        sample_put(s);
}

/* 1 has the most at 12 s, where mappings had 100 bytes more than its RSS; 2 is larger, once. */
static struct sample_run *some_accounts(void)
{
        struct sample_run *s = begin();

        put_process(s, 10 * S, 1, "server", "server", 1 * S);
        put_process(s, 10 * S, 2, "big", "big", 1 * S);
        put_tree(s, 10 * S, 100, 0, 0, 0);
        put(s, 11 * S, 1, INFP_MEMORY_FILE, "/models/m.gguf", 4000);
        put(s, 11 * S, 1, INFP_MEMORY_HEAP, NULL, 1000);
        put(s, 11 * S + 1, 2, INFP_MEMORY_ANONYMOUS, NULL, 50000);
        put(s, 12 * S, 1, INFP_MEMORY_FILE, "/models/m.gguf", 4000);
        put(s, 12 * S, 1, INFP_MEMORY_HEAP, NULL, 2000);
        put(s, 12 * S, 1, INFP_MEMORY_ANONYMOUS, NULL, 2000);
        put(s, 12 * S, 1, INFP_MEMORY_UNEXPLAINED, NULL, -100);
        put(s, 13 * S, 1, INFP_MEMORY_FILE, "/models/m.gguf", 7000);
        put(s, 12 * S, 1, INFP_MEMORY_SWAP, NULL, 70000);
        put(s, 11 * S + 2, 1, INFP_MEMORY_GPU, "GPU-a", 1 << 20);
        put(s, 12 * S + 2, 1, INFP_MEMORY_GPU, "GPU-a", 2 << 20);
        put(s, 13 * S + 2, 1, INFP_MEMORY_GPU, "GPU-a", 3 << 20);
        put(s, 11 * S + 3, 1, INFP_MEMORY_GPU, "GPU-b", 4 << 20);
        put_tree(s, 13 * S, 100, 0, 0, 0);
        return s;
}

/* Of a text that was broken at blanks. */
static void join_lines(char *text)
{
        char *to = text;

        for (const char *at = text; *at; at++)
                if (*at != ' ' && *at != '\n')
                        *to++ = *at;
                else if (to > text && to[-1] != ' ')
                        *to++ = ' ';
        *to = 0;
}

static void check_server(const struct infp_memory_process *p)
{
        static const double bytes[] = { 4000, 2000, 2000, -100, 70000, 2 << 20, 4 << 20 };

        assert_string_equal(p->name, "server");
        assert_int_equal(p->pid, 10);
        assert_int_equal(p->t_ns, 12 * S);
        assert_int_equal(p->unix_ns, SAMPLE_UNIX + (int64_t) (12 * S));
        assert_near(p->rss_bytes, 7900);
        assert_near(p->anonymous_bytes, 4000);
        assert_near(p->gpu_bytes, 6 << 20);
        assert_near(p->swap_bytes, 70000);
        assert_int_equal(p->n, INFP_COUNT(bytes));
        for (unsigned i = 0; i < INFP_COUNT(bytes); i++)
                assert_near(p->rows[i].bytes, bytes[i]);
}

static void the_largest_accounts(void **state)
{
        struct sample_run *s = some_accounts();
        struct infp_report report;
        char *text;

        (void) state;
        finish(s, "run", 14 * S);
        make(s, NULL, NULL, 0, &report);
        assert_int_equal(report.memory.n, 2);
        assert_int_equal(report.memory.n_seen, 2);
        assert_string_equal(report.memory.list[0].name, "big");
        assert_true(isnan(report.memory.list[0].gpu_bytes) && isnan(report.memory.list[0].swap_bytes));
        check_server(&report.memory.list[1]);
        assert_false(report.memory.list[1].blocks.has);
        text = text_of(&report, 100);
        assert_non_null(strstr(text, "Memory of server (10) in its largest account, after 2.00 s: 7.71 KiB in RAM\n"));
        assert_non_null(strstr(text, "\n  ffffffffffffffffffffffffffffffhhhhhhhhhhhhhhhhaaaaaaaaaaaaaa\n"));
        assert_non_null(strstr(text, "\n  f mapped file    m.gguf "));
        assert_non_null(strstr(text, "\n  ? unexplained    "));
        assert_non_null(strstr(text, "\n  g memory of GPU  GPU-b "));
        assert_null(strstr(text, "blocks in use"));
        assert_non_null(strstr(text, "68.4 KiB of its memory were swapped out, beside what was in RAM"));
        assert_null(strstr(text, "its last account"));
        free(text);
        infp_report_done(&report);
        sample_free(s);
}

/* What a process had in RAM when it was seen last, after its last account. */
static void the_last_account_has_an_age(void **state)
{
        struct sample_run *s = some_accounts();
        struct infp_report report;
        char *text;

        (void) state;
        put_use(s, 11 * S, 2, true, 0, 0, 50000, -1);
        put_use(s, 13 * S + S / 2, 2, true, 0, 0, 60000, -1);
        put_use(s, 13 * S + S / 2, 1, true, 0, 0, 8000, -1); /* half a second is no age */
        finish(s, "run", 14 * S);
        make(s, NULL, NULL, 0, &report);
        text = text_of(&report, 140);
        join_lines(text);
        assert_non_null(strstr(
                text, "last its last account is of 2.50 s before it was looked at last; then its RSS was 58.6 KiB"));
        assert_null(strstr(strstr(text, "Memory of server"), "its last account"));
        free(text);
        infp_report_done(&report);
        sample_free(s);
}

/* In use at 12 s: 64 and 192; not yet, and no longer, the others. Of the second 192 of 400 are known: a variance of 400 x 208. */
static void blocks_of_that_moment(void **state)
{
        struct sample_run *s = some_accounts();
        struct infp_report report;
        char *text;

        (void) state;
        put_block(s, 10 * S, 1, 64, 64, 0);
        put_block(s, 11 * S, 1, 192, 400, 13 * S);
        put_block(s, 11 * S, 1, 1000, 1000, 12 * S);
        put_block(s, 12 * S + 1, 1, 3000, 3000, 0);
        put_block(s, 11 * S, 2, 60000, 60000, 0);
        finish(s, "run", 14 * S);
        make(s, NULL, NULL, 0, &report);
        check_server(&report.memory.list[1]);
        assert_true(report.memory.list[1].blocks.has);
        assert_near(report.memory.list[1].blocks.bytes, 464);
        assert_near(report.memory.list[1].blocks.error_bytes, 1.96 * sqrt(400 * 208));
        assert_near(report.memory.list[0].blocks.bytes, 60000);
        text = text_of(&report, 140);
        join_lines(text);
        assert_non_null(strstr(text, "They explain at most 464 B of the 3.91 KiB of heap and anonymous memory"));
        assert_non_null(strstr(text, "blocks in use then: 58.6 KiB"));
        assert_non_null(strstr(text, "more than the 48.8 KiB of heap and anonymous memory"));
        free(text);
        infp_report_done(&report);
        sample_free(s);
}

/* At 11.5 s process 1 became another program: what the one before held is gone. Its end at 13 s is after the account. */
static void blocks_of_an_earlier_program(void **state)
{
        static const uint64_t ends[] = { 11 * S + S / 2, 11 * S + 3 * S / 4, 13 * S };
        struct sample_run *s = some_accounts();
        struct infp_report report;

        (void) state;
        put_block(s, 11 * S, 1, 64, 64, 0);
        put_block(s, 11 * S + S / 2 - 1, 1, 200, 200, 0); /* the next one had it before the end of the first was seen */
        for (unsigned i = 0; i < INFP_COUNT(ends); i++) {
                struct infp_row *row = sample_row(s, &infp_table_heap_windows, ends[i]);

                infp_row_id(row, INFP_HEAP_WINDOWS_PROCESS, 1);
                infp_row_f64(row, INFP_HEAP_WINDOWS_SECONDS, 0.3);
                infp_row_bool(row, INFP_HEAP_WINDOWS_IS_LAST, i != 1);
                sample_put(s);
        }
        finish(s, "run", 14 * S);
        make(s, NULL, NULL, 0, &report);
        assert_near(report.memory.list[1].blocks.bytes, 200);
        infp_report_done(&report);
        sample_free(s);
}

static void put_absence(struct sample_run *s, const char *table, const char *instance, const char *word,
                        const char *reason, const char *fix)
{
        struct infp_row *row = sample_row(s, &infp_table_sources, 10 * S);

        infp_row_str(row, INFP_SOURCES_COLLECTOR, "memory");
        infp_row_str(row, INFP_SOURCES_TABLE, table);
        infp_row_str(row, INFP_SOURCES_COLUMN, "*");
        if (instance)
                infp_row_str(row, INFP_SOURCES_INSTANCE, instance);
        infp_row_str(row, INFP_SOURCES_STATE, word);
        infp_row_str(row, INFP_SOURCES_REASON, reason);
        if (fix)
                infp_row_str(row, INFP_SOURCES_FIX, fix);
        sample_put(s);
}

/* Each with its own reason and fix; accounts that are rare are not missing. */
static void all_absences(void **state)
{
        struct sample_run *s = some_accounts();
        struct infp_report report;
        char *text, *section;

        (void) state;
        put_absence(s, "memory_account", NULL, "denied", "they are of others", "be root");
        put_absence(s, "memory_account", "others", "absent", "they are many", NULL);
        put_absence(s, "memory_account", "rare", "late", "they took long", NULL);
        put_absence(s, "*", NULL, "absent", "there is no smaps", NULL);
        finish(s, "run", 14 * S);
        make(s, NULL, NULL, 0, &report);
        text = text_of(&report, 100);
        join_lines(text);
        section = strstr(text, "Memory of big");
        assert_non_null(section);
        assert_non_null(strstr(section, "no account of some processes: they are of others fix be root no account of "
                                        "some processes: they are many rare accounts of some processes: they took long "
                                        "no account there is no smaps "));
        free(text);
        infp_report_done(&report);
        sample_free(s);
}

static void the_split(void **state)
{
        struct infp_memory_split split = infp_memory_split(100, 30);

        (void) state;
        assert_near(split.in_use, 30);
        assert_near(split.rest, 70);
        split = infp_memory_split(100, 100);
        assert_near(split.rest, 0);
        split = infp_memory_split(100, 101);
        assert_near(split.in_use, 100);
        assert_true(isnan(split.rest));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_largest_accounts),  cmocka_unit_test(the_last_account_has_an_age),
                cmocka_unit_test(blocks_of_that_moment), cmocka_unit_test(blocks_of_an_earlier_program),
                cmocka_unit_test(all_absences),          cmocka_unit_test(the_split),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
