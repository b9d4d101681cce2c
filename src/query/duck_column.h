/* One column of an SQL result becomes a vector of a batch. */
#pragma once

#include "query/duck_state.h"

enum infp_duck_how {
        INFP_DUCK_DIRECT, /* lies in memory as ours: used in place */
        INFP_DUCK_WIDEN,  /* small integers, float */
        INFP_DUCK_BOOL,
        INFP_DUCK_TEXT,
        INFP_DUCK_TIME,    /* a time stamp of another unit */
        INFP_DUCK_HUGE,    /* 128 bits: i64 or u64 when all values fit, else text */
        INFP_DUCK_DECIMAL, /* f64 when no digit is lost (i64 without decimals), else text */
        INFP_DUCK_CAST,    /* text by DuckDB */
};

struct infp_duck_column {
        enum infp_duck_how how;
        enum infp_type type; /* ours */
        duckdb_type from;    /* how the values lie in memory */
        uint8_t scale;       /* decimals */
        /* Own memory for 2,048 rows. */
        void *values;
        int32_t *offsets;
        size_t cap_text;
};

/* From DuckDB's type. DECIMAL and HUGE are not final: decide. */
void infp_duck_column_plan(const struct infp_duck_api *api, duckdb_logical_type type, struct infp_duck_column *ret);
/* Looks through the values of a chunk: false when they do not fit `type`, a type that is tried. */
bool infp_duck_column_fits(const struct infp_duck_api *api, const struct infp_duck_column *column, enum infp_type type,
                           duckdb_vector vector, idx_t n);
/* -ENOMEM, -ERANGE (a time stamp beyond the years 1678 to 2261). */
int infp_duck_column_read(const struct infp_duck_api *api, struct infp_duck_column *column, duckdb_vector vector,
                          idx_t n, struct infp_vector *ret);
void infp_duck_column_done(struct infp_duck_column *column);
