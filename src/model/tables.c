#include "model/tables.h"

#include "model/prom_name.h"
#include "model/row.h"

// clang-format off
static const struct infp_column clock_columns[] = {
        [INFP_CLOCK_REALTIME] = INFP_COLUMN(realtime, TS_NS, LABEL, none, MEASURED, NO, NULL, 0, NULL, "CLOCK_REALTIME at t_ns."),
        [INFP_CLOCK_BOOTTIME] = INFP_COLUMN(boottime_ns, I64, LABEL, ns, MEASURED, NO, NULL, 0, NULL, "CLOCK_BOOTTIME at t_ns."),
        [INFP_CLOCK_REASON] = INFP_COLUMN(reason, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Why the anchor was taken: start, periodic, clock_set or end."),
};

static const struct infp_column columns_columns[] = {
        [INFP_COLUMNS_TABLE] = INFP_COLUMN(table_name, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Table."),
        [INFP_COLUMNS_COLUMN] = INFP_COLUMN(column_name, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Column."),
        [INFP_COLUMNS_POSITION] = INFP_COLUMN(position, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Place in the table, 0 = t_ns."),
        [INFP_COLUMNS_TYPE] = INFP_COLUMN(type, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "i64, u64, f64, bool, str, ts_ns or id64."),
        [INFP_COLUMNS_KIND] = INFP_COLUMN(kind, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "label, gauge or counter."),
        [INFP_COLUMNS_UNIT] = INFP_COLUMN(unit, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Unit of the stored value."),
        [INFP_COLUMNS_QUALITY] = INFP_COLUMN(quality, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "measured, derived or estimated."),
        [INFP_COLUMNS_RESET] = INFP_COLUMN(reset, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "What a smaller value of a counter means: none, zero or wrap; gap: as zero, and source_key names the column of the seconds that it counted over."),
        [INFP_COLUMNS_IS_KEY] = INFP_COLUMN(is_key, BOOL, LABEL, none, MEASURED, NO, NULL, 0, NULL, "The column tells the rows of one moment apart."),
        [INFP_COLUMNS_KEY] = INFP_COLUMN(source_key, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Name or position in the source; of an id64 the entity's table; of a counter with gaps the column of its seconds."),
        [INFP_COLUMNS_SCALE] = INFP_COLUMN(scale, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "The source's number was multiplied by this."),
        [INFP_COLUMNS_PROM] = INFP_COLUMN(prometheus, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Name in Prometheus text."),
        [INFP_COLUMNS_HELP] = INFP_COLUMN(help, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "What it is."),
        [INFP_COLUMNS_ENTITY] = INFP_COLUMN(entity, BOOL, LABEL, none, MEASURED, NO, NULL, 0, NULL, "The table describes things that facts name by id."),
        [INFP_COLUMNS_SECTION] = INFP_COLUMN(section, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Member of the snapshot that holds the table."),
        [INFP_COLUMNS_SERIES] = INFP_COLUMN(series, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Prefix in the time series; null = not included."),
        [INFP_COLUMNS_SCHEMA] = INFP_COLUMN(table_schema, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Schema that holds the table in SQL; null = main."),
};

static const struct infp_column sources_columns[] = {
        [INFP_SOURCES_COLLECTOR] = INFP_COLUMN(collector, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Collector that speaks."),
        [INFP_SOURCES_INSTANCE] = INFP_COLUMN(instance, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Device, URL or process; null = the collector as a whole."),
        [INFP_SOURCES_TABLE] = INFP_COLUMN(table_name, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Table, or * for all of the collector."),
        [INFP_SOURCES_COLUMN] = INFP_COLUMN(column_name, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Column, or * for the whole table."),
        [INFP_SOURCES_STATE] = INFP_COLUMN(state, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "ok, absent, denied, broken or late."),
        [INFP_SOURCES_REASON] = INFP_COLUMN(reason, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Why, in words."),
        [INFP_SOURCES_FIX] = INFP_COLUMN(fix, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "What would change it; null = nothing here."),
};

static const struct infp_column ticks_columns[] = {
        [INFP_TICKS_NUMBER] = INFP_COLUMN(tick, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Number of the tick, 0 = the first sample."),
        [INFP_TICKS_DEADLINE] = INFP_COLUMN(deadline_ns, I64, LABEL, ns, MEASURED, NO, NULL, 0, NULL, "When it was due (CLOCK_MONOTONIC)."),
        [INFP_TICKS_LATE_NS] = INFP_COLUMN(late_ns, I64, GAUGE, ns, MEASURED, NO, NULL, 0, NULL, "How much later it began; negative for the last one, when the end comes before it was due."),
        [INFP_TICKS_BUSY_NS] = INFP_COLUMN(busy_ns, I64, GAUGE, ns, MEASURED, NO, NULL, 0, NULL, "How long the shared collectors took."),
        [INFP_TICKS_MISSED] = INFP_COLUMN(missed, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "Ticks left out so far because an earlier one took too long."),
        [INFP_TICKS_COLLECTORS] = INFP_COLUMN(collectors, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "Shared collectors that were due."),
};

static const struct infp_column marks_columns[] = {
        [INFP_MARKS_SOURCE] = INFP_COLUMN(source, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Who wrote it: mark, output, api, python."),
        [INFP_MARKS_PROCESS] = INFP_COLUMN(process, ID64, LABEL, none, MEASURED, NO, "process", 0, NULL, "Process that wrote it."),
        [INFP_MARKS_TID] = INFP_COLUMN(tid, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Thread that wrote it."),
        [INFP_MARKS_TAG] = INFP_COLUMN(tag, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "The text."),
        [INFP_MARKS_STAMP] = INFP_COLUMN(stamp, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Of source output, whose clock t_ns is: line (the time in the line), or seen (when we saw it) and why; null = the sender's."),
        [INFP_MARKS_THREAD] = INFP_COLUMN(thread, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Name that the program gave this thread."),
};

/* t_ns is the begin. A row is written when the span has ended, or with a null duration when its process or the recording ended. */
static const struct infp_column spans_columns[] = {
        [INFP_SPANS_SOURCE] = INFP_COLUMN(source, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Who wrote it: api, python."),
        [INFP_SPANS_PROCESS] = INFP_COLUMN(process, ID64, LABEL, none, MEASURED, NO, "process", 0, NULL, "Process that wrote it."),
        [INFP_SPANS_SPAN] = INFP_COLUMN(span, I64, LABEL, none, MEASURED, NO, "id", 0, NULL, "Its number, unique within the process."),
        [INFP_SPANS_PARENT] = INFP_COLUMN(parent, I64, LABEL, none, MEASURED, NO, "parent", 0, NULL, "Number of the span around it, or that it was started for; null = none."),
        [INFP_SPANS_NAME] = INFP_COLUMN(name, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "The name."),
        [INFP_SPANS_DURATION_NS] = INFP_COLUMN(duration_ns, I64, GAUGE, ns, MEASURED, NO, NULL, 0, NULL, "From begin to end; null = it had not ended when its process or the recording did."),
        [INFP_SPANS_STATUS] = INFP_COLUMN(status, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "ok, error; open: not ended."),
        [INFP_SPANS_TID] = INFP_COLUMN(tid, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Thread that began it."),
        [INFP_SPANS_THREAD] = INFP_COLUMN(thread, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Name that the program gave that thread."),
        [INFP_SPANS_END_TID] = INFP_COLUMN(end_tid, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Thread that ended it; null = not ended."),
        [INFP_SPANS_ATTRIBUTES] = INFP_COLUMN(attributes, STR, LABEL, json, MEASURED, NO, NULL, 0, NULL, "JSON object of what the program said of it; OpenTelemetry's names where it has one."),
};

static const struct infp_column counters_columns[] = {
        [INFP_COUNTERS_SOURCE] = INFP_COLUMN(source, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Who wrote it: api, python."),
        [INFP_COUNTERS_PROCESS] = INFP_COLUMN(process, ID64, LABEL, none, MEASURED, NO, "process", 0, NULL, "Process that wrote it."),
        [INFP_COUNTERS_NAME] = INFP_COLUMN(name, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "The name."),
        [INFP_COUNTERS_KIND] = INFP_COLUMN(kind, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "counter: value is the sum since the process began to record; gauge: a level."),
        [INFP_COUNTERS_UNIT] = INFP_COLUMN(unit, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "As the program says; null = it does not."),
        [INFP_COUNTERS_VALUE] = INFP_COLUMN(value, F64, GAUGE, none, MEASURED, NO, NULL, 0, NULL, "Value after the change."),
        [INFP_COUNTERS_TID] = INFP_COLUMN(tid, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Thread that changed it; null = read from the file's last values, the change itself was overwritten."),
        [INFP_COUNTERS_THREAD] = INFP_COLUMN(thread, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Name that the program gave that thread."),
        [INFP_COUNTERS_HELP] = INFP_COLUMN(help, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "What it counts, as the program says; null = it does not."),
};

/* t_ns is the arrival: when the request was due by the load's schedule, not when it could be sent. All later times count from
 * there, so that a client that falls behind shows it (no coordinated omission). */
static const struct infp_column requests_columns[] = {
        [INFP_REQUESTS_SOURCE] = INFP_COLUMN(source, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Who measured it: load."),
        [INFP_REQUESTS_LOAD] = INFP_COLUMN(load, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Name of its load (load --name), else the Unix ms at which the load began."),
        [INFP_REQUESTS_NUMBER] = INFP_COLUMN(number, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Number within its load, from 0, in the order of arrival."),
        [INFP_REQUESTS_URL] = INFP_COLUMN(url, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Where it was sent."),
        [INFP_REQUESTS_MODEL] = INFP_COLUMN(model, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Model that was asked for."),
        [INFP_REQUESTS_STATUS] = INFP_COLUMN(status, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "HTTP status; null = no answer came."),
        [INFP_REQUESTS_OK] = INFP_COLUMN(ok, BOOL, LABEL, none, MEASURED, NO, NULL, 0, NULL, "The answer came whole."),
        [INFP_REQUESTS_FAILURE] = INFP_COLUMN(failure, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Kind of failure: refused, connection, timeout, http 503, server error, finish abort (the server gave the answer up), garbage, cut; cut off: the client ended the load first."),
        [INFP_REQUESTS_ERROR] = INFP_COLUMN(error, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Why it did not, in a sentence."),
        [INFP_REQUESTS_FINISH] = INFP_COLUMN(finish_reason, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "As the server says: stop, length ..."),
        [INFP_REQUESTS_SEND_NS] = INFP_COLUMN(send_ns, I64, GAUGE, ns, MEASURED, NO, NULL, 0, NULL, "From arrival until it was sent."),
        [INFP_REQUESTS_FIRST_NS] = INFP_COLUMN(first_token_ns, I64, GAUGE, ns, MEASURED, NO, NULL, 0, NULL, "From arrival to the first token (client-side TTFT)."),
        [INFP_REQUESTS_LAST_NS] = INFP_COLUMN(last_token_ns, I64, GAUGE, ns, MEASURED, NO, NULL, 0, NULL, "From arrival to the last token."),
        [INFP_REQUESTS_END_NS] = INFP_COLUMN(end_ns, I64, GAUGE, ns, MEASURED, NO, NULL, 0, NULL, "From arrival to the end of the answer, or until it failed."),
        [INFP_REQUESTS_MAX_TOKENS] = INFP_COLUMN(max_tokens, I64, LABEL, tokens, MEASURED, NO, NULL, 0, NULL, "Output tokens that were asked for at most."),
        [INFP_REQUESTS_PROMPT_TOKENS] = INFP_COLUMN(prompt_tokens, I64, GAUGE, tokens, MEASURED, NO, NULL, 0, NULL, "Of the prompt, as the server counts; null = it does not say."),
        [INFP_REQUESTS_CACHED_TOKENS] = INFP_COLUMN(cached_tokens, I64, GAUGE, tokens, MEASURED, NO, NULL, 0, NULL, "Of those of the prompt, found in the server's cache; null = it does not say."),
        [INFP_REQUESTS_OUTPUT_TOKENS] = INFP_COLUMN(output_tokens, I64, GAUGE, tokens, MEASURED, NO, NULL, 0, NULL, "Generated, as the server counts; null = it does not say."),
        [INFP_REQUESTS_CHUNKS] = INFP_COLUMN(chunks, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "Pieces with text that came."),
        [INFP_REQUESTS_GAP_MAX_NS] = INFP_COLUMN(gap_max_ns, I64, GAUGE, ns, MEASURED, NO, NULL, 0, NULL, "Longest time between two pieces."),
        [INFP_REQUESTS_GAPS] = INFP_COLUMN(gaps, STR, LABEL, json, MEASURED, NO, NULL, 0, NULL, "Histogram of the times between two pieces: [upper edge in seconds, count] of each bucket that is not empty; 8 buckets a doubling from 1 us (model/log_histogram.h)."),
};

static const struct infp_column output_columns[] = {
        [INFP_OUTPUT_STREAM] = INFP_COLUMN(stream, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "output: standard output and error share one file; removed: the part was taken off the disk (--capture-limit)."),
        [INFP_OUTPUT_OFFSET] = INFP_COLUMN(offset, I64, LABEL, bytes, MEASURED, NO, NULL, 0, NULL, "First byte in <uuid>_output.txt."),
        [INFP_OUTPUT_LENGTH] = INFP_COLUMN(length, I64, GAUGE, bytes, MEASURED, NO, NULL, 0, NULL, "Bytes: of output, what had come since the row before."),
};
// clang-format on

const struct infp_table infp_table_clock = {
        .name = "clock",
        .help = "Anchors between CLOCK_MONOTONIC and the wall clock.",
        .columns = clock_columns,
        .n_columns = INFP_CLOCK_N,
};
const struct infp_table infp_table_columns = {
        .name = "columns",
        .help = "Every column of every table that this version can write.",
        .columns = columns_columns,
        .n_columns = INFP_COLUMNS_N,
};
const struct infp_table infp_table_sources = {
        .name = "sources",
        .help = "State of each source: what works, what is missing and why; a row at each change.",
        .columns = sources_columns,
        .n_columns = INFP_SOURCES_N,
};
const struct infp_table infp_table_ticks = {
        .name = "ticks",
        .help = "How well the sampling kept its time, a row a tick.",
        .columns = ticks_columns,
        .n_columns = INFP_TICKS_N,
};
const struct infp_table infp_table_marks = {
        .name = "marks",
        .help = "Tags on the time line.",
        .columns = marks_columns,
        .n_columns = INFP_MARKS_N,
};

const struct infp_table infp_table_spans = {
        .name = "spans",
        .help = "Named stretches of time that programs marked, a row each; t_ns is the begin.",
        .columns = spans_columns,
        .n_columns = INFP_SPANS_N,
};
const struct infp_table infp_table_counters = {
        .name = "counters",
        .help = "Counters and gauges of programs, a row a change that was seen.",
        .columns = counters_columns,
        .n_columns = INFP_COUNTERS_N,
};

const struct infp_table infp_table_requests = {
        .name = "requests",
        .help = "Requests as a client saw them, a row each; t_ns is the arrival.",
        .columns = requests_columns,
        .n_columns = INFP_REQUESTS_N,
};
const struct infp_table infp_table_output = {
        .name = "output",
        .help = "When the command wrote which part of <uuid>_output.txt.",
        .columns = output_columns,
        .n_columns = INFP_OUTPUT_N,
};

const char *infp_source_state_name(enum infp_source_state state)
{
        static const char *const names[] = {
                [INFP_OK] = "ok",         [INFP_ABSENT] = "absent", [INFP_DENIED] = "denied",
                [INFP_BROKEN] = "broken", [INFP_LATE] = "late",
        };

        return names[state];
}

static void optional(struct infp_row *row, unsigned cell, const char *text)
{
        if (text)
                infp_row_str(row, cell, text);
}

void infp_columns_row(struct infp_row *row, const struct infp_table *table, unsigned index, uint64_t t_ns)
{
        const struct infp_column *c = infp_table_column(table, index);
        infp_autostr struct infp_str prom = { 0 };

        infp_row_begin(row, &infp_table_columns, t_ns);
        infp_row_str(row, INFP_COLUMNS_TABLE, table->name);
        infp_row_str(row, INFP_COLUMNS_COLUMN, c->name);
        infp_row_i64(row, INFP_COLUMNS_POSITION, index);
        infp_row_str(row, INFP_COLUMNS_TYPE, infp_type_name(c->type));
        infp_row_str(row, INFP_COLUMNS_KIND, infp_kind_name(c->kind));
        infp_row_str(row, INFP_COLUMNS_UNIT, c->unit->name);
        infp_row_str(row, INFP_COLUMNS_QUALITY, infp_quality_name(c->quality));
        if (c->reset)
                infp_row_str(row, INFP_COLUMNS_RESET, infp_reset_name(c->reset));
        infp_row_bool(row, INFP_COLUMNS_IS_KEY,
                      index >= INFP_FIXED_COLUMNS && index < (unsigned) INFP_FIXED_COLUMNS + table->n_keys);
        optional(row, INFP_COLUMNS_KEY, c->key);
        infp_row_i64(row, INFP_COLUMNS_SCALE, c->scale ? c->scale : 1);
        optional(row, INFP_COLUMNS_PROM, infp_prom_name(&prom, table, c) ? prom.data : NULL);
        infp_row_str(row, INFP_COLUMNS_HELP, c->help);
        infp_row_bool(row, INFP_COLUMNS_ENTITY, table->entity);
        optional(row, INFP_COLUMNS_SECTION, table->section);
        optional(row, INFP_COLUMNS_SERIES, table->series);
        optional(row, INFP_COLUMNS_SCHEMA, table->schema);
}
