#include "model/log_histogram.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/number.h"

enum { FIRST_EDGE_NS = 1000, NUMBER_MAX = 32 };

/* Counted from the bucket after the first edge; ns - 1 makes the upper edge belong to its bucket. */
unsigned infp_log_bucket(uint64_t ns)
{
        uint64_t units;
        unsigned doubling;

        if (ns <= FIRST_EDGE_NS)
                return 0;
        units = (ns - 1) / FIRST_EDGE_NS;
        doubling = 63 - (unsigned) __builtin_clzll(units);
        if (doubling >= INFP_LOG_DOUBLINGS)
                return INFP_LOG_BUCKETS - 1;
        return 1 + doubling * INFP_LOG_STEPS +
               (unsigned) ((ns - 1 - ((uint64_t) FIRST_EDGE_NS << doubling)) * INFP_LOG_STEPS /
                           ((uint64_t) FIRST_EDGE_NS << doubling));
}

uint64_t infp_log_edge_ns(unsigned bucket)
{
        const unsigned doubling = bucket ? (bucket - 1) / INFP_LOG_STEPS : 0;

        if (bucket == 0)
                return FIRST_EDGE_NS;
        if (bucket >= INFP_LOG_BUCKETS - 1)
                return UINT64_MAX;
        return ((uint64_t) FIRST_EDGE_NS << doubling) / INFP_LOG_STEPS *
               (INFP_LOG_STEPS + 1 + (bucket - 1) % INFP_LOG_STEPS);
}

void infp_log_add(struct infp_log_histogram *histogram, uint64_t ns, uint64_t count)
{
        histogram->counts[infp_log_bucket(ns)] += count;
        histogram->n += count;
}

void infp_log_put(const struct infp_log_histogram *histogram, struct infp_str *out)
{
        bool any = false;

        infp_str_putc(out, '[');
        for (unsigned i = 0; i < INFP_LOG_BUCKETS; i++) {
                if (!histogram->counts[i])
                        continue;
                infp_str_puts(out, any ? ",[" : "[");
                any = true;
                if (i == INFP_LOG_BUCKETS - 1)
                        infp_str_puts(out, "null");
                else
                        infp_str_f64(out, (double) infp_log_edge_ns(i) / 1e9);
                infp_str_putc(out, ',');
                infp_str_u64(out, histogram->counts[i]);
                infp_str_putc(out, ']');
        }
        infp_str_putc(out, ']');
}

struct cursor {
        const char *at, *end;
};

static void skip_blanks(struct cursor *c)
{
        while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t' || *c->at == '\r'))
                c->at++;
}

static bool skip(struct cursor *c, char wanted)
{
        skip_blanks(c);
        if (c->at == c->end || *c->at != wanted)
                return false;
        c->at++;
        return true;
}

static size_t number_size(struct cursor *c)
{
        size_t n = 0;

        skip_blanks(c);
        /* bound: a number has no more characters; what follows is refused */
        while (c->at + n < c->end && n < NUMBER_MAX && c->at[n] && strchr("0123456789.eE+-", c->at[n]))
                n++;
        return n;
}

static bool take_edge(struct cursor *c, unsigned *ret)
{
        size_t n = number_size(c);
        double seconds;

        if (n == 0 && c->end - c->at >= 4 && !memcmp(c->at, "null", 4)) {
                *ret = INFP_LOG_BUCKETS - 1;
                c->at += 4;
                return true;
        }
        if (infp_parse_f64(c->at, n, &seconds) < 0 || !(seconds >= 0 && seconds < 1e9))
                return false;
        *ret = infp_log_bucket((uint64_t) llround(seconds * 1e9));
        c->at += n;
        return true;
}

static bool take_count(struct cursor *c, uint64_t *ret)
{
        size_t n = number_size(c);

        if (infp_parse_u64(c->at, n, ret) < 0)
                return false;
        c->at += n;
        return true;
}

int infp_log_take(struct infp_log_histogram *histogram, const char *text, size_t size)
{
        struct infp_log_histogram sum = *histogram;
        struct cursor c = { text, text + size };
        uint64_t count;
        unsigned bucket;

        if (!skip(&c, '['))
                return -EBADMSG;
        if (!skip(&c, ']')) {
                do {
                        if (!skip(&c, '[') || !take_edge(&c, &bucket) || !skip(&c, ',') || !take_count(&c, &count) ||
                            !skip(&c, ']') || __builtin_add_overflow(sum.n, count, &sum.n))
                                return -EBADMSG;
                        sum.counts[bucket] += count;
                } while (skip(&c, ','));
                if (!skip(&c, ']'))
                        return -EBADMSG;
        }
        skip_blanks(&c);
        if (c.at != c.end)
                return -EBADMSG;
        *histogram = sum;
        return 0;
}

bool infp_log_quantile(const struct infp_log_histogram *histogram, double q, struct infp_quantile *ret)
{
        struct infp_bucket buckets[INFP_LOG_BUCKETS];
        uint64_t sum = 0;

        for (unsigned i = 0; i < INFP_LOG_BUCKETS; i++) {
                sum += histogram->counts[i];
                buckets[i] = (struct infp_bucket){
                        .le = i == INFP_LOG_BUCKETS - 1 ? (double) INFINITY : (double) infp_log_edge_ns(i) / 1e9,
                        .count = (double) sum,
                };
        }
        return infp_quantile_of(buckets, INFP_LOG_BUCKETS, q, ret);
}
