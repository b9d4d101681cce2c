/* What limited the run: first in the report, as people ask it first. */
#include <string.h>

#include "base/json/json.h"
#include "view/report/parts.h"

/* The label of a line. JSON has the names. */
static const char *label_of(enum infp_limit_state state)
{
        return state == INFP_LIMIT_REACHED ? "limited by" : infp_limit_state_words(state);
}

static bool has(const struct infp_limits *limits, enum infp_limit_state state)
{
        for (unsigned i = 0; i < limits->n; i++)
                if (limits->list[i].state == state)
                        return true;
        return false;
}

static void put_names(struct infp_out *out, const struct infp_limits *limits, const char *label,
                      enum infp_limit_state state)
{
        char text[512] = "";

        for (unsigned i = 0; i < limits->n; i++) {
                const struct infp_limit *l = &limits->list[i];

                if (l->state != state || infp_limit_repeats(limits, i))
                        continue;
                if (*text)
                        strcat(text, ", ");
                strcat(text, infp_limit_resource_name(l->resource));
        }
        infp_report_line(out, label, "%s", text);
}

/* The first sentence, without the advice after it. */
static size_t first_sentence(const char *text)
{
        const char *end = strstr(text, ". ");

        return end ? (size_t) (end - text) : strlen(text);
}

static void put_limits(struct infp_out *out, const struct infp_report *report, bool is_short)
{
        const struct infp_limits *limits = &report->limits;

        if (!limits->n)
                return;
        infp_report_title(out, "What limited it");
        if (report->run->info.exit_signal)
                infp_report_line(out, "ended", "the command, by signal %d (%s)", report->run->info.exit_signal,
                                 strsignal(report->run->info.exit_signal));
        for (unsigned i = 0; i < limits->n && limits->list[i].state <= INFP_LIMIT_NEAR; i++) {
                const struct infp_limit *l = &limits->list[i];

                infp_report_line(out, label_of(l->state), "%s: %.*s", infp_limit_resource_name(l->resource),
                                 (int) (is_short ? first_sentence(l->text) : strlen(l->text)), l->text);
        }
        if (limits->list[0].state > INFP_LIMIT_NEAR && has(limits, INFP_LIMIT_FREE))
                infp_report_line(out, label_of(INFP_LIMIT_REACHED), "nothing found");
        if (has(limits, INFP_LIMIT_FREE))
                put_names(out, limits, label_of(INFP_LIMIT_FREE), INFP_LIMIT_FREE);
        if (has(limits, INFP_LIMIT_NOT_CHECKED))
                put_names(out, limits, label_of(INFP_LIMIT_NOT_CHECKED), INFP_LIMIT_NOT_CHECKED);
}

void infp_report_limits(struct infp_out *out, const struct infp_report *report)
{
        put_limits(out, report, false);
}

void infp_report_limits_short(struct infp_out *out, const struct infp_report *report)
{
        put_limits(out, report, true);
}

void infp_report_json_limits(struct infp_json *json, const struct infp_report *report)
{
        const struct infp_limits *limits = &report->limits;

        infp_json_member_str(json, "headline", limits->n ? limits->headline : NULL);
        infp_json_key(json, "limits");
        infp_json_array(json);
        for (unsigned i = 0; i < limits->n; i++) {
                const struct infp_limit *l = &limits->list[i];

                infp_json_object(json);
                infp_json_member_str(json, "resource", infp_limit_resource_name(l->resource));
                infp_json_member_str(json, "state", infp_limit_state_name(l->state));
                infp_json_member_f64(json, "share", l->share);
                infp_json_member_bool(json, "estimated", l->is_estimated);
                infp_json_member_str(json, "text", l->text);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
}
