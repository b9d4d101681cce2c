/* What a flame graph says in words, as page and as picture alike. Plain text: the writer escapes it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/profile/flame.h"
#include "base/str.h"
#include "view/flame/look.h"

void infp_flame_title(struct infp_str *out, const struct infp_flame *flame, const struct infp_flame_look *look);
void infp_flame_count(struct infp_str *out, uint64_t n);                       /* "12,345" */
void infp_flame_weight(struct infp_str *out, double weight, const char *unit); /* "12.3 s", "4 KiB", "7 faults" */
bool infp_flame_figure(struct infp_str *out, double weight, const char *unit); /* the same; false: without its unit */
void infp_flame_amount(struct infp_str *out, const struct infp_flame *flame);

/* What was recorded: line i of INFP_FLAME_RECORDED, of a difference the older run first; false: there is nothing to say of it. */
enum { INFP_FLAME_RECORDED = 2 };
bool infp_flame_recorded(struct infp_str *out, const struct infp_flame_look *look, unsigned i);

/* A function's name without what stands in ( ) and < >, where that leaves a name: what pages and reports show for want of room. */
void infp_flame_short_name(struct infp_str *out, const char *name);

/* Why nothing is drawn. */
void infp_flame_nothing(struct infp_str *out, const struct infp_flame *flame);

/* Of a difference whose cuts differ (infp_flame_cuts_differ): by how much, and what to look at. */
void infp_flame_cuts(struct infp_str *out, const struct infp_flame *flame);

/* How far it can be trusted, in a line; then in sentences: sentence i of INFP_FLAME_DOUBTS + look->n_notes; false: there is nothing to say of it. */
void infp_flame_trust(struct infp_str *out, const struct infp_flame *flame);
enum { INFP_FLAME_DOUBTS = 5 };
bool infp_flame_doubt(struct infp_str *out, const struct infp_flame *flame, const struct infp_flame_look *look,
                      unsigned i);
