/* Who held the GIL of Python and who waited for it: of each thread the time by samples of mode wall. All are estimates from samples. */
#pragma once

#include "model/stack_tables.h"
#include "query/scan.h"

struct infp_gil_thread {
        uint64_t id, process_id;   /* of its process; id: as a row of threads has it, under its last name */
        int64_t tid, pid;          /* pid 0: not known */
        char *name, *process;      /* NULL: not known */
        double seconds[INFP_GILS]; /* by what it had of the GIL; of INFP_GIL_UNKNOWN none are counted */
        double known_s;            /* their sum */
        uint64_t samples;
};

/* Its share of the thread's time, in percent. */
static inline double infp_gil_share(const struct infp_gil_thread *thread, enum infp_gil gil)
{
        return thread->known_s > 0 ? 100 * thread->seconds[gil] / thread->known_s : 0;
}
/* Threads that used the GIL are listed before those that did not. */
static inline bool infp_gil_was_used(const struct infp_gil_thread *thread)
{
        return thread->seconds[INFP_GIL_WAITED] > 0 || thread->seconds[INFP_GIL_HELD] > 0;
}

struct infp_gil_report {
        struct infp_gil_thread *list; /* threads of Python, those that waited longest first */
        uint32_t n, cap;
        bool has_wall; /* mode wall was sampled */
};

/* Of the range of `options`. A run without samples has none. */
int infp_gil_read(struct infp_run *run, const struct infp_scan_options *options, struct infp_gil_report *ret,
                  struct infp_err *err);
void infp_gil_done(struct infp_gil_report *gil);
