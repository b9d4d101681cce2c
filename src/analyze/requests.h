/* Requests as clients saw them (table `requests`), summed up: by `load` while it runs, by the report over a range. Memory is
 * bounded (samples.h). All is client-side: the network and the client itself are in it.
 *
 * Of requests that came whole (ok): TTFT = from arrival to the first piece of text; ITL = the time between two pieces, every gap
 * of every request alike; TPOT = (last piece - first piece) / (output tokens - 1) of each request, every request alike; E2EL =
 * from arrival to the end of the answer. Tokens are the server's count; a server that reports none has none here. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/stat.h"
#include "base/err.h"
#include "model/row.h"
#include "query/scan.h"

enum { INFP_REQUESTS_KINDS = 12, INFP_REQUESTS_LOADS = 8 };

/* What a request should keep to; 0: not asked for. */
struct infp_requests_goals {
        uint64_t ttft_ns, tpot_ns, e2e_ns;
};

struct infp_requests_kind {
        char name[48];
        uint64_t n;
        char example[256]; /* of failures: the first sentence */
};

/* Of one request that came whole; NAN and -1: not known. gaps is borrowed for the call. */
struct infp_request_times {
        uint64_t t_ns; /* arrival */
        double ttft_s, tpot_s, e2e_s;
        double gaps_s; /* from the first to the last piece */
        int64_t output_tokens;
        const char *gaps; /* infp_log_take */
        size_t gaps_size;
};

struct infp_requests {
        struct infp_requests_goals goals;
        void (*each)(void *context, const struct infp_request_times *one); /* NULL: nobody wants single ones */
        void *each_context;
        uint64_t n, n_ok, n_failed;            /* the rest was cut off when its load ended */
        uint64_t n_good;                       /* ok and within the goals */
        uint64_t first_t_ns, last_t_ns;        /* first arrival, last end; n > 0 */
        uint64_t n_counted;                    /* ok, and the server reported their tokens */
        uint64_t prompt_tokens, output_tokens; /* of these */
        uint64_t n_cached, cached_tokens;      /* of those that also report this */
        uint64_t n_streams, n_pieces,
                piece_tokens; /* ok streams with text whose tokens are known; pieces, tokens in them */
        struct infp_samples send, ttft, tpot, e2e; /* send: of all that were sent */
        uint64_t n_late;                           /* sent more than 10 ms after their arrival */
        struct infp_log_histogram gaps;
        uint64_t gap_max_ns;
        double gap_sum_s;
        uint64_t n_broken; /* rows whose gaps could not be read */
        struct infp_requests_kind failures[INFP_REQUESTS_KINDS], finishes[INFP_REQUESTS_KINDS];
        unsigned n_failures, n_finishes; /* the last one counts all others */
        struct infp_requests_load {
                char name[64];
                uint64_t n, n_ok, output_tokens, first_t_ns, last_t_ns, gap_max_ns;
                struct infp_samples ttft;
                struct infp_log_histogram gaps;
        } loads[INFP_REQUESTS_LOADS];
        unsigned n_loads;
        uint64_t n_other_loads; /* requests of loads beyond these */
};

/* A row of table `requests`. */
void infp_requests_add_row(struct infp_requests *requests, const struct infp_row *row);
/* Adds the requests that arrived in the range. -ENOENT: no such table. */
int infp_requests_read(struct infp_run *run, const struct infp_scan_options *options, struct infp_requests *requests,
                       struct infp_err *err);
void infp_requests_done(struct infp_requests *requests);

double infp_requests_duration_s(const struct infp_requests *requests); /* first arrival to last end; NAN: none */
/* ITL in seconds. False: no request had two pieces. */
bool infp_requests_itl(const struct infp_requests *requests, double q, struct infp_quantile *ret);
bool infp_requests_load_itl(const struct infp_requests_load *load, double q, struct infp_quantile *ret);
double infp_requests_itl_mean_s(const struct infp_requests *requests); /* exact; NAN: none */
double infp_requests_itl_std_s(const struct infp_requests *requests);  /* estimated from the buckets' middles */
