/* For tests that compare the reader of Python frames with other programs (tests/e2e/test_python_frames.py): all threads of a process,
 * a line each, and their frames, innermost first. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "sampler/python/find.h"
#include "unwind/python/code.h"

enum { MAX_THREADS = 256, MAX_FRAMES = 4096 };

static void show_frame(const struct infp_python *python, const struct infp_python_memory *memory,
                       const struct infp_python_frame *frame)
{
        static struct infp_python_code code;
        int r;

        if (!frame->code) {
                printf("  shim\towner=%u\n", frame->owner);
                return;
        }
        r = infp_python_code_read(&python->layout, memory, python->code_type, frame->code, &code);
        if (r < 0)
                printf("  error\t%d\n", r);
        else
                printf("  frame\t%s\t%s\t%" PRIu32 "\t%" PRIu32 "%s\n", code.function, code.file,
                       infp_python_code_line(&python->layout, &code.lines, frame->instruction), code.lines.first_line,
                       frame->is_entry ? "\tentry" : "");
}

int main(int argc, char **argv)
{
        static struct infp_python python;
        static struct infp_python_thread threads[MAX_THREADS];
        static struct infp_python_frame frames[MAX_FRAMES];
        const pid_t pid = argc > 1 ? atoi(argv[1]) : 0;
        const int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        struct infp_python_memory memory;
        struct infp_err err = { "" };
        int r = infp_python_find(root_fd, pid, &python, &err);
        bool is_whole;
        uint32_t n;

        if (r < 0) {
                printf("error\t%d\t%s\n", r, err.text);
                return 1;
        }
        printf("python\t%x\t%s\t%d\n", python.version, python.object, python.layout.is_free_threaded);
        for (uint32_t i = 0; i < python.n_ranges; i++)
                printf("range\t%" PRIx64 "\t%" PRIu64 "\n", python.ranges[i].begin,
                       python.ranges[i].end - python.ranges[i].begin);
        memory = infp_python_process_memory(pid);
        n = infp_python_threads(&python.layout, &memory, python.runtime, threads, MAX_THREADS, &is_whole);
        for (uint32_t i = 0; i < n; i++) {
                enum infp_python_end end;
                const uint32_t n_frames =
                        infp_python_walk(&python.layout, &memory, threads[i].state, frames, MAX_FRAMES, &end);

                printf("thread\t%" PRIx64 "\t%" PRIu32 "\t%" PRId64 "\t%d\t%d\n", threads[i].pthread,
                       threads[i].native_id, threads[i].interpreter_id, threads[i].holds_gil, (int) end);
                for (uint32_t k = 0; k < n_frames; k++)
                        show_frame(&python, &memory, &frames[k]);
        }
        printf("whole\t%d\n", is_whole);
        return 0;
}
