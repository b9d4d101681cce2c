#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "collect/collector.h"
#include "collect/target.h"
#include "model/python_tables.h"
#include "model/stack_tables.h"

enum { MAX_TABLES = 256 };

static const struct infp_table *all_tables[MAX_TABLES + 1];
static unsigned n_tables;
static pthread_once_t once = PTHREAD_ONCE_INIT;

const struct infp_collector *infp_collector_find(const char *name)
{
        for (size_t i = 0; infp_collectors[i]; i++)
                if (!strcmp(infp_collectors[i]->name, name))
                        return infp_collectors[i];
        return NULL;
}

uint32_t infp_collector_period_ms(const struct infp_collector *collector, uint32_t run_period_ms)
{
        uint32_t period = collector->period_ms ? collector->period_ms : run_period_ms;

        if (collector->ceiling_ms && period > collector->ceiling_ms)
                period = collector->ceiling_ms;
        return period < collector->floor_ms ? collector->floor_ms : period;
}

uint32_t infp_collector_effective_ms(const struct infp_collector *collector, const struct infp_env *env)
{
        uint32_t period = infp_collector_period_ms(collector, env->period_ms);
        bool is_of_strangers = collector->flags & INFP_WALKS_TARGET && env->target &&
                               infp_target_mode(env->target) == INFP_MODE_HOST && infp_target_all(env->target);

        return is_of_strangers && period < INFP_TARGET_OTHERS_MS ? INFP_TARGET_OTHERS_MS : period;
}

static void add(const struct infp_table *table)
{
        for (unsigned i = 0; i < n_tables; i++)
                if (!strcmp(all_tables[i]->name, table->name))
                        return;
        assert(n_tables < MAX_TABLES);
        all_tables[n_tables++] = table;
}

static void gather(void)
{
        static const struct infp_table *const own[] = {
                &infp_table_clock,        &infp_table_columns,      &infp_table_sources,       &infp_table_ticks,
                &infp_table_marks,        &infp_table_spans,        &infp_table_counters,      &infp_table_requests,
                &infp_table_output,       &infp_table_mappings,     &infp_table_frames,        &infp_table_symbols,
                &infp_table_stacks,       &infp_table_threads,      &infp_table_stack_samples, &infp_table_sampler,
                &infp_table_thread_stops, &infp_table_heap_samples, &infp_table_heap_windows,
        };

        for (size_t i = 0; i < INFP_COUNT(own); i++)
                add(own[i]);
        for (const struct infp_table *const *t = infp_python_tables; *t; t++)
                add(*t);
        for (size_t i = 0; infp_collectors[i]; i++)
                for (const struct infp_table *const *t = infp_collectors[i]->tables; *t; t++)
                        add(*t);
}

const struct infp_table *const *infp_all_tables(void)
{
        pthread_once(&once, gather);
        return all_tables;
}

const struct infp_table *infp_table_by_name(const char *name)
{
        for (const struct infp_table *const *t = infp_all_tables(); *t; t++)
                if (!strcmp((*t)->name, name))
                        return *t;
        return NULL;
}
