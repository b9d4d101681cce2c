/* A batch: rows of one table, column-major in Arrow's memory layout, at most INFP_BATCH_ROWS, borrowed for the call. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/schema.h"

enum { INFP_BATCH_ROWS = 8192 };

struct infp_vector {
        const uint8_t *valid;   /* bit i (least significant first) = row i has a value; NULL = all have */
        const void *values;     /* int64_t, uint64_t, double; bool: bits; str: the bytes */
        const int32_t *offsets; /* str: first + n_rows + 1 of them */
};

struct infp_batch {
        const struct infp_table *table; /* infp_table_width() columns: 0 t_ns, 1 time, keys, columns */
        const struct infp_vector *columns;
        uint32_t first, n_rows; /* rows first .. first + n_rows - 1 of the vectors */
};

/* `row` counts from 0 within the batch. The getters of an absent cell return 0, "" or NAN. */
bool infp_batch_has(const struct infp_batch *batch, unsigned column, uint32_t row);
int64_t infp_batch_i64(const struct infp_batch *batch, unsigned column, uint32_t row);  /* I64, TS_NS, t_ns */
uint64_t infp_batch_u64(const struct infp_batch *batch, unsigned column, uint32_t row); /* U64, ID64 */
double infp_batch_f64(const struct infp_batch *batch, unsigned column, uint32_t row);
bool infp_batch_bool(const struct infp_batch *batch, unsigned column, uint32_t row);
const char *infp_batch_str(const struct infp_batch *batch, unsigned column, uint32_t row, size_t *ret_size);
/* Any numeric or bool cell as a double, NAN when absent or a text: for statistics and Prometheus. */
double infp_batch_number(const struct infp_batch *batch, unsigned column, uint32_t row);
/* The seconds that a counter with gaps (INFP_RESET_GAP) has counted over so far; NAN of others, and where the batch lacks them. */
double infp_batch_counted_s(const struct infp_batch *batch, const struct infp_column *counter, uint32_t row);
