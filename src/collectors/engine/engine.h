/* The engine collector: what inference servers report about themselves. Parts: engine.c (record, rounds), find.c (which URLs;
 * engines of the target), scrape.c (transfers), page.c (a page becomes rows), series.c (series, samples), tables.c (columns),
 * about.c (make, version, model, flags), alias.c (the table of names, data), fields.c (the `vllm` row).
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

/* Data: how a make is known and where it answers. alias.c. */
struct infp_engine_make_info {
        const char *name; /* "vllm", as stored */
        const char *const
                *prefixes; /* of its series, ended by NULL; whichever has most samples on a page is the make */
        const char *const *
                commands; /* what in a command line means this server: "vllm.entrypoints" (a module or program, its end may differ),
                                * "vllm serve" (arguments that follow one another) */
        const char *const *port_flags; /* "--port" ... */
        unsigned port;                 /* implied without such a flag */
        const char *path;              /* "/metrics" */
        const char *metrics_flag;      /* a server that was started without it has no such page; NULL: always there */
        const char *prefix_flag;       /* its value stands before the paths of all pages; NULL: there is none */
        const char *
                sleep_flag; /* seconds (below 0: never) without requests after which it sleeps, and reading its page is one; NULL */
        const char *sleep_page; /* JSON that may be read without that, whose is_sleeping says whether it sleeps */
};
extern const struct infp_engine_make_info infp_engine_makes[INFP_ENGINE_N];

/* Which field of table `vllm` a series feeds, and how its value joins those of its sisters (other labels, other models).
 * Data: alias.c; docs/engines.md shows the same lines. */
enum infp_engine_join { INFP_ENGINE_SUM, INFP_ENGINE_MAX };
/* Where one model of a page contains others (an ensemble and its steps), a request counts in each: what counts requests is taken of
 * the whole, what counts work of the parts. */
enum infp_engine_share { INFP_ENGINE_ALL, INFP_ENGINE_WHOLE, INFP_ENGINE_PARTS };
struct infp_engine_alias {
        const char *
                series; /* name on the page, whole: a prefix match takes num_requests_waiting_by_reason for its total */
        uint8_t size;   /* of it */
        /* 0 first: of several names of one field (ages of an engine) the lowest rank on the page counts */
        uint8_t rank;
        int16_t cell; /* of table `vllm` (enum infp_vllm_cell); -1: only `stem` counts */
        enum infp_engine_join join;
        enum infp_engine_share share; /* of which models, where some contain others; ALL: of each */
        double factor;                /* 0 means 1: ms, us, percent become the field's unit */
        const char *label, *value;    /* NULL, or: only samples with this label value */
        /* Of histograms and summaries: "latency_ttft_s", what `series.metric` holds for their parts; "latency_ttft_ms" where the
         * page (values, `le`) is in milliseconds, which engine_samples keeps as they are. NULL else. */
        const char *stem;
};
/* The lines of a make in the order of the documentation; ret_n: their number. */
const struct infp_engine_alias *infp_engine_aliases(enum infp_engine_make make, size_t *ret_n);

/* What a sample feeds, labels regarded; the caller keeps the answer with the series. Names are compared whole, but for what
 * other programs do to them: "ray_vllm_..." and "kserve_vllm:..." are vLLM's. Returns the number of lines, 0: none. */
enum { INFP_ENGINE_FEEDS = 4 };
size_t infp_engine_alias_find(enum infp_engine_make make, const struct infp_prom_sample *sample,
                              const struct infp_engine_alias *ret[INFP_ENGINE_FEEDS]);
/* Whether a sample of such a model feeds the line. */
bool infp_engine_alias_is_of(const struct infp_engine_alias *alias, enum infp_engine_share share);
/* What `series.metric` holds: the stem, else the field's name, else NULL. */
const char *infp_engine_alias_metric(const struct infp_engine_alias *const *feeds, size_t n);
/* By prefix; INFP_ENGINE_UNKNOWN: it may be anybody's. The page is of the make with most samples on it. */
enum infp_engine_make infp_engine_make_of(const char *series, size_t size);

/* One row of `vllm` in the making, and what must be remembered of an engine from scrape to scrape. Zero-initialised; one an
 * engine, for its whole life. */
enum { INFP_ENGINE_SLOTS = 512 };
struct infp_engine_fields {
        double value[INFP_MAX_COLUMNS];
        uint8_t rank[INFP_MAX_COLUMNS]; /* of what is in value + 1; 0: nothing yet */
        uint64_t bad[2];                /* a sample was not finite: the field is missing, not a part of the sum */

        uint64_t said[2]; /* columns of which `sources` holds a reason */
        struct infp_engine_live {
                double total, finished, accepted, steps, decodes; /* as of the last scrape; see fields.c */
                double owed; /* tokens of requests that ended after the page, to be taken off the next one's */
                bool is_known, has_slots, had_slots;
                unsigned n_slots, n_busy, n_busy_before; /* n_slots: idle ones too */
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
/* Called for each sample of the page and each line that infp_engine_alias_find gave for its series. */
void infp_engine_fields_add(struct infp_engine_fields *fields, const struct infp_engine_alias *alias, double value);
/* A page that is read at each scrape after the metrics (in this order: a request that ends in between must not be in both), or
 * NULL: "/slots" of llama.cpp. It may be switched off there: anything but 200 is then not asked again until a restart. */
const char *infp_engine_live_path(enum infp_engine_make make);
/* 0 or -EBADMSG with a sentence. */
int infp_engine_fields_slots(struct infp_engine_fields *fields, const char *body, size_t size, struct infp_err *err);
/* Fields that follow from others of the same page (prompt tokens with cached ones, live tokens ...), then all into the row that
 * emit holds (table `vllm`, key set by the caller). Why columns are missing goes to `sources` in one sentence; instance: the
 * engine's URL as shown. */
void infp_engine_fields_row(struct infp_engine_fields *fields, enum infp_engine_make make, const char *instance,
                            struct infp_emit *emit);

/* What --engine may say: a URL, "off". 0 or -EINVAL with a sentence. find.c. */
int infp_engine_check(const char *text, struct infp_err *err);

/* tables.c. `engine` = enum of cells beside each. */
extern const struct infp_table infp_table_engines, infp_table_series, infp_table_engine_samples,
        infp_table_engine_stamps, infp_table_engine_scrapes, infp_table_vllm;
