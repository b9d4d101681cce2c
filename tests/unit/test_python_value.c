/* Values of objects in memory that means nothing: nothing is read but through the callback, and what comes out is bounded text.
 * That values are right is tested on real interpreters (tests/e2e/test_backtrace_python.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sampler/python/value.h"
#include "unwind/python/code.h"

enum { BYTES = 16384, ROUNDS = 300, MOST_OUT = 64 << 10 };
#define BASE UINT64_C(0x7f0000000000)

static struct {
        uint8_t bytes[BYTES];
        unsigned n_reads;
} memory;

static int read_memory(void *context, uint64_t address, void *ret, size_t size)
{
        (void) context;
        memory.n_reads++;
        if (address < BASE || address - BASE > BYTES || size > BYTES - (address - BASE))
                return -EFAULT;
        memcpy(ret, memory.bytes + (address - BASE), size);
        return 0;
}

static uint64_t state = 1;

static uint64_t next_random(void)
{
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return state >> 16;
}

static void put_word(uint64_t at, uint64_t word)
{
        memcpy(memory.bytes + at, &word, sizeof(word));
}

/* Mostly pointers to other places, small numbers, names of types. */
static void fill(void)
{
        static const char *const names[] = { "int",   "bool", "float", "str",       "bytes",  "NoneType", "list",
                                             "tuple", "dict", "set",   "frozenset", "Tensor", "cell" };

        for (uint64_t at = 0; at < BYTES; at += 8) {
                const uint64_t r = next_random();

                put_word(at, r % 8 < 5   ? BASE + next_random() % (BYTES / 8) * 8
                             : r % 8 < 7 ? next_random() % 70
                                         : next_random() * next_random());
        }
        /* Types whose names are those of built-in ones, so that each way is gone. */
        for (uint64_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                const uint64_t type = 256 * i, name = type + 200;

                put_word(type + 24, BASE + name);
                put_word(type + 168, i == 11 ? 1 << 9 : 0);
                strcpy((char *) memory.bytes + name, names[i]);
        }
        for (uint64_t at = 4096; at < BYTES; at += 64) /* objects of these types */
                put_word(at + 8, BASE + 256 * (next_random() % (sizeof(names) / sizeof(names[0]))));
}

static unsigned n_taken;

static bool take(void *context, const char *name, const char *value)
{
        (void) context;
        n_taken++;
        assert_in_range(strlen(name), 0, INFP_PYTHON_TEXT);
        assert_in_range(strlen(value), 1, MOST_OUT);
        return n_taken % 100 != 0;
}

static void test_memory_of_no_meaning(void **context)
{
        static struct infp_python_values values;
        const uint16_t versions[] = { 0x308, 0x30a, 0x30b, 0x30c, 0x30e };
        unsigned n_long = 0;

        (void) context;
        for (unsigned round = 0; round < ROUNDS; round++) {
                const uint16_t version = versions[round % 5];
                struct infp_python_layout layout;

                assert_true(infp_python_layout_of(version == 0x30e ? 0x30c : version, &layout));
                layout.version = version; /* tagged references */
                fill();
                values = (struct infp_python_values){ .layout = &layout, .memory = { read_memory, NULL } };
                for (uint64_t at = 4096; at < BYTES; at += 64) {
                        const struct infp_python_frame frame = { .code = BASE + at, .address = BASE + at };
                        struct infp_str out = { 0 };

                        memory.n_reads = 0;
                        infp_python_value_put(&values, "name", BASE + at, &out);
                        assert_false(out.failed);
                        assert_in_range(out.size, 1, MOST_OUT);
                        n_long += out.size > 20;
                        assert_in_range(memory.n_reads, 0, 2000);
                        infp_str_done(&out);
                        infp_python_locals(&values, &frame, take, NULL);
                }
        }
        assert_true(n_long > 1000);
        assert_true(n_taken > 0);
}

static void test_names_that_say_secret(void **context)
{
        static struct infp_python_values values;
        struct infp_python_layout layout;
        struct infp_str out = { 0 };

        (void) context;
        assert_true(infp_python_layout_of(0x30b, &layout));
        values = (struct infp_python_values){ .layout = &layout, .memory = { read_memory, NULL } };
        memory.n_reads = 0;
        infp_python_value_put(&values, "api_key", BASE, &out);
        assert_string_equal(out.data, "***");
        assert_int_equal(memory.n_reads, 0);
        infp_str_done(&out);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_memory_of_no_meaning),
                cmocka_unit_test(test_names_that_say_secret),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
