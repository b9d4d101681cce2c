#include "record/session.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/human.h"
#include "base/time.h"
#include "model/baseline.h"
#include "model/mask.h"
#include "record/session_parts.h"

uint64_t infp_session_now(void)
{
        return infp_clock_ns(CLOCK_MONOTONIC);
}

/* The idle power is measured in a quiet time before the command starts, or at the start when the target runs already. Two marks
 * enclose it; nothing else differs. */
static void put_baseline_mark(struct infp_session *s, const char *tag, uint64_t t_ns)
{
        char text[128];
        struct infp_row row = { .text = text, .text_cap = sizeof(text) };

        infp_row_begin(&row, &infp_table_marks, t_ns);
        infp_row_str(&row, INFP_MARKS_SOURCE, INFP_BASELINE_SOURCE);
        infp_row_str(&row, INFP_MARKS_TAG, tag);
        infp_recorder_put(s->recorder, &row);
}

static void begin_baseline(struct infp_session *s, uint64_t now)
{
        const double seconds = (double) s->options->baseline_ns / 1e9;

        s->baseline = INFP_BASELINE_RUNS;
        s->baseline_end_ns = now + s->options->baseline_ns;
        put_baseline_mark(s, INFP_BASELINE_START, now);
        infp_notice(&s->options->notices,
                    s->options->child ? "measuring the idle power for %s s before the command starts"
                                      : "measuring the power of the first %s s as the idle power",
                    infp_number(seconds).text);
}

/* Called at each turn after the first sample of all. True: the command may start. */
static bool measure_baseline(struct infp_session *s)
{
        const uint64_t now = infp_session_now();

        if (!s->options->baseline_ns || s->baseline == INFP_BASELINE_OVER)
                return true;
        if (s->baseline == INFP_BASELINE_NOT_BEGUN)
                begin_baseline(s, now);
        if (now < s->baseline_end_ns)
                return !s->options->child;
        s->baseline = INFP_BASELINE_OVER;
        put_baseline_mark(s, INFP_BASELINE_END, now);
        return true;
}

static uint64_t baseline_due_ns(const struct infp_session *s)
{
        return s->baseline == INFP_BASELINE_RUNS ? s->baseline_end_ns : UINT64_MAX;
}

/* From a thread of a collector or of the sampler. */
static void notice(void *context, const char *text)
{
        infp_notice(context, "%s", text);
}

/* Without stacks everything else is recorded. */
static void start_sampler(struct infp_session *s)
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
        infp_rings_use(s->rings, s->sampler);
        infp_session_follow_sampler(s); /* the roots were found before */
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

static void drain_sampler(struct infp_session *s)
{
        struct infp_rowring *ring;

        for (unsigned i = 0; s->sampler && (ring = infp_sampler_ring(s->sampler, i)); i++)
                s->has_more |= infp_recorder_drain(s->recorder, ring) == INFP_DRAIN_TICKS;
}

static bool is_sampler_ended(struct infp_session *s)
{
        return !s->sampler || infp_sampler_is_ended(s->sampler);
}

/* How long the last look at the file may take: its file system may hang. */
static const uint64_t patience_ns = 10 * INFP_NS_PER_S;
/* A label's time is the command's own clock reading, taken shortly before the label was seen. Clocks of whole seconds may be
 * up to one late or early. */
static const int64_t tolerance_ns = 2 * (int64_t) INFP_NS_PER_S;

enum { TAKEN_AT_ONCE = 256 };

static int start_output(struct infp_session *s, struct infp_err *err)
{
        if (!s->options->capture)
                return 0;
        s->output_row.text = s->output_text;
        s->output_row.text_cap = sizeof(s->output_text);
        return infp_capture_start(s->options->capture, STDOUT_FILENO, s->wake_fd, &s->options->notices, err);
}

static void put_output(struct infp_session *s, const struct infp_capture_event *event)
{
        struct infp_row *row = &s->output_row;

        infp_row_begin(row, &infp_table_output, event->t_ns);
        infp_row_str(row, INFP_OUTPUT_STREAM, event->kind == INFP_CAPTURE_NEW ? "output" : "removed");
        infp_row_i64(row, INFP_OUTPUT_OFFSET, (int64_t) event->offset);
        infp_row_i64(row, INFP_OUTPUT_LENGTH, (int64_t) event->length);
        infp_recorder_put(s->recorder, row);
}

/* The time of a label on our clock: its own time where that lies within the recording, else when it was seen. */
static uint64_t label_time(const struct infp_session *s, const struct infp_capture_event *event, char *ret_stamp,
                           size_t cap)
{
        const int64_t seen_unix_ns = infp_recorder_unix_ns(s->recorder, event->t_ns),
                      start_unix_ns = infp_recorder_unix_ns(s->recorder, s->start_ns);

        if (event->epoch == INFP_LABEL_HAS_TIME && event->unix_ns >= start_unix_ns - tolerance_ns &&
            event->unix_ns <= seen_unix_ns + tolerance_ns) {
                const int64_t ago = seen_unix_ns - event->unix_ns;

                snprintf(ret_stamp, cap, "line");
                return ago > 0 && (uint64_t) ago > event->t_ns ? 0 : event->t_ns - (uint64_t) ago;
        }
        if (event->epoch == INFP_LABEL_HAS_TIME)
                snprintf(ret_stamp, cap, "seen: its time %" PRId64 ".%09" PRId64 " is not within the recording",
                         event->unix_ns / (int64_t) INFP_NS_PER_S, event->unix_ns % (int64_t) INFP_NS_PER_S);
        else
                snprintf(ret_stamp, cap, "seen: %s",
                         event->epoch == INFP_LABEL_NO_TIME ? "the line has no time" : "its time cannot be read");
        return event->t_ns;
}

static void put_label(struct infp_session *s, const struct infp_capture_event *event)
{
        struct infp_row *row = &s->output_row;
        char stamp[128], name[INFP_LABEL_TAG + 16];
        uint64_t t_ns = event->t_ns;
        int size;

        if (event->is_filename)
                snprintf(stamp, sizeof(stamp), "seen");
        else
                t_ns = label_time(s, event, stamp, sizeof(stamp));
        infp_row_begin(row, &infp_table_marks, t_ns);
        infp_row_str(row, INFP_MARKS_SOURCE, "output");
        size = snprintf(name, sizeof(name), "%s", event->is_filename ? "filename: " : "");
        if (infp_env_flag(s->options->env, "keep-secrets")) {
                memcpy(name + size, event->tag, event->tag_size);
                size += (int) event->tag_size;
        } else {
                size += (int) infp_mask_text(event->tag, event->tag_size, name + size, sizeof(name) - (size_t) size);
        }
        infp_row_bytes(row, INFP_MARKS_TAG, name, (size_t) size);
        infp_row_str(row, INFP_MARKS_STAMP, stamp);
        infp_recorder_put(s->recorder, row);
}

static void take_output(struct infp_session *s)
{
        struct infp_capture_event event;

        /* Takes no more events than wait now: a command that writes without end must not keep us from the rest. */
        for (unsigned i = 0; s->options->capture && i < TAKEN_AT_ONCE; i++) {
                if (!infp_capture_take(s->options->capture, &event))
                        return;
                if (event.kind == INFP_CAPTURE_LABEL)
                        put_label(s, &event);
                else
                        put_output(s, &event);
        }
}

static void say_output_sums(struct infp_session *s)
{
        const struct infp_capture_sums sums = infp_capture_sums(s->options->capture);

        if (sums.removed)
                infp_notice(&s->options->notices,
                            "of %s bytes of output the first %s were removed by --capture-limit: %s begins with a hole",
                            infp_count(sums.bytes).text, infp_count(sums.removed).text,
                            infp_capture_path(s->options->capture));
        if (sums.labels_missed)
                infp_notice(&s->options->notices,
                            "%s labels did not become marks: the command printed more than %d in a second",
                            infp_count(sums.labels_missed).text, INFP_CAPTURE_LABELS);
}

static void end_output(struct infp_session *s)
{
        struct infp_capture *capture = s->options->capture;
        const uint64_t end_ns = infp_session_now() + patience_ns;

        if (!capture)
                return;
        infp_capture_stop(capture);
        while (!infp_capture_is_over(capture) && infp_session_now() < end_ns) {
                struct pollfd fd = { .fd = s->wake_fd, .events = POLLIN };
                uint64_t count;

                take_output(s);
                if (poll(&fd, 1, 50) > 0)
                        (void) !read(s->wake_fd, &count, sizeof(count));
        }
        take_output(s);
        if (!infp_capture_is_over(capture))
                infp_notice(&s->options->notices, "%s cannot be read to its end within %d s",
                            infp_capture_path(capture), (int) (patience_ns / INFP_NS_PER_S));
        say_output_sums(s);
}

/* How long the command waits for the first sample of sources that may block. */
static const uint64_t first_sample_ns = INFP_NS_PER_S;
/* There are many more stacks than processes, and each node is an entity: about 150 bytes. */
static const size_t stack_entity_bytes = 16 << 20;
static const uint64_t reader_look_ns = INFP_NS_PER_S, reader_flush_ns = INFP_NS_PER_S;

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

        take_output(s);
        s->has_more = false;
        for (unsigned i = 0; (ring = infp_sched_ring(s->sched, i)); i++)
                s->has_more |= infp_recorder_drain(s->recorder, ring) == INFP_DRAIN_TICKS;
        drain_sampler(s);
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
        due = earliest(due, baseline_due_ns(s));
        due = earliest(due, infp_rings_due_ns(s->rings));
        if (!s->is_released && s->baseline == INFP_BASELINE_NOT_BEGUN)
                due = earliest(due, s->start_ns + first_sample_ns);
        else if (!s->is_released)
                return due;
        else if (s->options->duration_ns && s->options->duration_ns < UINT64_MAX - s->release_ns)
                due = earliest(due, s->release_ns + s->options->duration_ns);
        return due;
}

/* Waits for something to do, until `due` at the latest. */
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

/* Each source has its first sample, or had its time for it. */
static bool is_sampled(struct infp_session *s)
{
        return s->is_released || infp_sched_is_first_done(s->sched) ||
               infp_session_now() - s->start_ns >= first_sample_ns;
}

/* Until the end of the target or of the duration, or until the user ends it. */
static void loop(struct infp_session *s)
{
        while (!s->is_ending) {
                wait_for_news(s, due_ns(s));
                work(s);
                infp_session_take_signals(s);
                if (is_sampled(s) && measure_baseline(s) && !s->is_released)
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
        while (!infp_sched_is_ended(s->sched) || !is_sampler_ended(s)) {
                wait_for_news(s, s->has_more ? 0 : infp_session_now() + INFP_NS_PER_S / 4);
                drain(s);
                infp_session_take_signals(s);
        }
        do
                drain(s);
        while (s->has_more);
        infp_sched_watch(s->sched, infp_recorder_put_row, s->recorder);
        infp_rings_end(s->rings);
        end_output(s);
        serve_live(s);
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
        INFP_TRY(start_output(s, err));
        infp_session_follow_target(s); /* the first sample already follows the target */
        INFP_TRY(infp_sched_start(&sched_options, &s->sched, err));
        start_sampler(s);
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
                ret->is_hung |= !infp_sampler_free(s.sampler); /* on its own, also where the other one hangs */
        }
        infp_rings_free(s.rings);
        infp_recorder_free(s.recorder);
        if (!ret->is_hung)
                infp_close(s.wake_fd);
        return r;
}
