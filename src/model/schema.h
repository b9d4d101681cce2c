/* Tables and columns: a metric is spelt once, in one line of a table's column array. From that line come JSON, CSV, TSV,
 * Parquet, SQL, Prometheus, docs/metrics.md and the run's own table `columns`.
 *
 * Each table starts with two columns that are declared nowhere else: t_ns (CLOCK_MONOTONIC, stamped by the source just
 * before it reads) and time (UTC of the same moment, from the newest clock anchor). In batches they are columns 0 and 1. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/unit.h"

/* On disk by name; never renumber. */
enum infp_type {
        INFP_I64 = 1,
        INFP_U64,
        INFP_F64,
        INFP_BOOL,
        INFP_STR,   /* UTF-8 (base/text.h) */
        INFP_TS_NS, /* UTC, nanoseconds since 1970; text formats show Unix ms */
        INFP_ID64,  /* content hash of an entity; `key` names the entity's table ("" = of this table) */
};

enum infp_kind {
        INFP_LABEL = 1, /* says what the row is about: names, ids, texts */
        INFP_GAUGE, /* a level; differences mean nothing. A text is one where its time matters: the state of a moment */
        INFP_COUNTER, /* a sum since some start; rates are made when reading, by model/rate.h */
};

enum infp_quality {
        INFP_MEASURED = 1, /* as the source gives it, apart from its unit */
        INFP_DERIVED,      /* computed from measured values of the same moment */
        INFP_ESTIMATED,    /* rests on a model or on samples */
};

/* What a smaller value of a counter means. */
enum infp_reset {
        INFP_RESET_NONE = 1, /* noise of the source: the increase is 0 (iowait, idle) */
        INFP_RESET_ZERO,     /* it began again at 0: the increase is the new value */
        INFP_RESET_WRAP,     /* it wraps at a range that the table's reader knows */
        INFP_RESET_GAP,      /* as ZERO; parts of the time were not counted: column `key` has the seconds that were */
};

struct infp_column {
        const char *name;
        enum infp_type type;
        enum infp_kind kind;
        const struct infp_unit *unit;
        enum infp_quality quality;
        enum infp_reset reset; /* counters; 0 for the rest */
        const char *key;  /* its name or position in the source; of an ID64: the entity's table; of INFP_RESET_GAP: the
                           * column of its seconds; NULL: set by hand */
        uint32_t scale;   /* raw integer x scale = value in `unit`; 0 means 1 */
        const char *prom; /* Prometheus name in base units (counters end in _total); NULL: not exposed */
        const char *help; /* one sentence that ends in a full stop */
};

/* The one line of a metric: COLUMN(name, I64, COUNTER, cs, MEASURED, ZERO, "key", scale, "prom_name", "Help."). */
// clang-format off
#define INFP_COLUMN(name_, type_, kind_, unit_, quality_, reset_, key_, scale_, prom_, help_)                          \
        { #name_, INFP_##type_, INFP_##kind_, &infp_unit_##unit_, INFP_##quality_, INFP_RESET_##reset_,               \
          key_, scale_, prom_, help_ }
// clang-format on
#define INFP_RESET_NO 0 /* COLUMN(..., NO, ...) for gauges and labels */

enum { INFP_MAX_COLUMNS = 128, INFP_FIXED_COLUMNS = 2 };

struct infp_table {
        const char *name;
        const char *schema;             /* in SQL; NULL: main. Names are unique in all of them */
        const char *help;               /* one sentence */
        const struct infp_column *keys; /* n_keys columns that come first: core, device, interface, process ... */
        const struct infp_column *columns;
        uint16_t n_keys, n_columns; /* n_keys + n_columns <= INFP_MAX_COLUMNS, unless made by a reader */
        bool plain;                 /* a query's result: no t_ns and time of its own, batches start with the columns */
        bool entity;                /* rows describe things; the first key is `id` (ID64); the last row of an id wins */
        bool bulk;                  /* of profiles: rows are very many, and the last ones say nothing by themselves */
        bool on_change; /* rows come when something has changed, not at each sample: readers carry the last forward */
        /* How the views nest it: the snapshot's member ("cpu"); NULL: not in snapshots. With keys it is a list of objects. */
        const char *section;
        /* In the time series: NULL not at all, "" under bare names, else the prefix of its instances ("container"). */
        const char *series;
        /* One instance stands for the table: that whose thing has the lowest `number`, else the first that appeared. The snapshot's section is its object ("vllm", "containers");
         * when there are more, all of them are a list in it, named `list` (NULL: as the table). */
        bool lead;
        const char *lead_by; /* BOOL column: the instance whose row has it leads instead; NULL: the first always */
        const char *list;
        /* The snapshot's section holds plain values and one "timestamp" (of the row) in place of {"value", "time"} each. */
        bool flat_section;
        /* Lead tables whose key is an entity: name of the table with samples of that entity's series; its buckets stand in the
         * snapshot's section as "histograms" (view/histograms.h). NULL: none. */
        const char *histograms;
        /* Parts of a lead table's instances, of the same section; the keys are the instance and a number. In the section's object
         * they are members named as the column, with the number in place of its N: "cCpuNTime" of CPU 3 is "cCpu3Time". */
        bool spread;
};

/* Columns by number as batches have them: 0 t_ns, 1 time, then the keys, then the columns. NULL beyond the end. */
const struct infp_column *infp_table_column(const struct infp_table *table, unsigned index);
unsigned infp_table_width(const struct infp_table *table);               /* with t_ns and time */
int infp_table_find(const struct infp_table *table, const char *column); /* index or -ENOENT */
/* A gauge or counter, which can be drawn and averaged; a bool counts as 0 or 1. */
bool infp_column_is_metric(const struct infp_column *column);
/* A part of a whole, which people read in percent; a load average is a ratio and no share. */
bool infp_column_is_share(const struct infp_column *column);

const char *infp_type_name(enum infp_type type); /* "i64" ... */
const char *infp_kind_name(enum infp_kind kind);
const char *infp_quality_name(enum infp_quality quality);
const char *infp_reset_name(enum infp_reset reset); /* "" for 0 */
int infp_type_by_name(const char *name);            /* or -ENOENT; likewise the next three */
int infp_kind_by_name(const char *name);
int infp_quality_by_name(const char *name);
int infp_reset_by_name(const char *name);

/* Checks names, help, units, keys and limits of a table. 0, or -EINVAL with the fault in words: the schema lint. */
struct infp_err;
int infp_table_check(const struct infp_table *table, struct infp_err *err);
