/* A control group for the command alone (record --own-cgroup), so that its figures are the command's own. The command waits
 * at its gate meanwhile. The name contains our pid: the next infprof removes what a killed one left, once it is empty. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "collect/cgroup.h"
#include "collect/env.h"

enum { INFP_OWN_CGROUPS = 8 };

struct infp_own_cgroup {
        char paths[INFP_OWN_CGROUPS][INFP_CGROUP_PATH]; /* below the root; one per hierarchy */
        unsigned n;
};

/* Makes it and moves the process. v2: beside our own cgroup where that lifts no limit, else below it; v1: below ours in each
 * hierarchy where we may. 0; negative: none was made, err has the reason and the fix. */
int infp_own_cgroup_make(struct infp_own_cgroup *own, const struct infp_env *env, const char *uuid, pid_t pid,
                         struct infp_err *err);
/* Kept while processes of the command remain; a later infprof removes it then. */
void infp_own_cgroup_remove(struct infp_own_cgroup *own, const struct infp_env *env);
