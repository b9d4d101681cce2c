#include "load/load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/time.h"
#include "load/prompts.h"
#include "load/request.h"
#include "load/schedule.h"

enum { POLL_MS = 1000 };
/* After a failure a slot of a closed loop rests: a server that refuses at once would be asked ten thousand times a second. */
static const uint64_t rest_ns = 250 * INFP_NS_PER_MS;
static const uint64_t progress_ns = 100 * INFP_NS_PER_MS, cancel_ns = 2 * INFP_NS_PER_S;

struct load {
        const struct infp_load_options *options;
        struct infp_http *http;
        int wake_fd, timer_fd; /* wake_fd: an epoll of the timer and the caller's stop_fd */
        struct infp_schedule schedule;
        uint64_t next_due_ns;                 /* of the open loop */
        struct infp_waiting waiting, resting; /* due times: of what is due or soon will be, in their order */
        struct infp_load_request *first;
        struct infp_load_state state;
        uint64_t end_ns, cut_ns, progress_due_ns; /* UINT64_MAX: never */
        bool is_stopped, is_failed;               /* by the caller; by a lack of memory */
        struct infp_row row;
        struct infp_err *err;
};

static uint64_t now_ns(void)
{
        return infp_clock_ns(CLOCK_MONOTONIC);
}

static uint64_t add_ns(uint64_t t, uint64_t ns)
{
        return ns > UINT64_MAX - t ? UINT64_MAX : t + ns;
}

static bool is_open_loop(const struct load *load)
{
        return load->options->rate > 0;
}

static bool may_arrive(const struct load *load, uint64_t due_ns)
{
        return !load->is_stopped && due_ns < load->end_ns &&
               (!load->options->n_requests || load->state.n_arrived < load->options->n_requests);
}

static void arrive(struct load *load, struct infp_waiting *waiting, uint64_t due_ns)
{
        if (infp_waiting_put(waiting, due_ns) < 0)
                load->is_failed = true;
        else
                load->state.n_arrived++;
}

static void unlink_request(struct load *load, struct infp_load_request *request)
{
        if (request->previous)
                request->previous->next = request->next;
        else
                load->first = request->next;
        if (request->next)
                request->next->previous = request->previous;
        load->state.n_in_flight--;
}

/* Whatever became of it: its row, and in a closed loop the next arrival. */
static void end_request(struct load *load, struct infp_load_request *request, const struct infp_http_result *result,
                        const char *error)
{
        const uint64_t now = now_ns();
        const bool ok = infp_load_request_row(request, result, now, error, &load->row);

        load->state.n_ended++;
        load->state.n_failed += !ok && !request->is_cut_off;
        load->options->row(load->options->context, &load->row);
        if (!is_open_loop(load)) {
                const uint64_t due = result && ok ? result->done_t_ns : add_ns(now, rest_ns);

                if (may_arrive(load, due))
                        arrive(load, ok ? &load->waiting : &load->resting, due);
        }
        infp_load_request_done(request);
        free(request);
}

static int on_data(void *context, const char *bytes, size_t size, uint64_t t_ns)
{
        return infp_load_request_data(context, bytes, size, t_ns);
}

struct context {
        struct infp_load_request request; /* first: the context of a transfer is both */
        struct load *load;
};

static void on_done(void *context, const struct infp_http_result *result)
{
        struct context *own = context;

        own->load->state.n_pieces += own->request.n_pieces;
        unlink_request(own->load, &own->request);
        end_request(own->load, &own->request, result, NULL);
}

static void link_request(struct load *load, struct infp_load_request *request)
{
        request->next = load->first;
        if (load->first)
                load->first->previous = request;
        load->first = request;
        load->state.n_in_flight++;
        load->state.n_sent++;
}

/* Requests get their numbers in the order in which they are sent, which is that of their arrival. */
static void start(struct load *load, uint64_t due_ns, bool is_cut_off)
{
        const struct infp_load_options *options = load->options;
        infp_autostr struct infp_str body = { 0 };
        struct context *own = calloc(1, sizeof(*own));
        static const char *const no_headers[] = { NULL };
        struct infp_err err = { "" };
        int r;

        if (!own) {
                load->is_failed = true;
                return;
        }
        own->load = load;
        infp_load_request_init(&own->request, options, load->state.n_ended + load->state.n_in_flight, due_ns);
        infp_load_body(options, own->request.number, &body, &own->request.max_tokens);
        own->request.is_cut_off = is_cut_off;
        if (is_cut_off) {
                end_request(load, &own->request, NULL, "");
                return;
        }
        const struct infp_http_request http = {
                .url = options->url,
                .headers = options->headers ? options->headers : no_headers,
                .token_file = options->token_file,
                .body = body.data,
                .body_size = body.size,
                .content_type = "application/json",
                .accept = options->no_stream ? "application/json" : "text/event-stream, application/json",
                .timeout_ms = options->timeout_ms,
                .no_gzip = true,
                .data = on_data,
                .done = on_done,
                .context = own,
        };
        r = body.failed ? infp_fail(&err, -ENOMEM, "not enough memory for a request")
                        : infp_http_start(load->http, &http, &own->request.transfer, &err);
        if (r < 0)
                end_request(load, &own->request, NULL, err.text);
        else
                link_request(load, &own->request);
}

static unsigned max_in_flight(const struct load *load)
{
        const unsigned concurrency = load->options->concurrency, most = load->options->max_in_flight;

        return !concurrency || (most && most < concurrency) ? most : concurrency;
}

/* What is due goes out, as far as slots are free. */
static void send_due(struct load *load, uint64_t now)
{
        const unsigned most = max_in_flight(load);
        uint64_t due;

        while (is_open_loop(load) && load->next_due_ns <= now && may_arrive(load, load->next_due_ns)) {
                load->state.n_held += most && load->state.n_in_flight + load->waiting.n >= most;
                arrive(load, &load->waiting, load->next_due_ns);
                load->next_due_ns = add_ns(load->state.start_t_ns, infp_schedule_next(&load->schedule));
        }
        while (infp_waiting_first(&load->resting, &due) && due <= now && !load->is_failed) {
                infp_waiting_drop(&load->resting);
                load->is_failed |= infp_waiting_put(&load->waiting, due) < 0;
        }
        while ((!most || load->state.n_in_flight < most) && !load->is_failed &&
               infp_waiting_first(&load->waiting, &due)) {
                infp_waiting_drop(&load->waiting);
                start(load, due, false);
        }
}

/* The load is over before these were: rows all the same. What only would have been due is none. */
static void cut_off(struct load *load)
{
        const uint64_t now = now_ns();
        struct infp_load_request *request;
        uint64_t due;

        for (request = load->first; request; request = request->next)
                request->is_cut_off = true;
        load->is_stopped = true;
        while ((request = load->first)) {
                infp_http_cancel(load->http, request->transfer);
                if (load->first == request) /* it will be told of, later */
                        break;
        }
        while (infp_waiting_first(&load->resting, &due)) {
                infp_waiting_drop(&load->resting);
                if (due > now || infp_waiting_put(&load->waiting, due) < 0)
                        load->state.n_arrived--;
        }
        while (infp_waiting_first(&load->waiting, &due)) {
                infp_waiting_drop(&load->waiting);
                start(load, due, true);
        }
}

static void set_timer(struct load *load, uint64_t now)
{
        struct itimerspec when = { 0 };
        uint64_t due = load->progress_due_ns, other;

        if (is_open_loop(load) && may_arrive(load, load->next_due_ns) && load->next_due_ns < due)
                due = load->next_due_ns;
        if (infp_waiting_first(&load->resting, &other) && other < due)
                due = other;
        if (load->end_ns > now && load->end_ns < due)
                due = load->end_ns;
        if (load->cut_ns < due)
                due = load->cut_ns;
        if (due == UINT64_MAX)
                due = now + POLL_MS * INFP_NS_PER_MS;
        when.it_value = infp_timespec(due);
        timerfd_settime(load->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void look_at_wakers(struct load *load)
{
        struct epoll_event events[2];
        int n = epoll_wait(load->wake_fd, events, 2, 0);
        uint64_t count;

        for (int i = 0; i < n; i++)
                if (events[i].data.fd == load->timer_fd)
                        (void) !read(load->timer_fd, &count, sizeof(count));
                else
                        load->is_stopped |= load->options->is_stop(load->options->context);
}

static void tell(struct load *load, uint64_t now)
{
        if (!load->options->progress || now < load->progress_due_ns)
                return;
        load->progress_due_ns = now + progress_ns;
        load->state.now_t_ns = now;
        load->state.n_waiting = load->waiting.n;
        load->options->progress(load->options->context, &load->state);
}

static bool is_over(const struct load *load)
{
        const bool more = is_open_loop(load) ? may_arrive(load, load->next_due_ns) : load->resting.n > 0;

        return !load->state.n_in_flight && !load->waiting.n && !more;
}

static int turn_round(struct load *load)
{
        while (!load->is_failed) {
                uint64_t now = now_ns();
                int r;

                if (load->is_stopped || now >= load->cut_ns)
                        break;
                load->state.is_ending |= now >= load->end_ns;
                send_due(load, now);
                if (is_over(load))
                        break;
                tell(load, now);
                set_timer(load, now);
                r = infp_http_poll(load->http, POLL_MS, load->wake_fd);
                if (r < 0)
                        return infp_fail_errno(load->err, r, "cannot wait for the answers of %s",
                                               load->options->shown_url);
                look_at_wakers(load);
        }
        cut_off(load);
        for (uint64_t end = now_ns() + cancel_ns; load->state.n_in_flight && now_ns() < end;)
                infp_http_poll(load->http, POLL_MS / 10, -1);
        return load->is_failed ? infp_fail(load->err, -ENOMEM, "not enough memory for the load") : 0;
}

static int watch(struct load *load, int fd)
{
        struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

        return epoll_ctl(load->wake_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int open_load(struct load *load)
{
        const struct infp_load_options *options = load->options;
        int r = 0;

        load->wake_fd = epoll_create1(EPOLL_CLOEXEC);
        load->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        if (load->wake_fd < 0 || load->timer_fd < 0)
                r = -errno;
        if (r == 0)
                r = watch(load, load->timer_fd);
        if (r == 0 && options->stop_fd >= 0)
                r = watch(load, options->stop_fd);
        if (r < 0)
                return infp_fail_errno(load->err, r, "cannot make a timer");
        load->row.text = malloc(INFP_ROW_TEXT);
        load->row.text_cap = load->row.text ? INFP_ROW_TEXT : 0;
        if (!load->row.text)
                return infp_fail(load->err, -ENOMEM, "not enough memory for the load");
        return infp_http_new(&load->http, load->err);
}

static void begin(struct load *load)
{
        const struct infp_load_options *options = load->options;
        const uint64_t start = now_ns();

        load->state.start_t_ns = start;
        load->end_ns = options->duration_ns ? add_ns(start, options->duration_ns) : UINT64_MAX;
        load->cut_ns = options->duration_ns ? add_ns(load->end_ns, options->grace_ns) : UINT64_MAX;
        load->progress_due_ns = options->progress ? start : UINT64_MAX;
        if (is_open_loop(load)) {
                infp_schedule_init(&load->schedule, options->rate, options->is_constant, options->seed);
                load->next_due_ns = add_ns(start, infp_schedule_next(&load->schedule));
                return;
        }
        for (unsigned i = 0; i < max_in_flight(load) && may_arrive(load, start); i++)
                arrive(load, &load->waiting, start);
}

int infp_load_run(const struct infp_load_options *options, struct infp_load_state *ret, struct infp_err *err)
{
        struct load load = { .options = options, .wake_fd = -1, .timer_fd = -1, .err = err };
        int r = open_load(&load);

        if (r >= 0) {
                begin(&load);
                r = turn_round(&load);
        }
        infp_http_free(load.http);
        infp_waiting_done(&load.waiting);
        infp_waiting_done(&load.resting);
        free(load.row.text);
        infp_close(load.timer_fd);
        infp_close(load.wake_fd);
        load.state.now_t_ns = now_ns();
        *ret = load.state;
        return r;
}
