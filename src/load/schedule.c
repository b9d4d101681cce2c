#include "load/schedule.h"

#include <errno.h>
#include <stdlib.h>

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

static int grow(struct infp_waiting *waiting)
{
        const size_t cap = waiting->cap ? 2 * waiting->cap : 64;
        uint64_t *more = calloc(cap, sizeof(*more));

        if (!more)
                return -ENOMEM;
        for (size_t i = 0; i < waiting->n; i++)
                more[i] = waiting->due[(waiting->first + i) & (waiting->cap - 1)];
        free(waiting->due);
        *waiting = (struct infp_waiting){ .due = more, .n = waiting->n, .cap = cap };
        return 0;
}

int infp_waiting_put(struct infp_waiting *waiting, uint64_t due_ns)
{
        if (waiting->n == waiting->cap && grow(waiting) < 0)
                return -ENOMEM;
        waiting->due[(waiting->first + waiting->n++) & (waiting->cap - 1)] = due_ns;
        return 0;
}

bool infp_waiting_first(const struct infp_waiting *waiting, uint64_t *ret_due_ns)
{
        if (waiting->n)
                *ret_due_ns = waiting->due[waiting->first];
        return waiting->n > 0;
}

void infp_waiting_drop(struct infp_waiting *waiting)
{
        waiting->first = (waiting->first + 1) & (waiting->cap - 1);
        waiting->n--;
}

void infp_waiting_done(struct infp_waiting *waiting)
{
        free(waiting->due);
        *waiting = (struct infp_waiting){ 0 };
}
