/* Joules per token and request. Tokens by the engines' own counters, else by what clients saw: whichever the report shows. */
#include <math.h>

#include "analyze/energy.h"

static double per(double joules, double n)
{
        return n > 0 ? joules / n : NAN;
}

/* Of all engines; NAN: none of them says. */
static double sum(const struct infp_report_engines *engines, enum infp_engine_counter counter, unsigned *ret_n)
{
        double ret = NAN;

        *ret_n = 0;
        for (unsigned i = 0; i < engines->n; i++) {
                const double v = engines->list[i].counters[counter];

                if (isnan(v))
                        continue;
                ret = (isnan(ret) ? 0 : ret) + v;
                (*ret_n)++;
        }
        return ret;
}

static struct infp_energy_tokens by_engines(const struct infp_report_engines *engines)
{
        struct infp_energy_tokens ret = { .from = INFP_TOKENS_ENGINE };
        unsigned n;

        ret.generated = sum(engines, INFP_ENGINE_GENERATED, &ret.n_engines);
        ret.prompt = sum(engines, INFP_ENGINE_PROMPT, &n);
        ret.requests = sum(engines, INFP_ENGINE_FINISHED, &n);
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
}
