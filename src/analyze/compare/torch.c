/* Modules and steps of PyTorch for a comparison. The first step of a process, which loads and compiles, does not count. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyze/compare/parts.h"
#include "analyze/scan_some.h"
#include "base/hash.h"
#include "base/human.h"
#include "base/map.h"
#include "base/mem.h"
#include "model/python_tables.h"

enum { MOST_MODULES = 8192, MOST_SECONDS = 1000000000 };

enum { MODULE, STAGE, SELF };
static const char *const trace_columns[] = { "module", "stage", "self_duration", NULL };
enum { PHASE, KIND, DURATION };
static const char *const step_columns[] = { "phase", "kind", "duration", NULL };

struct module {
        const char *name;
        double sum[INFP_COMPARE_BLOCKS], calls[INFP_COMPARE_BLOCKS];
};

struct gathering {
        struct infp_compare_run *run;
        struct infp_map by_name;
        struct module *modules;
        unsigned n, cap;
        uint64_t n_left_out; /* calls and steps of modules and phases beyond the bounds */
        const char *phases[INFP_COUNT(((struct infp_compare_run *) 0)->steps)];
};

static void gathering_done(struct gathering *g)
{
        infp_map_done(&g->by_name);
        free(g->modules);
}

static bool is_time(double seconds)
{
        return seconds >= 0 && seconds <= MOST_SECONDS; /* false of NAN */
}

static uint64_t time_of(const struct infp_batch *batch, uint32_t row)
{
        return (uint64_t) infp_batch_i64(batch, 0, row);
}

static int take_call(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct gathering *g = context;
        const double seconds = infp_cell_number(batch, at[SELF], row);
        const unsigned block = infp_compare_block(g->run, time_of(batch, row));
        size_t size, stage_size;
        const char *module = infp_cell_str(batch, at[MODULE], row, &size),
                   *stage = infp_cell_str(batch, at[STAGE], row, &stage_size);
        const uint64_t key = infp_hash64(module, size, infp_hash64(stage, stage_size, 0));
        const uint64_t *known = infp_map_get(&g->by_name, key);
        char name[512];

        if (!is_time(seconds))
                return 0;
        if (!known && g->n == MOST_MODULES) { /* bound: counted, and said in a note of the run */
                g->n_left_out++;
                return 0;
        }
        if (!known) {
                snprintf(name, sizeof(name), "%.*s %.*s", (int) (size < 400 ? size : 400), module,
                         (int) (stage_size < 64 ? stage_size : 64), stage);
                if (!INFP_MAKE_ROOM(g->modules, g->n, g->cap, 64) || infp_map_put(&g->by_name, key, g->n) < 0)
                        return -ENOMEM;
                g->modules[g->n] = (struct module){ .name = infp_strings_keep(&g->run->strings, name) };
                if (!g->modules[g->n++].name)
                        return -ENOMEM;
                known = infp_map_get(&g->by_name, key);
        }
        g->modules[*known].sum[block] += seconds;
        g->modules[*known].calls[block]++;
        return 0;
}

/* NULL: no memory, or more phases than are kept apart. */
static struct infp_compare_values *steps_of(struct gathering *g, const struct infp_batch *batch, int column,
                                            uint32_t row)
{
        struct infp_compare_run *run = g->run;
        size_t size;
        const char *phase = infp_cell_str(batch, column, row, &size);
        char name[64];

        for (unsigned i = 0; i < run->n_steps; i++)
                if (infp_cell_is(batch, column, row, g->phases[i]))
                        return run->steps[i];
        if (run->n_steps == INFP_COUNT(run->steps) || size >= sizeof(name)) { /* bound: counted as those of modules */
                g->n_left_out++;
                return NULL;
        }
        snprintf(name, sizeof(name), "%.*s", (int) size, phase);
        g->phases[run->n_steps] = infp_strings_keep(&run->strings, name);
        run->steps[run->n_steps] = g->phases[run->n_steps] ? calloc(1, sizeof(**run->steps)) : NULL;
        return run->steps[run->n_steps] ? run->steps[run->n_steps++] : NULL;
}

static int take_step(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct gathering *g = context;
        const double seconds = infp_cell_number(batch, at[DURATION], row);
        struct infp_compare_values *steps;

        if (!is_time(seconds) || infp_cell_is(batch, at[KIND], row, "first"))
                return 0;
        steps = steps_of(g, batch, at[PHASE], row);
        return steps ? infp_compare_value_add(steps, seconds, infp_compare_block(g->run, time_of(batch, row))) : 0;
}

static int add_modules(struct gathering *g)
{
        for (unsigned i = 0; i < g->n; i++) {
                struct infp_compare_item item = {
                        .section = INFP_COMPARE_MODULES,
                        .name = g->modules[i].name,
                        .series = infp_compare_ratio(g->run, g->modules[i].sum, g->modules[i].calls),
                };

                for (unsigned b = 0; b < INFP_COMPARE_BLOCKS; b++)
                        item.seconds += g->modules[i].sum[b];
                INFP_TRY(infp_compare_item_add(g->run, &item));
        }
        return 0;
}

static int add_steps(struct gathering *g, const struct infp_compare_number *number)
{
        struct infp_compare_run *run = g->run;

        for (unsigned i = 0; i < run->n_steps; i++) {
                struct infp_compare_item item = { .section = INFP_COMPARE_NUMBERS, .number = number };
                char name[128];

                snprintf(name, sizeof(name), "%s:%s", number->name, g->phases[i]);
                item.name = name;
                item.series = number->q == 0 ? infp_compare_mean(run, run->steps[i])
                                             : (struct infp_compare_series){ .kind = INFP_COMPARE_QUANTILE,
                                                                             .n = run->n_blocks,
                                                                             .q = number->q,
                                                                             .values = run->steps[i] };
                INFP_TRY(infp_compare_item_add(run, &item));
        }
        return 0;
}

int infp_compare_torch(struct infp_compare_reading *reading, struct infp_err *err)
{
        infp_cleanup(gathering_done) struct gathering g = { .run = reading->ret };
        int r = 0;

        INFP_TRY(infp_scan_rows(reading->run, infp_table_torch_trace.name, trace_columns, &reading->options, take_call,
                                &g, err));
        INFP_TRY(infp_scan_rows(reading->run, infp_table_torch_steps.name, step_columns, &reading->options, take_step,
                                &g, err));
        for (unsigned i = 0; i < reading->ret->n_steps; i++)
                infp_compare_values_settle(reading->ret->steps[i]);
        if (g.n_left_out)
                infp_run_note(reading->run,
                              "%s calls and steps of PyTorch belong to modules and phases beyond the first %d and %d",
                              infp_count(g.n_left_out).text, MOST_MODULES, (int) INFP_COUNT(reading->ret->steps));
        r = add_modules(&g);
        for (unsigned i = 0; r >= 0 && i < infp_compare_numbers_n; i++)
                if (infp_compare_numbers[i].from == INFP_NUMBER_OF_STEP)
                        r = add_steps(&g, &infp_compare_numbers[i]);
        return r < 0 ? infp_fail(err, r, "no memory for the modules of PyTorch") : 0;
}
