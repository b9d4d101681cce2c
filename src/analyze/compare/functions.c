/* Functions of a run for a comparison: samples in them by block of time. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyze/compare/parts.h"
#include "analyze/profile/flame.h"
#include "base/mem.h"

enum { MOST_FUNCTIONS = 1 << 16 };

/* Whose own time it is: of a wait, the innermost function outside the kernel, as flame.c has it. */
static uint32_t owner_of(const struct infp_flame *flame, uint32_t node)
{
        uint32_t at = node;

        while (flame->nodes[node].is_wait && at && flame->nodes[at].function < flame->n_functions &&
               flame->functions[flame->nodes[at].function].kind == INFP_FRAME_KERNEL)
                at = flame->nodes[at].parent;
        return at ? at : node;
}

/* A function that recurs in the stack counts once: marks[function] is the number of the last moment that counted it. */
static void add_moment(struct infp_compare_run *run, const struct infp_flame *flame,
                       const struct infp_flame_moment *moment, uint32_t number, uint32_t *marks)
{
        const uint32_t self = flame->nodes[owner_of(flame, moment->node)].function;

        run->weight[moment->bucket] += moment->weight;
        if (self < flame->n_functions)
                run->functions[self].self[moment->bucket] += moment->weight;
        for (uint32_t i = moment->node; i; i = flame->nodes[i].parent) {
                const uint32_t function = flame->nodes[i].function;

                if (function >= flame->n_functions || marks[function] == number)
                        continue;
                marks[function] = number;
                run->functions[function].total[moment->bucket] += moment->weight;
        }
}

static int take(struct infp_compare_run *run, const struct infp_flame *flame)
{
        infp_autofree uint32_t *marks = calloc((size_t) flame->n_functions + 1, sizeof(*marks));

        run->functions = calloc((size_t) flame->n_functions + 1, sizeof(*run->functions));
        if (!marks || !run->functions)
                return -ENOMEM;
        for (uint32_t i = 0; i < flame->n_functions; i++) {
                const struct infp_flame_function *f = &flame->functions[i];
                struct infp_compare_function *to = &run->functions[i];

                if (f->is_group)
                        continue;
                to->name = infp_strings_keep(&run->strings, f->name);
                to->object = f->object ? infp_strings_keep(&run->strings, f->object) : NULL;
                to->kind = f->kind;
                if (!to->name || (f->object && !to->object))
                        return -ENOMEM;
        }
        for (uint32_t i = 0; i < flame->n_moments; i++)
                add_moment(run, flame, &flame->moments[i], i + 1, marks);
        run->n_functions = flame->n_functions;
        run->samples = flame->samples;
        run->truncated_samples = flame->truncated_samples;
        snprintf(run->mode, sizeof(run->mode), "%s", flame->mode);
        return 0;
}

int infp_compare_functions(struct infp_compare_reading *reading, struct infp_err *err)
{
        const struct infp_compare_run *run = reading->ret;
        const struct infp_flame_options options = {
                .t0 = run->range.t0, .t1 = run->range.t1, .mode = reading->mode, .n_buckets = run->n_blocks
        };
        struct infp_flame flame = { 0 };
        struct infp_err why = { "" };
        int r = infp_flame_read(reading->run, &options, &flame, &why);

        /* No stacks; or, unless a mode was asked for, several of a foreign profile. */
        if (r == -ENODATA || r == -ENOENT || (r == -EINVAL && !reading->mode))
                return reading->mode ? infp_fail(err, r, "%s", why.text) : 0;
        if (r < 0)
                return infp_fail(err, r, "%s", why.text);
        if (flame.n_functions > MOST_FUNCTIONS)
                r = infp_fail(err, -E2BIG, "run %.36s has more than %d functions: compare a part of it (--from, --to)",
                              reading->run->info.uuid, MOST_FUNCTIONS);
        else if (take(reading->ret, &flame) < 0)
                r = infp_fail(err, -ENOMEM, "no memory for the functions");
        infp_flame_done(&flame);
        return r;
}
