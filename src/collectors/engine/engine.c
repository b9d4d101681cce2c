/* Inference servers: their metrics pages, read concurrently. The body decides what a page is and which engine's. */
#include <errno.h>
#include <stdlib.h>

#include "base/time.h"
#include "collectors/engine/parts.h"

enum {
        FLOOR_MS = 1000,
        SPARE_MS = 100,         /* before the next sample is due: a hung server must not make this collector late */
        LONGEST_WAIT_MS = 2200, /* the time-out of a transfer plus some */
        TURN_MS = 300,          /* for each at the start */
};

static int engine_open(void *state, const struct infp_env *env, struct infp_err *err)
{
        struct engines *all = state;

        all->keeps_secrets = infp_env_flag(env, "keep-secrets");
        all->token_file = infp_env_setting(env, "engine-token");
        for (const char *line; (line = infp_env_setting_at(env, "header", all->n_own)); all->n_own++) {
                if (all->n_own == ENGINE_HEADERS)
                        return infp_fail(err, -E2BIG, "--header: at most %d can be given", ENGINE_HEADERS);
                all->headers[all->n_own] = line;
        }
        all->headers[all->n_own] = "Accept: text/plain;version=0.0.4,application/json,*/*;q=0.1";
        all->parser = infp_promtext_new();
        if (!all->parser)
                return infp_fail_errno(err, -ENOMEM, "engine");
        INFP_TRY(infp_engine_find_named(all, env, err));
        return infp_http_new(&all->http, err);
}

static bool is_asked(const struct engine *engine)
{
        return engine->page.running || engine->live.running || engine->sleep.running;
}

static void ask(struct engine *engine, uint64_t now)
{
        if (is_asked(engine) || engine->due_ns > now || engine->asked_t_ns == now)
                return;
        if (engine->origin == ENGINE_FOUND && !engine->is_there)
                infp_engine_not_there(engine, now);
        else if (!infp_engine_rests(engine, now))
                infp_engine_ask(engine, now);
}

/* How long a sample may wait for answers. Unfinished transfers continue and are taken by the next one. */
static uint64_t patience_ns(const struct infp_env *env)
{
        uint64_t period_ms = env->period_ms > FLOOR_MS ? env->period_ms : FLOOR_MS, wait_ms = period_ms - SPARE_MS;

        /* Outside a recording there is no next one. */
        return (env->stats && wait_ms < LONGEST_WAIT_MS ? wait_ms : LONGEST_WAIT_MS) * INFP_NS_PER_MS;
}

static int wait_for_answers(struct engines *all, uint64_t end, struct infp_err *err)
{
        uint64_t now = 0;
        int n = infp_http_poll(all->http, 0, -1); /* how many run: waiting without any would be sleeping */

        while (n > 0 && (now = infp_clock_ns(CLOCK_MONOTONIC)) < end)
                n = infp_http_poll(all->http, (int) ((end - now) / INFP_NS_PER_MS + 1), -1);
        return n < 0 ? infp_fail_errno(err, n, "the HTTP client does not work") : 0;
}

/* The first time one after the other, so that the first one named is the first in the tables: it represents all in the time
 * series. A slow one is not waited for. */
static void ask_in_turn(struct engines *all, uint64_t now, uint64_t end_of_all)
{
        for (unsigned i = 0; i < all->n_engines; i++) {
                uint64_t end = infp_clock_ns(CLOCK_MONOTONIC) + TURN_MS * INFP_NS_PER_MS;

                end = end < end_of_all ? end : end_of_all;
                ask(all->engine[i], now);
                while (is_asked(all->engine[i]) && infp_clock_ns(CLOCK_MONOTONIC) < end)
                        if (infp_http_poll(all->http, TURN_MS / 10, -1) < 0)
                                return;
        }
        all->was_asked = true;
}

static int engine_sample(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        struct engines *all = state;
        uint64_t now = env->now_ns(env), begin = infp_clock_ns(CLOCK_MONOTONIC), patience = patience_ns(env);
        int r;

        all->env = env;
        all->emit = emit;
        all->n_paced = 0;
        infp_engine_find(all, now);
        if (!all->was_asked)
                ask_in_turn(all, now, begin + patience / 2);
        for (unsigned i = 0; i < all->n_engines; i++)
                ask(all->engine[i], now);
        r = wait_for_answers(all, begin + patience, err);
        all->env = NULL;
        all->emit = NULL;
        return r;
}

static void engine_close(void *state)
{
        struct engines *all = state;

        all->http = infp_http_free(all->http); /* cancels what is under way */
        for (unsigned i = 0; i < all->n_engines; i++)
                all->engine[i] = infp_engine_free(all->engine[i]);
        all->n_engines = 0;
        all->parser = infp_promtext_free(all->parser);
        infp_engine_finder_done(&all->finder);
}

static const struct infp_table *const tables[] = {
        &infp_table_engines,
        &infp_table_series,
        &infp_table_engine_samples,
        &infp_table_engine_stamps,
        &infp_table_engine_scrapes,
        &infp_table_vllm,
        NULL,
};

const struct infp_collector infp_collector_engine = {
        .name = "engine",
        .help = "What inference servers report about themselves: vLLM, SGLang, TGI, llama.cpp, Triton, TensorRT-LLM, "
                "LMDeploy, Ray Serve.",
        .tables = tables,
        .floor_ms = FLOOR_MS,
        .flags = INFP_MAY_BLOCK,
        .state_size = sizeof(struct engines),
        .open = engine_open,
        .sample = engine_sample,
        .close = engine_close,
};
