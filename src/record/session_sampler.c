/* The sampler of stacks beside the collectors. */
#include "record/session_parts.h"

/* A sampler's thread has something to say. */
static void notice(void *context, const char *text)
{
        infp_notice(context, "%s", text);
}

/* Without stacks the rest is recorded all the same. */
void infp_session_start_sampler(struct infp_session *s)
{
        struct infp_sampler_options options;
        struct infp_err err = { "" };

        if (!s->options->sampler)
                return;
        options = *s->options->sampler;
        options.env = s->options->env;
        options.wake_fd = s->wake_fd;
        options.stats = s->options->stats;
        options.notice = notice;
        options.notice_context = (void *) &s->options->notices;
        if (infp_sampler_start(&options, &s->sampler, &err) < 0)
                infp_notice(&s->options->notices, "stacks are not sampled: %s", err.text);
        infp_session_follow_sampler(s); /* the roots were looked for before */
}

void infp_session_follow_sampler(struct infp_session *s)
{
        pid_t pids[INFP_FOLLOW_PIDS];
        size_t n;

        if (!s->sampler || !s->options->follow)
                return;
        n = infp_follow_pids(s->options->follow, pids, INFP_FOLLOW_PIDS);
        infp_sampler_follow(s->sampler, pids, n);
}

void infp_session_drain_sampler(struct infp_session *s)
{
        struct infp_rowring *ring;

        for (unsigned i = 0; s->sampler && (ring = infp_sampler_ring(s->sampler, i)); i++)
                s->has_more |= infp_recorder_drain(s->recorder, ring) == INFP_DRAIN_TICKS;
}

bool infp_session_is_sampler_ended(struct infp_session *s)
{
        return !s->sampler || infp_sampler_is_ended(s->sampler);
}
