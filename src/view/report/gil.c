/* Who held the GIL of Python and who waited for it: in the text report and in its JSON. */
#include <stdio.h>

#include "base/human.h"
#include "view/report/parts.h"

enum { SHOWN = 12, NAME_WIDTH = 23, PROCESS_WIDTH = 14, MOST_JSON = 1024 };

static void put_thread(struct infp_out *out, const struct infp_gil_thread *thread)
{
        infp_report_put(out, "  %8lld ", (long long) thread->tid);
        infp_report_put_padded(out, thread->name ? thread->name : "-", NAME_WIDTH, false);
        infp_report_put(out, " %7s %% %7s %% %9s  ", infp_fixed(infp_gil_share(thread, INFP_GIL_WAITED), 1).text,
                        infp_fixed(infp_gil_share(thread, INFP_GIL_HELD), 1).text,
                        infp_report_seconds(thread->known_s).text);
        infp_report_put_padded(out, thread->process ? thread->process : "-", PROCESS_WIDTH, true);
        infp_report_end(out);
}

/* Why it is not known of some Python; NULL: it is of all. */
static const struct infp_absence *find_absence(const struct infp_report *report)
{
        for (unsigned i = 0; i < report->absences.n; i++)
                if (!strcmp(report->absences.list[i].column, "gil"))
                        return &report->absences.list[i];
        return NULL;
}

static void put_waiting(struct infp_str *out, const struct infp_gil_report *gil)
{
        double waited = 0, known = 0;
        uint32_t n = 0;

        for (uint32_t i = 0; i < gil->n; i++) {
                if (!infp_gil_was_used(&gil->list[i]))
                        continue;
                waited += gil->list[i].seconds[INFP_GIL_WAITED];
                known += gil->list[i].known_s;
                n++;
        }
        infp_str_printf(out, "%s of the %s of %s thread%s that used it", infp_report_seconds(waited).text,
                        infp_report_seconds(known).text, infp_count(n).text, n == 1 ? "" : "s");
}

void infp_report_gil(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_absence *absence = find_absence(report);
        const struct infp_gil_report *gil = &report->gil;
        infp_autostr struct infp_str words = { 0 };
        uint32_t n_shown = 0;

        if (!gil->n && !absence && !gil->has_wall)
                return;
        infp_report_title(out, "GIL of Python                         waits     holds   sampled  process");
        if (!gil->n && !absence)
                infp_report_line(out, "none",
                                 "no sample of --wall has it: no Python was seen, or it may not be "
                                 "read (`infprof report absent` says why)");
        /* bound: the rest is counted below */
        for (; n_shown < gil->n && n_shown < SHOWN && infp_gil_was_used(&gil->list[n_shown]); n_shown++)
                put_thread(out, &gil->list[n_shown]);
        if (n_shown < gil->n)
                infp_report_line(out, "", "%s more thread%s of Python%s", infp_count(gil->n - n_shown).text,
                                 gil->n - n_shown == 1 ? "" : "s",
                                 n_shown == SHOWN ? "" : ", which neither held it nor waited for it in any sample");
        if (n_shown) {
                put_waiting(&words, gil);
                infp_report_line(out, "waited", "%s; shares are estimates from samples of --wall",
                                 words.data ? words.data : "");
        }
        if (absence)
                infp_report_line(out, "not known", "%s", absence->reason);
}

/* Only where much was waited for. */
void infp_report_gil_short(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_gil_report *gil = &report->gil;
        infp_autostr struct infp_str words = { 0 };

        if (!gil->n || infp_gil_share(&gil->list[0], INFP_GIL_WAITED) < 10)
                return;
        put_waiting(&words, gil);
        infp_report_title(out, "GIL of Python");
        infp_report_line(out, "waited", "%s; thread %lld (%s) for %s %% of its time: `infprof report gil`",
                         words.data ? words.data : "", (long long) gil->list[0].tid,
                         gil->list[0].name ? gil->list[0].name : "-",
                         infp_fixed(infp_gil_share(&gil->list[0], INFP_GIL_WAITED), 1).text);
}

/* null: not sampled. */
void infp_report_json_gil(struct infp_json *json, const struct infp_report *report)
{
        const struct infp_absence *absence = find_absence(report);
        const struct infp_gil_report *gil = &report->gil;

        infp_json_key(json, "gil");
        if (!gil->has_wall) {
                infp_json_null(json);
                return;
        }
        infp_json_object(json);
        infp_json_member_str(json, "not_known", absence ? absence->reason : NULL);
        infp_json_key(json, "threads");
        infp_json_array(json);
        /* bound: the rest is counted below */
        for (uint32_t i = 0; i < gil->n && i < MOST_JSON; i++) {
                const struct infp_gil_thread *thread = &gil->list[i];

                infp_json_object(json);
                infp_json_member_i64(json, "tid", thread->tid);
                infp_json_member_str(json, "name", thread->name);
                infp_json_key(json, "pid");
                if (thread->pid)
                        infp_json_i64(json, thread->pid);
                else
                        infp_json_null(json);
                infp_json_member_str(json, "process", thread->process);
                infp_json_member_f64(json, "sampled_s", thread->known_s);
                infp_json_member_f64(json, "waits_s", thread->seconds[INFP_GIL_WAITED]);
                infp_json_member_f64(json, "holds_s", thread->seconds[INFP_GIL_HELD]);
                infp_json_member_u64(json, "samples", thread->samples);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
        infp_json_member_u64(json, "threads_left_out", gil->n > MOST_JSON ? gil->n - MOST_JSON : 0);
        infp_json_object_end(json);
}
