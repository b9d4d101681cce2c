/* What scan.c and scan_open.c share. */
#pragma once

#include "query/join_vector.h"
#include "query/joins.h"
#include "query/made.h"
#include "query/parts.h"
#include "query/scan.h"
#include "query/source.h"

/* An entity table that this scan joins, and one vector for each column that is shown. */
struct join {
        struct infp_entities *entities; /* shared by the columns of the same entity: only the first one owns it */
        bool owns;
        struct infp_join_vector vector;
};

struct infp_scan {
        struct infp_run *run;
        uint64_t t0, t1;
        struct infp_catalog own_catalog;
        struct infp_parts own_parts;
        const struct infp_catalog *catalog;
        const struct infp_parts *parts;

        struct infp_made *base; /* all columns that the table has */
        struct infp_shown_list shown;
        struct infp_made *out; /* what is shown */
        struct infp_vector *vectors;
        struct join *joins;  /* of each shown */
        const char **needed; /* of base, ended by NULL; NULL: all */

        unsigned next_part;
        struct infp_source *source;
        int duration; /* column of base that says how long a row lasts from its t_ns on; -1: rows are moments */
        int *map;     /* column of base -> of the source, or -1 */
        struct infp_batch batch;
        uint32_t at; /* rows of batch that were given out or skipped */
        void *zeros;
        size_t zeros_size;
};
