#include "collect/once.h"

#include <errno.h>
#include <string.h>

#include "collect/target.h"

static bool is_wanted(const struct infp_collector *collector, const struct infp_env *env, const char *const *only)
{
        if (!only)
                return infp_collector_enabled(collector, env);
        for (; *only; only++)
                if (!strcmp(*only, collector->name))
                        return true;
        return false;
}

static void run(const struct infp_collector *collector, const struct infp_env *env, struct infp_emit *emit,
                infp_notice_fn *notice, void *context)
{
        struct infp_collector_state state = { 0 };

        if (!infp_collector_open(&state, collector, env, emit, notice, context))
                infp_collector_sample(&state, env, emit, notice, context);
        infp_collector_close(&state);
}

int infp_collect_once(const struct infp_env *env, const char *const *only, struct infp_emit *emit,
                      infp_notice_fn *notice, void *context, struct infp_err *err)
{
        struct infp_err refresh_err = { "" };

        for (size_t i = 0; only && only[i]; i++)
                if (!infp_collector_find(only[i]))
                        return infp_fail(err, -ENOENT, "there is no collector named %s; `infprof doctor` lists them",
                                         only[i]);
        /* Without a process table the collectors that need it say so themselves. */
        if (env->target && infp_target_refresh(env->target, env, &refresh_err) < 0 && notice)
                notice(context, refresh_err.text);
        for (size_t i = 0; infp_collectors[i]; i++)
                if (is_wanted(infp_collectors[i], env, only))
                        run(infp_collectors[i], env, emit, notice, context);
        return 0;
}
