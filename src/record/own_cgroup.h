/* A control group for the command alone (record --own-cgroup), so that what is counted is its and nobody else's. The command
 * waits at its gate meanwhile. Its name holds our pid: what an infprof that was killed has left behind is removed by the next
 * one, once it is empty. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "collect/cgroup.h"
#include "collect/env.h"

enum { INFP_OWN_CGROUPS = 8 };

struct infp_own_cgroup {
        char paths[INFP_OWN_CGROUPS][INFP_CGROUP_PATH]; /* below the root; one a hierarchy */
        unsigned n;
};

/* Makes it and moves the process in. v2: beside our own cgroup where that takes no limit away from the command, else below it;
 * v1: below ours in each hierarchy where we may. 0; negative: none was made, err says why and what would help. */
int infp_own_cgroup_make(struct infp_own_cgroup *own, const struct infp_env *env, const char *uuid, pid_t pid,
                         struct infp_err *err);
/* What the command has left running keeps it; it is removed by a later infprof then. */
void infp_own_cgroup_remove(struct infp_own_cgroup *own, const struct infp_env *env);
