/* Shared by session*.c alone. */
#pragma once

#include "collect/sched.h"
#include "record/label_line.h"
#include "record/recorder.h"
#include "record/rings.h"
#include "record/session.h"

struct infp_session {
        const struct infp_session_options *options;
        struct infp_session_result *result;
        struct infp_recorder *recorder;
        struct infp_sched *sched;
        struct infp_sampler *sampler; /* NULL: none */
        struct infp_rings *rings;     /* of programs that record themselves */
        int wake_fd;
        uint64_t start_ns, release_ns;

        enum { INFP_BASELINE_NOT_BEGUN, INFP_BASELINE_RUNS, INFP_BASELINE_OVER } baseline;
        uint64_t baseline_end_ns;

        bool is_ending;   /* no more waiting: one last sample, then the end */
        bool is_released; /* the command was started */
        bool is_command_over, said_waiting;
        uint64_t over_ns;      /* when the command ended while others of its tree lived */
        uint64_t press_ns;     /* when the user last asked for the end */
        unsigned n_interrupts; /* Ctrl-C so far */
        bool is_told_to_stop;  /* SIGTSTP has come to us, and no SIGCONT since */
        int exec_code;         /* 126, 127 when exec failed */
        struct infp_err exec_err;
        char cmdline[4096]; /* of the command, as the kernel had it after its exec */
        size_t cmdline_size;
        uint64_t look_ns; /* next look at an attached target */
        bool has_target, said_problem;
        bool is_live_ready;
        bool has_reader;
        uint64_t reader_ns; /* last look for readers */
        uint64_t asked_ns,
                ask_cost_ns; /* questions of load clients: when the current second began, and their cost since */
        bool has_more;       /* rows are left in the rings after this turn */
        uint64_t n_ring_drops;
        struct infp_row output_row; /* of what the command writes */
        char output_text[4 * INFP_LABEL_TAG + 256];
};

/* session.c */
uint64_t infp_session_now(void);
void infp_session_follow_sampler(
        struct infp_session *s); /* the roots of an attached target have become known, or changed */

/* session_target.c: the command and its tree, or the attached target. */
void infp_session_release(struct infp_session *s);
void infp_session_follow_child(struct infp_session *s);
void infp_session_follow_target(struct infp_session *s);
uint64_t infp_session_target_due_ns(const struct infp_session *s);
void infp_session_take_signals(struct infp_session *s);

/* session_serves.c: whether the server at the URL belongs to the run, for the live socket. */
int infp_session_serves(void *context, const char *url, struct infp_err *err);
