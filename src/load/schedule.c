#include "load/schedule.h"

/* A century: what is due after it may as well never come, and it fits. */
static const double never_s = 3e9;

void infp_schedule_init(struct infp_schedule *schedule, double rate, bool is_constant, uint64_t seed)
{
        *schedule = (struct infp_schedule){ .rate = rate, .is_constant = is_constant, .random = { seed } };
}

uint64_t infp_schedule_next(struct infp_schedule *schedule)
{
        if (schedule->is_constant)
                schedule->at_s = (double) schedule->n / schedule->rate;
        else
                schedule->at_s += infp_random_exponential(&schedule->random, 1 / schedule->rate);
        schedule->n++;
        return (uint64_t) ((schedule->at_s < never_s ? schedule->at_s : never_s) * 1e9);
}
