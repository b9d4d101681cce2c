/* A flame graph as one page that needs nothing else: a frame with a meta CSP, the tree packed (web/flame/README.md), web/flame's
 * script and style. It zooms, searches, selects a time, shows one function's callers and callees, and has a table of functions. */
#pragma once

#include "analyze/profile/flame.h"
#include "base/str.h"
#include "view/flame/look.h"

/* Appends to `out`. 0 or a negative errno; -ENOMEM also when `out` failed. An empty tree is a page with a sentence. */
int infp_flame_html(struct infp_str *out, const struct infp_flame *flame, const struct infp_flame_look *look,
                    struct infp_err *err);
/* The page's data apart, for a page that has the graph as a part: the packed tree (base 64), and the facts (JSON, which infp_html_json
 * makes fit for a script element). */
int infp_flame_html_data(struct infp_str *packed, struct infp_str *facts, const struct infp_flame *flame,
                         struct infp_err *err);
