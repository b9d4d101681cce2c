/* What inference servers did in a range, by their own figures. Memory grows with the number of engines and of their metrics, not with
 * the length of the run.
 *
 * Counters: what came between two pages belongs to the later one; the first page of the range is compared with the last one
 * before it. A smaller value is a new start (model/rate.h). A counter that the engine's earlier pages did not have begins at 0:
 * engines publish many of them at their first event. The times between those pages are what rates divide by, those in which
 * the engine did not answer included. Distributions: query/engine_window.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/stat.h"
#include "base/err.h"
#include "query/engine_window.h"
#include "query/scan.h"
#include "store/run.h"

enum infp_engine_counter {
        INFP_ENGINE_FINISHED,
        INFP_ENGINE_ABORTED, /* as the engine counts: vLLM misses clients that go away */
        INFP_ENGINE_ERRORED,
        INFP_ENGINE_PROMPT,
        INFP_ENGINE_GENERATED,
        INFP_ENGINE_LIVE, /* generated, moving with each step; may be an estimate */
        INFP_ENGINE_PREEMPTIONS,
        INFP_ENGINE_PREFIX_HITS,
        INFP_ENGINE_PREFIX_QUERIES,
        INFP_ENGINE_SPEC_DRAFTED,
        INFP_ENGINE_SPEC_ACCEPTED,
        INFP_ENGINE_COUNTERS,
};
enum infp_engine_gauge { INFP_ENGINE_RUNNING, INFP_ENGINE_WAITING, INFP_ENGINE_KV, INFP_ENGINE_GAUGES };
extern const char *const infp_engine_columns[]; /* of table `vllm`: counters, gauges, then the engine; ended by NULL */

struct infp_report_engine {
        uint64_t id;
        int64_t number;                     /* in the run, from 0 */
        char *url, *make, *version, *model; /* NULL: not known */
        double max_seqs;                    /* requests that it works on at once at most; NAN: it does not say */

        uint64_t n_ok, n_failed; /* scrapes answered and failed */
        /* Of those that did not: before the first that came of the whole run, as it started, and after the last of the range, as
         * it had ended; both 0 where none came. The rest lies between good pages. */
        uint64_t n_failed_before, n_failed_after, n_failed_between;
        double down_s, down_between_s; /* times that ended with a page that did not come */
        char *reason, *reason_between; /* of the last failure; of the last one between answered scrapes; or NULL */
        uint64_t n_restarts;
        /* Rows whose totals of requests or tokens were below those of the row before. More than new starts: several processes answer
         * in turn, and each fall counts the whole of a counter again. */
        uint64_t n_falls;

        double seconds;  /* between answered scrapes, the divisor of rates; 0: fewer than two */
        uint64_t t0, t1; /* the first and the last of them */
        /* Increase in the range; NAN: the engine does not report it. */
        double counters[INFP_ENGINE_COUNTERS];
        struct infp_stat gauges[INFP_ENGINE_GAUGES]; /* n 0: the engine does not report it */
        bool counts_at_end; /* counts generated tokens when a request ends; only the live counter moves before that */

        /* What it observed, from its own clock: sums, counts and buckets; borrowed of `window`. */
        const struct infp_window_metric *metrics;
        unsigned n_metrics;
};

struct infp_report_engines {
        struct infp_report_engine *list; /* by number */
        unsigned n;
        struct infp_engine_window window;
};

/* scan: range and catalog. 0 also for a run without engines. On error ret_table is the table that cannot be read. */
int infp_engines_read(struct infp_run *run, const struct infp_scan_options *scan, struct infp_report_engines *ret,
                      const char **ret_table, struct infp_err *err);
void infp_engines_done(struct infp_report_engines *engines);

/* Increase by second; NAN without either. */
double infp_engine_rate(const struct infp_report_engine *engine, enum infp_engine_counter counter);
/* One counter's increase divided by another's: hits by queries. NAN if the latter did not increase. */
double infp_engine_share(const struct infp_report_engine *engine, enum infp_engine_counter part,
                         enum infp_engine_counter of);
/* Of all engines in the range; NAN if none reports it; ret_n: how many do. Generated tokens are those of the exact counter,
 * even where it moves only when requests end. */
double infp_engines_total(const struct infp_report_engines *engines, enum infp_engine_counter counter, unsigned *ret_n);
