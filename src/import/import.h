/* Reads profiles of other programs into the tables of our recordings (model/stack_tables.h), so that they are drawn, queried and
 * compared like those. The format is recognised by content. Input is bounded and never trusted; text is read as a stream. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/notice.h"
#include "model/sink.h"
#include "store/run.h"

struct infp_import_options {
        int fd;             /* borrowed; read from where it stands */
        const char *path;   /* for messages: as the user named it, "standard input" */
        const char *format; /* a name of infp_import_formats; NULL: recognised by content */
        const char *
                mode; /* of infp_stack_modes in bytes: what the numbers are of a file that does not say it; NULL: not known */
        int stop_fd; /* -1: none. Readable: is_stop is asked, also while the file lets us wait */
        bool (*is_stop)(void *context);
        void *context;
        const struct infp_notices *notices; /* progress; may be NULL */
        const struct infp_table
                *process; /* where pids go (of the collectors, which import cannot see); NULL: nowhere */
        struct infp_sink *
                sink; /* borrowed: where rows go, but those of table columns, 16 at most at once; NULL: into the run on disk */
};

enum { INFP_IMPORT_MODES = 16, INFP_IMPORT_SKIPS = 16, INFP_IMPORT_MODE_TEXT = 96 };

/* What was found. */
struct infp_imported {
        const char *format;
        bool is_compressed;
        char by[96];                    /* the program that wrote the file, as it says itself; "" */
        uint64_t bytes, unpacked;       /* of the file; of its content */
        uint64_t rows, samples;         /* of stack_samples */
        uint64_t stacks, frames;        /* different ones: nodes, places */
        uint64_t truncated;             /* rows whose stack lost its outer frames */
        bool has_times;                 /* of samples, as the file says them */
        int64_t unix_ns;                /* when the profile was taken, as the file says; 0: it does not */
        uint64_t duration_ns;           /* of the profile, as the file says; 0: it does not */
        uint64_t first_t_ns, last_t_ns; /* of samples */
        struct infp_imported_mode {
                char mode[INFP_IMPORT_MODE_TEXT];
                uint64_t rows, samples;
                double weight;
        } modes[INFP_IMPORT_MODES];
        unsigned n_modes;
        /* What is in the file and not in the run: how often, and where for the first time. */
        struct infp_imported_skip {
                const char *what;  /* static text, plural: "lines without a count" */
                uint64_t n, where; /* where: line, or 0 */
        } skips[INFP_IMPORT_SKIPS];
        unsigned n_skips;
};

/* Reads all of it into a run that was just made and is still empty, and sets the times in its info (saving it is the caller's
 * business). On failure the run is to be discarded: infp_import_discard. */
int infp_import(struct infp_run *run, const struct infp_import_options *options, struct infp_imported *ret,
                struct infp_err *err);

/* Removes what an import has written into a run; the run stays open and empty. */
void infp_import_discard(struct infp_run *run);

struct infp_import_format;
extern const struct infp_import_format *const infp_import_formats[]; /* ended by NULL */
