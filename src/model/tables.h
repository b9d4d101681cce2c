/* Tables that belong to no collector: written by the recorder, by `mark` and `load`, kept in every run. The columns are in
 * tables.c; code that fills them uses the enumerators below, which count cells (keys first). */
#pragma once

#include "model/schema.h"

extern const struct infp_table infp_table_clock;    /* anchors: t_ns <-> realtime, boottime */
extern const struct infp_table infp_table_columns;  /* the run's own schema, one row a column */
extern const struct infp_table infp_table_sources;  /* why something is missing; a row at each change */
extern const struct infp_table infp_table_ticks;    /* how well the sampling kept its time */
extern const struct infp_table infp_table_marks;    /* tags that people and programs put on the time line */
extern const struct infp_table infp_table_spans;    /* named stretches of time of programs */
extern const struct infp_table infp_table_counters; /* counters and gauges of programs */
extern const struct infp_table infp_table_requests; /* requests as a client saw them: written by `load` */
extern const struct infp_table infp_table_output;   /* where in <uuid>_output.txt the command was at which time */

enum infp_clock_cell { INFP_CLOCK_REALTIME, INFP_CLOCK_BOOTTIME, INFP_CLOCK_REASON, INFP_CLOCK_N };
enum infp_columns_cell {
        INFP_COLUMNS_TABLE,
        INFP_COLUMNS_COLUMN,
        INFP_COLUMNS_POSITION,
        INFP_COLUMNS_TYPE,
        INFP_COLUMNS_KIND,
        INFP_COLUMNS_UNIT,
        INFP_COLUMNS_QUALITY,
        INFP_COLUMNS_RESET,
        INFP_COLUMNS_IS_KEY,
        INFP_COLUMNS_KEY,
        INFP_COLUMNS_SCALE,
        INFP_COLUMNS_PROM,
        INFP_COLUMNS_HELP,
        INFP_COLUMNS_ENTITY,
        INFP_COLUMNS_SECTION,
        INFP_COLUMNS_SERIES,
        INFP_COLUMNS_SCHEMA,
        INFP_COLUMNS_N,
};
enum infp_sources_cell {
        INFP_SOURCES_COLLECTOR,
        INFP_SOURCES_INSTANCE,
        INFP_SOURCES_TABLE,
        INFP_SOURCES_COLUMN,
        INFP_SOURCES_STATE,
        INFP_SOURCES_REASON,
        INFP_SOURCES_FIX,
        INFP_SOURCES_N,
};
/* How the reason begins where something is missing only since the user did not ask for it: readers tell it last. With an
 * instance it is a place that was looked at unasked. */
#define INFP_NOT_ASKED "not asked for: "
enum infp_ticks_cell {
        INFP_TICKS_NUMBER,
        INFP_TICKS_DEADLINE,
        INFP_TICKS_LATE_NS,
        INFP_TICKS_BUSY_NS,
        INFP_TICKS_MISSED,
        INFP_TICKS_COLLECTORS,
        INFP_TICKS_N,
};
enum infp_marks_cell {
        INFP_MARKS_SOURCE,
        INFP_MARKS_PROCESS,
        INFP_MARKS_TID,
        INFP_MARKS_TAG,
        INFP_MARKS_STAMP,
        INFP_MARKS_THREAD,
        INFP_MARKS_N,
};
enum infp_spans_cell {
        INFP_SPANS_SOURCE,
        INFP_SPANS_PROCESS,
        INFP_SPANS_SPAN,
        INFP_SPANS_PARENT,
        INFP_SPANS_NAME,
        INFP_SPANS_DURATION_NS,
        INFP_SPANS_STATUS,
        INFP_SPANS_TID,
        INFP_SPANS_THREAD,
        INFP_SPANS_END_TID,
        INFP_SPANS_ATTRIBUTES,
        INFP_SPANS_N,
};
enum infp_counters_cell {
        INFP_COUNTERS_SOURCE,
        INFP_COUNTERS_PROCESS,
        INFP_COUNTERS_NAME,
        INFP_COUNTERS_KIND,
        INFP_COUNTERS_UNIT,
        INFP_COUNTERS_VALUE,
        INFP_COUNTERS_TID,
        INFP_COUNTERS_THREAD,
        INFP_COUNTERS_HELP,
        INFP_COUNTERS_N,
};

enum infp_requests_cell {
        INFP_REQUESTS_SOURCE,
        INFP_REQUESTS_LOAD,
        INFP_REQUESTS_NUMBER,
        INFP_REQUESTS_URL,
        INFP_REQUESTS_MODEL,
        INFP_REQUESTS_STATUS,
        INFP_REQUESTS_OK,
        INFP_REQUESTS_FAILURE,
        INFP_REQUESTS_ERROR,
        INFP_REQUESTS_FINISH,
        INFP_REQUESTS_SEND_NS,
        INFP_REQUESTS_FIRST_NS,
        INFP_REQUESTS_LAST_NS,
        INFP_REQUESTS_END_NS,
        INFP_REQUESTS_MAX_TOKENS,
        INFP_REQUESTS_PROMPT_TOKENS,
        INFP_REQUESTS_CACHED_TOKENS,
        INFP_REQUESTS_OUTPUT_TOKENS,
        INFP_REQUESTS_CHUNKS,
        INFP_REQUESTS_GAP_MAX_NS,
        INFP_REQUESTS_GAPS,
        INFP_REQUESTS_N,
};
enum infp_output_cell { INFP_OUTPUT_STREAM, INFP_OUTPUT_OFFSET, INFP_OUTPUT_LENGTH, INFP_OUTPUT_N };

/* States of table sources, as stored. */
enum infp_source_state { INFP_OK, INFP_ABSENT, INFP_DENIED, INFP_BROKEN, INFP_LATE };
const char *infp_source_state_name(enum infp_source_state state);

/* Fills a row of `columns` for column `index` (0 = t_ns) of `table`. */
struct infp_row;
void infp_columns_row(struct infp_row *row, const struct infp_table *table, unsigned index, uint64_t t_ns);
