/* Rows of the tables of stacks with a part of the frames alone (enum infp_profile_part), as a picture of that part has them: frames
 * and symbols of the others are left out; a node's parent is the nearest caller that is left; a sample's stack is the innermost
 * node that is left, and samples without one are left out. Memory grows with the number of nodes. */
#pragma once

#include "analyze/profile/profile.h"
#include "query/scan.h"

struct infp_part_rows;

bool infp_part_rows_knows(const char *table);
/* Of a table that it knows; options as of infp_scan_open. */
int infp_part_rows_open(struct infp_run *run, const char *table, enum infp_profile_part part,
                        const struct infp_scan_options *options, struct infp_part_rows **ret, struct infp_err *err);
struct infp_part_rows *infp_part_rows_close(struct infp_part_rows *rows); /* NULL is fine; returns NULL */
const struct infp_table *infp_part_rows_table(const struct infp_part_rows *rows);
/* 1: batch, borrowed until the next call; 0: end; negative errno. */
int infp_part_rows_next(struct infp_part_rows *rows, struct infp_batch *ret, struct infp_err *err);
