/* The contract of a source: one const record a file, src/collectors/<name>.c, listed by its name in src/collectors/meson.build. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "collect/emit.h"
#include "collect/env.h"
#include "model/schema.h"

enum {
        INFP_MAY_BLOCK = 1 << 0, /* network, drivers, third-party libraries: a thread of its own */
        INFP_OPT_IN = 1 << 1,    /* runs only when its setting (its own name) is set */
        /* Walks the target (infp_target_at): sampled only right after a refresh, in the shared thread. While it hangs no
         * refresh is made. */
        INFP_WALKS_TARGET = 1 << 2,
};

struct infp_collector {
        const char *name;                       /* = file name = word in meson.build; [a-z0-9_] */
        const char *help;                       /* one sentence */
        const struct infp_table *const *tables; /* all tables that it may write, ended by NULL */
        uint32_t period_ms;                     /* 0: the run's */
        uint32_t floor_ms;                      /* never more often than this; 0: no floor */
        uint32_t ceiling_ms;                    /* never less often than this (counters that wrap); 0: no ceiling */
        unsigned flags;
        size_t state_size; /* the core gives zeroed memory of this size */

        /* Finds its files. 0; -ENODEV: not on this machine (silent: one row in `sources` with err's text as the reason);
         * -EMFILE, -ENFILE: called again later, after close; anything else: broken, reported once. Never fatal for the run.
         * May allocate. */
        int (*open)(void *state, const struct infp_env *env, struct infp_err *err);

        /* Reads and emits rows, each stamped with env->now_ns(env) just before its read. 0; -EAGAIN: nothing this time;
         * -ENODEV: gone, closed for this run; else counted, reported once, retried with a growing pause. No allocation when
         * nothing new appears. */
        int (*sample)(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err);

        /* Called after a failed open, too; must take half-open state. */
        void (*close)(void *state);
};

/* All collectors of this build, in the order of meson.build, ended by NULL. */
extern const struct infp_collector *const infp_collectors[];
const struct infp_collector *infp_collector_find(const char *name);

/* The period that a collector has in a run of period_ms, after defaults and floors. */
uint32_t infp_collector_period_ms(const struct infp_collector *collector, uint32_t run_period_ms);

/* How often it has values in this recording: less often than its samples for processes outside the target. */
uint32_t infp_collector_effective_ms(const struct infp_collector *collector, const struct infp_env *env);

/* Every table that this build can write: model/tables.h first, then the collectors'. ended by NULL; each name once. */
const struct infp_table *const *infp_all_tables(void);
const struct infp_table *infp_table_by_name(const char *name); /* NULL */
