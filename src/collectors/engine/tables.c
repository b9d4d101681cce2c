/* Columns of what engines say, apart from the `vllm` row. */
#include "collectors/engine/tables.h"

#include "collectors/engine/engine.h"

// clang-format off
static const struct infp_column engines_columns[] = {
        [INFP_ENGINES_ID] = INFP_COLUMN(id, ID64, LABEL, none, MEASURED, NO, "", 0, NULL, "Hash of the URL."),
        [INFP_ENGINES_NUMBER] = INFP_COLUMN(number, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Place in this run, from 0: the first one stands in the time series."),
        [INFP_ENGINES_URL] = INFP_COLUMN(url, STR, LABEL, none, MEASURED, NO, NULL, 0, "url", "Page that is read; secrets are masked."),
        [INFP_ENGINES_MAKE] = INFP_COLUMN(make, STR, LABEL, none, DERIVED, NO, NULL, 0, "make", "vllm, sglang, tgi, llamacpp, triton, tensorrt_llm, lmdeploy, ray_serve, mlserver, ollama; by its series' names."),
        [INFP_ENGINES_VERSION] = INFP_COLUMN(version, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "As the server reports."),
        [INFP_ENGINES_MODEL] = INFP_COLUMN(model, STR, LABEL, none, MEASURED, NO, NULL, 0, "model", "Models that it serves, separated by commas."),
        [INFP_ENGINES_QUANTISATION] = INFP_COLUMN(quantisation, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Number format of the weights, as the server or its command line says."),
        [INFP_ENGINES_COMMAND] = INFP_COLUMN(flags, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Command line of its process, secrets masked."),
        [INFP_ENGINES_PROCESS] = INFP_COLUMN(process, ID64, LABEL, none, MEASURED, NO, "process", 0, NULL, "Process that serves it, where it is in the target."),
        [INFP_ENGINES_MAX_SEQS] = INFP_COLUMN(max_num_seqs, I64, LABEL, count, MEASURED, NO, NULL, 0, NULL, "Requests that it works on at once at most (slots of llama.cpp)."),
        [INFP_ENGINES_CONTEXT] = INFP_COLUMN(max_model_len, I64, LABEL, tokens, MEASURED, NO, NULL, 0, NULL, "Longest context of one request."),
        [INFP_ENGINES_BLOCK_SIZE] = INFP_COLUMN(block_size, I64, LABEL, tokens, MEASURED, NO, NULL, 0, NULL, "Tokens of a block of the KV cache."),
        [INFP_ENGINES_BLOCKS] = INFP_COLUMN(num_gpu_blocks, I64, LABEL, count, MEASURED, NO, NULL, 0, NULL, "Blocks of the KV cache."),
        [INFP_ENGINES_CONFIG] = INFP_COLUMN(config, STR, LABEL, json, MEASURED, NO, NULL, 0, NULL, "All else that identifies the set-up: labels of its information series, properties of its server."),
};
static const struct infp_column series_columns[] = {
        [INFP_SERIES_ID] = INFP_COLUMN(id, ID64, LABEL, none, MEASURED, NO, "", 0, NULL, "Hash of URL, name and labels."),
        [INFP_SERIES_ENGINE] = INFP_COLUMN(engine, ID64, LABEL, none, MEASURED, NO, "engines", 0, NULL, "Engine that gives it."),
        [INFP_SERIES_NAME] = INFP_COLUMN(name, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Name on the page."),
        [INFP_SERIES_LABELS] = INFP_COLUMN(labels, STR, LABEL, json, MEASURED, NO, NULL, 0, NULL, "Labels by name, without le and quantile."),
        [INFP_SERIES_TYPE] = INFP_COLUMN(type, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "counter, gauge, histogram, gaugehistogram, summary, info, stateset or unknown."),
        [INFP_SERIES_UNIT] = INFP_COLUMN(unit, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "As the page declares it."),
        [INFP_SERIES_HELP] = INFP_COLUMN(help, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "As the page declares it."),
        [INFP_SERIES_FAMILY] = INFP_COLUMN(family, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Metric family: equal for the parts of a histogram."),
        [INFP_SERIES_PART] = INFP_COLUMN(part, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "value, sum, count, bucket or quantile."),
        [INFP_SERIES_LE] = INFP_COLUMN(le, F64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Upper edge of a bucket (null with part bucket: infinity), or the quantile."),
        [INFP_SERIES_METRIC] = INFP_COLUMN(metric, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "The same thing in infprof's words, whatever the engine: a column of table vllm, or its beginning (latency_ttft_s)."),
};
static const struct infp_column samples_columns[] = {
        [INFP_SAMPLES_SERIES] = INFP_COLUMN(series, ID64, LABEL, none, MEASURED, NO, "series", 0, NULL, "What was measured."),
        [INFP_SAMPLES_VALUE] = INFP_COLUMN(value, F64, GAUGE, none, MEASURED, NO, NULL, 0, NULL, "As on the page, not scaled; buckets are cumulative; null = not a finite number."),
};
static const struct infp_column stamps_columns[] = {
        [INFP_STAMPS_SERIES] = INFP_COLUMN(series, ID64, LABEL, none, MEASURED, NO, "series", 0, NULL, "What was measured."),
        [INFP_STAMPS_SOURCE_TIME] = INFP_COLUMN(source_time, TS_NS, LABEL, none, MEASURED, NO, NULL, 0, NULL, "The sample's own time stamp."),
};
static const struct infp_column scrapes_columns[] = {
        [INFP_SCRAPES_ENGINE] = INFP_COLUMN(engine, ID64, LABEL, none, MEASURED, NO, "engines", 0, NULL, "Engine."),
        [INFP_SCRAPES_OK] = INFP_COLUMN(ok, BOOL, GAUGE, none, MEASURED, NO, NULL, 0, "infprof_engine_up", "The page came whole and was understood: an engine that is idle is ok, one that is down is not."),
        [INFP_SCRAPES_REASON] = INFP_COLUMN(reason, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Why not; or what was odd."),
        [INFP_SCRAPES_STATUS] = INFP_COLUMN(status, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "HTTP status."),
        [INFP_SCRAPES_MS] = INFP_COLUMN(scrape_ms, F64, GAUGE, ms, MEASURED, NO, NULL, 0, "infprof_engine_scrape_seconds", "From the request to the last byte."),
        [INFP_SCRAPES_BYTES] = INFP_COLUMN(scrape_bytes, I64, GAUGE, bytes, MEASURED, NO, NULL, 0, "infprof_engine_scrape_bytes", "Of the page."),
        [INFP_SCRAPES_SERIES_COUNT] = INFP_COLUMN(scrape_series, I64, GAUGE, count, MEASURED, NO, NULL, 0, "infprof_engine_scrape_series", "Series on it."),
        [INFP_SCRAPES_BAD_LINES] = INFP_COLUMN(bad_lines, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "Lines that are neither sample nor comment."),
        [INFP_SCRAPES_RESTARTS] = INFP_COLUMN(engine_restarts, I64, COUNTER, count, DERIVED, ZERO, NULL, 0, "infprof_engine_restarts_total", "Times that its counters restarted while we watched."),
};
// clang-format on

const struct infp_table infp_table_engines = {
        .name = "engines",
        .help = "Inference servers that were read: make, version, model, set-up.",
        .keys = engines_columns,
        .n_keys = 1,
        .columns = engines_columns + 1,
        .n_columns = INFP_ENGINES_N - 1,
        .entity = true,
};
const struct infp_table infp_table_series = {
        .name = "series",
        .help = "Series on the engines' pages.",
        .keys = series_columns,
        .n_keys = 1,
        .columns = series_columns + 1,
        .n_columns = INFP_SERIES_N - 1,
        .entity = true,
};
const struct infp_table infp_table_engine_samples = {
        .name = "engine_samples",
        .help = "Values of the series, where they have changed.",
        .keys = samples_columns,
        .n_keys = 1,
        .columns = samples_columns + 1,
        .n_columns = INFP_SAMPLES_N - 1,
        .on_change = true,
};
/* A table of its own: hardly a page has stamps, and eight empty bytes at each sample were a fifth of what an engine costs on disk. */
const struct infp_table infp_table_engine_stamps = {
        .name = "engine_stamps",
        .help = "Time stamps that engines give to their samples themselves: of the row of engine_samples with the same "
                "t_ns and series.",
        .keys = stamps_columns,
        .n_keys = 1,
        .columns = stamps_columns + 1,
        .n_columns = INFP_STAMPS_N - 1,
        .on_change = true,
};
const struct infp_table infp_table_engine_scrapes = {
        .name = "engine_scrapes",
        .help = "How each reading of an engine went.",
        .keys = scrapes_columns,
        .n_keys = 1,
        .columns = scrapes_columns + 1,
        .n_columns = INFP_SCRAPES_N - 1,
};
