/* What run.json says of a run that is about to begin. */
#pragma once

#include "app/record_options.h"
#include "store/run.h"

/* uuid stays as it is. The strings are the caller's: infp_run_info_done. 0 or -ENOMEM. */
int infp_record_info(const struct infp_record_options *options, const struct infp_env *env, struct infp_run_info *ret,
                     struct infp_err *err);

/* Of a run that records nothing of the machine, no collector: `mode` says what makes it, command NULL: our own. It has a uuid. */
int infp_record_info_alone(const char *mode, const char *command, struct infp_run_info *ret, struct infp_err *err);

/* The command line of a process, its secrets masked; NULL: it cannot be read. */
char *infp_record_command_of(const struct infp_env *env, pid_t pid, bool keep_secrets);
