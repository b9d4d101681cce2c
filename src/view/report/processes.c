/* The processes of the text report: a line each. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "view/report/parts.h"

enum { NAME_WIDTH = 15 };

/* Without the program's directory: the arguments matter more. */
static const char *from_program(const char *command)
{
        const char *ret = command;

        for (const char *at = command; *at && *at != ' '; at++)
                if (*at == '/' && at[1] && at[1] != ' ')
                        ret = at + 1;
        return ret;
}

static struct human cpu_of(const struct infp_report_process *p)
{
        return infp_report_seconds(p->cpu_s);
}

static void put_process(struct infp_out *out, const struct infp_report_process *p, unsigned cpu_width)
{
        const unsigned width = infp_report_width(out);
        char pid[24] = "-", share[40] = "-", line[160];
        unsigned used;

        if (p->pid >= 0)
                snprintf(pid, sizeof(pid), "%lld", (long long) p->pid);
        if (!isnan(p->cpu_share_percent))
                snprintf(share, sizeof(share), "%s %%", infp_fixed(p->cpu_share_percent, 1).text);
        infp_report_put(out, "  %7s ", pid);
        infp_report_put_padded(out, p->name ? p->name : "-", NAME_WIDTH, false);
        used = (unsigned) snprintf(line, sizeof(line), " %*s %8s %9s  ", (int) cpu_width, cpu_of(p).text, share,
                                   infp_report_bytes(p->rss_peak_bytes).text);
        infp_report_put(out, "%s", line);
        used += 2 + 7 + 1 + NAME_WIDTH;
        if (used + 4 < width)
                infp_report_put_padded(out, p->command ? from_program(p->command) : "-", width - used, true);
        infp_report_end(out);
}

void infp_report_processes(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_report_processes *processes = &report->processes;
        unsigned cpu_width = 8;
        char title[128], text[240];

        if (!processes->n)
                return;
        for (unsigned i = 0; i < processes->n; i++)
                if (strlen(cpu_of(&processes->list[i]).text) > cpu_width)
                        cpu_width = (unsigned) strlen(cpu_of(&processes->list[i]).text);
        snprintf(title, sizeof(title), "%-9s %-*s %*s %8s %9s  command", "Processes", NAME_WIDTH, "", (int) cpu_width,
                 "CPU", processes->beyond_tree ? "of CPUs" : "of tree", "RSS, most");
        infp_report_title(out, title);
        for (unsigned i = 0; i < processes->n; i++)
                put_process(out, &processes->list[i], cpu_width);
        if (processes->n < processes->n_seen) {
                snprintf(text, sizeof(text), "The %u of %s with the most CPU time%s.", INFP_REPORT_BUSIEST,
                         infp_count(processes->n_seen).text,
                         processes->n > INFP_REPORT_BUSIEST ? ", and the one with the most memory" : "");
                infp_report_put(out, "  ");
                infp_report_wrap(out, text, 2, 2);
        }
        if (processes->n_rows_left_out) {
                snprintf(text, sizeof(text),
                         "Only the first %s processes were compared; %s rows of later ones were left out.",
                         infp_count(processes->n_seen).text, infp_count(processes->n_rows_left_out).text);
                infp_report_put(out, "  ");
                infp_report_wrap(out, text, 2, 2);
        }
}
