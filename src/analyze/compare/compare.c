#include "analyze/compare/compare.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/sort.h"

/* Of functions and modules those with the most time are tested, over all runs: a test more makes all others weaker. */
enum { MOST_TESTED = 20 };
static const double most_others = 0.25; /* of the CPUs */
static const double least_share = 0.005, most_share = 0.995, total_beyond_self = 1.02;

static const char *const fact_names[INFP_FACTS] = {
        [INFP_FACT_ENGINE] = "engine",       [INFP_FACT_MODEL] = "model", [INFP_FACT_CPU] = "CPU",
        [INFP_FACT_CPUS] = "number of CPUs", [INFP_FACT_GPUS] = "GPUs",
};

void infp_compare_done(struct infp_compare *compare)
{
        free(compare->rows);
        *compare = (struct infp_compare){ 0 };
}

void infp_compare_unlike(const struct infp_compare_side *sides, unsigned n, struct infp_str *ret)
{
        for (unsigned fact = 0; fact < INFP_FACTS; fact++) {
                const char *first = "", *other = "";

                for (unsigned k = 0; k < n; k++)
                        for (unsigned i = 0; i < sides[k].n; i++) {
                                const char *text = sides[k].runs[i]->facts[fact];

                                if (!*first)
                                        first = text;
                                else if (*text && !*other && strcmp(text, first) != 0)
                                        other = text;
                        }
                if (*other)
                        infp_str_printf(ret, "%s%s (%s and %s)", ret->size ? ", " : "", fact_names[fact], first, other);
        }
}

static int no_memory(struct infp_err *err)
{
        return infp_fail(err, -ENOMEM, "no memory for the comparison");
}

/* A name in any of the runs, with what it weighs. */
struct name {
        const char *name, *object;
        enum infp_frame_kind kind;
        const struct infp_compare_number *number;
        double self, total;
};

struct names {
        struct name *list;
        unsigned n, cap;
        struct infp_map by_hash;
};

static void names_done(struct names *names)
{
        free(names->list);
        infp_map_done(&names->by_hash);
}

static uint64_t hash_of(const char *name, const char *object, unsigned kind)
{
        const uint64_t hash = infp_hash64(name, strlen(name), kind);

        return object ? infp_hash64(object, strlen(object), hash) : hash;
}

/* NULL: no memory. */
static struct name *name_of(struct names *names, const char *name, const char *object, enum infp_frame_kind kind)
{
        const uint64_t hash = hash_of(name, object, kind);
        const uint64_t *known = infp_map_get(&names->by_hash, hash);

        if (known)
                return &names->list[*known];
        if (!INFP_MAKE_ROOM(names->list, names->n, names->cap, 64) || infp_map_put(&names->by_hash, hash, names->n) < 0)
                return NULL;
        names->list[names->n] = (struct name){ .name = name, .object = object, .kind = kind };
        return &names->list[names->n++];
}

/* ---- a row ---- */

/* A name's series in every run of a side; of functions `own` holds them. */
struct side_series {
        const struct infp_compare_series *list[INFP_COMPARE_RUNS];
        struct infp_compare_series *own;
};

static double sum_of(const double *list, unsigned n)
{
        double ret = 0;

        for (unsigned i = 0; i < n; i++)
                ret += list[i];
        return ret;
}

/* A function that a run never sampled had no time there. */
static struct infp_compare_series function_series(const struct infp_compare_run *run, const struct name *name,
                                                  enum infp_compare_section section)
{
        double sum[INFP_COMPARE_BLOCKS] = { 0 };

        for (uint32_t k = 0; k < run->n_functions; k++) {
                const struct infp_compare_function *f = &run->functions[k];

                if (!f->name || f->kind != name->kind || strcmp(f->name, name->name) ||
                    strcmp(f->object ? f->object : "", name->object ? name->object : ""))
                        continue;
                for (unsigned i = 0; i < run->n_blocks; i++)
                        sum[i] += section == INFP_COMPARE_SELF ? f->self[i] : f->total[i];
        }
        return infp_compare_ratio(run, sum, run->weight);
}

static int series_of(const struct infp_compare_side *side, enum infp_compare_section section, const struct name *name,
                     struct side_series *ret)
{
        const bool is_function = section == INFP_COMPARE_SELF || section == INFP_COMPARE_TOTAL_OF;

        ret->own = is_function ? calloc(side->n, sizeof(*ret->own)) : NULL;
        if (is_function && !ret->own)
                return -ENOMEM;
        for (unsigned i = 0; i < side->n; i++) {
                const struct infp_compare_item *item =
                        is_function ? NULL : infp_compare_item_find(side->runs[i], section, name->name);

                ret->list[i] = item ? &item->series : NULL;
                if (is_function && *side->runs[i]->mode) {
                        ret->own[i] = function_series(side->runs[i], name, section);
                        ret->list[i] = &ret->own[i];
                }
        }
        return 0;
}

static enum infp_better better_of(const struct infp_compare *compare, enum infp_compare_section section,
                                  const struct infp_compare_number *number)
{
        bool has_tokens = true;

        if (!number)
                return section == INFP_COMPARE_MODULES ? INFP_BETTER_LESS : INFP_BETTER_NEITHER;
        for (unsigned k = 0; k < compare->n_sides; k++)
                for (unsigned i = 0; i < compare->sides[k].n; i++)
                        has_tokens &= compare->sides[k].runs[i]->has_tokens;
        return number->is_of_load && has_tokens ? INFP_BETTER_NEITHER : number->better;
}

static struct infp_compare_how how_of(const struct infp_compare_row *row)
{
        const bool is_points = row->section == INFP_COMPARE_SELF || row->section == INFP_COMPARE_TOTAL_OF;

        return (struct infp_compare_how){
                .is_points = is_points,
                .better = row->better,
                .least = row->number ? row->number->least
                         : is_points ? INFP_COMPARE_LEAST_SHARE
                                     : INFP_COMPARE_LEAST_TIME,
                .seed = hash_of(row->name, row->object, row->section),
        };
}

/* A row for each side but the first. */
static int add_rows(struct infp_compare *compare, enum infp_compare_section section, const struct name *name)
{
        struct side_series first, other;
        int r = series_of(&compare->sides[0], section, name, &first);

        for (unsigned k = 1; r >= 0 && k < compare->n_sides; k++) {
                struct infp_compare_row row = { .section = section,
                                                .side = k,
                                                .name = name->name,
                                                .object = name->object,
                                                .number = name->number,
                                                .better = better_of(compare, section, name->number) };
                const struct infp_compare_how how = how_of(&row);

                r = INFP_MAKE_ROOM(compare->rows, compare->n, compare->cap, 64) ? 0 : -ENOMEM;
                if (r >= 0)
                        r = series_of(&compare->sides[k], section, name, &other);
                if (r < 0)
                        break;
                infp_difference_find(first.list, compare->sides[0].n, other.list, compare->sides[k].n, &how,
                                     &row.difference);
                compare->rows[compare->n++] = row;
                free(other.own);
        }
        free(first.own);
        return r;
}

/* ---- which names ---- */

static int add_numbers(struct infp_compare *compare)
{
        infp_cleanup(names_done) struct names names = { .n = 0 };

        for (unsigned i = 0; i < infp_compare_numbers_n; i++)
                for (unsigned k = 0; k < compare->n_sides; k++)
                        for (unsigned j = 0; j < compare->sides[k].n; j++) {
                                const struct infp_compare_run *run = compare->sides[k].runs[j];

                                for (unsigned m = 0; m < run->n; m++) {
                                        struct name *name;

                                        if (run->items[m].number != &infp_compare_numbers[i])
                                                continue;
                                        name = name_of(&names, run->items[m].name, NULL, 0);
                                        if (!name)
                                                return -ENOMEM;
                                        name->number = run->items[m].number;
                                }
                        }
        for (unsigned i = 0; i < names.n; i++)
                INFP_TRY(add_rows(compare, INFP_COMPARE_NUMBERS, &names.list[i]));
        return 0;
}

static int by_self(const void *a, const void *b)
{
        const struct name *x = a, *y = b;

        return x->self != y->self ? (x->self < y->self) - (x->self > y->self) : strcmp(x->name, y->name);
}

static int by_total(const void *a, const void *b)
{
        const struct name *x = a, *y = b;

        return x->total != y->total ? (x->total < y->total) - (x->total > y->total) : strcmp(x->name, y->name);
}

static int add_modules(struct infp_compare *compare)
{
        infp_cleanup(names_done) struct names names = { .n = 0 };

        for (unsigned k = 0; k < compare->n_sides; k++)
                for (unsigned j = 0; j < compare->sides[k].n; j++) {
                        const struct infp_compare_run *run = compare->sides[k].runs[j];

                        for (unsigned m = 0; m < run->n; m++) {
                                struct name *name;

                                if (run->items[m].section != INFP_COMPARE_MODULES)
                                        continue;
                                name = name_of(&names, run->items[m].name, NULL, 0);
                                if (!name)
                                        return -ENOMEM;
                                name->self += run->items[m].seconds;
                        }
                }
        infp_sort(names.list, names.n, sizeof(*names.list), by_self);
        for (unsigned i = 0; i < names.n && i < MOST_TESTED; i++) /* bound: counted below */
                INFP_TRY(add_rows(compare, INFP_COMPARE_MODULES, &names.list[i]));
        compare->n_left_out[INFP_COMPARE_MODULES] = names.n > MOST_TESTED ? names.n - MOST_TESTED : 0;
        return 0;
}

/* Shares over all runs, each alike. */
static int gather_functions(const struct infp_compare *compare, struct names *names)
{
        unsigned n_runs = 0;

        for (unsigned k = 0; k < compare->n_sides; k++)
                n_runs += compare->sides[k].n;
        for (unsigned k = 0; k < compare->n_sides; k++)
                for (unsigned j = 0; j < compare->sides[k].n; j++) {
                        const struct infp_compare_run *run = compare->sides[k].runs[j];
                        const double all = sum_of(run->weight, run->n_blocks) * n_runs;

                        for (uint32_t m = 0; m < run->n_functions && all > 0; m++) {
                                const struct infp_compare_function *f = &run->functions[m];
                                struct name *name = f->name ? name_of(names, f->name, f->object, f->kind) : NULL;

                                if (f->name && !name)
                                        return -ENOMEM;
                                if (!name)
                                        continue;
                                name->self += sum_of(f->self, run->n_blocks) / all;
                                name->total += sum_of(f->total, run->n_blocks) / all;
                        }
                }
        return 0;
}

static bool is_worth_a_test(const struct name *name, enum infp_compare_section section)
{
        if (section == INFP_COMPARE_SELF)
                return name->self >= least_share;
        return name->total >= least_share && name->total <= most_share && name->total > total_beyond_self * name->self;
}

static int add_functions(struct infp_compare *compare, struct names *names, enum infp_compare_section section)
{
        unsigned n = 0;

        infp_sort(names->list, names->n, sizeof(*names->list), section == INFP_COMPARE_SELF ? by_self : by_total);
        for (unsigned i = 0; i < names->n; i++)
                if (!is_worth_a_test(&names->list[i], section))
                        continue;
                else if (n++ < MOST_TESTED)
                        INFP_TRY(add_rows(compare, section, &names->list[i]));
        compare->n_left_out[section] = n > MOST_TESTED ? n - MOST_TESTED : 0;
        return 0;
}

static double cut_share(const struct infp_compare_side *side)
{
        double samples = 0, cut = 0;

        for (unsigned i = 0; i < side->n; i++) {
                samples += (double) side->runs[i]->samples;
                cut += (double) side->runs[i]->truncated_samples;
        }
        return samples > 0 ? cut / samples : 0;
}

/* Of one mode in all runs: weights of different modes do not compare. */
static int compare_functions(struct infp_compare *compare)
{
        infp_cleanup(names_done) struct names names = { .n = 0 };
        bool has_any = false;

        compare->mode = compare->sides[0].runs[0]->mode;
        for (unsigned k = 0; k < compare->n_sides; k++) {
                for (unsigned i = 0; i < compare->sides[k].n; i++) {
                        const char *mode = compare->sides[k].runs[i]->mode;

                        has_any |= *mode != 0;
                        if (strcmp(mode, compare->mode) != 0)
                                compare->no_functions = *mode && *compare->mode ? "their stacks are of different modes"
                                                                                : "some of the runs have no stacks";
                }
                compare->cuts_differ |= fabs(cut_share(&compare->sides[k]) - cut_share(&compare->sides[0])) > 0.05;
        }
        if (compare->no_functions || !has_any) {
                compare->mode = "";
                return 0;
        }
        INFP_TRY(gather_functions(compare, &names));
        INFP_TRY(add_functions(compare, &names, INFP_COMPARE_SELF));
        return add_functions(compare, &names, INFP_COMPARE_TOTAL_OF);
}

/* Numbers, or all else. */
static int judge_family(struct infp_compare *compare, bool of_numbers, unsigned families, unsigned *ret_tested)
{
        infp_autofree struct infp_difference **list = calloc((size_t) compare->n + 1, sizeof(*list));
        infp_autofree enum infp_better *better = calloc((size_t) compare->n + 1, sizeof(*better));
        unsigned n = 0;

        *ret_tested = 0;
        if (!list || !better)
                return -ENOMEM;
        for (unsigned i = 0; i < compare->n; i++)
                if ((compare->rows[i].section == INFP_COMPARE_NUMBERS) == of_numbers) {
                        list[n] = &compare->rows[i].difference;
                        better[n] = compare->rows[i].better;
                        *ret_tested += isnan(list[n++]->p) ? 0 : 1;
                }
        return families ? infp_compare_judge(list, better, n, families) : 0;
}

static bool is_of_clock(const struct infp_compare_row *row)
{
        const struct infp_compare_number *number = row->number;

        if (!number)
                return row->section == INFP_COMPARE_MODULES;
        return number->is_rate || number->from == INFP_NUMBER_OF_MEAN || number->from == INFP_NUMBER_OF_REQUEST ||
               number->from == INFP_NUMBER_OF_STEP;
}

static void find_disturbance(struct infp_compare *compare)
{
        compare->others = NAN;
        for (unsigned k = 0; k < compare->n_sides; k++)
                for (unsigned i = 0; i < compare->sides[k].n; i++)
                        compare->others = fmax(compare->others, compare->sides[k].runs[i]->others);
        compare->is_disturbed = compare->others > most_others && compare->sides[0].n == 1;
        for (unsigned i = 0; i < compare->n; i++)
                if (compare->is_disturbed && is_of_clock(&compare->rows[i]))
                        infp_difference_disturb(&compare->rows[i].difference);
}

static int judge(struct infp_compare *compare)
{
        unsigned tested[2], families = 0;

        find_disturbance(compare);

        for (unsigned i = 0; i < 2; i++) {
                INFP_TRY(judge_family(compare, i == 0, 0, &tested[i]));
                families += tested[i] > 0;
        }
        for (unsigned i = 0; i < 2; i++) {
                if (tested[i])
                        INFP_TRY(judge_family(compare, i == 0, families, &tested[i]));
                compare->n_tested += tested[i];
        }
        return 0;
}

static int check(const struct infp_compare_side *sides, unsigned n, struct infp_err *err)
{
        bool is_single = false, is_many = false;

        for (unsigned i = 0; i < n; i++) {
                if (!sides[i].n || sides[i].n > INFP_COMPARE_RUNS)
                        return infp_fail(err, -EINVAL, "a side has %u runs: 1 to %d are possible", sides[i].n,
                                         INFP_COMPARE_RUNS);
                is_single |= sides[i].n == 1;
                is_many |= sides[i].n > 1;
        }
        if (n < 2 || n > INFP_COMPARE_SIDES)
                return infp_fail(err, -EINVAL, "%u sides: 2 to %d can be compared", n, INFP_COMPARE_SIDES);
        if (is_single && is_many)
                return infp_fail(err, -EINVAL,
                                 "one side has one run and another one several: give each one, or each at least two");
        return 0;
}

int infp_compare_make(const struct infp_compare_side *sides, unsigned n, struct infp_compare *ret, struct infp_err *err)
{
        int r;

        *ret = (struct infp_compare){ .sides = sides, .n_sides = n, .mode = "" };
        INFP_TRY(check(sides, n, err));
        r = add_numbers(ret);
        if (r >= 0)
                r = compare_functions(ret);
        if (r >= 0)
                r = add_modules(ret);
        if (r >= 0)
                r = judge(ret);
        if (r < 0)
                infp_compare_done(ret);
        return r < 0 ? no_memory(err) : 0;
}

const struct infp_compare_row *infp_compare_find(const struct infp_compare *compare, const char *name, unsigned side)
{
        for (unsigned i = 0; i < compare->n; i++)
                if (compare->rows[i].section == INFP_COMPARE_NUMBERS && compare->rows[i].side == side &&
                    !strcmp(compare->rows[i].name, name))
                        return &compare->rows[i];
        return NULL;
}

unsigned infp_compare_count(const struct infp_compare *compare, enum infp_verdict verdict)
{
        unsigned n = 0;

        for (unsigned i = 0; i < compare->n; i++)
                n += compare->rows[i].difference.verdict == verdict;
        return n;
}
