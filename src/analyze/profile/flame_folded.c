/* Folds the waits of threads that do little else: idle threads of a pool can be nine tenths of what --wall samples, and hide
 * the rest. Samples of these threads while they ran stay. */
#include <stdlib.h>

#include "analyze/profile/flame_parts.h"
#include "analyze/profile/parts.h"
#include "base/mem.h"

static const double least_waiting = 0.95;

struct thread {
        uint64_t samples, waiting;
};

static bool is_idle(const struct thread *threads, const struct infp_profile_sum *sum)
{
        const struct thread *t = sum->thread == INFP_PROFILE_NONE ? NULL : &threads[sum->thread];

        return t && t->samples && (double) t->waiting >= least_waiting * (double) t->samples;
}

/* The states that most of them were in. seen[string]: samples. */
static void name_states(const struct infp_profile *s, const uint64_t *seen, uint32_t n,
                        struct infp_flame_folded *folded)
{
        for (uint32_t string = 1; string < n; string++) {
                uint32_t at = INFP_FLAME_FOLDED_STATES;

                while (at && seen[string] > folded->states[at - 1].samples)
                        at--;
                if (at == INFP_FLAME_FOLDED_STATES)
                        continue;
                for (uint32_t i = INFP_FLAME_FOLDED_STATES - 1; i > at; i--)
                        folded->states[i] = folded->states[i - 1];
                folded->states[at] = (struct infp_flame_folded_state){ infp_profile_str(s, string), seen[string] };
        }
}

static int count(const struct infp_flame_builder *b, const struct thread *threads, bool *is_folded)
{
        const struct infp_profile *s = b->profile;
        struct infp_flame_folded folded = { 0 };
        uint32_t n_states = 1;
        infp_autofree uint64_t *seen = NULL;
        uint64_t left = 0;

        for (uint32_t i = 0; i < s->n_sums; i++)
                if (s->sums[i].state >= n_states)
                        n_states = s->sums[i].state + 1;
        seen = calloc(n_states, sizeof(*seen));
        if (!seen)
                return -1;
        for (uint32_t i = 0; i < s->n_sums; i++) {
                const struct infp_profile_sum *sum = &s->sums[i];

                if (!infp_flame_has(b, sum))
                        continue;
                is_folded[i] = sum->state && is_idle(threads, sum);
                if (!is_folded[i]) {
                        left += sum->samples;
                        continue;
                }
                folded.samples += sum->samples;
                folded.weight += sum->weight;
                seen[sum->state] += sum->samples;
        }
        if (!left || !folded.samples)
                return 0;
        for (uint32_t i = 0; i < s->n_threads; i++)
                folded.threads += is_idle(threads, &(struct infp_profile_sum){ .thread = i });
        name_states(s, seen, n_states, &folded);
        b->flame->folded = folded;
        return 1;
}

int infp_flame_fold(struct infp_flame_builder *b, bool **ret, struct infp_err *err)
{
        const struct infp_profile *s = b->profile;
        infp_autofree struct thread *threads = calloc((size_t) s->n_threads + 1, sizeof(*threads));
        infp_autofree bool *is_folded = calloc((size_t) s->n_sums + 1, sizeof(*is_folded));
        int r;

        *ret = NULL;
        if (!threads || !is_folded)
                return infp_profile_no_memory(err);
        for (uint32_t i = 0; i < s->n_sums; i++) {
                const struct infp_profile_sum *sum = &s->sums[i];

                if (sum->thread == INFP_PROFILE_NONE || !infp_flame_has(b, sum))
                        continue;
                threads[sum->thread].samples += sum->samples;
                threads[sum->thread].waiting += sum->state ? sum->samples : 0;
        }
        r = count(b, threads, is_folded);
        if (r < 0)
                return infp_profile_no_memory(err);
        if (r)
                *ret = INFP_TAKE(is_folded);
        return 0;
}
