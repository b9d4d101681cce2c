/* Reads Prometheus text (0.0.4, 1.0.0) and OpenMetrics pages: a scanner that knows quoting, one pass, no allocation once its
 * buffers have grown. What a page means is not its business.
 *
 * Which of the two formats it is decides the body (OpenMetrics ends with "# EOF"), not the Content-Type: proxies rewrite that. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum infp_prom_type {
        INFP_PROM_UNKNOWN, /* no TYPE line, "untyped", "unknown" */
        INFP_PROM_COUNTER,
        INFP_PROM_GAUGE,
        INFP_PROM_HISTOGRAM,
        INFP_PROM_GAUGE_HISTOGRAM,
        INFP_PROM_SUMMARY,
        INFP_PROM_INFO,
        INFP_PROM_STATESET,
};
const char *infp_prom_type_name(enum infp_prom_type type); /* "counter" ... */

struct infp_prom_text {
        const char *at; /* never NULL, not terminated, borrowed for the call of `sample`; escapes are undone */
        size_t size;
};

struct infp_prom_label {
        struct infp_prom_text name, value;
};

/* What a sample is of its family, by suffix and type. Without a TYPE line only buckets are known (by _bucket and le), and what
 * follows them under the same stem. */
enum infp_prom_part {
        INFP_PROM_VALUE,  /* the value itself; of a counter with or without _total, of an info with or without _info */
        INFP_PROM_SUM,    /* of histogram and summary (_sum; _gsum of a gauge histogram) */
        INFP_PROM_COUNT,  /* likewise */
        INFP_PROM_BUCKET, /* cumulative, with `le` */
        INFP_PROM_QUANTILE, /* of a summary, with `quantile` */
        INFP_PROM_CREATED, /* a time stamp (Unix seconds): never a value; also where a page types X_created as a gauge of its
                                * own, when X or X_total was declared before as counter, histogram or summary (a gauge such as
                                * kube_pod_created is a value); `family` is then X or X_total */
};

enum {
        INFP_PROM_LABELS = 128,
        INFP_PROM_FAMILIES = 1 << 16
}; /* a page may declare anything: beyond them a line is bad */

struct infp_prom_sample {
        struct infp_prom_text name;       /* as it stands on the page: "vllm:prompt_tokens_total" */
        struct infp_prom_text family;     /* as its TYPE line names it; of an undeclared one the name, of undeclared
                                             * buckets (and _sum, _count after them) the stem */
        struct infp_prom_text unit, help; /* "" when not declared */
        enum infp_prom_type type;
        enum infp_prom_part part;
        const struct infp_prom_label
                *labels; /* in the page's order, no name twice; at most INFP_PROM_LABELS: a line with
                                                 * more is a bad line */
        unsigned n_labels;
        double le;    /* of a bucket (+Inf: INFINITY) or the quantile; else NAN */
        double value; /* NAN, INFINITY in any spelling of the C library and of Go */
        bool has_time;
        int64_t unix_ns;              /* its own time stamp: milliseconds in text, float seconds in OpenMetrics */
        struct infp_prom_text series; /* name and braces as they stand on the page: equal text = the same series */
};

struct infp_prom_page {
        uint64_t n_samples,
                n_bad_lines; /* lines that are neither sample nor comment; and all after # EOF: passed over */
        uint64_t
                n_native; /* good samples without a single number (native histograms, `{count:1,...}`): passed over, too */
        uint32_t first_bad_line;      /* from 1; 0: none */
        char bad[96];                 /* its beginning, escaped for print */
        bool is_openmetrics, has_eof; /* a page that claims to be OpenMetrics and has no # EOF was cut */
        bool ends_in_line; /* false: the last line has no line feed; it was not used: it may be cut inside a number. True for a
                                * "# EOF" without one, and for an empty page. */
};

struct infp_promtext;                          /* the scanner's buffers: families, unescaped texts */
struct infp_promtext *infp_promtext_new(void); /* NULL: no memory */
struct infp_promtext *infp_promtext_free(struct infp_promtext *parser);

/* Calls `sample` for each sample, in order; a non-zero return of it ends the page and is returned. 0, -EBADMSG with a sentence
 * when the body is no such page at all (HTML, JSON, binary: lines, but not one sample or HELP, TYPE, UNIT, EOF; or a NUL
 * byte), -ENOMEM. An empty page, or one of comments, is a page without samples. Good lines of a page with bad ones are given
 * out; the caller decides by `ret` (which is filled on errors, too) whether it believes a page with bad lines, without its end
 * (!ends_in_line; is_openmetrics && !has_eof), and therefore keeps what it was given aside until this returns.
 * `is_openmetrics_header`: the Content-Type said so (a page that was cut before its # EOF can only be told by that). */
int infp_promtext_parse(struct infp_promtext *parser, const char *text, size_t size, bool is_openmetrics_header,
                        int (*sample)(void *context, const struct infp_prom_sample *sample), void *context,
                        struct infp_prom_page *ret, struct infp_err *err);
