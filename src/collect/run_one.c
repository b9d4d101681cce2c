#include "collect/run_one.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/time.h"

enum { LONGEST_PAUSE_S = 60, DOUBLINGS = 16 };

bool infp_collector_enabled(const struct infp_collector *collector, const struct infp_env *env)
{
        if (!infp_env_setting(env, collector->name))
                return !(collector->flags & INFP_OPT_IN);
        return infp_env_flag(env, collector->name);
}

static void say(infp_notice_fn *notice, void *context, const struct infp_collector *collector, const char *text)
{
        char line[sizeof(((struct infp_err *) NULL)->text) + 64];

        if (!notice)
                return;
        snprintf(line, sizeof(line), "%s: %s", collector->name, text);
        notice(context, line);
}

/* The collector's sentence, else that of the errno. */
static const char *sentence(struct infp_err *err, int r)
{
        if (!err->text[0])
                infp_fail(err, r, "%s", strerror(-r));
        return err->text;
}

static void finish(struct infp_collector_state *state)
{
        if (state->memory)
                state->collector->close(state->memory);
        free(INFP_TAKE(state->memory));
        state->is_closed = true;
}

static uint64_t pause_ns(const struct infp_collector_state *state)
{
        uint64_t longest = LONGEST_PAUSE_S * INFP_NS_PER_S, n = state->n_errors - 1;
        uint64_t pause = state->period_ns << (n < DOUBLINGS ? n : DOUBLINGS);

        /* A period longer than that is pause enough. */
        return pause < longest ? pause : state->period_ns > longest ? state->period_ns : longest;
}

static int failed(struct infp_collector_state *state, int r, struct infp_err *err, const struct infp_env *env,
                  struct infp_emit *emit, infp_notice_fn *notice, void *context)
{
        infp_emit_source(emit, NULL, -1, NULL, infp_source_state_of(r), sentence(err, r), NULL);
        if (r == -ENODEV) {
                finish(state);
                return r;
        }
        if (!state->n_errors++)
                say(notice, context, state->collector, err->text);
        state->not_before_ns = env->now_ns(env) + pause_ns(state);
        return r;
}

/* Whatever the collector reports: its files exist, but no descriptor was free for them. */
static bool lacks_descriptors(int r, struct infp_err *err)
{
        if (r == -EMFILE)
                infp_fail(err, r,
                          "no file descriptor was free to open its files (raise ulimit -n); infprof tries again");
        else if (r == -ENFILE)
                infp_fail(err, r,
                          "this machine cannot open more files (raise sysctl fs.file-max); infprof tries again");
        return r == -EMFILE || r == -ENFILE;
}

/* Not closed when it will be tried again; then it has no memory. */
static int try_open(struct infp_collector_state *state, const struct infp_env *env, struct infp_emit *emit,
                    infp_notice_fn *notice, void *context)
{
        const struct infp_collector *collector = state->collector;
        struct infp_err err = { "" };
        int r;

        state->memory = calloc(1, collector->state_size ? collector->state_size : 1);
        r = state->memory ? collector->open(state->memory, env, &err) : -ENOMEM;
        if (r >= 0) {
                infp_emit_source(emit, NULL, -1, NULL, INFP_OK, NULL, NULL);
                state->n_errors = state->not_before_ns = 0;
                return 0;
        }
        if (lacks_descriptors(r, &err)) {
                finish(state);
                state->is_closed = false;
                return failed(state, r, &err, env, emit, notice, context);
        }
        infp_emit_source(emit, NULL, -1, NULL, infp_source_state_of(r), sentence(&err, r), NULL);
        if (r != -ENODEV)
                say(notice, context, collector, err.text);
        finish(state);
        return r;
}

int infp_collector_open(struct infp_collector_state *state, const struct infp_collector *collector,
                        const struct infp_env *env, struct infp_emit *emit, infp_notice_fn *notice, void *context)
{
        *state = (struct infp_collector_state){
                .collector = collector,
                .period_ns = infp_collector_period_ms(collector, env->period_ms) * INFP_NS_PER_MS,
        };
        emit->collector = collector->name;
        emit->t_ns = state->next_ns = env->now_ns(env);
        return try_open(state, env, emit, notice, context);
}

void infp_collector_leave_out(struct infp_collector_state *state, const struct infp_collector *collector,
                              const struct infp_env *env, struct infp_emit *emit, const char *reason, const char *fix)
{
        *state = (struct infp_collector_state){ .collector = collector, .is_closed = true };
        emit->collector = collector->name;
        emit->t_ns = env->now_ns(env);
        infp_emit_source(emit, NULL, -1, NULL, INFP_ABSENT, reason, fix);
}

int infp_collector_sample(struct infp_collector_state *state, const struct infp_env *env, struct infp_emit *emit,
                          infp_notice_fn *notice, void *context)
{
        struct infp_err err = { "" };
        uint64_t now = env->now_ns(env);
        int r;

        if (state->is_closed)
                return -ENODEV;
        if (now < state->not_before_ns)
                return -EAGAIN;
        emit->collector = state->collector->name;
        emit->t_ns = now;
        if (!state->memory)
                INFP_TRY(try_open(state, env, emit, notice, context));
        r = state->collector->sample(state->memory, env, emit, &err);
        if (r == -EAGAIN)
                return r;
        if (r < 0)
                return failed(state, r, &err, env, emit, notice, context);
        if (state->n_errors)
                infp_emit_source(emit, NULL, -1, NULL, INFP_OK, NULL, NULL);
        state->n_errors = 0;
        state->not_before_ns = 0;
        return 0;
}

void infp_collector_close(struct infp_collector_state *state)
{
        if (state->collector && !state->is_closed)
                finish(state);
}
