/* The recorder's side of ring files (ring/wire.h): finds those of the target's processes, drains them as their consumer, and
 * removes those of ended processes. One thread uses it: the session's.
 *
 * Which files: in mode run those of processes of the tree, and those whose head names this run (nothing else is left of a
 * process that lived between two ticks); in mode pid those of the attached tree; for the machine all of our own user in the
 * default directories. Without ring files the cost is one look at each process that has lived for a second, and at
 * directories that inotify reports. */
#pragma once

#include <stdint.h>

#include "base/notice.h"
#include "collect/env.h"
#include "record/recorder.h"

struct infp_rings_options {
        const struct infp_env *env; /* with target; a fixture tree has no rings */
        struct infp_recorder *recorder;
        const char *run; /* uuid that the command's environment names; "": none */
        struct infp_notices notices;
        struct infp_stats *stats; /* may be NULL */
};

struct infp_sampler;

struct infp_rings;
int infp_rings_new(const struct infp_rings_options *options, struct infp_rings **ret, struct infp_err *err);
struct infp_rings *infp_rings_free(struct infp_rings *rings); /* NULL is fine; returns NULL */

/* Who takes the files of samplers inside processes; NULL: nobody. */
void infp_rings_use(struct infp_rings *rings, struct infp_sampler *sampler);

/* Poll for POLLIN; -1: nothing to poll. */
int infp_rings_fd(const struct infp_rings *rings);
/* Looks and drains what is due, a bounded number of records. */
void infp_rings_turn(struct infp_rings *rings);
uint64_t infp_rings_due_ns(const struct infp_rings *rings); /* 0: at once */
/* Drains all now, so that the last sample of `self` has the counts. */
void infp_rings_drain(struct infp_rings *rings);
/* Reads all to the end: the recording is over. */
void infp_rings_end(struct infp_rings *rings);
