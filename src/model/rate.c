#include "model/rate.h"

#include <math.h>

uint64_t infp_increase_u64(enum infp_reset reset, uint64_t before, uint64_t after, uint64_t range)
{
        if (after >= before)
                return after - before;
        switch (reset) {
        case INFP_RESET_ZERO:
        case INFP_RESET_GAP:
                return after;
        case INFP_RESET_WRAP:
                /* A value beyond the range says that the range is wrong: no increase rather than an invented one. */
                return before - after <= range ? range - (before - after) : 0;
        case INFP_RESET_NONE:
                break;
        }
        return 0;
}

double infp_increase_f64(enum infp_reset reset, double before, double after, double range)
{
        if (!isfinite(before) || !isfinite(after))
                return 0;
        if (after >= before)
                return after - before;
        switch (reset) {
        case INFP_RESET_ZERO:
        case INFP_RESET_GAP:
                return fmax(after, 0);
        case INFP_RESET_WRAP:
                return fmax(range - (before - after), 0);
        case INFP_RESET_NONE:
                break;
        }
        return 0;
}

double infp_counted_seconds(uint64_t from_ns, uint64_t to_ns, double counted_before_s, double counted_s)
{
        if (to_ns <= from_ns)
                return 0;
        return isnan(counted_before_s) || isnan(counted_s) ? (double) (to_ns - from_ns) / 1e9
                                                           : fmax(counted_s - counted_before_s, 0);
}
