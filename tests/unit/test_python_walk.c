/* Layouts of all versions, and walks over frames and threads in memory made by hand, whole and damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "python_memory.h"

enum { FIRST = FAKE_FIRST, LAST = FAKE_LAST, MAX = 64 };

static void test_layouts(void **state)
{
        struct infp_python_layout l;
        (void) state;

        for (uint16_t version = FIRST; version <= LAST; version++) {
                assert_true(fake_layout(version, &l));
                assert_int_equal(l.version, version < FAKE_FREE ? version : version - 3);
                assert_true(l.thread_frame + 8 <= l.thread_size && l.thread_pthread + 8 <= l.thread_size);
                assert_true(l.frame_previous + 8 <= l.frame_size && l.frame_code + 8 <= l.frame_size);
                assert_true(l.code_line_table + 8 <= l.code_size);
                assert_int_equal(l.is_free_threaded, version >= FAKE_FREE);
        }
        assert_false(infp_python_layout_of(0x307, &l));
        assert_false(infp_python_layout_of(0x30d, &l));
        assert_false(infp_python_layout_of(0x207, &l));
        assert_false(infp_python_layout_of(0, &l));
}

/* By the headers of each version. */
static void test_free_threaded_offsets(void **state)
{
        struct infp_python_layout l;
        (void) state;

        assert_true(fake_layout(FAKE_FREE, &l));
        assert_int_equal(l.object_type, 24);
        assert_int_equal(l.frame_bytecode_index, INFP_PYTHON_ABSENT);
        assert_int_equal(l.str_kind_shift, 2);
        assert_int_equal(l.code_version, 108);
        assert_int_equal(l.gil_holder, 16);
        assert_true(fake_layout(FAKE_FREE + 1, &l));
        assert_int_equal(l.frame_bytecode_index, 72);
        assert_int_equal(l.code_per_thread, 224);
        assert_int_equal(l.code_bytes, 232);
        assert_int_equal(l.str_state, 48);
        assert_int_equal(l.str_kind_shift, 8);
        assert_true(fake_layout(FAKE_FREE + 2, &l));
        assert_int_equal(l.frame_bytecode_index, 72);
        assert_int_equal(l.code_per_thread, 224);
        assert_int_equal(l.thread_base, 80);
}

/* Of 3.13, 3.14 and 3.15, by their DWARF and headers. */
static void test_debug_offsets(void **state)
{
        struct infp_python_layout l;
        (void) state;

        assert_true(fake_layout(0x30d, &l));
        assert_int_equal(l.runtime_interpreters, 632);
        assert_int_equal(l.interp_next, 7264);
        assert_int_equal(l.interp_gil, 16);
        assert_int_equal(l.gil_holder, 8);
        assert_int_equal(l.gil_locked, 16);
        assert_int_equal(l.thread_frame, 72);
        assert_int_equal(l.thread_data_chunk, 232);
        assert_int_equal(l.frame_owner, 70);
        assert_int_equal(l.code_bytes, 200);
        assert_int_equal(l.code_tag_mask, 0);
        assert_int_equal(l.str_compact, 56);
        assert_true(fake_layout(0x30e, &l));
        assert_int_equal(l.interp_threads, 7344);
        assert_int_equal(l.thread_pthread, 152);
        assert_int_equal(l.frame_owner, 74);
        assert_int_equal(l.code_tag_mask, 3);
        assert_int_equal(l.frame_bytecode_index, INFP_PYTHON_ABSENT);
        assert_int_equal(l.bytes_data, 32);
        assert_true(fake_layout(0x30f, &l));
        assert_int_equal(l.thread_frame, 72);
        assert_int_equal(l.thread_base, 80);
        assert_int_equal(l.thread_pthread, 176);
        assert_int_equal(l.thread_native_id, 184);
        assert_int_equal(l.str_state, 32);
}

/* Every word of every version, made wrong: refused, or all that is read lies within what readers keep room for. */
static void test_damaged_offsets(void **state)
{
        static const uint64_t wrong[] = { UINT64_MAX, UINT64_C(1) << 63, 65536, 65535, 65528, 4096, 1017, 0 };
        (void) state;

        for (unsigned version = 0; version < 3; version++)
                for (unsigned i = 0; i < FAKE_WORDS * 8; i++) {
                        uint64_t words[FAKE_WORDS];
                        struct infp_python_layout l;
                        uint32_t found;

                        memcpy(words, fake_words[version], sizeof(words));
                        words[i / 8] = wrong[i % 8];
                        if (!infp_python_layout_of_runtime((const uint8_t *) words, sizeof(words), &l, &found))
                                continue;
                        assert_true(l.thread_size <= INFP_PYTHON_MAX_THREAD && l.frame_size <= INFP_PYTHON_MAX_FRAME &&
                                    l.code_size <= INFP_PYTHON_MAX_CODE);
                        assert_true(l.str_state + 8 <= INFP_PYTHON_MAX_HEAD &&
                                    l.str_length + 8 <= INFP_PYTHON_MAX_HEAD);
                }
}

static void test_fake_versions(void **state)
{
        uint64_t words[FAKE_WORDS];
        struct infp_python_layout l;
        uint32_t found;
        (void) state;

        memcpy(words, fake_words[1], sizeof(words));
        words[1] = 0x03100000; /* 3.16: told, and not known */
        assert_false(infp_python_layout_of_runtime((const uint8_t *) words, sizeof(words), &l, &found));
        assert_int_equal(found, 0x03100000);
        words[1] = 0x04000000;
        assert_false(infp_python_layout_of_runtime((const uint8_t *) words, sizeof(words), &l, &found));
        assert_int_equal(found, 0);
        words[1] = UINT64_MAX;
        assert_false(infp_python_layout_of_runtime((const uint8_t *) words, sizeof(words), &l, &found));
        assert_int_equal(found, 0);
        words[0]++;
        assert_false(infp_python_layout_of_runtime((const uint8_t *) words, sizeof(words), &l, &found));
        for (size_t size = 0; size < 81 * 8; size++)
                assert_false(infp_python_layout_of_runtime((const uint8_t *) fake_words[1], size, &l, &found));
        assert_true(infp_python_layout_of_runtime((const uint8_t *) fake_words[1], 81 * 8, &l, &found));
        memcpy(words, fake_words[1], sizeof(words));
        words[2] = 1;
        assert_true(infp_python_layout_of_runtime((const uint8_t *) words, sizeof(words), &l, &found));
        assert_true(l.is_free_threaded);
        assert_int_equal(l.frame_bytecode_index, 0);
        assert_int_equal(l.str_kind_shift, 8);
}

/* A stack of n frames in one chunk, each 96 bytes; number i, from the innermost, has code 0x1000 * (i + 1). Returns the thread. */
static uint64_t make_stack(struct fake *fake, unsigned n, uint64_t *ret_innermost)
{
        const uint64_t chunk = fake_take(fake, 32 + 96 * (uint64_t) n);
        uint64_t previous = 0, thread;

        fake_put(fake, chunk + 8, 32 + 96 * (uint64_t) n);
        for (unsigned i = n; i-- > 0;) {
                const uint64_t at = chunk + 32 + 96 * (uint64_t) (n - 1 - i);

                fake_frame(fake, at, 0x1000 * (i + 1), previous, 7 + i, 0, i == n - 1);
                previous = at;
        }
        thread = fake_thread(fake, 0, previous);
        if (fake->layout.thread_data_chunk != INFP_PYTHON_ABSENT)
                fake_put(fake, thread + fake->layout.thread_data_chunk, chunk);
        *ret_innermost = previous;
        return thread;
}

static void test_walk(void **state)
{
        (void) state;
        for (uint16_t version = FIRST; version <= LAST; version++) {
                struct fake *fake = fake_new(version);
                const struct infp_python_memory memory = fake_memory(fake);
                struct infp_python_frame frames[MAX];
                enum infp_python_end end;
                uint64_t innermost;
                const uint64_t thread = make_stack(fake, 40, &innermost);

                assert_int_equal(infp_python_walk(&fake->layout, &memory, thread, frames, MAX, &end), 40);
                assert_int_equal(end, INFP_PYTHON_WHOLE);
                for (unsigned i = 0; i < 40; i++) {
                        assert_int_equal(frames[i].code, 0x1000 * (i + 1));
                        assert_int_equal(frames[i].instruction, 7 + i);
                        assert_int_equal(frames[i].is_entry,
                                         version < 0x30b || (version == 0x30b && i == 39) ? true : false);
                }
                assert_int_equal(frames[0].address, innermost);
                if (version >= 0x30b)
                        assert_true(fake->n_reads <= 6); /* not one a frame */
                assert_int_equal(infp_python_walk(&fake->layout, &memory, thread, frames, 39, &end), 39);
                assert_int_equal(end, INFP_PYTHON_TOO_DEEP);
                assert_int_equal(infp_python_walk(&fake->layout, &memory, thread, frames, 0, &end), 0);
                assert_int_equal(end, INFP_PYTHON_TOO_DEEP);
                free(fake);
        }
}

/* 300 frames in three chunks, with a generator's in between. */
static void test_chunks(void **state)
{
        (void) state;
        for (uint16_t version = 0x30b; version <= LAST; version++) {
                struct fake *fake = fake_new(version);
                const struct infp_python_memory memory = fake_memory(fake);
                struct infp_python_frame frames[400];
                enum infp_python_end end;
                uint64_t previous = 0, older = 0, thread;

                for (unsigned chunk = 0; chunk < 3; chunk++) {
                        const uint64_t at = fake_take(fake, 32 + 96 * 100), generator = fake_take(fake, 96);

                        fake_put(fake, at, older);
                        fake_put(fake, at + 8, 32 + 96 * 100);
                        for (unsigned i = 0; i < 100; i++) {
                                fake_frame(fake, at + 32 + 96 * i, 0x1000, previous, i, 0, false);
                                previous = at + 32 + 96 * i;
                        }
                        fake_frame(fake, generator, 0x2000, previous, 5, INFP_PYTHON_OWNER_GENERATOR, false);
                        previous = generator;
                        older = at;
                }
                thread = fake_thread(fake, 0, previous);
                fake_put(fake, thread + fake->layout.thread_data_chunk, older);
                assert_int_equal(infp_python_walk(&fake->layout, &memory, thread, frames, 400, &end), 303);
                assert_int_equal(end, INFP_PYTHON_WHOLE);
                assert_int_equal(frames[0].owner, INFP_PYTHON_OWNER_GENERATOR);
                assert_int_equal(frames[302].instruction, 0);
                assert_true(fake->n_reads < 30);
                free(fake);
        }
}

/* Shims, tags, and the first frame of 3.15. */
static void test_shims(void **state)
{
        (void) state;
        for (uint16_t version = 0x30c; version <= LAST; version++) {
                struct fake *fake = fake_new(version);
                const struct infp_python_memory memory = fake_memory(fake);
                const uint64_t base = fake_take(fake, 96), shim = fake_take(fake, 96), frame = fake_take(fake, 96);
                struct infp_python_frame frames[MAX];
                enum infp_python_end end;
                const bool has_base = fake->layout.version == 0x30f;
                uint64_t thread;

                fake_frame(fake, base, 0x5000, 0, 0, INFP_PYTHON_OWNER_SHIM, false);
                fake_frame(fake, shim, 0x5000, has_base ? base : 0, 0, INFP_PYTHON_OWNER_SHIM, false);
                fake_frame(fake, frame, 0x6000 + (fake->layout.version >= 0x30e), shim, 0, 0, false);
                thread = fake_thread(fake, 0, frame);
                if (has_base)
                        fake_put(fake, thread + fake->layout.thread_base, base);
                assert_int_equal(infp_python_walk(&fake->layout, &memory, thread, frames, MAX, &end), has_base ? 3 : 2);
                assert_int_equal(end, INFP_PYTHON_WHOLE);
                assert_int_equal(frames[0].code, 0x6000);
                assert_false(frames[0].is_entry);
                assert_int_equal(frames[1].code, 0);
                assert_true(frames[1].is_entry);
                if (has_base) {
                        assert_int_equal(frames[2].owner, INFP_PYTHON_OWNER_C_STACK);
                        assert_false(frames[2].is_entry);
                }
                free(fake);
        }
}

/* A thread's own copy of the byte code: the instruction is told as one of the object's. */
static void test_free_threaded(void **state)
{
        struct fake *fake = fake_new(0x30e);
        const struct infp_python_memory memory = fake_memory(fake);
        uint64_t words[FAKE_WORDS], code, copies, frame, thread;
        struct infp_python_frame frames[MAX];
        enum infp_python_end end;
        uint32_t found;
        (void) state;

        memcpy(words, fake_words[1], sizeof(words));
        words[2] = 1;
        words[38] = 72;  /* interpreter_frame.tlbc_index */
        words[49] = 152; /* code_object.co_tlbc */
        assert_true(infp_python_layout_of_runtime((const uint8_t *) words, sizeof(words), &fake->layout, &found));
        code = fake_take(fake, 256);
        copies = fake_take(fake, 64);
        frame = fake_take(fake, 128);
        fake_put(fake, code + 152, copies);
        fake_put(fake, copies, 2);
        fake_put(fake, copies + 8, code + 208);
        fake_put(fake, copies + 16, 0x900000);
        fake_frame(fake, frame, code + 1, 0, 0x900000 + 14, 0, false);
        fake_put32(fake, frame + 72, 1);
        *fake_at(fake, frame + fake->layout.frame_owner) = 0;
        thread = fake_thread(fake, 0, frame);
        assert_int_equal(infp_python_walk(&fake->layout, &memory, thread, frames, MAX, &end), 1);
        assert_int_equal(frames[0].code, code);
        assert_int_equal(frames[0].instruction, code + 208 + 14);
        free(fake);
}

static void test_damaged_walks(void **state)
{
        (void) state;
        for (uint16_t version = FIRST; version <= LAST; version++) {
                struct fake *fake = fake_new(version);
                const struct infp_python_memory memory = fake_memory(fake);
                struct infp_python_frame frames[MAX];
                enum infp_python_end end;
                uint64_t innermost, thread = make_stack(fake, 8, &innermost);
                const unsigned n_reads =
                        (infp_python_walk(&fake->layout, &memory, thread, frames, MAX, &end), fake->n_reads);

                /* A circle of eight, and a frame that calls itself. */
                fake_put(fake, frames[7].address + fake->layout.frame_previous, innermost);
                assert_in_range(infp_python_walk(&fake->layout, &memory, thread, frames, MAX, &end), 8, 24);
                assert_int_equal(end, INFP_PYTHON_CYCLE);
                fake_put(fake, innermost + fake->layout.frame_previous, innermost);
                assert_in_range(infp_python_walk(&fake->layout, &memory, thread, frames, MAX, &end), 1, 3);
                assert_int_equal(end, INFP_PYTHON_CYCLE);
                /* Pointers that lead nowhere. */
                fake_put(fake, innermost + fake->layout.frame_previous, UINT64_MAX - 3);
                assert_int_equal(infp_python_walk(&fake->layout, &memory, thread, frames, MAX, &end), 1);
                assert_int_equal(end, INFP_PYTHON_TORN);
                assert_int_equal(infp_python_walk(&fake->layout, &memory, 8, frames, MAX, &end), 0);
                assert_int_equal(end, INFP_PYTHON_TORN);
                /* A thread that runs no Python. */
                assert_int_equal(infp_python_walk(&fake->layout, &memory, fake_thread(fake, 0, 0), frames, MAX, &end),
                                 0);
                assert_int_equal(end, INFP_PYTHON_WHOLE);
                /* The innermost frame returns before it is looked at again. */
                thread = make_stack(fake, 8, &innermost);
                fake->n_reads = 0;
                fake->change_at = n_reads;
                fake->change_address = innermost + fake->layout.frame_code;
                fake->change_to = 0x99000;
                assert_int_equal(infp_python_walk(&fake->layout, &memory, thread, frames, MAX, &end), 8);
                assert_int_equal(end, INFP_PYTHON_MOVED);
                free(fake);
        }
}

/* Two interpreters with three threads; the second of the first holds the GIL. */
static void test_threads(void **state)
{
        (void) state;
        for (uint16_t version = FIRST; version <= LAST; version++) {
                struct fake *fake = fake_new(version);
                const struct infp_python_layout *l = &fake->layout;
                const struct infp_python_memory memory = fake_memory(fake);
                const uint64_t runtime = fake_take(fake, 2048), one = fake_take(fake, 8192),
                               two = fake_take(fake, 8192);
                const uint64_t gil = fake_take(fake, 64);
                const uint64_t threads[] = { fake_thread(fake, one, 0), fake_thread(fake, one, 0),
                                             fake_thread(fake, two, 0) };
                struct infp_python_thread found[8];
                bool is_whole;

                fake_put(fake, runtime + l->runtime_interpreters, one);
                fake_put(fake, one + l->interp_next, two);
                fake_put(fake, two + l->interp_id, 1);
                fake_put(fake, one + l->interp_threads, threads[0]);
                fake_put(fake, threads[0] + l->thread_next, threads[1]);
                fake_put(fake, two + l->interp_threads, threads[2]);
                for (unsigned i = 0; i < 3; i++)
                        fake_put(fake, threads[i] + l->thread_pthread, 0x7f00 + i);
                if (l->interp_gil == INFP_PYTHON_ABSENT) {
                        fake_put(fake, runtime + l->runtime_gil_holder, threads[1]);
                        fake_put32(fake, runtime + l->runtime_gil_locked, 1);
                } else {
                        fake_put(fake, one + l->interp_gil, gil);
                        fake_put(fake, two + l->interp_gil, gil);
                        fake_put(fake, gil + l->gil_holder, threads[1]);
                        fake_put32(fake, gil + l->gil_locked, 1);
                        if (l->is_free_threaded)
                                fake_put32(fake, gil, INT32_MAX); /* it is on */
                }
                assert_int_equal(infp_python_threads(l, &memory, runtime, found, 8, &is_whole), 3);
                assert_true(is_whole);
                for (unsigned i = 0; i < 3; i++) {
                        assert_int_equal(found[i].state, threads[i]);
                        assert_int_equal(found[i].pthread, 0x7f00 + i);
                        assert_int_equal(found[i].holds_gil, i == 1);
                        assert_int_equal(found[i].interpreter_id, i / 2);
                }
                if (l->is_free_threaded) {
                        struct infp_python_gil read;

                        assert_true(infp_python_gil_read(l, &memory, runtime, one, &read) && !read.is_off);
                        fake_put32(fake, gil, 0);
                        assert_false(infp_python_gil_read(l, &memory, runtime, one, &read));
                        assert_true(read.is_off);
                        infp_python_threads(l, &memory, runtime, found, 8, &is_whole);
                        assert_false(found[1].holds_gil);
                }
                assert_int_equal(infp_python_threads(l, &memory, runtime, found, 2, &is_whole), 2);
                assert_false(is_whole);
                fake_put(fake, threads[1] + l->thread_next, threads[0]); /* a circle */
                assert_in_range(infp_python_threads(l, &memory, runtime, found, 8, &is_whole), 2, 6);
                assert_false(is_whole);
                fake_put(fake, threads[1] + l->thread_next, threads[2]); /* another interpreter's */
                assert_int_equal(infp_python_threads(l, &memory, runtime, found, 8, &is_whole), 2);
                assert_false(is_whole);
                assert_int_equal(infp_python_threads(l, &memory, 8, found, 8, &is_whole), 0);
                assert_false(is_whole);
                free(fake);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_layouts),
                cmocka_unit_test(test_debug_offsets),
                cmocka_unit_test(test_free_threaded_offsets),
                cmocka_unit_test(test_damaged_offsets),
                cmocka_unit_test(test_fake_versions),
                cmocka_unit_test(test_walk),
                cmocka_unit_test(test_chunks),
                cmocka_unit_test(test_shims),
                cmocka_unit_test(test_free_threaded),
                cmocka_unit_test(test_damaged_walks),
                cmocka_unit_test(test_threads),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
