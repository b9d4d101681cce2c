/* One recording from its first sample to its end: the thread that polls. It feeds the recorder from the rings and the live
 * socket, starts the command after the first sample, follows it and its tree or the attached target, and passes signals on. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/notice.h"
#include "collect/collector.h"
#include "model/sink.h"
#include "record/capture.h"
#include "record/child.h"
#include "record/follow.h"
#include "record/signals.h"
#include "sampler/sampler.h"
#include "store/live.h"

struct infp_session_options {
        struct infp_env *env;                    /* with target and period; stats are set to those of notices */
        struct infp_child *child;                /* mode run: forked, at its gate; else NULL */
        struct infp_follow *follow;              /* mode pid; else NULL */
        void (*found)(void *context, pid_t pid); /* the first root of an attached target, once; may be NULL */
        void *found_context;
        struct infp_signals *signals;
        struct infp_live *live;       /* NULL: no process can talk to this run */
        struct infp_capture *capture; /* opened; NULL: the output is not captured */
        const char *run;              /* uuid, which the command has as INFPROF_RUN */
        struct infp_sink *const *sinks;
        unsigned n_sinks;
        uint64_t (*bytes_written)(void *context); /* of the store, for the own figures */
        void *bytes_context;
        size_t ring_bytes;
        /* NULL: no stacks are sampled. The session fills in what it knows itself (env, wake_fd, stats, notice). */
        const struct infp_sampler_options *sampler;
        uint64_t duration_ns;        /* 0: until the end of the target, or a signal */
        uint64_t baseline_ns;        /* quiet time before the command starts, for the idle power; 0: none */
        bool child_only;             /* ends with the command itself, not with its tree */
        struct infp_notices notices; /* say may be called from any thread */
        struct infp_stats *stats;
};

struct infp_session_result {
        int exit_code;      /* of the command; 0 for the machine and attached targets */
        int exit_signal;    /* that ended the command; 0: none */
        bool was_run;       /* the command, if there was one, was executed */
        bool is_child_left; /* the recording ended before the command */
        bool skip_finish;   /* the user does not want to wait */
        bool is_hung;       /* a thread is still in a collector: what env and stats point to must stay */
        uint32_t last_segment;
        uint64_t started_t_ns, ended_t_ns;
        int64_t started_unix_ns, ended_unix_ns;
};

/* 0, or a negative errno when it failed before the command ran. When the command cannot be executed the result has was_run
 * false and exit_code 126 or 127, and err has the sentence. */
int infp_session_run(const struct infp_session_options *options, struct infp_session_result *ret, struct infp_err *err);
