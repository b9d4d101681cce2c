#include "analyze/range.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/run_clock.h"
#include "analyze/scan_some.h"
#include "base/human.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/str.h"
#include "base/text.h"
#include "base/time.h"
#include "model/baseline.h"
#include "model/tables.h"

enum { MAX_LISTED = 10, SECONDS_PER_DAY = 86400 };

static const int64_t ns_per_s = 1000000000;

/* Reads exactly `digits` digits; false otherwise. */
static bool take_number(const char **text, unsigned digits, int *ret)
{
        *ret = 0;
        for (unsigned i = 0; i < digits; i++) {
                if ((*text)[i] < '0' || (*text)[i] > '9')
                        return false;
                *ret = *ret * 10 + ((*text)[i] - '0');
        }
        *text += digits;
        return true;
}

static bool take_char(const char **text, const char *any)
{
        if (!**text || !strchr(any, **text))
                return false;
        (*text)++;
        return true;
}

/* HH:MM, with :SS and a fraction where they are. */
static bool take_time(const char **text, struct tm *tm, int64_t *ret_ns)
{
        int64_t unit = ns_per_s;

        *ret_ns = 0;
        if (!take_number(text, 2, &tm->tm_hour) || !take_char(text, ":") || !take_number(text, 2, &tm->tm_min))
                return false;
        if (tm->tm_hour > 23 || tm->tm_min > 59)
                return false;
        if (!take_char(text, ":"))
                return true;
        if (!take_number(text, 2, &tm->tm_sec) || tm->tm_sec > 60)
                return false;
        if (take_char(text, "."))
                for (; **text >= '0' && **text <= '9'; (*text)++)
                        *ret_ns += (**text - '0') * (unit /= 10);
        return true;
}

static bool take_date(const char **text, struct tm *tm)
{
        int year, month, day;

        if (!take_number(text, 4, &year) || !take_char(text, "-") || !take_number(text, 2, &month) ||
            !take_char(text, "-") || !take_number(text, 2, &day) || month < 1 || month > 12 || day < 1 || day > 31)
                return false;
        tm->tm_year = year - 1900;
        tm->tm_mon = month - 1;
        tm->tm_mday = day;
        return true;
}

/* Z, +02:00, +0200, +02 or nothing (local time). */
static bool take_zone(const char **text, bool *ret_is_utc, int *ret_offset)
{
        int hours, minutes = 0, sign;

        *ret_is_utc = true;
        *ret_offset = 0;
        take_char(text, " ");
        if (take_char(text, "Zz"))
                return true;
        if (**text != '+' && **text != '-') {
                *ret_is_utc = false;
                return true;
        }
        sign = **text == '-' ? -1 : 1;
        (*text)++;
        if (!take_number(text, 2, &hours))
                return false;
        if ((take_char(text, ":") || **text) && !take_number(text, 2, &minutes))
                return false;
        *ret_offset = sign * (hours * 3600 + minutes * 60);
        return true;
}

int infp_clock_parse(const char *text, int64_t first_unix_ns, int64_t last_unix_ns, int64_t *ret_unix_ns)
{
        const time_t first_s = (time_t) (first_unix_ns / ns_per_s), last_s = (time_t) (last_unix_ns / ns_per_s);
        struct tm tm = { .tm_isdst = -1 }, here;
        const bool has_date = strlen(text) >= 10 && text[4] == '-';
        int64_t fraction;
        bool is_utc;
        int offset;
        time_t t;

        if (has_date && (!take_date(&text, &tm) || !take_char(&text, "T ")))
                return -EINVAL;
        if (!take_time(&text, &tm, &fraction) || !take_zone(&text, &is_utc, &offset) || *text)
                return -EINVAL;
        if (!has_date) {
                const time_t there = first_s + (is_utc ? offset : 0);

                if (!(is_utc ? gmtime_r(&there, &here) : localtime_r(&there, &here)))
                        return -EINVAL;
                tm.tm_year = here.tm_year;
                tm.tm_mon = here.tm_mon;
                tm.tm_mday = here.tm_mday;
        }
        t = is_utc ? timegm(&tm) - offset : mktime(&tm);
        if (t == (time_t) -1)
                return -EINVAL;
        if (!has_date && t < first_s && t + SECONDS_PER_DAY <= last_s)
                t += SECONDS_PER_DAY;
        *ret_unix_ns = (int64_t) t * ns_per_s + fraction;
        return 0;
}

static int widen(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        const uint64_t t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        uint64_t *const ends = context;

        (void) at;
        ends[0] = t_ns < ends[0] ? t_ns : ends[0];
        ends[1] = t_ns > ends[1] ? t_ns : ends[1];
        return 0;
}

/* The ends of the run: from run.json, else (still recorded, killed, unreadable) from `ticks`, which has a row a tick, and from
 * `requests`: a load's own run has no ticks, and what comes by the socket is on disk before the next tick. */
static int find_ends(struct infp_run *run, struct infp_range *range, struct infp_err *err)
{
        static const char *const none[] = { NULL };
        static const struct infp_scan_options whole;
        uint64_t ends[] = { UINT64_MAX, 0 };
        int r;

        range->start = run->info.started_t_ns;
        range->end = run->info.ended_t_ns;
        if (range->start && range->end)
                return 0;
        r = infp_scan_rows(run, infp_table_ticks.name, none, &whole, widen, ends, err);
        if (r >= 0)
                r = infp_scan_rows(run, infp_table_requests.name, none, &whole, widen, ends, err);
        if (!range->start && ends[0] != UINT64_MAX)
                range->start = ends[0];
        if (!range->end)
                range->end = ends[1] > range->start ? ends[1] : range->start;
        return r;
}

struct marks {
        const char *wanted;
        bool found;
        uint64_t t_ns;        /* of the first one with that tag */
        struct infp_str tags; /* for the message: "a, b" */
        unsigned n_tags;
};

static void list_tag(struct marks *marks, const char *tag, size_t size)
{
        if (marks->n_tags++ >= MAX_LISTED)
                return;
        infp_str_puts(&marks->tags, marks->tags.size ? ", " : "");
        /* It goes to a terminal. */
        for (size_t i = 0; i < size && i < 60; i++) /* bound: tags are shortened in a list of them */
                infp_str_putc(&marks->tags, (unsigned char) tag[i] < ' ' || tag[i] == 0x7f ? '?' : tag[i]);
}

/* As the report shows it, or as the program wrote it: one backslash is recorded as two. */
static bool is_tag(const char *text, size_t size, const char *wanted)
{
        const size_t wanted_size = strlen(wanted);
        char escaped[1024];

        return (size == wanted_size && !memcmp(text, wanted, size)) ||
               (size == infp_text_escape(wanted, wanted_size, escaped, sizeof(escaped)) &&
                !memcmp(text, escaped, size));
}

static int take_mark(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        const uint64_t t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        struct marks *marks = context;
        size_t size;
        const char *text = infp_cell_str(batch, at[0], row, &size);

        if (at[0] < 0)
                return 0;
        if (is_tag(text, size, marks->wanted)) {
                marks->t_ns = marks->found && marks->t_ns < t_ns ? marks->t_ns : t_ns;
                marks->found = true;
        }
        list_tag(marks, text, size);
        return 0;
}

/* The first mark with this tag at or after t_ns. 1: found; 0: not. */
static int find_mark(struct infp_run *run, struct marks *marks, uint64_t t_ns, uint64_t *ret, struct infp_err *err)
{
        static const char *const columns[] = { "tag", NULL };
        const struct infp_scan_options options = { .t0 = t_ns };

        INFP_TRY(infp_scan_rows(run, "marks", columns, &options, take_mark, marks, err));
        if (marks->found)
                *ret = marks->t_ns;
        return marks->found;
}

struct named {
        const char *wanted; /* NULL: all rows */
        uint64_t first, end;
};

static int take_named(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        const uint64_t t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        struct named *named = context;
        uint64_t end = t_ns;
        size_t size;
        const char *text = infp_cell_str(batch, at[0], row, &size);

        if (named->wanted && (at[0] < 0 || !is_tag(text, size, named->wanted)))
                return 0;
        if (infp_cell_has(batch, at[1], row))
                end += (uint64_t) infp_batch_i64(batch, (unsigned) at[1], row);
        named->first = t_ns < named->first ? t_ns : named->first;
        named->end = end > named->end ? end : named->end;
        return 0;
}

/* Loads, and the moment when the first engine was ready, have names though they are not marks. 1: found. */
static int find_name(struct infp_run *run, const char *text, bool is_end, uint64_t *ret, struct infp_err *err)
{
        static const char *const columns[] = { "load", "end_ns", NULL };
        static const struct infp_scan_options whole;
        struct named named = { text, UINT64_MAX, 0 };

        INFP_TRY(infp_scan_rows(run, infp_table_requests.name, columns, &whole, take_named, &named, err));
        if (named.first == UINT64_MAX && !strcmp(text, "ready")) {
                named.wanted = NULL;
                INFP_TRY(infp_scan_rows(run, "vllm", columns, &whole, take_named, &named, err));
                named.end = named.first;
        }
        if (named.first == UINT64_MAX)
                return 0;
        *ret = is_end ? named.end + 1 : named.first;
        return 1;
}

static int find_distance(const char *text, const struct infp_range *range, const char *option, uint64_t *ret,
                         struct infp_err *err)
{
        uint64_t ns;

        if (infp_parse_duration(text + 1, &ns) < 0)
                return infp_fail(err, -EINVAL, "--%s %s: not a duration; write it like +30s, -5m or -500ms", option,
                                 text);
        if (*text == '+')
                *ret = ns < UINT64_MAX - range->start ? range->start + ns : UINT64_MAX;
        else
                *ret = ns < range->end - range->start ? range->end - ns : range->start;
        return 0;
}

/* ret_is_mark: a tag has named it. */
static int find_moment(struct infp_run *run, const char *option, const char *text, uint64_t not_before,
                       const struct infp_range *range, uint64_t *ret, bool *ret_is_mark, struct infp_err *err)
{
        struct infp_run_clock clock;
        struct marks marks = { .wanted = text };
        int64_t unix_ns;
        int r;

        if (*text == '+' || *text == '-')
                return find_distance(text, range, option, ret, err);
        r = find_mark(run, &marks, not_before, ret, err);
        *ret_is_mark = r > 0;
        if (r > 0 || (r < 0 && r != -ENOENT)) {
                infp_str_done(&marks.tags);
                return r < 0 ? r : 0;
        }
        r = find_name(run, text, !strcmp(option, "to"), ret, err);
        if (r) {
                infp_str_done(&marks.tags);
                return r < 0 ? r : 0;
        }
        r = infp_run_clock_read(run, &clock, err);
        if (r >= 0 && infp_clock_parse(text, infp_run_clock_unix_ns(&clock, range->start),
                                       infp_run_clock_unix_ns(&clock, range->end), &unix_ns) >= 0)
                *ret = infp_run_clock_t_ns(&clock, unix_ns);
        else if (r >= 0)
                r = infp_fail(
                        err, -EINVAL,
                        "--%s %s: neither a mark of this run%s (%s%s), nor the name of a load, nor `ready`, nor a "
                        "time like 14:05:00, -5m or +30s",
                        option, text, not_before ? " after --from" : "", marks.n_tags ? marks.tags.data : "it has none",
                        marks.n_tags > MAX_LISTED ? " ..." : "");
        infp_run_clock_done(&clock);
        infp_str_done(&marks.tags);
        return r < 0 ? r : 0;
}

static int take_baseline(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        const uint64_t t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        struct infp_baseline *found = context;

        if (!infp_cell_is(batch, at[0], row, INFP_BASELINE_SOURCE))
                return 0;
        if (infp_cell_is(batch, at[1], row, INFP_BASELINE_START))
                found->t0 = t_ns;
        else if (infp_cell_is(batch, at[1], row, INFP_BASELINE_END))
                found->t1 = t_ns;
        return 0;
}

int infp_baseline_find(struct infp_run *run, struct infp_baseline *ret, struct infp_err *err)
{
        static const char *const columns[] = { "source", "tag", NULL };
        static const struct infp_scan_options whole;
        struct infp_baseline found = { 0 };

        *ret = found;
        INFP_TRY(infp_scan_rows(run, "marks", columns, &whole, take_baseline, &found, err));
        if (found.t0 && found.t1 > found.t0)
                *ret = found;
        return 0;
}

/* A command begins after the idle power was measured, so its range starts there. */
static int skip_baseline(struct infp_run *run, struct infp_range *range, struct infp_err *err)
{
        struct infp_baseline baseline;
        int r;

        if (!run->info.mode || strcmp(run->info.mode, "run"))
                return 0;
        r = infp_baseline_find(run, &baseline, err);
        /* Unreadable marks must not hide the rest; the next reader reports them. */
        if (r < 0 && r != -ENOMEM) {
                if (err)
                        *err->text = 0;
                return 0;
        }
        INFP_TRY(r);
        if (baseline.t1 > range->start && baseline.t1 < range->end)
                range->start = baseline.t1;
        return 0;
}

static double seconds_after(uint64_t t, uint64_t start)
{
        return (double) (int64_t) (t - start) / 1e9;
}

int infp_range_find(struct infp_run *run, const char *from, const char *to, uint64_t skip_ns, struct infp_range *ret,
                    struct infp_err *err)
{
        uint64_t recorded; /* the first moment: the marks of the baseline can be named */

        *ret = (struct infp_range){ 0 };
        INFP_TRY(find_ends(run, ret, err));
        ret->end++;
        recorded = ret->start;
        INFP_TRY(skip_baseline(run, ret, err));
        ret->t0 = ret->start;
        ret->t1 = ret->end;
        if (from)
                INFP_TRY(find_moment(run, "from", from, 0, ret, &ret->t0, &ret->from_is_mark, err));
        if (to)
                INFP_TRY(find_moment(run, "to", to, from ? ret->t0 : 0, ret, &ret->t1, &ret->to_is_mark, err));
        if (from && to && ret->t1 <= ret->t0)
                return infp_fail(err, -EINVAL,
                                 "--to %.100s (%s s after the start) is not later than --from %.100s (%s s)", to,
                                 infp_fixed(seconds_after(ret->t1, ret->start), 3).text, from,
                                 infp_fixed(seconds_after(ret->t0, ret->start), 3).text);
        if (ret->t0 < recorded)
                ret->t0 = recorded;
        if (ret->t1 > ret->end)
                ret->t1 = ret->end;
        if (skip_ns && ret->t0 < ret->start + skip_ns)
                ret->t0 = ret->start + skip_ns;
        if (ret->t0 >= ret->t1)
                return infp_fail(err, -EINVAL, "the range is outside of the run, which lasts %s s",
                                 infp_fixed((double) (ret->end - 1 - ret->start) / 1e9, 3).text);
        return 0;
}
