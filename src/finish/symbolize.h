/* Names for the frames of a run that has ended: rows of table `symbols`, beside those that the recorder wrote itself. Files are read,
 * never a process; a child with limits of its own does it, so that a file made to crash its reader costs names and no more.
 *
 * The rows of a frame are a set: they stand together, by level from 0 on, and the last set of a frame is valid. */
#pragma once

#include "finish/finish.h"

struct infp_symbolize_options {
        const char *const *debug_directories; /* besides the usual; ended by NULL; may be NULL */
        int root_fd;                          /* root of the objects' paths; -1: "/" */
        bool again; /* also frames that have a name, when a better one or a line is found now */
};

struct infp_symbolized {
        uint64_t n_frames;  /* places in code that the run knows by their address */
        uint64_t n_asked;   /* that were looked up now */
        uint64_t n_written; /* that have a new set of rows */
        uint64_t n_named;   /* of all frames: with a name, a line, the range of their function alone, nothing */
        uint64_t n_lines, n_ranges, n_unnamed;
        struct infp_symbolized_object {
                char *path, *build_id;                /* build_id "": none */
                uint64_t n_frames, n_named, n_ranges; /* of those that were looked up */
                char *names, *debug_file, *problem;   /* as in struct infp_symbols_about; NULL: none */
                bool has_lines;
        } * objects; /* that were looked at, most unnamed frames first */
        unsigned n_objects;
};
void infp_symbolized_done(struct infp_symbolized *symbolized);

/* The run must have ended and be locked (finish/lock.h), or belong to the caller alone, who then saves run.json. New segments are
 * Arrow; infp_finish_tables makes them Parquet. Frames that cannot be named are reported in notices and in table `sources`;
 * errors are those of reading and writing the run. ret may be NULL. */
int infp_symbolize_frames(struct infp_run *run, const struct infp_symbolize_options *options,
                          const struct infp_notices *notices, struct infp_symbolized *ret, struct infp_err *err);

/* The same for any run that has ended: takes the lock, and writes Parquet if the run is Parquet. -EBUSY while it is recorded,
 * -ENOTRECOVERABLE when its recorder died (infp_recover does both). */
int infp_symbolize(struct infp_run *run, const struct infp_symbolize_options *options,
                   const struct infp_notices *notices, struct infp_symbolized *ret, struct infp_err *err);
