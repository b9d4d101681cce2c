/* Words that the writers of a comparison share. */
#pragma once

#include "base/human.h"
#include "view/compare/compare.h"

struct infp_compare_title {
        const char *name, *title, *unit_of_change;
};
extern const struct infp_compare_title infp_compare_titles[INFP_COMPARE_SECTIONS]; /* name: of JSON */

struct human infp_compare_amount(const struct infp_compare_row *row, double value);
/* "+19.8 %", of shares "+3.2"; "-": not known. */
struct human infp_compare_change(const struct infp_difference *difference, double change);
void infp_compare_interval(struct infp_str *out, const struct infp_difference *difference); /* "+17.1 to +22.6 %" */
char infp_compare_letter(unsigned side);                                                    /* 'A' */
/* "worse: cpu_s_per_s +19.8 %, ...; better: ...; 12 without evidence": of one side. */
void infp_compare_summary(struct infp_str *out, const struct infp_compare_view *view, unsigned side);
/* Sentences below the tables: note i; false: there are no more. */
bool infp_compare_note(struct infp_str *out, const struct infp_compare_view *view, unsigned i);
/* "ttft_p95>+5% of B: failed: +12.1 % (+8.1 to +16.2 %)" */
void infp_compare_gate(struct infp_str *out, const struct infp_gate_result *result);
