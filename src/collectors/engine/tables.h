/* Cells of the engine's tables. The names are in tables.c (series, samples, scrapes) and vllm.c (table `vllm`). */
#pragma once

enum infp_engines_cell {
        INFP_ENGINES_ID,
        INFP_ENGINES_NUMBER,
        INFP_ENGINES_URL,
        INFP_ENGINES_MAKE,
        INFP_ENGINES_VERSION,
        INFP_ENGINES_MODEL,
        INFP_ENGINES_QUANTISATION,
        INFP_ENGINES_COMMAND,
        INFP_ENGINES_PROCESS,
        INFP_ENGINES_MAX_SEQS,
        INFP_ENGINES_CONTEXT,
        INFP_ENGINES_BLOCK_SIZE,
        INFP_ENGINES_BLOCKS,
        INFP_ENGINES_CONFIG,
        INFP_ENGINES_N,
};
enum infp_series_cell {
        INFP_SERIES_ID,
        INFP_SERIES_ENGINE,
        INFP_SERIES_NAME,
        INFP_SERIES_LABELS,
        INFP_SERIES_TYPE,
        INFP_SERIES_UNIT,
        INFP_SERIES_HELP,
        INFP_SERIES_FAMILY,
        INFP_SERIES_PART,
        INFP_SERIES_LE,
        INFP_SERIES_METRIC,
        INFP_SERIES_N,
};
enum infp_samples_cell { INFP_SAMPLES_SERIES, INFP_SAMPLES_VALUE, INFP_SAMPLES_N };
enum infp_stamps_cell { INFP_STAMPS_SERIES, INFP_STAMPS_SOURCE_TIME, INFP_STAMPS_N };
enum infp_scrapes_cell {
        INFP_SCRAPES_ENGINE,
        INFP_SCRAPES_OK,
        INFP_SCRAPES_REASON,
        INFP_SCRAPES_STATUS,
        INFP_SCRAPES_MS,
        INFP_SCRAPES_BYTES,
        INFP_SCRAPES_SERIES_COUNT,
        INFP_SCRAPES_BAD_LINES,
        INFP_SCRAPES_RESTARTS,
        INFP_SCRAPES_N,
};
