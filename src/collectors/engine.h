/* The engine collector: what inference servers say of themselves. Parts: engine.c (record, rounds), engine_find.c (which URLs),
 * engine_scrape.c (transfers), engine_series.c (series, samples), engine_tables.c (columns), engine_about.c (make, version, model,
 * flags), engine_alias.c (the table of names, data), engine_fields.c (the `vllm` row).
 *
 * Data walks: URL -> page -> samples -> { series slot (id, last value, alias), vllm row }. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/promtext.h"
#include "collect/collector.h"

/* Order = position in the array of infp_engine_makes. */
enum infp_engine_make {
        INFP_ENGINE_UNKNOWN,
        INFP_ENGINE_VLLM,
        INFP_ENGINE_SGLANG,
        INFP_ENGINE_TGI,
        INFP_ENGINE_LLAMACPP,
        INFP_ENGINE_TRITON,
        INFP_ENGINE_TENSORRT_LLM,
        INFP_ENGINE_LMDEPLOY,
        INFP_ENGINE_RAY_SERVE,
        INFP_ENGINE_MLSERVER,
        INFP_ENGINE_OLLAMA,
        INFP_ENGINE_N,
};

/* Data: how a make is known and where it answers. engine_alias.c. */
struct infp_engine_make_info {
        const char *name; /* "vllm", as stored */
        const char *const
                *prefixes; /* of its series, ended by NULL; whichever has most samples on a page is the make */
        const char *const
                *commands; /* words of a command line that mean this server: "vllm.entrypoints", "llama-server" */
        const char *const *port_flags; /* "--port" ... */
        unsigned port;                 /* implied without such a flag */
        const char *path;              /* "/metrics" */
};
extern const struct infp_engine_make_info infp_engine_makes[INFP_ENGINE_N];

/* Which field of table `vllm` a series feeds, and how its value joins those of its sisters (other labels, other models). */
enum infp_engine_join { INFP_ENGINE_SUM, INFP_ENGINE_MAX };
struct infp_engine_alias {
        enum infp_engine_make make;
        const char *
                series; /* name on the page, whole: a prefix match takes num_requests_waiting_by_reason for its total */
        int cell;       /* of table `vllm` (enum infp_vllm_cell); -1: only `stem` counts */
        const char *label, *value; /* NULL, or: only samples with this label value */
        enum infp_engine_join join;
        double factor; /* 0 means 1: ms, us, percent become the field's unit */
        uint8_t rank; /* 0 first: of several names of one field (ages of an engine) the lowest rank on the page counts */
        const char *
                stem; /* histograms and summaries: "latency_ttft_s": what `series.metric` holds, and the beginning of the
                                   * cells _sum and _count; NULL else */
};
/* NULL: the series has no field. Every alias of a (make, name): walk on while the next has the same series. */
const struct infp_engine_alias *infp_engine_alias_find(enum infp_engine_make make, const char *name, size_t size,
                                                       const struct infp_engine_alias *after);
enum infp_engine_make infp_engine_make_of(const char *series, size_t size); /* by prefix; INFP_ENGINE_UNKNOWN */

/* One row of `vllm` in the making. */
struct infp_engine_fields {
        double value[INFP_MAX_COLUMNS];
        uint8_t rank[INFP_MAX_COLUMNS]; /* of what is in value + 1; 0: nothing yet */
        uint64_t bad[2];                /* a sample was not finite: the field is missing, not a part of the sum */
};
void infp_engine_fields_begin(struct infp_engine_fields *fields);
/* labels: to apply alias->label. Called for each sample that has an alias (resolved once per series). */
void infp_engine_fields_add(struct infp_engine_fields *fields, const struct infp_engine_alias *alias, double value);
/* Fields that follow from others of the same page (prompt tokens with cached ones, tokens not stored by this engine ...), then
 * all into the row that emit holds (table `vllm`, key set by the caller); columns that this make never gives are said quietly. */
void infp_engine_fields_row(struct infp_engine_fields *fields, enum infp_engine_make make, struct infp_emit *emit);

/* engine_tables.c. `engine` = enum of cells beside each. */
extern const struct infp_table infp_table_engines, infp_table_series, infp_table_engine_samples,
        infp_table_engine_scrapes, infp_table_vllm;
