/* The checked options of a recording: from `record` today, over HTTP later. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "collect/env.h"
#include "record/follow.h"
#include "sampler/sampler.h"

enum { INFP_SOURCE_SETTINGS = 40 };

struct infp_record_options {
        const char *output, *format, *root;
        uint32_t period_ms;
        uint64_t duration_ns;    /* 0: no end */
        uint64_t snapshot_limit; /* 0: the default */
        bool all_processes, no_snapshots, no_finish, child_only, keep_secrets, is_shared;
        char **command; /* NULL: none */
        struct infp_follow_options follow;
        pid_t pids[INFP_FOLLOW_PIDS];
        struct infp_setting settings[INFP_SOURCE_SETTINGS + 3]; /* for collectors, ended by a NULL name */
        char port[12];                                          /* text of --port, which settings refer to */
        bool capture;                                           /* the child's output goes to <uuid>_output.txt */
        uint64_t capture_limit;                                 /* bytes kept of it; 0: all */
        bool own_cgroup;                                        /* the child runs in its own cgroup */
        bool jit_names;                                         /* it has the variables of infp_jit_names_variables */
        bool python_package;                                    /* its Python programs load infprof's package */
        const char *torch_budget; /* share of the time that this may cost, "1%" or "0.01"; NULL: its default */
        const char *torch;        /* what --torch says, "" without a value; NULL: it is not given */
        struct infp_sampler_options sampler; /* stacks; infp_sampler_is_asked: whether any are wanted */
        uint64_t baseline_ns;                /* time to measure idle power before the child starts; 0: none */
};

static inline bool infp_record_attaches(const struct infp_record_options *options)
{
        return options->follow.n_pids || options->follow.name || options->follow.port;
}
