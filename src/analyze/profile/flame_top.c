#include "analyze/profile/flame_top.h"

#include <math.h>
#include <string.h>

static struct infp_flame_share share_of(double weight, double whole, double n)
{
        struct infp_flame_share ret = { 0, 0, 100 };
        double k;

        if (!(whole > 0) || n < 1)
                return ret;
        ret.percent = ret.low = ret.high = 100 * weight / whole;
        if (isinf(n))
                return ret;
        k = round(n * weight / whole);
        infp_flame_interval((uint64_t) (k < 0 ? 0 : k), (uint64_t) round(n), &ret.low, &ret.high);
        return ret;
}

struct infp_flame_share infp_flame_share(const struct infp_flame *flame, double weight)
{
        return share_of(weight, flame->weight, flame->effective_samples);
}

struct infp_flame_change infp_flame_change(const struct infp_flame *flame, const struct infp_flame_function *f,
                                           bool by_total)
{
        struct infp_flame_change ret = {
                .before = share_of(by_total ? f->base_total_weight : f->base_self_weight, flame->base_weight,
                                   flame->base_effective_samples),
                .now = infp_flame_share(flame, by_total ? f->total_weight : f->self_weight),
        };
        const struct infp_flame_share *a = &ret.before, *b = &ret.now;

        ret.points.percent = b->percent - a->percent;
        ret.points.low = ret.points.percent - hypot(b->percent - b->low, a->high - a->percent);
        ret.points.high = ret.points.percent + hypot(b->high - b->percent, a->percent - a->low);
        return ret;
}

static double size_of(const struct infp_flame *flame, const struct infp_flame_function *f, bool by_total)
{
        const double now = by_total ? f->total_weight : f->self_weight,
                     before = by_total ? f->base_total_weight : f->base_self_weight;

        if (!flame->base)
                return now;
        return fabs((flame->weight > 0 ? now / flame->weight : 0) -
                    (flame->base_weight > 0 ? before / flame->base_weight : 0));
}

static bool has_samples(const struct infp_flame_function *f, bool by_total)
{
        return by_total ? f->total_samples || f->base_total_samples : f->self_samples || f->base_self_samples;
}

static bool is_larger(const struct infp_flame *flame, uint32_t a, uint32_t b, bool by_total)
{
        const struct infp_flame_function *x = &flame->functions[a], *y = &flame->functions[b];
        const double u = size_of(flame, x, by_total), v = size_of(flame, y, by_total);

        if (u != v)
                return u > v;
        if (size_of(flame, x, !by_total) != size_of(flame, y, !by_total))
                return size_of(flame, x, !by_total) > size_of(flame, y, !by_total);
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

                if (f->is_group || !has_samples(f, by_total))
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
