/* Functions by self and by total: for people, and as one JSON object. */
#pragma once

#include "analyze/absent.h"
#include "analyze/profile/flame_top.h"
#include "analyze/profile/sampling.h"
#include "base/json/json.h"
#include "view/format.h"

struct infp_flame_top_view {
        const struct infp_flame *flame;
        const struct infp_sampling *sampling; /* may be NULL */
        const char *run;                      /* uuid */
        uint32_t most;                        /* functions a list */
        double seconds;                       /* of the range */
};

/* Two tables and their accuracy. 0 or -ENOMEM. */
int infp_flame_top_text(struct infp_out *out, const struct infp_flame_top_view *view);
int infp_flame_top_json(struct infp_out *out, const struct infp_flame_top_view *view);

/* Parts of it, for reports: one table of functions (width 0: as wide as names are); the lists into an open object: total_samples, top_functions ...; sentences. */
int infp_flame_top_table(struct infp_out *out, const struct infp_flame *flame, bool by_total, uint32_t most,
                         unsigned width);
/* The first by self time, without intervals: what a short report shows of them. */
int infp_flame_top_short(struct infp_out *out, const struct infp_flame *flame, uint32_t most, unsigned width);
/* Of tables of lines: how much of the self time is code whose lines are not known; "" where all are. */
void infp_flame_top_lineless(struct infp_str *out, const struct infp_flame *flame);
/* A sentence about folded waits of threads that did little else, which are in none of the tables; "" without any. */
void infp_flame_top_folded(struct infp_str *out, const struct infp_flame *flame);
/* What such a table has: as infp_flame_top, but by total functions that nearly all samples pass and that do nothing themselves (main,
 * _start) are left out: *ret_passages of them stand after the list. ret has room for infp_flame_top_room(most). */
uint32_t infp_flame_top_list(const struct infp_flame *flame, bool by_total, uint32_t most, uint32_t *ret,
                             uint32_t *ret_all, uint32_t *ret_passages);
uint32_t infp_flame_top_room(uint32_t most);
/* "and 4 more; 1 that nearly every stack passes through is left out: main": what a list of n less than all leaves out. "" of 0. */
void infp_flame_top_rest(struct infp_str *out, const struct infp_flame *flame, uint32_t n, const uint32_t *passages,
                         uint32_t n_passages);
/* "name (object) file:line", of lines "file:line name (object)"; guesses are marked; short: of templates and parameters only what distinguishes names. */
void infp_flame_top_words(struct infp_str *out, const struct infp_flame_function *function, bool is_short);
int infp_flame_top_members(struct infp_json *json, const struct infp_flame_top_view *view);
