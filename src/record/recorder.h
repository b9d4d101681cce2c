/* The recorder: takes rows (from rings, from the live socket, its own), writes entities before the facts that name them,
 * stamps `time`, keeps rows in builders and feeds sinks. One thread uses it. Between flushes nothing is allocated. */
#pragma once

#include "base/notice.h"
#include "model/sink.h"
#include "record/anchors.h"
#include "ring/rowring.h"

struct infp_recorder_options {
        uint64_t (*now_ns)(void *context);                           /* CLOCK_MONOTONIC; NULL: the machine's */
        void (*read_clocks)(void *context, struct infp_clocks *ret); /* NULL: the machine's */
        void *clock_context;
        const struct infp_table *const *tables; /* all that rows may belong to, ended by NULL */
        uint64_t period_ns;  /* of the run: where each tick is flushed, the flush comes right after it */
        uint64_t flush_ns;   /* the sinks get a row at most this long after its stamp; 0: 5 s */
        uint64_t rotate_ns;  /* 0: 15 minutes */
        size_t entity_bytes; /* bound of kept entities; 0: 8 MiB */
        struct infp_notices notices;
        struct infp_stats *stats; /* own figures; NULL: not wanted */
};

struct infp_recorder;
int infp_recorder_new(const struct infp_recorder_options *options, struct infp_recorder **ret, struct infp_err *err);
struct infp_recorder *infp_recorder_free(struct infp_recorder *recorder); /* NULL is fine; returns NULL */

/* Sinks are borrowed, fed in this order, and stay the caller's. Before begin. */
int infp_recorder_add_sink(struct infp_recorder *recorder, struct infp_sink *sink, struct infp_err *err);

/* Announces the tables, writes `columns` and the first anchor. */
void infp_recorder_begin(struct infp_recorder *recorder);

/* Takes one row, whose table is one of `tables`. */
void infp_recorder_put(struct infp_recorder *recorder, const struct infp_row *row);
/* A row that comes long after its stamp: a span's stamp is its begin. now: when it came; the flush counts from there. */
void infp_recorder_put_at(struct infp_recorder *recorder, const struct infp_row *row, uint64_t now);
int infp_recorder_put_row(void *recorder, const struct infp_row *row); /* as infp_recorder_put, for struct infp_emit */

/* This entity (process ...) was described and is not forgotten. */
bool infp_recorder_has(const struct infp_recorder *recorder, const struct infp_table *table, uint64_t id);

/* Takes the rows in the ring; at the end of a tick its sinks get what is new. Returns the number of ticks: after
 * INFP_DRAIN_TICKS of them it returns even if more rows are there. When a tick ended over a second ago, or half a ring of
 * rows follows it, sinks that can skip it do not get its end. */
enum { INFP_DRAIN_TICKS = 4 };
unsigned infp_recorder_drain(struct infp_recorder *recorder, struct infp_rowring *ring);
void infp_recorder_tick(struct infp_recorder *recorder, uint64_t t_ns);

/* Looks at the clocks (at most ten times a second) and flushes when due. */
void infp_recorder_turn(struct infp_recorder *recorder);
/* When turn must be called next. */
uint64_t infp_recorder_due_ns(const struct infp_recorder *recorder);
void infp_recorder_set_flush(struct infp_recorder *recorder, uint64_t flush_ns);

/* Gives everything to the sinks now. 0, or the first error of a sink. */
int infp_recorder_flush(struct infp_recorder *recorder, struct infp_err *err);

/* The last anchor, flush, and `end` of every sink, which may wait for a disk. Returns the anchor's stamp. */
uint64_t infp_recorder_end(struct infp_recorder *recorder);

uint32_t
infp_recorder_segment(const struct infp_recorder *recorder); /* number of the current segment, from 1 as in the store */
int64_t infp_recorder_unix_ns(const struct infp_recorder *recorder, uint64_t t_ns); /* by the newest anchor */
