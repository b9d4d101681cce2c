/* The list of metrics in the text report. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "base/mem.h"
#include "view/report/parts.h"

enum { NAME_WIDTH = 29, CELL_WIDTH = 12, TOTALS_FROM_WIDTH = 100 };

/* What the run was about comes first; the others in the order of the run. */
static const char *const first_tables[] = { "vllm", "tree", "containers", "energy", "pressure" };

static unsigned rank_of(const char *table)
{
        unsigned i = 0;

        while (i < INFP_COUNT(first_tables) && strcmp(first_tables[i], table))
                i++;
        return i;
}

/* Constant metrics are left out; the sections above have those that matter. */
static bool is_quiet(const struct infp_report_metric *m)
{
        return !m->stat.n || m->stat.min == m->stat.max;
}

static bool is_one_of(const char *const *names, size_t n, const char *name)
{
        for (size_t i = 0; i < n; i++)
                if (!strcmp(names[i], name))
                        return true;
        return false;
}

/* Of more than a hundred kernel counters of the machine, the most wanted are shown by default. */
static bool is_detail(const struct infp_report_metric *m)
{
        static const char *const tables[] = { "cpu", "cpu_clock", "disk", "mem", "net" };
        static const char *const first[] = { "vCpuTimeUserMode", "vCpuTimeKernelMode", "vCpuTimeIOWait",
                                             "vCpuSteal",        "vLoadAvg",           "vMemoryUsed",
                                             "vMemoryFree",      "vSwapUsed",          "vDiskReadTime",
                                             "vDiskWriteTime",   "vDiskReadBytes",     "vDiskWriteBytes",
                                             "vDiskIOTime",      "vMemoryCached",      "vNetworkBytesRecvd",
                                             "vNetworkBytesSent" };

        /* The kernel's own averages lag behind: the counters beside them are exact for any range. */
        if (!strcmp(m->table, "pressure") && m->column.kind == INFP_GAUGE)
                return true;
        return is_one_of(tables, INFP_COUNT(tables), m->table) && !is_one_of(first, INFP_COUNT(first), m->name);
}

/* Of a distribution: a counter ..._sum beside ..._count. Their rates mean little; section Engine has means and percentiles. */
static bool is_of_distribution(const struct infp_report *report, const struct infp_report_metric *m)
{
        static const char *const ends[] = { "_sum", "_count" };
        const size_t size = strlen(m->name);

        for (unsigned i = 0; i < 2 && m->column.kind == INFP_COUNTER; i++) {
                const size_t end = strlen(ends[i]);
                const struct infp_report_metric *other;
                char name[256];

                if (size <= end || strcmp(m->name + size - end, ends[i]))
                        continue;
                snprintf(name, sizeof(name), "%.*s%s", (int) (size - end), m->name, ends[1 - i]);
                other = infp_report_find(report, name);
                return other && other->column.kind == INFP_COUNTER && !strcmp(other->table, m->table);
        }
        return false;
}

/* A sum of latencies grows by more than a second a second when several requests are under way: it is no share of the time. */
static struct human rate_of_sum(double v)
{
        infp_autostr struct infp_str text = { 0 };
        struct human ret = { "-" };

        if (!isfinite(v))
                return ret;
        infp_human_number(&text, v);
        snprintf(ret.text, sizeof(ret.text), "%s s/s", text.data ? text.data : "");
        return ret;
}

static void put_metric(struct infp_out *out, const struct infp_report_metric *m, bool is_sum, bool totals)
{
        const char *name = m->name + m->prefix_size;
        const bool is_counter = m->column.kind == INFP_COUNTER;
        const double values[] = { infp_stat_mean(&m->stat), infp_stat_std(&m->stat), m->stat.n ? m->stat.min : NAN,
                                  m->stat.n ? m->stat.max : NAN };

        infp_report_put(out, " %c%-*s", m->column.quality == INFP_ESTIMATED ? '~' : ' ', NAME_WIDTH, name);
        if (strlen(name) > NAME_WIDTH) {
                infp_report_end(out);
                infp_report_put(out, "%*s", NAME_WIDTH + 2, "");
        }
        for (unsigned i = 0; i < 4; i++) {
                const double v = values[i] * m->factor;

                infp_report_put(out, " %*s", CELL_WIDTH - 1,
                                is_sum && !strcmp(m->base, "seconds")
                                        ? rate_of_sum(v).text
                                        : infp_human(v, m->base, m->is_share ? "%" : m->unit, is_counter).text);
        }
        if (totals && is_counter)
                infp_report_put(
                        out, "%*s", CELL_WIDTH + 4,
                        infp_human(infp_stat_total(&m->stat, &m->column) * m->factor, m->base, m->unit, false).text);
        infp_report_end(out);
}

struct listing {
        const struct infp_report *report;
        bool all, totals;
        unsigned n_left_out;
        bool any_estimated;
        const struct infp_report_metric *last;
};

/* In the time series names of a keyed table begin with the instance: printed once, above them. */
static void put_group(struct infp_out *out, const struct listing *listing, const struct infp_report_metric *m)
{
        const struct infp_report_metric *last = listing->last;

        if (last && !strcmp(last->table, m->table) && last->prefix_size == m->prefix_size &&
            !memcmp(last->name, m->name, m->prefix_size))
                return;
        infp_report_put(out, " %s", m->table);
        if (m->prefix_size)
                infp_report_put(out, ": %.*s...", (int) m->prefix_size, m->name);
        infp_report_end(out);
}

static void put_table(struct infp_out *out, struct listing *listing, unsigned rank)
{
        const struct infp_report *report = listing->report;

        for (unsigned i = 0; i < report->n_metrics; i++) {
                const struct infp_report_metric *m = &report->metrics[i];
                bool is_part;

                if (rank_of(m->table) != rank)
                        continue;
                is_part = is_of_distribution(report, m);
                if (!listing->all && (is_quiet(m) || is_detail(m) || is_part)) {
                        listing->n_left_out++;
                        continue;
                }
                put_group(out, listing, m);
                put_metric(out, m, is_part, listing->totals);
                listing->any_estimated |= m->column.quality == INFP_ESTIMATED;
                listing->last = m;
        }
}

static void put_note(struct infp_out *out, const char *text)
{
        infp_report_put(out, "  ");
        infp_report_wrap(out, text, 2, 2);
}

static void put_metrics(struct infp_out *out, const struct infp_report *report, bool all)
{
        struct listing listing = { .report = report, .all = all, .totals = out->width >= TOTALS_FROM_WIDTH };
        char text[240];

        snprintf(text, sizeof(text), "%-*s%*s%*s%*s%*s%s", NAME_WIDTH + 2, "Metrics", CELL_WIDTH, "mean", CELL_WIDTH,
                 "std", CELL_WIDTH, "min", CELL_WIDTH, "max", listing.totals ? "           total" : "");
        infp_report_title(out, text);
        for (unsigned rank = 0; rank <= INFP_COUNT(first_tables); rank++)
                put_table(out, &listing, rank);
        if (listing.last)
                put_note(out,
                         "Counters are shown as rates between samples, weighted by time; times as shares of it: of CPU "
                         "time 100 % is one core. "
                         "std is that of the population.");
        if (listing.any_estimated)
                put_note(out, "~ is estimated.");
        if (!listing.n_left_out)
                return;
        snprintf(text, sizeof(text),
                 "%u more were left out: details of the machine and of distributions, and what did not change or had "
                 "no value (--all shows them).",
                 listing.n_left_out);
        put_note(out, text);
}

void infp_report_metrics(struct infp_out *out, const struct infp_report *report)
{
        put_metrics(out, report, false);
}

void infp_report_all_metrics(struct infp_out *out, const struct infp_report *report)
{
        put_metrics(out, report, true);
}
