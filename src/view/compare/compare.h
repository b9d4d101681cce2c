/* What `infprof compare` shows: for people, as JSON, as Markdown for a comment on a change, as JUnit for a CI system. */
#pragma once

#include "analyze/compare/gate.h"
#include "base/json/json.h"
#include "view/format.h"

struct infp_compare_view {
        const struct infp_compare *compare;
        const char *const *words; /* of each side: which runs, in one line */
        const char *unlike;       /* infp_compare_unlike; NULL: alike */
        const struct infp_gate_result *gates;
        unsigned n_gates;
};

void infp_compare_text(struct infp_out *out, const struct infp_compare_view *view);
void infp_compare_json(struct infp_json *json, const struct infp_compare_view *view); /* members */
void infp_compare_markdown(struct infp_str *out, const struct infp_compare_view *view);
void infp_compare_junit(struct infp_str *out, const struct infp_compare_view *view);
