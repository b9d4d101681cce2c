/* A table with every type, and rows of it whose cells are known by their number: for the tests of the store. */
#pragma once

#include <stdio.h>
#include <string.h>

#include "model/builder.h"

#define SAMPLE_TIME INT64_C(1764302400123456000) /* 2025-11-28 04:00:00.123456 UTC: files hold microseconds */

// clang-format off
static const struct infp_column sample_keys[] = {
        INFP_COLUMN(process, ID64, LABEL, none, MEASURED, NO, "processes", 0, NULL, "Which process."),
};
static const struct infp_column sample_columns[] = {
        INFP_COLUMN(delta, I64, GAUGE, count, DERIVED, NO, NULL, 0, NULL, "A signed number."),
        INFP_COLUMN(ticks, U64, COUNTER, cs, MEASURED, ZERO, "a", 0, "sample_seconds_total", "A counter."),
        INFP_COLUMN(ratio, F64, GAUGE, ratio, ESTIMATED, NO, NULL, 0, NULL, "A quotient."),
        INFP_COLUMN(is_on, BOOL, GAUGE, none, MEASURED, NO, NULL, 0, NULL, "A bool."),
        INFP_COLUMN(name, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "A text."),
        INFP_COLUMN(born, TS_NS, LABEL, none, MEASURED, NO, NULL, 0, NULL, "A time."),
};
// clang-format on
enum { SAMPLE_PROCESS, SAMPLE_DELTA, SAMPLE_TICKS, SAMPLE_RATIO, SAMPLE_IS_ON, SAMPLE_NAME, SAMPLE_BORN };

static const struct infp_table sample_table = {
        .name = "sample",
        .help = "Rows of the tests.",
        .keys = sample_keys,
        .columns = sample_columns,
        .n_keys = 1,
        .n_columns = 6,
};

/* Row i: every third has no name, every fifth no ratio, every seventh nothing at all but its process. */
static inline void sample_append(struct infp_builder *b, uint32_t i)
{
        struct infp_row *row = calloc(1, sizeof(*row));
        char scratch[256], name[64];

        row->text = scratch;
        row->text_cap = sizeof(scratch);
        infp_row_begin(row, &sample_table, UINT64_C(1000000000) + i);
        infp_row_id(row, SAMPLE_PROCESS, UINT64_C(0xfedcba9876543210) + i);
        if (i % 7 != 6) {
                infp_row_i64(row, SAMPLE_DELTA, -(int64_t) i);
                infp_row_u64(row, SAMPLE_TICKS, UINT64_C(18446744073709551000) + i % 600);
                if (i % 5 != 4)
                        infp_row_f64(row, SAMPLE_RATIO, i * 0.25);
                infp_row_bool(row, SAMPLE_IS_ON, i % 2 == 0);
                snprintf(name, sizeof(name), "row \xc3\xa9 %u", i);
                if (i % 3 != 2)
                        infp_row_str(row, SAMPLE_NAME, name);
                infp_row_ts(row, SAMPLE_BORN, SAMPLE_TIME - INT64_C(1000) * i);
        }
        while (infp_builder_append(b, row, SAMPLE_TIME + INT64_C(1000) * i) == -ENOSPC)
                abort(); /* the tests make their builders large enough */
        free(row);
}

static inline struct infp_builder *sample_builder(uint32_t from, uint32_t n)
{
        struct infp_builder *b = infp_builder_new(&sample_table, n ? n : 1);

        for (uint32_t i = 0; i < n; i++)
                sample_append(b, from + i);
        return b;
}
