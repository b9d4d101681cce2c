/* Callbacks that held an event loop of asyncio: in the text report and in its JSON. */
#include <stdio.h>

#include "base/human.h"
#include "view/report/parts.h"

enum { SHOWN = 8, PLACES_SHOWN = 3, NAME_WIDTH = 15, MOST_JSON = 1024 };

static const struct infp_sampling_mode *sampling_of(const struct infp_report *report)
{
        return infp_sampling_find(&report->functions.sampling, INFP_STACK_LAG);
}

static const struct infp_absence *absence_of(const struct infp_report *report)
{
        return infp_absences_find(&report->absences, "sampler", infp_stack_modes[INFP_STACK_LAG].name);
}

bool infp_report_lag_was_sought(const struct infp_report *report)
{
        return report->lag.n || sampling_of(report) || absence_of(report);
}

void infp_report_lag_notes(const struct infp_report *report, infp_report_note_fn *note, void *context)
{
        const struct infp_absence *absence = absence_of(report);
        const struct infp_sampling_mode *sampling = sampling_of(report);
        char text[256];

        if (!report->lag.n && !absence)
                note(context, "none", "no callback was seen to hold an event loop of asyncio for 100 ms");
        if (report->lag.n && sampling && sampling->rate_hz > 0) {
                snprintf(text, sizeof(text),
                         "from the first look at a callback to the last, of those of 100 ms or more: each took about "
                         "%s longer (looks are so far apart), and some that took little more than 100 ms are missing",
                         infp_report_seconds(1 / sampling->rate_hz).text);
                note(context, "estimated", text);
        }
        if (absence)
                note(context, "not known", absence->reason);
}

static void put_thread(struct infp_out *out, const struct infp_lag_report *lag, const struct infp_lag_thread *thread)
{
        infp_report_put(out, "  %8lld ", (long long) thread->tid);
        infp_report_put_padded(out, infp_report_string(&lag->strings, thread->name), NAME_WIDTH, false);
        infp_report_put(out, " %7s %9s %9s  ", infp_count(thread->n).text, infp_report_seconds(thread->seconds).text,
                        infp_report_seconds(thread->longest_s).text);
        infp_report_put_padded(out, infp_report_string(&lag->strings, thread->process), NAME_WIDTH, true);
        infp_report_end(out);
        /* bound: the times of those that are left out are in the thread's */
        for (uint32_t i = 0; i < thread->places.n && i < PLACES_SHOWN; i++) {
                infp_autostr struct infp_str words = { 0 };

                infp_report_place(&words, &lag->strings, &thread->places.list[i]);
                infp_report_put(out, "  %34s %9s            ", "",
                                infp_report_seconds(thread->places.list[i].seconds).text);
                infp_report_put(out, "%s", words.data ? words.data : "");
                infp_report_end(out);
        }
}

static void put_note(void *context, const char *label, const char *text)
{
        infp_report_line(context, label, "%s", text);
}

void infp_report_lag(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_lag_report *lag = &report->lag;

        if (!infp_report_lag_was_sought(report))
                return;
        infp_report_title(out, "Event loops held by a callback    times    in all   longest  process, where");
        for (uint32_t i = 0; i < lag->n && i < SHOWN; i++) /* bound: the rest is counted below */
                put_thread(out, lag, &lag->list[i]);
        if (lag->n > SHOWN)
                infp_report_line(out, "", "%s more", infp_count(lag->n - SHOWN).text);
        infp_report_lag_notes(report, put_note, out);
}

void infp_report_lag_short(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_lag_report *lag = &report->lag;
        const struct infp_lag_thread *thread = lag->list;
        infp_autostr struct infp_str words = { 0 };

        if (!lag->n)
                return;
        infp_report_place(&words, &lag->strings, thread->places.list);
        infp_report_title(out, "Event loop");
        infp_report_line(out, "held",
                         "the event loop of thread %lld (%s) was held %s time%s for 100 ms or more by one callback, %s "
                         "in all, longest %s, most by %s: `infprof report lag`",
                         (long long) thread->tid, infp_report_string(&lag->strings, thread->name),
                         infp_count(thread->n).text, thread->n == 1 ? "" : "s",
                         infp_report_seconds(thread->seconds).text, infp_report_seconds(thread->longest_s).text,
                         words.data ? words.data : "");
}

static void put_json_thread(struct infp_json *json, const struct infp_lag_report *lag,
                            const struct infp_lag_thread *thread)
{
        infp_json_object(json);
        infp_json_member_i64(json, "tid", thread->tid);
        infp_json_member_str(json, "name", infp_strings_get(&lag->strings, thread->name));
        infp_json_key(json, "pid");
        if (thread->pid)
                infp_json_i64(json, thread->pid);
        else
                infp_json_null(json);
        infp_json_member_str(json, "process", infp_strings_get(&lag->strings, thread->process));
        infp_json_member_u64(json, "n", thread->n);
        infp_json_member_f64(json, "total_s", thread->seconds);
        infp_json_member_f64(json, "max_s", thread->longest_s);
        infp_report_json_places(json, &lag->strings, &thread->places);
        infp_json_object_end(json);
}

/* null: not looked for. */
void infp_report_json_lag(struct infp_json *json, const struct infp_report *report)
{
        const struct infp_absence *absence = absence_of(report);
        const struct infp_lag_report *lag = &report->lag;

        infp_json_key(json, "lag");
        if (!sampling_of(report) && !lag->n) {
                infp_json_null(json);
                return;
        }
        infp_json_object(json);
        infp_json_member_str(json, "not_known", absence ? absence->reason : NULL);
        infp_json_key(json, "threads");
        infp_json_array(json);
        for (uint32_t i = 0; i < lag->n && i < MOST_JSON; i++) /* bound: the rest is counted below */
                put_json_thread(json, lag, &lag->list[i]);
        infp_json_array_end(json);
        infp_json_member_u64(json, "threads_left_out", lag->n > MOST_JSON ? lag->n - MOST_JSON : 0);
        infp_json_object_end(json);
}
