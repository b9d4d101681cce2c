/* The run on disk: an output directory that can hold many runs, and in it <uuid>.infprof/ with run.json and the tables. Where
 * runs are found is decided here and nowhere else. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define INFP_DEFAULT_OUTPUT "./profiler-output"

enum infp_run_state {
        INFP_RUN_RECORDING,   /* its recorder lives */
        INFP_RUN_INTERRUPTED, /* its recorder died: `recover` repairs it */
        INFP_RUN_ENDED,       /* ended, not yet finished */
        INFP_RUN_FINISHED,
};

/* What run.json says. Strings belong to the struct; none is NULL in a run that was opened. */
struct infp_run_info {
        char uuid[37];
        char *command; /* masked, "" for the machine or an attached target */
        /* mode pid: what the user named, one of these; and the masked command line of the first process that was found, ""
         * before. */
        char *target_name; /* regular expression */
        uint32_t target_port;
        int32_t *target_pids;
        unsigned n_target_pids;
        char *target_command;
        char *mode;    /* host, run, pid */
        char *format;  /* parquet, csv, tsv, json */
        char *version; /* of the infprof that wrote it */
        char *hostname;
        char boot_id[40];
        int32_t recorder_pid;
        uint64_t recorder_start_ticks;
        uint32_t period_ms;
        int64_t started_unix_ns, ended_unix_ns; /* ended 0: not yet */
        uint64_t started_t_ns, ended_t_ns;      /* CLOCK_MONOTONIC */
        int exit_code;                          /* of the child, 128 + signal; -1 unknown */
        int exit_signal;                        /* that ended the child, by what wait says; 0: none, or not known */
        uint32_t last_seq;
        struct infp_run_collector {
                char *name;
                uint32_t period_ms;
                char *tables; /* names with one blank between */
        } * collectors;
        unsigned n_collectors;
        struct infp_run_sampling { /* of stacks, as it was asked for; all 0: none */
                double cpu_hz, wall_hz;
                bool off_cpu;
                uint32_t stack_bytes, max_depth;
        } sampling;
        bool is_shared; /* for infp_run_create alone; the directory's mode keeps it */
};

void infp_run_info_done(struct infp_run_info *info);

/* How often the table has rows at least: the period of its slowest collector, or of the run. Never 0. */
uint64_t infp_run_period_ns(const struct infp_run_info *info, const char *table);

/* What readers left out, as sentences for the user, each once. */
struct infp_run_notes {
        char **list;
        unsigned n;
        uint64_t n_more; /* not kept: there is no room for more */
};

struct infp_run {
        char *output;  /* path of the output directory as given */
        int output_fd; /* directory */
        int fd;        /* <uuid>.infprof */
        int lock_fd;   /* held by the recorder; -1 in other processes */
        enum infp_run_state state;
        struct infp_run_info info;
        char *problem; /* why run.json could not be read, with its path; info is then what the directory says */
        struct infp_run_notes notes;
};

void infp_uuid_make(char ret[37]);           /* UUID version 7: sorts by time */
bool infp_uuid_check(const char *text);      /* a whole uuid, in small letters */
int64_t infp_uuid_unix_ms(const char *uuid); /* when a version 7 was made; 0 for others */

/* Makes the output directory (0777 less the umask; its parents too) and <uuid>.infprof (0700; shared: 0777 less the umask), writes
 * run.json. info->uuid is set by the caller. The run is locked (flock of run.lock, which is 0600) until it is closed or the
 * process dies: that is how its owner and root know, across pid namespaces, that its recorder lives. */
int infp_run_create(const char *output, const struct infp_run_info *info, struct infp_run **ret, struct infp_err *err);

/* Makes the output directory, as infp_run_create does. *ret: a descriptor of it. */
int infp_run_make_output(const char *output, int *ret, struct infp_err *err);

/* spec: NULL (the newest run of `output`, NULL = ./profiler-output), a directory (its newest run, or the run itself when it is
 * an .infprof directory), a pinned name (store/pin.h), or the beginning of a uuid (looked for in `output`, NULL = ./profiler-output, and among the live
 * runs). What exists as a directory is one, whatever it looks like.
 * Errors name what was looked for and where; an ambiguous prefix (-ENOTUNIQ) lists the candidates. */
int infp_run_open(const char *spec, const char *output, struct infp_run **ret, struct infp_err *err);
/* Reads run.json again: another process may have finished the run since. 0 or -ENOMEM; then info is empty. */
int infp_run_reload(struct infp_run *run, struct infp_err *err);
struct infp_run *infp_run_close(struct infp_run *run); /* NULL is fine; returns NULL */

/* Of files of the run that lie beside its directory: 0600, or 0666 for a shared run; less the umask. */
mode_t infp_run_file_mode(const struct infp_run *run);
/* Removes run.json and the directory, in which no table may be left. */
int infp_run_remove(struct infp_run *run);

/* Replaces run.json by info's present values (write aside, rename). state FINISHED is kept there, the other states follow
 * from ended_unix_ns and from whether the recorder lives. */
int infp_run_save(struct infp_run *run, struct infp_err *err);

/* Whether its recorder lives now: it holds the run's lock, or its pid on this boot is still the process that started then. */
bool infp_run_is_recording(const struct infp_run *run);

/* Calls back for each run of a directory, oldest first; a callback that returns non-zero ends the walk with that value. */
int infp_run_each(const char *output, int (*each)(void *context, const char *uuid), void *context,
                  struct infp_err *err);

/* Readers call it, from any thread, whenever they return less than there is: nothing is left out silently. */
void infp_run_note(struct infp_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The tables that have at least one segment, sorted; free each and the array. Returns their number. */
int infp_run_tables(const struct infp_run *run, char ***ret, struct infp_err *err);
/* The segments of a table in the order of their numbers, as paths below run->fd ("cpu/000001.arrows"); where a finished
 * .parquet stands beside its .arrows, only the .parquet. Free each and the array. Returns their number, 0 for no such table. */
int infp_run_segments(const struct infp_run *run, const char *table, char ***ret, struct infp_err *err);
