/* What the files html*.c share, and view/flame/html.c with them. */
#pragma once

#include "analyze/timeline/timeline.h"
#include "base/json/json.h"
#include "view/html/html.h"

/* infp_markup_text, whole and with its lines. */
void infp_html_text(struct infp_str *out, const char *text);

/* A self-contained page up to its <body>: report and flame graph share the head and have their own script and style. */
struct infp_html_own {
        const char *script_hash, *style_hash; /* "sha256-..." */
        const char *inner_style_hash;         /* of a style within a part of the page; NULL: none */
        const char *style;
        size_t style_size;
};
void infp_html_head(struct infp_str *out, const char *title, const struct infp_html_own *own);

/* code.c: flame graphs of the modes of report->functions, for any time range; made to fit into `room` bytes by merging frames and
 * moments of the timeline's, which the page says. Then the place of mode i, and the data. 0 or a negative errno. */
struct infp_html_code {
        struct infp_html_code_mode {
                struct infp_str packed, facts; /* empty: of this mode there is no picture */
                double from_ms;                /* of the graph's begin, since the grid's */
                double step_s, least_percent;
                uint32_t merged; /* frames */
        } modes[INFP_STACK_MODES];
        unsigned n;
};
int infp_html_code_make(struct infp_html_code *ret, struct infp_timeline *timeline, size_t room, struct infp_err *err);
bool infp_html_code_has(const struct infp_html_code *code); /* any picture */
void infp_html_code_place(struct infp_str *out, const struct infp_html_code *code, unsigned i);
void infp_html_code_scripts(struct infp_str *out, const struct infp_html_code *code);
void infp_html_code_done(struct infp_html_code *code);

/* What limited the run, and the figures that are asked first: all of the page that needs no script. */
void infp_html_summary(struct infp_str *out, const struct infp_report *report);

/* A table of what happened between labels, where the report has any. */
void infp_html_labels(struct infp_str *out, const struct infp_report *report);

/* Functions that the time went to, a mode after the other, and spans of programs by name; where the run has any. -ENOMEM. */
int infp_html_functions(struct infp_str *out, const struct infp_report *report, const struct infp_html_code *code);
void infp_html_gil(struct infp_str *out, const struct infp_report *report);   /* where threads used Python's GIL */
void infp_html_tasks(struct infp_str *out, const struct infp_report *report); /* of asyncio */
/* Callbacks that held event loops of asyncio. */
void infp_html_lag(struct infp_str *out, const struct infp_report *report);
void infp_html_torch(struct infp_str *out, const struct infp_report *report);
void infp_html_program_spans(struct infp_str *out, const struct infp_report *report);

/* The data, at most about `room` bytes: then buckets are joined and metrics that are in no panel left out, and it says so. Coarsens
 * the timeline. 0 or -ENOMEM. */
int infp_html_data(struct infp_str *out, const struct infp_report *report, struct infp_timeline *timeline, size_t room);
/* events.c: processes, requests, marks, spans, gaps: members of the data. */
void infp_html_events(struct infp_json *json, const struct infp_timeline *timeline);
/* JSON as it may stand in a script element: < becomes \u003c. */
void infp_html_json(struct infp_str *out, const char *json, size_t size);

/* Numbers as short as the picture needs them. */
void infp_html_series(struct infp_json *json, const struct infp_timeline_series *series, unsigned n,
                      bool is_downsampled);
/* A number to a multiple of step (a power of ten); null when it is not a number. */
void infp_html_number(struct infp_json *json, double value, double step);
