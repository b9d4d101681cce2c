/* The segment files of a table, in order: <uuid>.infprof/<table>/<seq>.arrows, or .parquet once it is finished. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "store/run.h"

#define INFP_ARROW_EXTENSION ".arrows"
#define INFP_PARQUET_EXTENSION ".parquet"

struct infp_part {
        char *path; /* below run->fd */
        bool is_parquet;
};

struct infp_parts {
        char *table;
        struct infp_part *parts;
        unsigned n;
};

/* A table without a folder has no parts: 0. */
int infp_parts_list(const struct infp_run *run, const char *table, struct infp_parts *ret, struct infp_err *err);
void infp_parts_done(struct infp_parts *parts);

/* The path with another extension. */
void infp_part_path(struct infp_str *path, const struct infp_part *part, const char *extension);
/* Why a part cannot be read, its run and what would help. Of DuckDB's error only the sentence: the statement that it quotes is
 * ours. Returns r. */
int infp_parts_fail(const struct infp_run *run, int r, const struct infp_err *why, struct infp_err *err);
