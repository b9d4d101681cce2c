/* Between engine_window.c (what is read) and engine_window_sum.c (what is made of it). */
#pragma once

#include <stdbool.h>

#include "base/map.h"
#include "query/engine_window.h"

enum window_part { WINDOW_OTHER, WINDOW_BUCKET, WINDOW_SUM, WINDOW_COUNT };

struct window_series {
        enum window_part part;
        uint32_t engine, group; /* numbers; OTHER has no group */
        double le;
};

/* One histogram: the series of an engine that differ in nothing but their edge. */
struct window_group {
        uint32_t engine;
        char *metric, *family;
        struct window_edge {
                double le, now, total; /* now: NAN when it is not on the page; total: within the window */
        } * edges;                     /* by le */
        size_t n_edges;
        struct infp_bucket *before; /* settled; room for n_edges */
        size_t n_before;
        double sum, count, before_sum, before_count, total_sum, total_count; /* NAN: not known */
        bool is_seen;                                                        /* before_ holds a page */
        bool is_pending;                                                     /* values of the page at t_ns came in */
        uint64_t t_ns;
};

struct window {
        uint64_t t0;
        struct window_engine {
                uint64_t id, first_t_ns; /* of its first page; 0: none yet */
        } * engines;
        struct window_series *series;
        struct window_group *groups;
        uint32_t n_engines, n_series, n_groups;
        struct infp_map series_of, group_of; /* id, hash -> number */
        struct infp_bucket *after;           /* scratch: twice the edges of the largest group */
        size_t max_edges;
};

/* Makes the scratch memory when all series are known. -ENOMEM. */
int infp_window_ready(struct window *w);
void infp_window_take(struct window *w, const struct window_series *series, uint64_t t_ns, double value);
/* The last pages, then the result. -ENOMEM. */
int infp_window_end(struct window *w, struct infp_engine_window *ret);
/* Begins the next window where the one before ended. */
void infp_window_again(struct window *w);
