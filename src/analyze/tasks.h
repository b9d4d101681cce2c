/* What the tasks of asyncio did (record --async), by their names: rows of mode async. All are estimates from samples. */
#pragma once

#include "analyze/profile/place.h"
#include "base/err.h"
#include "base/strings.h"
#include "store/run.h"

enum infp_task_does {
        INFP_TASK_AWAITS,
        INFP_TASK_READY, /* what it awaited is done, or it has not begun: its loop is busy */
        INFP_TASK_RUNS,
        INFP_TASK_DOES
};

/* All tasks of one name in a process. */
struct infp_task {
        uint32_t name, process; /* strings; name: as infp_profile_task_label */
        int64_t pid;            /* 0: not known */
        double seconds[INFP_TASK_DOES], total_s;
        struct infp_profile_places places; /* where they await */
};

struct infp_tasks {
        struct infp_task *list; /* those of the most time first */
        uint32_t n, cap;
        struct infp_strings strings;
};

int infp_tasks_read(struct infp_run *run, uint64_t t0, uint64_t t1, struct infp_tasks *ret, struct infp_err *err);
void infp_tasks_done(struct infp_tasks *tasks);
