/* Lines of `perf script`: the head of a sample, and frames. The user chose the fields (-F). */
#pragma once

#include "import/writer.h"

struct infp_perf_head {
        struct infp_import_text comm, event; /* event: without its modifiers, "cpu-clock" of "cpu-clock:ppp:" */
        struct infp_import_text rest;        /* after the event: a frame, or what a trace point says */
        int32_t pid, tid;                    /* 0: not told */
        int32_t cpu;                         /* -1: not told */
        bool has_time, has_period;
        uint64_t t_ns, period;
};
/* False: not the head of a sample. */
bool infp_perf_head(struct infp_import_text line, struct infp_perf_head *ret);

struct infp_perf_frame {
        uint64_t address;
        struct infp_import_text name, object; /* none: not told, or "[unknown]" */
        bool is_inlined, is_deleted;
};
/* False: not a frame. */
bool infp_perf_frame(struct infp_import_text line, struct infp_perf_frame *ret);

/* The line after a frame that gives its place in the source (-F +srcline): FILE:LINE. *ret_is_inlined: set where it says so, else
 * unchanged. */
bool infp_perf_source(struct infp_import_text line, struct infp_import_text *ret_file, int64_t *ret_line,
                      bool *ret_is_inlined);
