/* Live runs of a test: in a directory of its own, which is $XDG_RUNTIME_DIR. */
#pragma once

#include "store/live.h"
#include "store_run.h"

static const char uuid[] = "01990000-0000-7000-8000-000000000001", other[] = "01990000-0000-7000-8000-000000000002";
static char dir[32];

static inline int live_set_up(void **state)
{
        (void) state;
        strcpy(dir, "/tmp/infprof-test-XXXXXX");
        if (!mkdtemp(dir))
                return -1;
        unsetenv("INFPROF_RUN");
        return setenv("XDG_RUNTIME_DIR", dir, 1);
}

static inline int live_tear_down(void **state)
{
        (void) state;
        remove_tree(dir);
        return 0;
}

static inline struct infp_live *publish(const char *which)
{
        struct infp_err err = { "" };
        struct infp_live *live = NULL;

        assert_int_equal(infp_live_publish(which, dir, &live, &err), 0);
        return live;
}
