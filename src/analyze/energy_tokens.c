/* Joules per token and request. Tokens by the engines' own counters, else by what clients saw: whichever the report shows. */
#include <math.h>

#include "analyze/energy.h"

static double per(double joules, double n)
{
        return n > 0 ? joules / n : NAN;
}

static struct infp_energy_tokens by_engines(const struct infp_report_engines *engines)
{
        struct infp_energy_tokens ret = { .from = INFP_TOKENS_ENGINE };
        unsigned n;

        ret.generated = infp_engines_total(engines, INFP_ENGINE_GENERATED, &ret.n_engines);
        ret.prompt = infp_engines_total(engines, INFP_ENGINE_PROMPT, &n);
        ret.requests = infp_engines_total(engines, INFP_ENGINE_FINISHED, &n);
        return ret;
}

static struct infp_energy_tokens by_requests(const struct infp_requests *requests)
{
        return (struct infp_energy_tokens){ .from = INFP_TOKENS_REQUESTS,
                                            .generated = (double) requests->output_tokens,
                                            /* None at all: the server does not tell them. */
                                            .prompt = requests->prompt_tokens ? (double) requests->prompt_tokens : NAN,
                                            .requests = (double) requests->n_ok };
}

void infp_energy_per_token(struct infp_energy *e, const struct infp_report_engines *engines,
                           const struct infp_requests *requests)
{
        const struct infp_energy_tokens none = { .generated = NAN, .prompt = NAN, .requests = NAN };

        e->tokens = by_engines(engines);
        if (!(e->tokens.generated > 0) && requests && requests->output_tokens > 0)
                e->tokens = by_requests(requests);
        if (!(e->tokens.generated > 0))
                e->tokens = none;
        e->j_per_generated = per(e->joules, e->tokens.generated);
        e->j_per_token = per(e->joules, e->tokens.generated + e->tokens.prompt);
        e->j_per_request = per(e->joules, e->tokens.requests);
        e->gpu_j_per_generated = per(e->gpu_joules, e->tokens.generated);
}
