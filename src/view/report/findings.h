/* Findings of rules, and the report in the mission's shape. */
#pragma once

#include "analyze/report.h"
#include "base/json/json.h"
#include "view/format.h"

/* Those that are `least` or worse. */
void infp_bottlenecks_text(struct infp_out *out, const struct infp_report *report, enum infp_severity least);
/* Members of the object that is open: findings, hotspots, findings_clear, findings_not_checked. */
void infp_bottlenecks_members(struct infp_json *json, const struct infp_report *report, enum infp_severity least);
void infp_rules_markdown(struct infp_str *out);

/* Why a call's members are null. */
#define INFP_CALLS_UNKNOWN "samples do not count calls, nor time them: record spans, or with --torch"
#define INFP_NO_FUNCTION "it is about the machine or the engine, not about a function"

/* One thing that took time, in the mission's shape. */
struct infp_call {
        const char *function; /* NULL: of no function */
        double avg_ms, calls; /* NAN: not known */
        enum infp_severity severity;
        const char *null_because; /* NULL: nothing is null */
};
/* Findings, hot functions, and spans of programs that took at least threshold_ms on average: an array to free. -ENOMEM. */
int infp_calls_find(const struct infp_report *report, double threshold_ms, enum infp_severity least,
                    struct infp_call **ret, unsigned *ret_n);
void infp_calls_member(struct infp_json *json, const struct infp_call *calls, unsigned n, bool has_reasons);

/* The mission's JSON report: exactly its keys, and `absent`. -ENOMEM. */
int infp_profile_report(struct infp_out *out, const struct infp_report *report, double threshold_ms);
