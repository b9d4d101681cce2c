/* What threads did with their time, by their stacks. */
#include <math.h>

#include "analyze/bottlenecks/parts.h"
#include "base/human.h"

static struct human seconds(double s)
{
        return infp_human(s, "seconds", "s", false);
}

enum infp_rule_answer infp_rule_busy_wait(const struct infp_report *report, struct infp_bottleneck *ret)
{
        const struct infp_busy *busy = &report->functions.busy;
        const double waited = infp_busy_waited_s(busy), joules = report->energy.tree_joules;

        if (!(busy->seconds > 0))
                return INFP_RULE_UNCHECKED;
        infp_bottleneck_sampled(ret, waited, busy->seconds, infp_code_effective(&report->functions.code), 1);
        for (unsigned i = 0; i < INFP_BUSY_KINDS; i++)
                if (busy->waited_s[i] >= 0.01 * busy->seconds)
                        infp_bottleneck_line(ret, "%s: %s %% of the CPU time", infp_busy_name(i),
                                             infp_fixed(100 * busy->waited_s[i] / busy->seconds, 0).text);
        if (joules > 0)
                infp_bottleneck_line(ret, "about %s of the target's energy, if all its CPU time costs the same",
                                     infp_human(joules * waited / busy->seconds, "joules", "J", false).text);
        return INFP_RULE_FOUND;
}

/* A kind of code that the CPU time of samples went to. */
static enum infp_rule_answer find_code(const struct infp_report *report, enum infp_code_kind kind, const char *words,
                                       struct infp_bottleneck *ret)
{
        const struct infp_code *code = &report->functions.code;
        const struct infp_code_sum *of = &code->of[kind];

        if (!(code->seconds > 0))
                return INFP_RULE_UNCHECKED;
        if (code->samples < INFP_HOTSPOT_SAMPLES)
                return infp_bottleneck_unchecked(ret, "there are %s samples, fewer than %d, which say little",
                                                 infp_count(code->samples).text, INFP_HOTSPOT_SAMPLES);
        infp_bottleneck_sampled(ret, of->seconds, code->seconds, infp_code_effective(code), 1);
        infp_bottleneck_line(ret, "%s of %s of CPU time were in %s, by %s of %s samples", seconds(of->seconds).text,
                             seconds(code->seconds).text, words, infp_count(of->samples).text,
                             infp_count(code->samples).text);
        infp_bottleneck_places(ret, &report->functions.strings[0], &of->places, code->seconds);
        return INFP_RULE_FOUND;
}

enum infp_rule_answer infp_rule_allocator(const struct infp_report *report, struct infp_bottleneck *ret)
{
        return find_code(report, INFP_CODE_ALLOCATOR, "the allocator itself", ret);
}

enum infp_rule_answer infp_rule_tokenizer(const struct infp_report *report, struct infp_bottleneck *ret)
{
        return find_code(report, INFP_CODE_TOKENIZER, "the tokenizer and what it calls", ret);
}

enum infp_rule_answer infp_rule_sampling(const struct infp_report *report, struct infp_bottleneck *ret)
{
        return find_code(report, INFP_CODE_SAMPLING, "the choice of the next token and what it calls", ret);
}

enum infp_rule_answer infp_rule_lock(const struct infp_report *report, struct infp_bottleneck *ret)
{
        const struct infp_code_sum *lock = &report->functions.code.of[INFP_CODE_LOCK];

        if (!report->functions.busy.has_waits)
                return INFP_RULE_UNCHECKED;
        infp_bottleneck_share(ret, lock->seconds / infp_wanted_s(report),
                              "timed by the kernel's context switches, not sampled");
        infp_bottleneck_line(ret, "threads waited for locks for %s in total (%s threads on average)",
                             seconds(lock->seconds).text, infp_fixed(lock->seconds / report->wall_s, 2).text);
        infp_bottleneck_places(ret, &report->functions.strings[0], &lock->places, lock->seconds);
        return INFP_RULE_FOUND;
}

enum infp_rule_answer infp_rule_gil(const struct infp_report *report, struct infp_bottleneck *ret)
{
        const struct infp_gil_report *gil = &report->gil;
        const double waited = infp_gil_waited_s(report), wanted = infp_wanted_s(report);
        double known = 0, samples = 0;
        unsigned n = 0;

        if (!gil->has_wall)
                return INFP_RULE_UNCHECKED;
        if (!gil->n)
                return infp_bottleneck_unchecked(ret, "no thread of Python whose GIL can be seen was sampled");
        for (uint32_t i = 0; i < gil->n; i++) {
                known += gil->list[i].known_s;
                samples += (double) gil->list[i].samples;
                n += infp_gil_was_used(&gil->list[i]);
        }
        if (!(known > 0))
                return INFP_RULE_UNCHECKED;
        infp_bottleneck_sampled(ret, waited, known, samples, known / wanted);
        infp_bottleneck_line(ret, "%u thread%s of Python used the GIL, and waited for it for %s in total", n,
                             n == 1 ? "" : "s", seconds(waited).text);
        for (uint32_t i = 0; i < gil->n && i < 3; i++) /* bound: those that waited longest */
                if (gil->list[i].seconds[INFP_GIL_WAITED] > 0)
                        infp_bottleneck_line(ret, "thread %lld (%s) waited %s %% and held it %s %% of its time",
                                             (long long) gil->list[i].tid, gil->list[i].name ? gil->list[i].name : "-",
                                             infp_fixed(infp_gil_share(&gil->list[i], INFP_GIL_WAITED), 0).text,
                                             infp_fixed(infp_gil_share(&gil->list[i], INFP_GIL_HELD), 0).text);
        return INFP_RULE_FOUND;
}

enum infp_rule_answer infp_rule_gc(const struct infp_report *report, struct infp_bottleneck *ret)
{
        const struct infp_torch_report *torch = &report->torch;
        const unsigned n = torch->n_overheads > 1 ? torch->n_overheads : 1;

        if (!torch->n_collections)
                return infp_torch_has(torch) ? INFP_RULE_CLEAR : INFP_RULE_UNCHECKED;
        infp_bottleneck_share(ret, torch->collections_s / (report->wall_s * n), "each collection was timed");
        infp_bottleneck_line(ret, "%s collections took %s in total, the longest %s",
                             infp_count(torch->n_collections).text, seconds(torch->collections_s).text,
                             seconds(torch->longest_collection_s).text);
        return INFP_RULE_FOUND;
}

enum infp_rule_answer infp_rule_lag(const struct infp_report *report, struct infp_bottleneck *ret)
{
        const struct infp_lag_thread *worst = report->lag.list;

        if (!report->lag.n)
                return infp_sampling_find(&report->functions.sampling, INFP_STACK_LAG) ? INFP_RULE_CLEAR
                                                                                       : INFP_RULE_UNCHECKED;
        infp_bottleneck_share(ret, worst->seconds / report->wall_s,
                              "each callback was timed between looks: the share is a lower bound");
        infp_bottleneck_line(ret, "thread %lld: %s callbacks held its event loop for %s in total, the longest for %s",
                             (long long) worst->tid, infp_count(worst->n).text, seconds(worst->seconds).text,
                             seconds(worst->longest_s).text);
        infp_bottleneck_places(ret, &report->lag.strings, &worst->places, worst->seconds);
        ret->is_estimated = true;
        return INFP_RULE_FOUND;
}
