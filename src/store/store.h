/* The store: batches into self-contained Arrow IPC stream segments <uuid>.infprof/<table>/<seq>.arrows. One write(2) a batch:
 * what was written survives kill -9. A write that fails half-way is cut off again, so that a segment is whole at all times. */
#pragma once

#include "model/sink.h"
#include "store/run.h"

struct infp_store_options {
        uint64_t segment_bytes; /* wants_rotation beyond; 0 = 64 MiB */
        uint64_t sync_ns;       /* fdatasync of what changed, every so often (from tick_end); 0 = 10 s */
};

/* A sink that writes into the run (borrowed until end). */
int infp_store_sink_new(struct infp_run *run, const struct infp_store_options *options, struct infp_sink **ret,
                        struct infp_err *err);
struct infp_sink *infp_store_sink_free(struct infp_sink *sink);
uint64_t infp_store_bytes(const struct infp_sink *sink); /* written so far */

/* Reads one segment, batch by batch. */
struct infp_segment;
int infp_segment_open(int dir_fd, const char *path, struct infp_segment **ret, struct infp_err *err);
struct infp_segment *infp_segment_close(struct infp_segment *segment);
/* The table as the file describes it: types, names; owned by the segment. Kinds, units and help are not in the file. */
const struct infp_table *infp_segment_table(const struct infp_segment *segment);
/* 1: *ret is the next batch, borrowed until the next call; 0: end; a negative errno: a broken message. A torn tail (no end
 * marker, a cut message) is an end, *ret_torn (may be NULL) says so. */
int infp_segment_next(struct infp_segment *segment, struct infp_batch *ret, bool *ret_torn, struct infp_err *err);

/* Rewrites a torn segment: whole batches, then the end of stream. Returns the number of batches kept. */
int infp_segment_mend(int dir_fd, const char *path, struct infp_err *err);
