#include "record/session.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/time.h"
#include "record/session_parts.h"

/* How long the command waits for the first sample of sources that may block. */
static const uint64_t first_sample_ns = INFP_NS_PER_S;
/* Of stacks there are many more than of processes, and each node is an entity: about 150 bytes. */
static const size_t stack_entity_bytes = 16 << 20;
static const uint64_t reader_look_ns = INFP_NS_PER_S, reader_flush_ns = INFP_NS_PER_S;

uint64_t infp_session_now(void)
{
        return infp_clock_ns(CLOCK_MONOTONIC);
}

static uint64_t earliest(uint64_t a, uint64_t b)
{
        return a < b ? a : b;
}

/* The tables that programs may write through the live socket. */
static const struct infp_table *const *live_tables(void)
{
        static const struct infp_table *tables[3];
        unsigned n = 0;

        tables[n++] = &infp_table_marks;
        tables[n] = &infp_table_requests;
        return tables;
}

static void serve_live(struct infp_session *s)
{
        const struct infp_live_taker taker = {
                .tables = live_tables(),
                .row = infp_recorder_put_row,
                .context = s->recorder,
                .serves = infp_session_serves,
                .serves_context = s,
        };
        struct infp_err err = { "" };

        if (!s->is_live_ready)
                return;
        s->is_live_ready = false;
        infp_live_serve(s->options->live, &taker);
        if (!infp_live_waiting(s->options->live))
                return;
        int r = infp_recorder_flush(s->recorder, &err);
        infp_live_answer(s->options->live, r, err.text);
}

static void drain(struct infp_session *s)
{
        struct infp_stats *stats = s->options->stats;
        struct infp_rowring *ring;
        uint64_t dropped;

        infp_session_take_output(s);
        s->has_more = false;
        for (unsigned i = 0; (ring = infp_sched_ring(s->sched, i)); i++)
                s->has_more |= infp_recorder_drain(s->recorder, ring) == INFP_DRAIN_TICKS;
        infp_session_drain_sampler(s);
        dropped = infp_sched_dropped(s->sched) + (s->sampler ? infp_sampler_dropped(s->sampler) : 0);
        if (dropped == s->n_ring_drops)
                return;
        if (s->n_ring_drops == 0)
                infp_notice(&s->options->notices,
                            "rows were dropped: they came faster than they could be written (table self counts them)");
        infp_stats_add(&stats->rows_dropped, dropped - s->n_ring_drops);
        s->n_ring_drops = dropped;
}

static void look_for_readers(struct infp_session *s)
{
        uint64_t now = infp_session_now();
        bool has;

        if (!s->options->live || now - s->reader_ns < reader_look_ns)
                return;
        s->reader_ns = now;
        has = infp_live_has_reader(s->options->live);
        if (has != s->has_reader)
                infp_recorder_set_flush(s->recorder, has ? reader_flush_ns : 0);
        s->has_reader = has;
}

static uint64_t due_ns(struct infp_session *s)
{
        uint64_t due = earliest(infp_recorder_due_ns(s->recorder), infp_sched_watch_due_ns(s->sched));

        if (s->has_more)
                return 0;
        due = earliest(due, infp_session_target_due_ns(s));
        due = earliest(due, infp_session_baseline_due_ns(s));
        due = earliest(due, infp_rings_due_ns(s->rings));
        if (!s->is_released && s->baseline == INFP_BASELINE_NOT_BEGUN)
                due = earliest(due, s->start_ns + first_sample_ns);
        else if (!s->is_released)
                return due;
        else if (s->options->duration_ns && s->options->duration_ns < UINT64_MAX - s->release_ns)
                due = earliest(due, s->release_ns + s->options->duration_ns);
        return due;
}

/* Waits for something to do. due: at the latest then. */
static void wait_for_news(struct infp_session *s, uint64_t due)
{
        struct pollfd fds[INFP_LIVE_CLIENTS + 5];
        unsigned n = 0, n_own;
        uint64_t now = infp_session_now(), count;
        struct timespec timeout = infp_timespec(due > now ? due - now : 0);
        const struct infp_child *child = s->options->child;

        fds[n++] = (struct pollfd){ .fd = s->wake_fd, .events = POLLIN };
        fds[n++] = (struct pollfd){ .fd = s->options->signals->fd, .events = POLLIN };
        if (child && child->error_fd >= 0 && s->is_released)
                fds[n++] = (struct pollfd){ .fd = child->error_fd, .events = POLLIN };
        if (infp_rings_fd(s->rings) >= 0)
                fds[n++] = (struct pollfd){ .fd = infp_rings_fd(s->rings), .events = POLLIN };
        n_own = n;
        if (s->options->live)
                n += infp_live_pollfds(s->options->live, fds + n);
        if (ppoll(fds, n, due == UINT64_MAX ? NULL : &timeout, NULL) <= 0)
                return;
        if (fds[0].revents & POLLIN)
                (void) !read(s->wake_fd, &count, sizeof(count));
        for (unsigned i = n_own; i < n; i++)
                s->is_live_ready |= fds[i].revents != 0;
}

static void work(struct infp_session *s)
{
        drain(s);
        serve_live(s);
        infp_rings_turn(s->rings);
        infp_sched_watch(s->sched, infp_recorder_put_row, s->recorder);
        infp_recorder_turn(s->recorder);
        look_for_readers(s);
        if (s->options->bytes_written)
                infp_stats_set(&s->options->stats->bytes_written, s->options->bytes_written(s->options->bytes_context));
}

/* Everything was sampled for the first time, or had its time for that. */
static bool is_sampled(struct infp_session *s)
{
        return s->is_released || infp_sched_is_first_done(s->sched) ||
               infp_session_now() - s->start_ns >= first_sample_ns;
}

/* Until the target's end, the duration's, or the user's. */
static void loop(struct infp_session *s)
{
        while (!s->is_ending) {
                wait_for_news(s, due_ns(s));
                work(s);
                infp_session_take_signals(s);
                if (is_sampled(s) && infp_session_baseline(s) && !s->is_released)
                        infp_session_release(s);
                infp_session_follow_child(s);
                infp_session_follow_target(s);
                if (s->is_released && s->options->duration_ns &&
                    infp_session_now() - s->release_ns >= s->options->duration_ns)
                        s->is_ending = true;
        }
}

/* The last sample, and the end of the collectors' threads. */
static void wind_up(struct infp_session *s)
{
        infp_rings_drain(s->rings);
        infp_sched_stop_begin(s->sched);
        if (s->sampler)
                infp_sampler_stop_begin(s->sampler);
        while (!infp_sched_is_ended(s->sched) || !infp_session_is_sampler_ended(s)) {
                wait_for_news(s, s->has_more ? 0 : infp_session_now() + INFP_NS_PER_S / 4);
                drain(s);
                infp_session_take_signals(s);
        }
        do
                drain(s);
        while (s->has_more);
        infp_sched_watch(s->sched, infp_recorder_put_row, s->recorder);
        infp_rings_end(s->rings);
        infp_session_end_output(s);
        serve_live(s);
}

/* A collector's thread has something to say. */
static void notice(void *context, const char *text)
{
        infp_notice(context, "%s", text);
}

static int open_parts(struct infp_session *s, struct infp_err *err)
{
        const struct infp_session_options *options = s->options;
        const struct infp_recorder_options recorder_options = {
                .tables = infp_all_tables(),
                .period_ns = options->env->period_ms * INFP_NS_PER_MS,
                .entity_bytes = options->sampler ? stack_entity_bytes : 0,
                .notices = options->notices,
                .stats = options->stats,
        };
        const struct infp_sched_options sched_options = {
                .env = options->env,
                .collectors = infp_collectors,
                .ring_bytes = options->ring_bytes,
                .wake_fd = s->wake_fd,
                .stats = options->stats,
                .notice = notice,
                .notice_context = (void *) &options->notices,
        };

        INFP_TRY(infp_recorder_new(&recorder_options, &s->recorder, err));
        for (unsigned i = 0; i < options->n_sinks; i++)
                INFP_TRY(infp_recorder_add_sink(s->recorder, options->sinks[i], err));
        infp_recorder_begin(s->recorder);
        s->start_ns = infp_session_now();
        INFP_TRY(infp_rings_new(&(struct infp_rings_options){ .env = options->env,
                                                              .recorder = s->recorder,
                                                              .run = options->run,
                                                              .notices = options->notices,
                                                              .stats = options->stats },
                                &s->rings, err));
        INFP_TRY(infp_session_start_output(s, err));
        infp_session_follow_target(s); /* the first sample is of the target already */
        INFP_TRY(infp_sched_start(&sched_options, &s->sched, err));
        infp_session_start_sampler(s);
        return 0;
}

static void note_result(struct infp_session *s, uint64_t end_ns)
{
        const struct infp_child *child = s->options->child;
        struct infp_session_result *ret = s->result;

        ret->started_t_ns = s->start_ns;
        ret->started_unix_ns = infp_recorder_unix_ns(s->recorder, s->start_ns);
        ret->ended_t_ns = end_ns;
        ret->ended_unix_ns = infp_recorder_unix_ns(s->recorder, ret->ended_t_ns);
        ret->is_child_left = child && (child->state == INFP_CHILD_RUNNING || child->state == INFP_CHILD_STARTING);
        ret->was_run |= ret->is_child_left;
        ret->last_segment = infp_recorder_segment(s->recorder);
}

int infp_session_run(const struct infp_session_options *options, struct infp_session_result *ret, struct infp_err *err)
{
        struct infp_session s = { .options = options,
                                  .result = ret,
                                  .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
        int r = s.wake_fd < 0 ? infp_fail_errno(err, -errno, "cannot make an eventfd") : 0;

        *ret = (struct infp_session_result){ 0 };
        options->env->stats = options->stats;
        if (r >= 0)
                r = open_parts(&s, err);
        if (r >= 0) {
                loop(&s);
                wind_up(&s);
                note_result(&s, infp_recorder_end(s.recorder));
                if (s.exec_code)
                        *err = s.exec_err;
                ret->is_hung = !infp_sched_free(s.sched);
                ret->is_hung |= !infp_sampler_free(s.sampler); /* of itself, also where the other one hangs */
        }
        infp_rings_free(s.rings);
        infp_recorder_free(s.recorder);
        if (!ret->is_hung)
                infp_close(s.wake_fd);
        return r;
}
