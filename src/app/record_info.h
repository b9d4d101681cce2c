/* What run.json holds when a run begins. */
#pragma once

#include "app/record_options.h"
#include "store/run.h"

/* Keeps uuid. The caller frees the strings: infp_run_info_done. 0 or -ENOMEM. */
int infp_record_info(const struct infp_record_options *options, const struct infp_env *env, struct infp_run_info *ret,
                     struct infp_err *err);

/* For a run without collectors: `mode` names what makes it; command NULL: our own. Sets a uuid. */
int infp_record_info_alone(const char *mode, const char *command, struct infp_run_info *ret, struct infp_err *err);

/* The command line of a process, its secrets masked; NULL: it cannot be read. */
char *infp_record_command_of(const struct infp_env *env, pid_t pid, bool keep_secrets);
