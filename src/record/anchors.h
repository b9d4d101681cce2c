/* Anchors between CLOCK_MONOTONIC and the wall clock: table `clock`, and the `time` of every row. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "model/anchor.h"
#include "model/row.h"

struct infp_clocks {
        struct infp_anchor at;
        uint64_t boottime_ns; /* 0: unknown */
};

struct infp_anchors {
        /* Reads the clocks at one moment; tests bring their own. */
        void (*read)(void *context, struct infp_clocks *ret);
        void *context;
        struct infp_clocks newest;
        int64_t last_offset; /* unix - monotonic at the last look */
};

/* The machine's clocks: the closest of some readings. */
void infp_clocks_read(void *context, struct infp_clocks *ret);

/* Takes the first anchor. read NULL: the machine's clocks. */
void infp_anchors_begin(struct infp_anchors *anchors, void (*read)(void *context, struct infp_clocks *ret),
                        void *context);

/* Looks at the clocks. NULL, or the reason for which the newest anchor was replaced: "clock_set", "periodic". */
const char *infp_anchors_look(struct infp_anchors *anchors);
/* Takes a new one in any case. */
void infp_anchors_take(struct infp_anchors *anchors);

/* Fills a row of `clock` from the newest anchor. */
void infp_anchors_row(const struct infp_anchors *anchors, const char *reason, struct infp_row *row);
