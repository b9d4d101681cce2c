/* Samples whose stack has a function that an expression matches. */
#include <errno.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/profile_parts.h"
#include "base/mem.h"

bool *infp_profile_spread(const struct infp_profile *s, const bool *of_frame)
{
        bool *ret = calloc((size_t) s->n_nodes + 1, sizeof(*ret));

        for (uint32_t i = 0; ret && i < s->n_nodes; i++) /* callers come first */
                ret[i] = of_frame[s->nodes[i].frame] ||
                         (s->nodes[i].parent != INFP_PROFILE_NONE && ret[s->nodes[i].parent]);
        return ret;
}

static void match_frames(const struct infp_profile *s, const regex_t *re, uint8_t *known, bool *ret)
{
        for (uint32_t i = 0; i < s->n_frames; i++) {
                const struct infp_profile_frame *frame = &s->frames[i];

                for (uint32_t level = frame->first_level; level < frame->first_level + frame->n_levels && !ret[i];
                     level++) {
                        const uint32_t name = s->levels[level].name;

                        if (!known[name])
                                known[name] = regexec(re, infp_profile_str(s, name), 0, NULL, 0) ? 1 : 2;
                        ret[i] = known[name] == 2;
                }
        }
}

/* Leaves the sums of matching stacks, and what is of them. */
static void keep(struct infp_profile *s, const bool *matches, uint32_t *new)
{
        uint32_t n = 0;

        s->samples = s->cut_samples = 0;
        s->weight = 0;
        for (uint32_t i = 0; i < s->n_sums; i++) {
                const uint32_t node = s->sums[i].node;

                new[i] = INFP_PROFILE_NONE;
                if (node == INFP_PROFILE_NONE || !matches[node])
                        continue;
                new[i] = n;
                s->sums[n] = s->sums[i];
                s->samples += s->sums[n].samples;
                s->weight += s->sums[n].weight;
                s->cut_samples += s->nodes[node].is_cut ? s->sums[n].samples : 0;
                n++;
        }
        s->n_sums = n;
        n = 0;
        for (uint32_t i = 0; i < s->n_times; i++)
                if (new[s->times[i].sum] != INFP_PROFILE_NONE) {
                        s->times[n] = s->times[i];
                        s->times[n].sum = new[s->times[n].sum];
                        n++;
                }
        s->n_times = n;
        n = 0;
        for (uint32_t i = 0; i < s->n_moments; i++)
                if (new[s->moments[i].sum] != INFP_PROFILE_NONE) {
                        s->moments[n] = s->moments[i];
                        s->moments[n].sum = new[s->moments[n].sum];
                        n++;
                }
        s->n_moments = n;
}

enum { MOST_OPEN = 1000, MOST_REPEATED = 10000 };

/* glibc's expressions take gigabytes for a{255}{255}{255}, overflow the stack for 60,000 parentheses, and look for back-references,
 * which POSIX has none of here, until the next day. NULL: fine. */
static const char *why_too_large(const char *re)
{
        uint64_t n_repeated = 1;
        unsigned n_open = 0;

        for (const char *at = re; *at; at++) {
                uint64_t n = 0;

                if (*at == '\\' && at[1]) {
                        at++;
                        if (*at >= '1' && *at <= '9')
                                return "it has a back-reference";
                } else if (*at == '(' && ++n_open > MOST_OPEN) {
                        return "it has more than 1,000 parentheses";
                } else if (*at == '{') {
                        for (; at[1] == ',' || (at[1] >= '0' && at[1] <= '9'); at++)
                                n = at[1] == ',' ? 0 : n < MOST_REPEATED ? 10 * n + (uint64_t) (at[1] - '0') : n;
                        n_repeated *= n ? n : 1;
                        if (n_repeated > MOST_REPEATED)
                                return "its repetitions multiply to more than 10,000";
                }
        }
        return NULL;
}

int infp_profile_filter(struct infp_profile *s, const char *filter, struct infp_err *err)
{
        infp_autofree uint8_t *known = calloc((size_t) s->strings.n + 1, 1); /* 1: no, 2: it matches */
        infp_autofree bool *frames = calloc((size_t) s->n_frames + 1, sizeof(*frames));
        infp_autofree uint32_t *new = calloc((size_t) s->n_sums + 1, sizeof(*new));
        infp_autofree bool *matches = NULL;
        const char *too_large = why_too_large(filter);
        regex_t re;
        char why[128];
        int r;

        if (!known || !frames || !new)
                return infp_profile_no_memory(err);
        if (too_large)
                return infp_fail(err, -EINVAL, "'%.100s' is no expression that is taken: %s", filter, too_large);
        r = regcomp(&re, filter, REG_EXTENDED | REG_NOSUB);
        if (r) {
                regerror(r, NULL, why, sizeof(why));
                return infp_fail(err, -EINVAL, "'%.100s' is not a regular expression: %s", filter, why);
        }
        match_frames(s, &re, known, frames);
        regfree(&re);
        matches = infp_profile_spread(s, frames);
        if (!matches)
                return infp_profile_no_memory(err);
        keep(s, matches, new);
        return 0;
}
