/* Any memory of a process: layouts that hold what readers copy, walks that end, texts that are UTF-8 and fit. The first byte chooses the
 * version (or, of _Py_DebugOffsets that the data begins with, none); the rest is memory, at an address that its pointers can say. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "unwind/python/code.h"
#include "unwind/python/merge.h"
#include "unwind/python/task.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BASE = 0x10000, MAX = 32 };

struct memory {
        const uint8_t *data;
        size_t size;
};

static void expect(bool truth)
{
        if (!truth)
                abort();
}

/* Addresses are taken modulo the size, but for large ones: most pointers lead somewhere. */
static int read_memory(void *context, uint64_t address, void *ret, size_t size)
{
        const struct memory *memory = context;

        if (!memory->size || address >> 48 || size > memory->size)
                return -EFAULT;
        for (size_t i = 0; i < size; i++)
                ((uint8_t *) ret)[i] = memory->data[(address - BASE + i) % memory->size];
        return 0;
}

static void check_text(const char *text)
{
        const size_t size = strnlen(text, INFP_PYTHON_TEXT);

        expect(size < INFP_PYTHON_TEXT);
        for (size_t at = 0; at < size;) {
                const unsigned n = infp_utf8_length(text + at, size - at);

                expect(n > 0);
                at += n;
        }
}

static void merge(const struct infp_python_frame *frames, uint32_t n, const struct memory *memory)
{
        static const struct infp_python_range ranges[] = { { 0x40, 0x80, false }, { 0x80, 0xa0, true } };
        uint64_t native[MAX];
        bool exact[MAX];
        uint32_t ret[MAX + 1], n_ret;

        for (uint32_t i = 0; i < MAX; i++) {
                native[i] = memory->data[i % memory->size];
                exact[i] = native[i] & 1;
        }
        for (unsigned cut = 0; cut < 4; cut++) {
                n_ret = infp_python_merge(native, exact, MAX, cut & 1, ranges, 2, frames, n, cut & 2, ret, MAX);
                expect(n_ret <= MAX);
                for (uint32_t i = 0; i < n_ret; i++)
                        expect((ret[i] & ~INFP_PYTHON_IS_PYTHON) < (ret[i] & INFP_PYTHON_IS_PYTHON ? n : MAX));
        }
}

/* Where the memory begins is an interpreter, a task, a future, a dict, of the types that it says itself. */
static void use_tasks(const struct infp_python_layout *layout, const struct infp_python_memory *reader,
                      const uint8_t *bytes, size_t size, const struct infp_python_thread *threads, uint32_t n_threads)
{
        static const uint64_t words[INFP_PYTHON_ASYNCIO_DEBUG / 8] = { 168,    136,   96,  108, 109, 128, 152,
                                                                       225864, 10880, 936, 864, 872, 880 };
        static struct infp_python_objects objects;
        static struct infp_python_task task;
        struct infp_python_asyncio asyncio = { .interpreter = BASE, .module = BASE };
        struct infp_python_task_layout tasks;
        struct infp_python_frame frames[MAX];
        uint64_t found[MAX];
        bool is_whole;
        uint32_t n;

        if (!infp_python_task_layout_of(layout, size >= INFP_PYTHON_DEBUG_OFFSETS ? bytes : NULL,
                                        size >= sizeof(words) && bytes[0] & 1 ? bytes : (const uint8_t *) words,
                                        &tasks) ||
            !tasks.knows_tasks)
                return;
        objects = (struct infp_python_objects){ .layout = layout, .tasks = &tasks, .memory = *reader };
        infp_python_asyncio_find(&objects, BASE, &asyncio);
        infp_python_word(&objects, BASE + 8, &asyncio.py_task);
        n = infp_python_tasks(&objects, &asyncio, threads, n_threads, found, MAX - 1, &is_whole);
        expect(n < MAX);
        found[n++] = BASE;
        for (uint32_t i = 0; i < n; i++) {
                if (infp_python_task_read(&objects, &asyncio, found[i], &task, frames, MAX) == 0) {
                        expect(task.n_frames <= MAX && task.state < INFP_PYTHON_TASK_STATES);
                        check_text(task.name);
                }
                expect(infp_python_gathered(&objects, found[i], found + n, MAX - n) <= MAX - n);
                expect(infp_python_woken(&objects, found[i], found + n, MAX - n) <= MAX - n);
                expect(infp_python_awaiters(&objects, found[i], found + n, MAX - n) <= MAX - n);
        }
        infp_python_thread_loop(&objects, BASE);
}

static void use(const struct infp_python_layout *layout, struct memory *memory)
{
        static struct infp_python_code code;
        const struct infp_python_memory reader = { read_memory, memory };
        struct infp_python_frame frames[MAX];
        struct infp_python_thread threads[MAX];
        enum infp_python_end end;
        bool is_whole;
        uint32_t n = infp_python_threads(layout, &reader, BASE, threads, MAX, &is_whole);

        expect(n <= MAX);
        use_tasks(layout, &reader, memory->data, memory->size, threads, n);
        n = infp_python_walk(layout, &reader, n ? threads[n - 1].state : BASE, frames, MAX, &end);
        expect(n <= MAX && end <= INFP_PYTHON_CYCLE);
        for (uint32_t i = 0; i < n; i++) {
                if (infp_python_code_read(layout, &reader, 0, frames[i].code, &code) < 0)
                        continue;
                check_text(code.file);
                check_text(code.function);
                expect(code.lines.table_size <= INFP_PYTHON_LINE_TABLE);
                infp_python_code_line(layout, &code.lines, frames[i].instruction);
                for (uint64_t at = 0; at < 64; at++)
                        infp_python_code_line(layout, &code.lines, code.lines.bytes + at);
        }
        merge(frames, n, memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct infp_python_layout layout;
        uint32_t version;
        struct memory memory;
        uint8_t *exact;

        if (size < 2)
                return 0;
        exact = malloc(size - 1);
        expect(exact != NULL);
        memcpy(exact, data + 1, size - 1);
        memory = (struct memory){ exact, size - 1 };
        if (infp_python_layout_of((uint16_t) (0x308 + data[0] % 8), &layout) ||
            infp_python_layout_of_runtime(exact, size - 1, &layout, &version)) {
                expect(layout.thread_size <= INFP_PYTHON_MAX_THREAD && layout.frame_size <= INFP_PYTHON_MAX_FRAME &&
                       layout.code_size <= INFP_PYTHON_MAX_CODE);
                use(&layout, &memory);
        }
        free(exact);
        return 0;
}
