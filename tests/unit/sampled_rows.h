/* The maker of stacks with all rows that it writes kept, for tests of the modes that use it. */
#pragma once

#include "machine.h"

#include "sampler/stacks/stack.h"

struct sampled {
        struct machine *machine;
        struct infp_stacks *stacks;
};

static inline struct sampled sampled_open(void)
{
        struct sampled s = { .machine = machine_open("/") };
        const struct infp_stacks_options options = { .env = &s.machine->env,
                                                     .put = machine_keep,
                                                     .put_context = s.machine };
        struct infp_err err;

        assert_int_equal(infp_stacks_new(&options, &s.stacks, &err), 0);
        return s;
}

static inline void sampled_close(struct sampled *s)
{
        infp_stacks_free(s->stacks);
        machine_close(s->machine);
}

/* Seconds and samples of a state; NULL: rows without one. */
struct sampled_sum {
        double weight;
        int64_t samples;
        unsigned rows;
};

static inline struct sampled_sum sampled_sum(const struct sampled *s, int32_t tid, const char *state)
{
        struct sampled_sum sum = { 0 };

        for (size_t i = 0; i < s->machine->n; i++) {
                const struct kept *k = &s->machine->rows[i];
                char text[128];

                if (k->table != &infp_table_stack_samples || k->cell[INFP_STACK_SAMPLES_TID].i64 != tid ||
                    kept_has(k, INFP_STACK_SAMPLES_STATE) != (state != NULL) ||
                    (state && strcmp(kept_text(k, INFP_STACK_SAMPLES_STATE, text, sizeof(text)), state) != 0))
                        continue;
                sum.weight += k->cell[INFP_STACK_SAMPLES_WEIGHT].f64;
                sum.samples += k->cell[INFP_STACK_SAMPLES_SAMPLES].i64;
                sum.rows++;
        }
        return sum;
}

static inline void sampled_check(const struct sampled *s, int32_t tid, const char *state, double weight,
                                 int64_t samples, unsigned rows)
{
        const struct sampled_sum sum = sampled_sum(s, tid, state);

        print_message("%d %s: %g s, %lld samples, %u rows\n", tid, state ? state : "-", sum.weight,
                      (long long) sum.samples, sum.rows);
        assert_float_equal(sum.weight, weight, 1e-9);
        assert_int_equal(sum.samples, samples);
        assert_int_equal(sum.rows, rows);
}

/* The name of the innermost frame of the last sample of a thread. */
static inline const char *sampled_leaf(const struct sampled *s, int32_t tid, char *text, size_t size)
{
        uint64_t stack = 0, frame = 0;

        for (size_t i = 0; i < s->machine->n; i++) {
                const struct kept *k = &s->machine->rows[i];

                if (k->table == &infp_table_stack_samples && k->cell[INFP_STACK_SAMPLES_TID].i64 == tid)
                        stack = k->cell[INFP_STACK_SAMPLES_STACK].u64;
        }
        for (size_t i = 0; i < s->machine->n; i++) {
                const struct kept *k = &s->machine->rows[i];

                if (k->table == &infp_table_stacks && k->cell[INFP_STACKS_ID].u64 == stack)
                        frame = k->cell[INFP_STACKS_FRAME].u64;
        }
        for (size_t i = 0; i < s->machine->n; i++) {
                const struct kept *k = &s->machine->rows[i];

                if (k->table == &infp_table_symbols && k->cell[INFP_SYMBOLS_FRAME].u64 == frame)
                        return kept_text(k, INFP_SYMBOLS_NAME, text, size);
        }
        return "";
}
