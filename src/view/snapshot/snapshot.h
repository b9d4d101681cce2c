/* The state of everything at one moment as one JSON object: {"timestamp": ms, "cpu": {"vCpuTime": {"value": v, "time": ms}}}.
 *
 * A table stands in the member that its `section` names: without keys as an object, with keys as a list of objects. Where
 * several tables share a section, the keyed ones are lists in it under their own names. Gauges and counters are
 * {"value", "time"}, labels plain values; what is absent is there, as {"value":null,"time":null}. In place of an id stand the
 * attributes of the thing. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"
#include "model/last.h"
#include "model/sink.h"
#include "view/histograms.h"

/* indent: spaces a level, 0 = one line. sources: adds a list of what is missing and why, where the run's own table `sources`
 * is not at hand. */
void infp_snapshot_put(struct infp_str *out, const struct infp_last *last, int64_t unix_ms, unsigned indent,
                       bool sources);

/* What stays from one snapshot to the next. */
struct infp_snapshot_memory {
        struct infp_histograms *histograms; /* NULL: made each time */
        bool has_lead;                      /* the entity with the lowest number that ever had a row */
        uint64_t lead;
        int64_t lead_number;
};
/* memory: never NULL. */
void infp_snapshot_put_again(struct infp_str *out, const struct infp_last *last, int64_t unix_ms, unsigned indent,
                             bool sources, struct infp_snapshot_memory *memory);

#define INFP_SNAPSHOT_LIMIT (UINT64_C(256) << 20)

struct infp_snapshot_options {
        struct infp_last last; /* its keeper (the tail) gets its rows before this sink's tick_end */
        int output_fd;         /* directory, borrowed */
        mode_t mode;           /* of the files */
        const char *uuid;      /* of the run, borrowed */
        uint64_t limit_bytes;  /* of all files together; 0 = INFP_SNAPSHOT_LIMIT */
        void (*notice)(void *context, const char *text); /* called once when the limit is reached; may be NULL */
        void *context;
};

/* A sink that writes <uuid>-<unix ms>.json at each tick. No allocation once a snapshot has had its usual size. */
int infp_snapshot_sink_new(const struct infp_snapshot_options *options, struct infp_sink **ret, struct infp_err *err);
struct infp_sink *infp_snapshot_sink_free(struct infp_sink *sink); /* returns NULL */
uint64_t infp_snapshot_bytes(const struct infp_sink *sink);        /* written so far */
