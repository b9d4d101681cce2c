/* report --html: one self-contained page. C writes a frame (head, meta CSP with the hashes of script and style, the headline and
 * figures as plain HTML that reads without script, <noscript>), the data as one JSON object in
 * <script type="application/json" id="data">, and the embedded web/report/{report.css,*.js}. Everything that comes from a run is
 * text: `<` is \u003c in the JSON, & < > " ' are escaped in HTML, control characters and invalid UTF-8 are replaced; the page makes
 * nodes by textContent alone. No http(s):// in any src or href, no request, no eval, no inline handler.
 *
 * web/report/README.md has the frame, the members of the data and the files of the script, which tools/embed joins. */
#pragma once

#include "analyze/report.h"
#include "view/format.h"

struct infp_timeline; /* analyze/timeline/timeline.h */

/* 0 or a negative errno. The timeline's buckets are joined where the page would become too large. */
int infp_report_html(struct infp_out *out, const struct infp_report *report, struct infp_timeline *timeline);
