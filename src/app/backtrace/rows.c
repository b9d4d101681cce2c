#include "app/backtrace/rows.h"

#include <stdio.h>
#include <string.h>

#include "app/backtrace/backtrace.h"
#include "base/text.h"
#include "base/time.h"
#include "model/python_tables.h"

enum { PATIENCE_MS = 200 };

struct giving {
        uint64_t t_ns;
        struct infp_row *row;
        int (*put)(void *context, const struct infp_row *row);
        void *context;
};

static void set_func(struct infp_row *row, const struct infp_backtrace_frame *frame)
{
        char text[512];

        if (!frame->func) {
                snprintf(text, sizeof(text), frame->object ? "[%.400s+0x%llx]" : "[unknown]",
                         frame->object ? infp_base_name(frame->object) : "", (unsigned long long) frame->address);
                infp_row_bytes(row, INFP_BACKTRACE_FUNC, text, strlen(text));
        } else {
                infp_row_str(row, INFP_BACKTRACE_FUNC, frame->func);
        }
}

static int give_frame(const struct giving *g, int32_t pid, const struct infp_backtrace_thread *thread, int64_t sample,
                      uint32_t depth)
{
        const struct infp_backtrace_frame *frame = &thread->frames[depth];
        const char *name = thread->python_name ? thread->python_name : thread->name;
        struct infp_row *row = g->row;

        infp_row_begin(row, &infp_table_stacks_now, g->t_ns);
        infp_row_i64(row, INFP_BACKTRACE_PID, pid);
        infp_row_i64(row, INFP_BACKTRACE_TID, thread->tid);
        if (name)
                infp_row_str(row, INFP_BACKTRACE_THREAD, name);
        infp_row_i64(row, INFP_BACKTRACE_SAMPLE, sample);
        infp_row_i64(row, INFP_BACKTRACE_DEPTH, depth);
        if (frame->address)
                infp_row_u64(row, INFP_BACKTRACE_IP, frame->address);
        if (frame->file)
                infp_row_str(row, INFP_BACKTRACE_FILE, frame->file);
        set_func(row, frame);
        if (frame->lineno)
                infp_row_i64(row, INFP_BACKTRACE_LINENO, frame->lineno);
        infp_row_str(row, INFP_BACKTRACE_FRAME_TYPE, infp_backtrace_kind_name(frame->kind));
        return g->put(g->context, row);
}

static int give(const struct giving *g, const struct infp_backtrace *shown)
{
        int64_t sample = 0;

        for (unsigned i = 0; i < shown->n_processes; i++) {
                const struct infp_backtrace_process *process = &shown->processes[i];

                for (unsigned k = 0; k < process->n_threads; k++, sample++)
                        for (uint32_t depth = 0; depth < process->threads[k].n_frames; depth++)
                                INFP_TRY(give_frame(g, process->pid, &process->threads[k], sample, depth));
        }
        return 0;
}

int infp_backtrace_rows(pid_t pid, const struct infp_notices *notices, struct infp_row *row,
                        int (*put)(void *context, const struct infp_row *row), void *context, struct infp_err *err)
{
        const struct infp_backtrace_options options = { .follow = { .pids = &pid, .n_pids = 1 },
                                                        .is_alone = true,
                                                        .patience_ms = PATIENCE_MS };
        const struct giving giving = { infp_clock_ns(CLOCK_MONOTONIC), row, put, context };
        struct infp_backtraces *backtraces;
        int r;

        INFP_TRY(infp_backtraces_take(&options, notices, &backtraces, err));
        r = give(&giving, infp_backtraces_shown(backtraces));
        infp_backtraces_free(backtraces);
        return r;
}
