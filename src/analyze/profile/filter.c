/* Samples whose stack has a function that an expression matches; and parts of stacks. */
#include <stdlib.h>
#include <string.h>

#include "analyze/profile/parts.h"
#include "base/mem.h"
#include "base/regex.h"

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

int infp_profile_filter(struct infp_profile *s, const char *filter, struct infp_err *err)
{
        infp_autofree uint8_t *known = calloc((size_t) s->strings.n + 1, 1); /* 1: no, 2: it matches */
        infp_autofree bool *frames = calloc((size_t) s->n_frames + 1, sizeof(*frames));
        infp_autofree uint32_t *new = calloc((size_t) s->n_sums + 1, sizeof(*new));
        infp_autofree bool *matches = NULL;
        regex_t re;

        if (!known || !frames || !new)
                return infp_profile_no_memory(err);
        INFP_TRY(infp_regex_compile(&re, filter, err));
        match_frames(s, &re, known, frames);
        regfree(&re);
        matches = infp_profile_spread(s, frames);
        if (!matches)
                return infp_profile_no_memory(err);
        keep(s, matches, new);
        return 0;
}

/* The nearest node from `node` outwards that is left, by callers that were done before. */
static uint32_t left_of(const struct infp_profile *s, uint32_t node, const bool *is_left)
{
        return node == INFP_PROFILE_NONE || is_left[node] ? node : s->nodes[node].parent;
}

int infp_profile_take_part(struct infp_profile *s, enum infp_profile_part part, struct infp_err *err)
{
        infp_autofree bool *is_left = calloc((size_t) s->n_nodes + 1, sizeof(*is_left));
        infp_autofree uint32_t *new = calloc((size_t) s->n_sums + 1, sizeof(*new));

        if (part == INFP_PROFILE_WHOLE)
                return 0;
        if (!is_left || !new)
                return infp_profile_no_memory(err);
        for (uint32_t i = 0; i < s->n_nodes; i++) { /* callers come first */
                struct infp_profile_node *node = &s->nodes[i];

                is_left[i] = infp_profile_part_has(part, s->frames[node->frame].kind);
                node->parent = left_of(s, node->parent, is_left);
                node->depth = node->parent == INFP_PROFILE_NONE ? 0 : (uint16_t) (s->nodes[node->parent].depth + 1);
        }
        for (uint32_t i = 0; i < s->n_sums; i++)
                s->sums[i].node = left_of(s, s->sums[i].node, is_left);
        keep(s, is_left, new);
        return 0;
}
