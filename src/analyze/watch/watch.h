/* What a recording shows now: functions, lines and threads of the last seconds and since a start, and figures of host and engine.
 * Reads the run while it is recorded (query/stream.h); keeps what the last minutes need, so that an earlier moment can be shown.
 *
 * The run is input: what is not known yet (a parent, a name) may come later or never; depth and numbers are bounded. */
#pragma once

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/stack_tables.h"
#include "store/run.h"

/* Those that are shown. Mode python is all where attached processes may not be read in the interrupt of a sample. */
#define INFP_WATCH_MODES (INFP_STACK_WALL + 1)

struct infp_watch;
/* history_ns: how long single samples are kept. The run is borrowed until free. 0, -ENOMEM, or why a table cannot be read on
 * (query/stream.h); *ret is set only at 0. */
int infp_watch_new(struct infp_run *run, uint64_t history_ns, struct infp_watch **ret, struct infp_err *err);
struct infp_watch *infp_watch_free(struct infp_watch *watch); /* NULL is fine; returns NULL */
/* Takes all that has been written since. 1: something was new; 0; a negative errno: of a table that cannot be read, or -ENOMEM. What was
 * taken before stays. */
int infp_watch_read(struct infp_watch *watch, struct infp_err *err);
void infp_watch_reset(struct infp_watch *watch); /* "since the start" begins now */

/* Frames of files and of the kernel that the recorder leaves to `finish`. Texts are borrowed until free. */
struct infp_watch_frame {
        uint64_t id, address;
        uint8_t kind;
        const char *object, *build_id; /* "": none */
};
/* The next one; each is given out once. False when no more are known now. */
bool infp_watch_nameless(struct infp_watch *watch, struct infp_watch_frame *ret);
/* What was found, outermost function first; n 0: nothing, it keeps the name that it has. Texts are copied. */
struct infp_watch_name {
        const char *name, *file, *from; /* file NULL: not known; from as symbols.sFrom */
        int64_t line, function_line;    /* 0: not known */
};
/* 0, also for a frame that is not known; -ENOMEM: some of its levels may have been set. */
int infp_watch_set_name(struct infp_watch *watch, uint64_t frame, const struct infp_watch_name *levels, unsigned n);

enum infp_watch_by { INFP_WATCH_FUNCTIONS, INFP_WATCH_LINES, INFP_WATCH_THREADS, INFP_WATCH_BYS };
enum infp_watch_sort { INFP_WATCH_SELF, INFP_WATCH_TOTAL, INFP_WATCH_NAME, INFP_WATCH_SORTS };

struct infp_watch_query {
        enum infp_watch_by by;
        enum infp_stack_mode mode;
        enum infp_watch_sort sort;
        uint64_t t1_ns, window_ns; /* [t1 - window, t1]; t1 0: the newest */
        const regex_t *filter;     /* rows whose name or place matches; NULL: all */
};

struct infp_watch_row {
        const char *name;  /* function; FILE:LINE of lines; the thread's name */
        const char *place; /* object or file; function of lines; state of threads; NULL: not known */
        int64_t line;      /* of the function's begin; 0: not known */
        uint8_t kind;      /* enum infp_frame_kind */
        bool is_unnamed;   /* a place instead of a name */
        double self, total, since_self, since_total; /* seconds; of threads self is 0, total the thread's */
        int64_t pid, tid;                            /* of threads; 0: not known */
        double gil_waits, gil_holds,
                gil_known; /* of threads: seconds of the window by samples; of all in which it is known */
        const char *process;
};

/* Rows and texts are the watch's, valid until the next call of anything. */
struct infp_watch_view {
        const struct infp_watch_row *rows;
        size_t n, n_all;            /* n_all: without the filter */
        uint64_t samples;           /* in the window */
        double seconds;             /* that they stand for */
        double window_s;            /* how long the window really is: the run may be younger */
        double since_s, since_used; /* since the start: seconds of time, seconds of the samples */
        uint64_t since_samples;
        uint64_t t1_ns;
};
/* 0 or -ENOMEM; then nothing in ret is to be used. */
int infp_watch_view(struct infp_watch *watch, const struct infp_watch_query *query, struct infp_watch_view *ret);

enum { INFP_WATCH_ENGINES = 8, INFP_WATCH_GPUS = 8 };
/* NAN: not known. Rates are those of the window. */
struct infp_watch_figures {
        double host_cores, cores; /* used; there are */
        double tree_cores;        /* of the target */
        double memory_total, memory_available, tree_rss;
        double processes, threads;        /* of the target */
        unsigned n_engines;               /* that answered; the figures are sums, kv the highest */
        const char *engine, *model;       /* of the first; NULL: not known */
        double tokens_s, prompt_tokens_s; /* generated; of prompts */
        double running, waiting, kv_share;
        unsigned n_gpus; /* the first ones */
        struct infp_watch_gpu {
                double percent, used, total;
        } gpus[INFP_WATCH_GPUS];
};
void infp_watch_figures(struct infp_watch *watch, uint64_t t1_ns, uint64_t window_ns, struct infp_watch_figures *ret);

/* How the sampling of the mode goes. Texts are borrowed until free. */
struct infp_watch_sampling {
        double rate_hz, wanted, taken, lost; /* NAN: not known */
        const char *problem, *fix;           /* why stacks are missing; NULL: nothing is known to be */
        bool has_mode;                       /* samples of it have come, or are expected */
};
void infp_watch_sampling(const struct infp_watch *watch, enum infp_stack_mode mode, struct infp_watch_sampling *ret);
uint64_t infp_watch_newest_ns(const struct infp_watch *watch); /* stamp of the newest row; 0: none */
uint64_t infp_watch_oldest_ns(const struct infp_watch *watch); /* from which moments can be shown */
uint64_t infp_watch_left_out(const struct infp_watch *watch);  /* samples whose stack found no room */
