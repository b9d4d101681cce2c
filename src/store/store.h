/* The store: batches into self-contained Arrow IPC stream segments <uuid>.infprof/<table>/<seq>.arrows. One write(2) a batch:
 * what was written survives kill -9. A write that fails half-way is cut off again, so that a segment is whole at all times. */
#pragma once

#include "model/sink.h"
#include "store/run.h"

struct infp_store_options {
        uint64_t segment_bytes; /* wants_rotation beyond; 0 = 64 MiB */
        uint64_t sync_ns;       /* how often changes are synced to disk (started by tick_end); 0 = 10 s */
};

/* A sink that writes into the run (borrowed until end). The first segments are numbered 1; a folder and its segment are made
 * with a table's first row. It keeps info.last_seq of the run; saving run.json is its owner's business. Where descriptors
 * run out it closes segments and opens them again. A failed batch is lost, later ones are tried again. fdatasync runs in a
 * thread of its own: only `end` waits for it, two seconds at most (-ETIMEDOUT beyond), and free leaves it to itself. */
int infp_store_sink_new(struct infp_run *run, const struct infp_store_options *options, struct infp_sink **ret,
                        struct infp_err *err);
struct infp_sink *infp_store_sink_free(struct infp_sink *sink);
uint64_t infp_store_bytes(const struct infp_sink *sink); /* written so far */

/* Reads one segment, batch by batch; also Arrow streams and files of other programs: integers, floats, texts, bools,
 * timestamps (taken as UTC) and dictionaries of these become our types; other columns are refused by name. */
struct infp_segment;
/* path lies below dir_fd, links are not followed; with dir_fd AT_FDCWD it is the user's own word. -ENODATA: nothing whole is
 * in it yet (the recorder has just made it, or it was cut at once): read on without it. */
int infp_segment_open(int dir_fd, const char *path, struct infp_segment **ret, struct infp_err *err);
/* The same for a regular file that is open; takes fd, also on failure. path is for messages. */
int infp_segment_open_fd(int fd, const char *path, struct infp_segment **ret, struct infp_err *err);
struct infp_segment *infp_segment_close(struct infp_segment *segment);
/* The table as the file describes it, owned by the segment: types, names, and kind, unit, quality, reset, help, keys of a file
 * of ours (source key, scale and Prometheus name are in table `columns` alone). A table that does not begin with t_ns and
 * time is `plain`. */
const struct infp_table *infp_segment_table(const struct infp_segment *segment);
/* 1: *ret is the next batch, borrowed until the next call; 0: end; a negative errno. A torn tail (no end marker, a cut message) is
 * an end, *ret_torn (may be NULL) says so: of a segment that is being written it is the rule. What is damaged (a checksum, or the
 * shape of a message) is left out. */
int infp_segment_next(struct infp_segment *segment, struct infp_batch *ret, bool *ret_torn, struct infp_err *err);

/* After the end of a segment that its recorder still writes: reads on where it ended, if the file has grown. 1: it has; 0: not,
 * or the segment is closed; a negative errno. */
int infp_segment_grow(struct infp_segment *segment, struct infp_err *err);

/* What was left out, when the end was reached. */
struct infp_segment_damage {
        uint64_t n;          /* places where rows are damaged */
        uint64_t bytes;      /* that could not be read there */
        uint64_t cut_bytes;  /* after the last whole message, of one that is not whole */
        struct infp_err why; /* of the first place */
};
const struct infp_segment_damage *infp_segment_damage(const struct infp_segment *segment);
/* Notes on the run what was left out; of a live run's tail nothing. */
void infp_segment_note(const struct infp_segment *segment, struct infp_run *run);

/* Makes a torn or broken segment whole: its good messages, then the end of stream. Returns the number of batches kept, -ENODATA
 * when there is not even a schema. *ret_cut (may be NULL): bytes cut off. A whole segment is not touched. */
int infp_segment_mend(int dir_fd, const char *path, uint64_t *ret_cut, struct infp_err *err);

/* Mends the segments of a whole run and removes left-over *.part files, its own and those of the output directory that bear
 * its uuid. A segment of which nothing can be read (zeros after a power cut) is set aside as <name>.broken. -EBUSY while its recorder lives. On another error it goes on with the rest and returns the first. */
struct infp_mend {
        unsigned n_segments, n_mended, n_removed; /* looked at; made whole; files removed (empty segments, *.part) */
        unsigned n_empty, n_broken;               /* of the segments: removed, nothing was in them; set aside */
        uint64_t n_batches;                       /* kept in those that were mended */
        uint64_t bytes_cut;
        uint64_t n_damaged,
                bytes_damaged; /* damaged places in segments that are otherwise whole: `finish` leaves them out */
};
int infp_store_mend_run(struct infp_run *run, struct infp_mend *ret, struct infp_err *err);
