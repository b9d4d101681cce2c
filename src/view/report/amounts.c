/* Memory and traffic in the text report: two figures a line. */
#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "view/report/parts.h"

/* Lines of two figures below a title, which is printed only if there is a line. */
struct pairs {
        struct infp_out *out;
        const char *title, *a, *b;
        bool any;
};

static void put_cells(struct pairs *pairs, const char *label, const char *a, const char *b)
{
        char title[80];

        if (!pairs->any) {
                snprintf(title, sizeof(title), "%-32s %14s %14s", pairs->title, pairs->a, pairs->b);
                infp_report_title(pairs->out, title);
        }
        pairs->any = true;
        infp_report_put(pairs->out, "  %-31s %13s %14s", label, a, b);
        infp_report_end(pairs->out);
}

static void put_pair(struct pairs *pairs, const char *label, double a, double b, const char *base)
{
        if (!isnan(a) || !isnan(b))
                put_cells(pairs, label, infp_human(a, base, "", false).text, infp_human(b, base, "", false).text);
}

/* Of the tree; with -p and no command, of all processes. */
static void put_tree_pair(struct pairs *pairs, const struct infp_report *report, const char *label, double a, double b)
{
        const bool is_unseen = infp_report_tree_unseen(report);
        const struct human first = infp_human(a, "bytes", "", false), second = infp_human(b, "bytes", "", false);
        char text[64];

        snprintf(text, sizeof(text), "%s: %s", infp_report_is_host(report) ? "processes" : "tree", label);
        if (is_unseen || !isnan(a) || !isnan(b))
                put_cells(pairs, text, is_unseen && isnan(a) ? "not seen" : first.text,
                          is_unseen && isnan(b) ? "not seen" : second.text);
}

/* Counters at 0 mean nothing if no process was ever seen. */
static void put_tree_counters(struct pairs *pairs, const struct infp_report *report, const char *label,
                              const char *name, const char *other)
{
        const double a = infp_report_total(report, name), b = infp_report_total(report, other);
        const bool is_known = !infp_report_tree_unseen(report) || report->processes.n || a > 0 || b > 0;

        put_tree_pair(pairs, report, label, is_known ? a : NAN, is_known ? b : NAN);
}

static void put_tree_gauge(struct pairs *pairs, const struct infp_report *report, const char *label, const char *name)
{
        put_tree_pair(pairs, report, label, infp_report_mean(report, name), infp_report_max(report, name));
}

static void put_gauge(struct pairs *pairs, const struct infp_report *report, const char *label, const char *name)
{
        put_pair(pairs, label, infp_report_mean(report, name), infp_report_max(report, name), "bytes");
}

void infp_report_memory(struct infp_out *out, const struct infp_report *report)
{
        struct pairs pairs = { .out = out, .title = "Memory", .a = "mean", .b = "most" };

        put_tree_pair(&pairs, report, "in RAM (RSS)", infp_report_mean(report, "tree_rss_bytes"),
                      infp_report_tree_rss_most(report));
        put_tree_gauge(&pairs, report, "address space (VMS)", "tree_vms_bytes");
        put_tree_gauge(&pairs, report, "in swap", "tree_swap_bytes");
        put_gauge(&pairs, report, "machine: used", "vMemoryUsed");
        put_gauge(&pairs, report, "machine: swap used", "vSwapUsed");
        if (pairs.any && !isnan(report->memory_limit_bytes))
                infp_report_line(out, "limit", "%s by the control group",
                                 infp_report_bytes(report->memory_limit_bytes).text);
        infp_report_memory_accounts(out, report);
}

/* Of the tree, else of the machine. */
void infp_report_memory_short(struct infp_out *out, const struct infp_report *report)
{
        const bool is_tree = !isnan(infp_report_tree_rss_most(report));
        const double mean = infp_report_mean(report, is_tree ? "tree_rss_bytes" : "vMemoryUsed");
        const double most = is_tree ? infp_report_tree_rss_most(report) : infp_report_max(report, "vMemoryUsed");
        char limit[64] = "", average[64] = "";

        if (isnan(most)) {
                infp_report_line(out, "memory", infp_report_tree_unseen(report) ? "not seen" : "not measured");
                return;
        }
        if (!isnan(mean))
                snprintf(average, sizeof(average), ", %s on average", infp_report_bytes(mean).text);
        if (!isnan(report->memory_limit_bytes))
                snprintf(limit, sizeof(limit), "; the control group's limit is %s",
                         infp_report_bytes(report->memory_limit_bytes).text);
        infp_report_line(out, "memory", "peak %s%s (%s)%s", infp_report_bytes(most).text, average,
                         is_tree ? "RSS" : "used by the machine", limit);
}

/* The kernel sums times over requests, so concurrent requests can exceed a second per second. */
static void put_disk_note(struct infp_out *out, const struct infp_report *report)
{
        static const char *const names[] = { "vDiskReadTime", "vDiskWriteTime", "vDiskWeightedIOTime",
                                             "vDiskDiscardTime", "vDiskFlushTime" };
        infp_autostr struct infp_str above = { 0 };

        for (unsigned i = 0; i < INFP_COUNT(names); i++)
                if (infp_report_max(report, names[i]) > 1)
                        infp_str_printf(&above, "%s%s", above.size ? ", " : "", names[i]);
        if (above.size)
                infp_report_line(out, "note",
                                 "%s: the time of all requests in flight together, so that more than 100 %% of a "
                                 "second is no error",
                                 above.data);
}

void infp_report_traffic(struct infp_out *out, const struct infp_report *report)
{
        struct pairs io = { .out = out, .title = "I/O", .a = "read", .b = "written" };
        struct pairs network = { .out = out, .title = "Network", .a = "received", .b = "sent" };

        put_tree_counters(&io, report, "by calls, caches too", "tree_rchar", "tree_wchar");
        put_tree_counters(&io, report, "block devices", "tree_read_bytes", "tree_write_bytes");
        put_pair(&io, "machine: disks", infp_report_total(report, "vDiskReadBytes"),
                 infp_report_total(report, "vDiskWriteBytes"), "bytes");
        if (io.any)
                put_disk_note(out, report);
        put_pair(&network, "machine: all but lo", infp_report_total(report, "vNetworkBytesRecvd"),
                 infp_report_total(report, "vNetworkBytesSent"), "bytes");
}
