#include "analyze/compare/gate.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"

static const char blanks[] = " \t";

const char *infp_gate_state_name(enum infp_gate_state state)
{
        static const char *const names[] = { [INFP_GATE_PASSED] = "passed",
                                             [INFP_GATE_FAILED] = "failed",
                                             [INFP_GATE_UNDECIDED] = "undecided",
                                             [INFP_GATE_ABSENT] = "not measured" };

        return names[state];
}

static int fail(const char *text, const char *what, struct infp_err *err)
{
        return infp_fail(err, -EINVAL,
                         "'%.200s': %s; write a name, > or <, and a change in percent, as 'ttft_p95>+5%%'", text, what);
}

int infp_gate_parse(const char *text, struct infp_gate *ret, struct infp_err *err)
{
        const char *begin = text + strspn(text, blanks), *at = begin + strcspn(begin, "<>");
        size_t size = (size_t) (at - begin), digits;
        double percent;

        if (!*at)
                return fail(text, "it has no > or <", err);
        while (size && strchr(blanks, begin[size - 1]))
                size--;
        if (!size || size >= sizeof(ret->name))
                return fail(text, "it has no name", err);
        *ret = (struct infp_gate){ .text = text,
                                   .number = infp_compare_number_find(begin, size),
                                   .is_above = *at == '>' };
        snprintf(ret->name, sizeof(ret->name), "%.*s", (int) size, begin);
        at++;
        at += strspn(at, blanks);
        at += *at == '+';
        digits = strcspn(at, "%");
        if (!at[digits] || at[digits + 1 + strspn(at + digits + 1, blanks)])
                return fail(text, "the change is not in percent", err);
        while (digits && strchr(blanks, at[digits - 1]))
                digits--;
        if (infp_parse_f64(at, digits, &percent) < 0 || fabs(percent) > 1e6)
                return fail(text, "the change is not a number", err);
        ret->threshold = percent / 100;
        if (!ret->number)
                return infp_fail(err, -ENOENT, "there is no number '%s'", ret->name);
        return 0;
}

static enum infp_gate_state state_of(const struct infp_gate *gate, const struct infp_difference *d, double low,
                                     double high)
{
        const double t = gate->threshold;
        const bool is_beyond = gate->is_above ? low > t : high < t, is_within = gate->is_above ? high <= t : low >= t;

        if (is_beyond && d->is_of_blocks && fabs(d->estimate) <= d->floor)
                return INFP_GATE_UNDECIDED;
        return is_beyond ? INFP_GATE_FAILED : is_within ? INFP_GATE_PASSED : INFP_GATE_UNDECIDED;
}

struct infp_gate_result infp_gate_judge(const struct infp_gate *gate, unsigned n, const struct infp_compare *compare,
                                        unsigned side)
{
        struct infp_gate_result ret = {
                .gate = gate, .side = side, .state = INFP_GATE_ABSENT, .low = NAN, .high = NAN
        };

        ret.row = infp_compare_find(compare, gate->name, side);
        if (!ret.row || isnan(ret.row->difference.before) || isnan(ret.row->difference.after))
                return ret;
        ret.state = INFP_GATE_UNDECIDED;
        if (infp_difference_interval(&ret.row->difference, 1 - INFP_COMPARE_ALPHA / n, &ret.low, &ret.high))
                ret.state = state_of(gate, &ret.row->difference, ret.low, ret.high);
        return ret;
}
