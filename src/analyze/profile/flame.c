#include "analyze/profile/flame.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/profile/flame_parts.h"
#include "analyze/profile/parts.h"
#include "base/mem.h"

static struct infp_flame_memory *memory_free(struct infp_flame_memory *memory)
{
        while (memory) {
                struct infp_flame_memory *other = memory->other;

                infp_strings_done(&memory->strings);
                free(memory);
                memory = other;
        }
        return NULL;
}

void infp_flame_done(struct infp_flame *flame)
{
        free(flame->nodes);
        free(flame->functions);
        free(flame->moments);
        free(flame->base);
        memory_free(flame->memory);
        *flame = (struct infp_flame){ 0 };
}

void infp_flame_interval(uint64_t k, uint64_t n, double *ret_low, double *ret_high)
{
        const double z = 1.959963984540054, total = (double) n, p = n ? (double) k / total : 0;
        const double centre = p + z * z / (2 * total), scale = 1 + z * z / total;
        const double reach = n ? z * sqrt(p * (1 - p) / total + z * z / (4 * total * total)) : 0;

        *ret_low = n && k ? fmax(0, 100 * (centre - reach) / scale) : 0;
        *ret_high = n && k < n ? fmin(100, 100 * (centre + reach) / scale) : 100;
}

static void builder_done(struct infp_flame_builder *b)
{
        infp_map_done(&b->functions);
        infp_map_done(&b->children);
        infp_map_done(&b->known);
        free(b->level_functions);
        free(b->has_function_line);
        free(b->sum_nodes);
        free(b->path);
}

/* The levels of a stack node below a node of the tree; in reverse the innermost first. */
static int add_levels(struct infp_flame_builder *b, uint32_t stack_node, uint32_t *at, struct infp_err *err)
{
        const struct infp_profile_frame *frame = &b->profile->frames[b->profile->nodes[stack_node].frame];
        const bool is_module = b->options->by == INFP_FLAME_BY_MODULE;
        const uint32_t n = is_module ? 1 : frame->n_levels;

        for (uint32_t i = 0; i < n; i++) {
                const uint32_t level = b->options->reverse ? n - 1 - i : i;
                const uint32_t function = b->level_functions[frame->first_level + level];

                if (is_module && *at && b->flame->nodes[*at].function == function)
                        continue; /* a call within the module */
                INFP_TRY(infp_flame_child(b, *at, function, level > 0, at, err));
        }
        return 0;
}

/* The node of the tree for a stack below `start`; known callers are not walked again. */
static int add_stack(struct infp_flame_builder *b, uint32_t start, uint32_t stack_node, uint32_t *ret,
                     struct infp_err *err)
{
        uint32_t n = 0, at = start;

        for (uint32_t i = stack_node; i != INFP_PROFILE_NONE; i = b->profile->nodes[i].parent) {
                const uint64_t *known = infp_map_get(&b->known, (uint64_t) start << 32 | i);

                if (known) {
                        at = (uint32_t) *known;
                        break;
                }
                b->path[n++] = i;
        }
        while (n) {
                const uint32_t i = b->path[--n];

                INFP_TRY(add_levels(b, i, &at, err));
                if (infp_map_put(&b->known, (uint64_t) start << 32 | i, at) < 0)
                        return infp_profile_no_memory(err);
        }
        *ret = at;
        return 0;
}

static int add_reversed(struct infp_flame_builder *b, uint32_t start, uint32_t stack_node, uint32_t *ret,
                        struct infp_err *err)
{
        *ret = start;
        for (uint32_t i = stack_node; i != INFP_PROFILE_NONE; i = b->profile->nodes[i].parent)
                INFP_TRY(add_levels(b, i, ret, err));
        return 0;
}

static int add_word(struct infp_flame_builder *b, const char *word, uint32_t *at, struct infp_err *err)
{
        uint32_t function;

        INFP_TRY(infp_flame_group(b, word, &function, err));
        return infp_flame_child(b, *at, function, false, at, err);
}

static bool is_wait(const struct infp_profile *s, const struct infp_profile_sum *sum)
{
        const enum infp_stack_mode mode = infp_stack_mode_of(infp_profile_str(s, sum->mode));

        return mode == INFP_STACK_OFF_CPU || ((mode == INFP_STACK_WALL || mode == INFP_STACK_LAG) && sum->state);
}

/* The stack node that a sample is self time of: of a wait, the innermost outside the kernel; the page finds it by ownerOf of
 * web/flame/tree.js. Both are tested with tests/fixtures/flame/waits.tsv. */
static uint32_t owner_of(const struct infp_profile *s, const struct infp_profile_sum *sum)
{
        uint32_t at = sum->node;

        if (!is_wait(s, sum))
                return at;
        while (at != INFP_PROFILE_NONE && s->frames[s->nodes[at].frame].kind == INFP_FRAME_KERNEL)
                at = s->nodes[at].parent;
        return at != INFP_PROFILE_NONE ? at : sum->node;
}

static int count_self(struct infp_flame_builder *b, const struct infp_profile_sum *sum, uint32_t owner,
                      struct infp_err *err)
{
        const struct infp_profile_frame *frame;
        struct infp_flame_function *function;
        uint32_t i;

        if (owner == INFP_PROFILE_NONE) {
                INFP_TRY(infp_flame_group(b, "[truncated]", &i, err));
        } else {
                frame = &b->profile->frames[b->profile->nodes[owner].frame];
                i = b->level_functions[frame->first_level + frame->n_levels - 1U];
        }
        function = &b->flame->functions[i];
        function->self_samples += sum->samples;
        function->self_weight += sum->weight;
        b->flame->unnamed_samples += function->is_unnamed ? sum->samples : 0;
        return 0;
}

static int add_sum(struct infp_flame_builder *b, uint32_t i, struct infp_err *err)
{
        const struct infp_profile_sum *sum = &b->profile->sums[i];
        const bool is_cut = sum->node == INFP_PROFILE_NONE || b->profile->nodes[sum->node].is_cut;
        const bool is_truncated = sum->is_truncated || is_cut;
        const uint32_t owner = owner_of(b->profile, sum);
        uint32_t at = 0, group;

        INFP_TRY(infp_flame_group_of(b, sum, &group, err));
        if (group != INFP_PROFILE_NONE)
                INFP_TRY(infp_flame_child(b, 0, group, false, &at, err));
        if (is_truncated && !b->options->reverse)
                INFP_TRY(add_word(b, "[truncated]", &at, err));
        if (b->options->reverse)
                INFP_TRY(add_reversed(b, at, sum->node, &at, err));
        else
                INFP_TRY(add_stack(b, at, sum->node, &at, err));
        if (is_truncated && b->options->reverse)
                INFP_TRY(add_word(b, "[truncated]", &at, err));
        b->sum_nodes[i] = at;
        b->flame->nodes[at].self_samples += sum->samples;
        b->flame->nodes[at].self_weight += sum->weight;
        b->flame->nodes[at].is_wait |= owner != sum->node;
        b->flame->wait_samples += owner != sum->node ? sum->samples : 0;
        b->flame->samples += sum->samples;
        b->flame->weight += sum->weight;
        b->flame->truncated_samples += is_truncated ? sum->samples : 0;
        b->flame->cut_samples += is_cut ? sum->samples : 0;
        b->flame->completed_samples += sum->completed_samples;
        infp_profile_cut(&b->flame->cut, sum->cut.least, sum->cut.most);
        return count_self(b, sum, owner, err);
}

/* A sample counts once for a function, however many of its frames are guessed. last[function]: the last sum that counted. */
static void count_guessed(struct infp_flame_builder *b, uint32_t i, uint32_t *last)
{
        const struct infp_profile *s = b->profile;

        for (uint32_t at = s->sums[i].node; at != INFP_PROFILE_NONE; at = s->nodes[at].parent) {
                const struct infp_profile_frame *frame = &s->frames[s->nodes[at].frame];

                for (uint32_t level = 0; frame->is_guessed && level < frame->n_levels; level++) {
                        const uint32_t function = b->level_functions[frame->first_level + level];

                        if (last[function] != i + 1)
                                b->flame->functions[function].guessed_samples += s->sums[i].samples;
                        last[function] = i + 1;
                }
        }
        b->flame->guessed_samples += s->sums[i].samples;
}

static int add_sums(struct infp_flame_builder *b, struct infp_err *err)
{
        const struct infp_profile *s = b->profile;
        double squares = 0;
        bool is_exact = true; /* of each sum: all blocks were counted (record --heap=exact), none stands for others */
        /* Functions of frames only: groups are added later. */
        infp_autofree uint32_t *last = calloc((size_t) b->flame->n_functions + 1, sizeof(*last));
        infp_autofree bool *frames = calloc((size_t) s->n_frames + 1, sizeof(*frames));
        infp_autofree bool *guessed = NULL, *folded = NULL;

        if (b->options->fold_waiting && !s->n_buckets && infp_stack_mode_of(b->flame->mode) == INFP_STACK_WALL)
                INFP_TRY(infp_flame_fold(b, &folded, err));
        for (uint32_t i = 0; frames && i < s->n_frames; i++)
                frames[i] = s->frames[i].is_guessed;
        guessed = frames ? infp_profile_spread(s, frames) : NULL;
        if (!guessed || !last)
                return infp_profile_no_memory(err);
        for (uint32_t i = 0; i < s->n_sums; i++) {
                const uint32_t node = s->sums[i].node;

                if (!infp_flame_has(b, &s->sums[i]) || (folded && folded[i]))
                        continue;
                INFP_TRY(add_sum(b, i, err));
                squares += s->sums[i].squares;
                is_exact &= s->sums[i].objects > 0 && s->sums[i].objects == (double) s->sums[i].samples;
                if (node != INFP_PROFILE_NONE && guessed[node])
                        count_guessed(b, i, last);
        }
        b->flame->effective_samples = squares > 0 ? b->flame->weight * b->flame->weight / squares : 0;
        if (is_exact && squares > 0)
                b->flame->effective_samples = INFINITY;
        return 0;
}

/* Moments of sums to those of nodes. */
static int make_moments(struct infp_flame_builder *b, const uint32_t *new, struct infp_err *err)
{
        const struct infp_profile *s = b->profile;
        struct infp_flame *f = b->flame;

        f->n_buckets = s->n_buckets;
        if (!s->n_buckets)
                return 0;
        f->moments = calloc((size_t) s->n_moments + 1, sizeof(*f->moments));
        if (!f->moments)
                return infp_profile_no_memory(err);
        for (uint32_t i = 0; i < s->n_moments; i++) {
                const struct infp_profile_moment *m = &s->moments[i];

                if (!infp_flame_has(b, &s->sums[m->sum]))
                        continue; /* of another mode */
                f->moments[f->n_moments++] =
                        (struct infp_flame_moment){ m->bucket, new[b->sum_nodes[m->sum]], m->samples, m->weight };
        }
        infp_flame_join_moments(f);
        return 0;
}

static int build(struct infp_flame_builder *b, struct infp_err *err)
{
        struct infp_profile *s = b->profile;
        struct infp_flame *f = b->flame;
        infp_autofree uint32_t *new = NULL;

        b->sum_nodes = calloc((size_t) s->n_sums + 1, sizeof(*b->sum_nodes));
        b->path = calloc(INFP_PROFILE_DEEPEST + 1, sizeof(*b->path));
        if (!b->sum_nodes || !b->path)
                return infp_profile_no_memory(err);
        INFP_TRY(infp_profile_room(&f->nodes, &b->cap_nodes, 0, sizeof(*f->nodes), err));
        f->nodes[f->n_nodes++] = (struct infp_flame_node){ .function = UINT32_MAX };
        INFP_TRY(infp_flame_name_levels(b, err));
        INFP_TRY(add_sums(b, err));
        new = calloc(f->n_nodes, sizeof(*new));
        if (!new)
                return infp_profile_no_memory(err);
        INFP_TRY(infp_flame_order(f, new, err));
        return make_moments(b, new, err);
}

int infp_flame_make(struct infp_profile *profile, const char *mode, const struct infp_flame_options *options,
                    struct infp_flame *ret, struct infp_err *err)
{
        infp_cleanup(
                builder_done) struct infp_flame_builder b = { .options = options, .profile = profile, .flame = ret };
        int r;

        *ret = (struct infp_flame){ .unit = profile->unit,
                                    .t0 = profile->t0,
                                    .t1 = profile->t1,
                                    .is_by_line = options->by == INFP_FLAME_BY_LINE };
        snprintf(ret->mode, sizeof(ret->mode), "%s", mode ? mode : profile->mode);
        if (mode && infp_strings_add(&profile->strings, mode, strlen(mode), &b.mode) < 0)
                return infp_profile_no_memory(err);
        b.has_all = !mode;
        for (uint32_t i = 0; i < profile->n_sums; i++)
                ret->all_samples += infp_flame_has(&b, &profile->sums[i]) ? profile->sums[i].samples : 0;
        if (!mode)
                ret->all_samples = profile->all_samples; /* with those that the filter left out */
        r = build(&b, err);
        if (r < 0)
                infp_flame_done(ret);
        return r;
}

int infp_flame_read(struct infp_run *run, const struct infp_flame_options *options, struct infp_flame *ret,
                    struct infp_err *err)
{
        infp_cleanup(infp_profile_done) struct infp_profile profile = { 0 };
        const struct infp_profile_options wanted = {
                .t0 = options->t0,
                .t1 = options->t1,
                .mode = options->mode,
                .all_modes = options->by == INFP_FLAME_BY_MODE,
                .filter = options->filter,
                .part = options->part,
                .no_inlined = options->no_inlined,
                .keeps_tasks = options->by == INFP_FLAME_BY_TASK,
                .process = options->process,
                .n_buckets = options->n_buckets,
        };

        *ret = (struct infp_flame){ 0 };
        INFP_TRY(infp_profile_read(run, &wanted, &profile, err));
        INFP_TRY(infp_flame_make(&profile, NULL, options, ret, err));
        ret->memory = calloc(1, sizeof(*ret->memory));
        if (!ret->memory) {
                infp_flame_done(ret);
                return infp_profile_no_memory(err);
        }
        ret->memory->strings = profile.strings;
        profile.strings = (struct infp_strings){ 0 };
        return 0;
}
