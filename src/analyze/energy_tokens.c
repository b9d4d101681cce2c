/* Joules per token and request. Tokens by the engines' own counters, else by what clients saw: whichever the report shows. */
#include <math.h>

#include "analyze/energy_parts.h"

const struct infp_energy_tokens infp_energy_no_tokens = {
        .generated = NAN, .prompt = NAN, .requests = NAN, .joules = NAN, .gpu_joules = NAN, .seconds = NAN
};

static double per(double joules, double n)
{
        return n > 0 ? joules / n : NAN;
}

void infp_energy_tokens_span(const struct infp_report_engines *engines, uint64_t *ret_t0, uint64_t *ret_t1)
{
        *ret_t0 = *ret_t1 = 0;
        for (unsigned i = 0; i < engines->n; i++) {
                const struct infp_report_engine *e = &engines->list[i];

                if (!(e->counters[INFP_ENGINE_GENERATED] > 0))
                        continue;
                *ret_t0 = !*ret_t1 || e->t0 < *ret_t0 ? e->t0 : *ret_t0;
                *ret_t1 = e->t1 > *ret_t1 ? e->t1 : *ret_t1;
        }
}

static struct infp_energy_tokens by_engines(const struct infp_energy *e, const struct infp_report_engines *engines)
{
        struct infp_energy_tokens ret = { .from = INFP_TOKENS_ENGINE,
                                          .joules = e->tokens_joules,
                                          .gpu_joules = e->tokens_gpu_joules,
                                          .seconds = e->tokens_s };
        unsigned n;

        ret.generated = infp_engines_total(engines, INFP_ENGINE_GENERATED, &ret.n_engines);
        ret.prompt = infp_engines_total(engines, INFP_ENGINE_PROMPT, &n);
        ret.requests = infp_engines_total(engines, INFP_ENGINE_FINISHED, &n);
        return ret;
}

static struct infp_energy_tokens by_requests(const struct infp_energy *e, const struct infp_requests *requests)
{
        return (struct infp_energy_tokens){ .from = INFP_TOKENS_REQUESTS,
                                            .generated = (double) requests->output_tokens,
                                            /* None at all: the server does not report them. */
                                            .prompt = requests->prompt_tokens ? (double) requests->prompt_tokens : NAN,
                                            .requests = (double) requests->n_ok,
                                            .joules = e->joules,
                                            .gpu_joules = e->gpu_joules,
                                            .seconds = e->seconds };
}

void infp_energy_per_token(struct infp_energy *e, const struct infp_report_engines *engines,
                           const struct infp_requests *requests)
{
        e->tokens = by_engines(e, engines);
        if (!(e->tokens.generated > 0) && requests && requests->output_tokens > 0)
                e->tokens = by_requests(e, requests);
        if (!(e->tokens.generated > 0))
                e->tokens = infp_energy_no_tokens;
        e->j_per_generated = per(e->tokens.joules, e->tokens.generated);
        e->j_per_token = per(e->tokens.joules, e->tokens.generated + e->tokens.prompt);
        e->j_per_request = per(e->tokens.joules, e->tokens.requests);
        e->gpu_j_per_generated = per(e->tokens.gpu_joules, e->tokens.generated);
}
