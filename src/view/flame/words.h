/* Texts that the page and the picture of a flame graph share. Plain text: the writer escapes it. */
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

/* What was recorded: line i of INFP_FLAME_RECORDED, of a difference the older run first; false: no such line. */
enum { INFP_FLAME_RECORDED = 2 };
bool infp_flame_recorded(struct infp_str *out, const struct infp_flame_look *look, unsigned i);

/* A function's name without the contents of ( ) and < >, if that leaves a name: for narrow places. */
void infp_flame_short_name(struct infp_str *out, const char *name);

/* Why nothing is drawn. */
void infp_flame_nothing(struct infp_str *out, const struct infp_flame *flame);

/* For a difference whose incomplete stacks differ (infp_flame_cuts_differ): by how much, and what to compare. */
void infp_flame_cuts(struct infp_str *out, const struct infp_flame *flame);

/* " (too deep: read for 64 KiB to 1.2 MiB)"; nothing where no stack was. */
void infp_flame_cut_bytes(struct infp_str *out, const struct infp_flame *flame);

/* Its accuracy in a line, and in sentences: sentence i of INFP_FLAME_DOUBTS + look->n_notes; false: no such sentence. */
void infp_flame_trust(struct infp_str *out, const struct infp_flame *flame);
enum { INFP_FLAME_DOUBTS = 5 };
bool infp_flame_doubt(struct infp_str *out, const struct infp_flame *flame, const struct infp_flame_look *look,
                      unsigned i);
