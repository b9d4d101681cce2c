/* The engine collector: what inference servers report about themselves. Parts: engine.c (record, rounds), find.c (which URLs;
 * engines of the target), scrape.c (transfers), page.c (a page becomes rows), series.c (series, samples), tables.c (columns),
 * about.c (make, version, model, flags), alias.c (the table of names, data), fields.c (the `vllm` row).
 *
 * Data walks: URL -> page -> samples -> { series slot (id, last value, alias), vllm row }. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/promtext/promtext.h"
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

/* Data: how a make is recognised and where it answers. alias.c. */
struct infp_engine_make_info {
        const char *name;            /* "vllm", as stored */
        const char *const *prefixes; /* of its series, ended by NULL; the one with most samples on a page is the make */
        const char *const *
                commands; /* command lines of this server: "vllm.entrypoints" (a module or program, its end may differ), "vllm serve" (consecutive arguments) */
        const char *const *port_flags; /* "--port" ... */
        unsigned port;                 /* the default without such a flag */
        const char *path;              /* "/metrics" */
        const char *metrics_flag;      /* a server started without it has no such page; NULL: always there */
        const char *prefix_flag;       /* its value comes before the paths of all pages; NULL: none */
        const char *
                sleep_flag; /* seconds (below 0: never) without requests after which it sleeps, and reading its page is a request; NULL */
        const char *sleep_page; /* JSON that may be read without waking it, with is_sleeping */
};
extern const struct infp_engine_make_info infp_engine_makes[INFP_ENGINE_N];

/* Which field of table `vllm` a series feeds, and how its value joins those of the same series with other labels or models.
 * Data: alias.c; docs/engines.md shows the same lines. */
enum infp_engine_join { INFP_ENGINE_SUM, INFP_ENGINE_MAX };
/* Where one model of a page contains others (an ensemble and its steps), a request counts in each: requests are counted for
 * the whole, work for the parts. */
enum infp_engine_share { INFP_ENGINE_ALL, INFP_ENGINE_WHOLE, INFP_ENGINE_PARTS };
struct infp_engine_alias {
        const char *
                series; /* complete name on the page: a prefix match would take num_requests_waiting_by_reason for its total */
        uint8_t size; /* of it */
        /* 0 first: of several names of one field (from different versions) the lowest rank on the page counts */
        uint8_t rank;
        int16_t cell; /* of table `vllm` (enum infp_vllm_cell); -1: only `stem` counts */
        enum infp_engine_join join;
        enum infp_engine_share share; /* of which models, where some contain others; ALL: of each */
        double factor;                /* 0 means 1: ms, us, percent become the field's unit */
        const char *label, *value;    /* NULL, or: only samples with this label value */
        /* For histograms and summaries: "latency_ttft_s", the value of `series.metric` for their parts; "latency_ttft_ms"
         * where the page (values, `le`) is in milliseconds, which engine_samples keeps. Else NULL. */
        const char *stem;
};
/* The lines of a make in the order of the documentation; ret_n: their number. */
const struct infp_engine_alias *infp_engine_aliases(enum infp_engine_make make, size_t *ret_n);

/* What a sample feeds, considering labels; the caller keeps the answer with the series. Names are compared as a whole, except
 * for what other programs add: "ray_vllm_..." and "kserve_vllm:..." are vLLM's. Returns the number of lines, 0: none. */
enum { INFP_ENGINE_FEEDS = 4 };
size_t infp_engine_alias_find(enum infp_engine_make make, const struct infp_prom_sample *sample,
                              const struct infp_engine_alias *ret[INFP_ENGINE_FEEDS]);
/* Whether a sample of such a model feeds the line. */
bool infp_engine_alias_is_of(const struct infp_engine_alias *alias, enum infp_engine_share share);
/* The value of `series.metric`: the stem, else the field's name, else NULL. */
const char *infp_engine_alias_metric(const struct infp_engine_alias *const *feeds, size_t n);
/* By prefix; INFP_ENGINE_UNKNOWN: any make's. The make with most samples is the page's. */
enum infp_engine_make infp_engine_make_of(const char *series, size_t size);

/* A row of `vllm` that is being filled, and what is kept of an engine from scrape to scrape. Zero-initialised; one per
 * engine, for its whole life. */
enum { INFP_ENGINE_SLOTS = 512 };
struct infp_engine_fields {
        double value[INFP_MAX_COLUMNS];
        uint8_t rank[INFP_MAX_COLUMNS]; /* of the value at the same place + 1; 0: nothing yet */
        uint64_t bad[2];                /* a sample was not finite: the field is missing, not a part of the sum */

        uint64_t said[2]; /* columns with a reason in `sources` */
        struct infp_engine_live {
                double total, finished, accepted, steps, decodes; /* as of the last scrape; see fields.c */
                double owed; /* tokens of requests that ended after the page, subtracted from the next one's */
                bool is_known, has_slots, had_slots;
                unsigned n_slots, n_busy, n_busy_before; /* n_slots: including idle ones */
                struct infp_engine_slot {
                        int64_t id, task;
                        double n_decoded;
                } busy[INFP_ENGINE_SLOTS], busy_before[INFP_ENGINE_SLOTS];
        } live; /* llama.cpp: tokens of requests that have not ended yet */
        enum infp_engine_doubling {
                INFP_TOKENS_UNSURE,
                INFP_TOKENS_RIGHT,
                INFP_TOKENS_DOUBLED
        } doubling; /* LMDeploy */
};
void infp_engine_fields_begin(struct infp_engine_fields *fields);
/* Call for each sample of the page and each line from infp_engine_alias_find for its series. */
void infp_engine_fields_add(struct infp_engine_fields *fields, const struct infp_engine_alias *alias, double value);
/* A page that is read at each scrape after the metrics (in this order: a request that ends in between must not be in both),
 * or NULL: "/slots" of llama.cpp. It may be disabled: any status but 200 stops asking until a restart. */
const char *infp_engine_live_path(enum infp_engine_make make);
/* 0 or -EBADMSG with a sentence. */
int infp_engine_fields_slots(struct infp_engine_fields *fields, const char *body, size_t size, struct infp_err *err);
/* Computes fields from others of the same page (prompt tokens with cached ones, live tokens ...), then puts all into the row
 * of emit (table `vllm`, key set by the caller). Reports in `sources`, in one sentence, why columns are missing; instance:
 * the engine's URL as shown. */
void infp_engine_fields_row(struct infp_engine_fields *fields, enum infp_engine_make make, const char *instance,
                            struct infp_emit *emit);

/* Checks a value of --engine: a URL, "off". 0 or -EINVAL with a sentence. find.c. */
int infp_engine_check(const char *text, struct infp_err *err);

/* tables.c. `engine` = enum of cells beside each. */
extern const struct infp_table infp_table_engines, infp_table_series, infp_table_engine_samples,
        infp_table_engine_stamps, infp_table_engine_scrapes, infp_table_vllm;
