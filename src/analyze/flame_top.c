#include "analyze/flame_top.h"

#include <math.h>
#include <string.h>

struct infp_flame_share infp_flame_share(const struct infp_flame *flame, double weight)
{
        struct infp_flame_share ret = { 0, 0, 100 };
        const double n = flame->effective_samples;
        double k;

        if (!(flame->weight > 0) || n < 1)
                return ret;
        ret.percent = 100 * weight / flame->weight;
        k = round(n * weight / flame->weight);
        infp_flame_interval((uint64_t) (k < 0 ? 0 : k), (uint64_t) round(n), &ret.low, &ret.high);
        return ret;
}

static double size_of(const struct infp_flame_function *f, bool by_total)
{
        return by_total ? f->total_weight : f->self_weight;
}

static bool is_larger(const struct infp_flame *flame, uint32_t a, uint32_t b, bool by_total)
{
        const struct infp_flame_function *x = &flame->functions[a], *y = &flame->functions[b];
        const double u = size_of(x, by_total), v = size_of(y, by_total);

        if (u != v)
                return u > v;
        if (size_of(x, !by_total) != size_of(y, !by_total))
                return size_of(x, !by_total) > size_of(y, !by_total);
        return strcmp(x->name, y->name) < 0 || (!strcmp(x->name, y->name) && a < b);
}

/* Down from the root of a heap whose smallest is on top. */
static void sift(const struct infp_flame *flame, uint32_t *heap, uint32_t n, uint32_t at, bool by_total)
{
        for (;;) {
                uint32_t least = at;

                for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < n; child++)
                        if (is_larger(flame, heap[least], heap[child], by_total))
                                least = child;
                if (least == at)
                        return;
                {
                        const uint32_t swap = heap[at];

                        heap[at] = heap[least];
                        heap[least] = swap;
                }
                at = least;
        }
}

uint32_t infp_flame_top(const struct infp_flame *flame, bool by_total, uint32_t most, uint32_t *ret, uint32_t *ret_all)
{
        uint32_t n = 0, all = 0;

        for (uint32_t i = 0; i < flame->n_functions; i++) {
                const struct infp_flame_function *f = &flame->functions[i];

                if (f->is_group || !(by_total ? f->total_samples : f->self_samples))
                        continue;
                all++;
                if (n < most) {
                        ret[n++] = i;
                        if (n == most)
                                for (uint32_t at = n / 2; at-- > 0;)
                                        sift(flame, ret, n, at, by_total);
                } else if (most && is_larger(flame, i, ret[0], by_total)) {
                        ret[0] = i;
                        sift(flame, ret, n, 0, by_total);
                }
        }
        if (n < most)
                for (uint32_t at = n / 2; at-- > 0;)
                        sift(flame, ret, n, at, by_total);
        for (uint32_t left = n; left > 1;) { /* the smallest goes to the end */
                const uint32_t swap = ret[0];

                ret[0] = ret[--left];
                ret[left] = swap;
                sift(flame, ret, left, 0, by_total);
        }
        if (ret_all)
                *ret_all = all;
        return n;
}
