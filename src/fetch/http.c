/* The HTTP client's context: transfers of one thread side by side, by libcurl's multi interface. */
#include "fetch/http.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "fetch/http_inner.h"

enum { EVENTS = 64 };

/* Writing to a closed TLS connection can raise SIGPIPE (OpenSSL uses write(2)), and libcurl with CURLOPT_NOSIGNAL leaves that to
 * its caller: blocked meanwhile, and taken away when it came. */
struct pipe_guard {
        sigset_t before;
        bool was_pending;
};

static sigset_t pipe_set(void)
{
        sigset_t set;

        sigemptyset(&set);
        sigaddset(&set, SIGPIPE);
        return set;
}

static void guard_begin(struct pipe_guard *guard)
{
        sigset_t set = pipe_set(), pending;

        guard->was_pending = !sigpending(&pending) && sigismember(&pending, SIGPIPE) == 1;
        pthread_sigmask(SIG_BLOCK, &set, &guard->before);
}

static void guard_end(const struct pipe_guard *guard)
{
        static const struct timespec none;
        sigset_t set = pipe_set();

        if (!guard->was_pending)
                while (sigtimedwait(&set, NULL, &none) < 0 && errno == EINTR)
                        ;
        pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
}

/* libcurl says which sockets it waits for. An epoll knows them from call to call: with curl_multi_perform each wake-up would look
 * at every stream, which costs more than all else where there are hundreds. */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *context, void *known)
{
        struct infp_http *http = context;
        struct epoll_event event = { .data.fd = fd };

        (void) easy;
        if (what == CURL_POLL_REMOVE) {
                epoll_ctl(http->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
                return 0;
        }
        event.events = (what & CURL_POLL_IN ? EPOLLIN : 0) | (what & CURL_POLL_OUT ? EPOLLOUT : 0);
        if (epoll_ctl(http->epoll_fd, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) < 0 &&
            epoll_ctl(http->epoll_fd, known ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event) < 0)
                return -1;
        infp_curl.multi_assign(http->multi, fd, http);
        return 0;
}

static int on_timer(CURLM *multi, long ms, void *context)
{
        struct infp_http *http = context;

        (void) multi;
        http->due_ns = ms < 0 ? UINT64_MAX : infp_clock_ns(CLOCK_MONOTONIC) + (uint64_t) ms * INFP_NS_PER_MS;
        return 0;
}

int infp_http_new(struct infp_http **ret, struct infp_err *err)
{
        struct infp_http *http;

        INFP_TRY(infp_http_available(err));
        http = calloc(1, sizeof(*http));
        if (!http)
                return infp_fail_errno(err, -ENOMEM, "HTTP client");
        http->due_ns = UINT64_MAX;
        http->multi = infp_curl.multi_init();
        http->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (!http->multi || http->epoll_fd < 0) {
                const int r = http->epoll_fd < 0 ? -errno : -ENOMEM;

                infp_http_free(http);
                return infp_fail_errno(err, r, "HTTP client");
        }
        infp_curl.multi_setopt(http->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
        infp_curl.multi_setopt(http->multi, CURLMOPT_SOCKETDATA, http);
        infp_curl.multi_setopt(http->multi, CURLMOPT_TIMERFUNCTION, on_timer);
        infp_curl.multi_setopt(http->multi, CURLMOPT_TIMERDATA, http);
        *ret = http;
        return 0;
}

static void unlink_transfer(struct infp_http *http, struct infp_http_transfer *transfer)
{
        if (transfer->previous)
                transfer->previous->next = transfer->next;
        else
                http->first = transfer->next;
        if (transfer->next)
                transfer->next->previous = transfer->previous;
        http->n_running--;
}

/* The end of a transfer: its owner hears of it, then it is gone. */
static void finish(struct infp_http_transfer *transfer, CURLcode code)
{
        struct infp_http *http = transfer->http;
        struct infp_http_result *result = &transfer->result;
        curl_off_t came = 0, announced = -1;
        char *type = NULL;

        result->done_t_ns = infp_clock_ns(CLOCK_MONOTONIC);
        if (transfer->is_added) {
                infp_curl.easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &result->status);
                infp_curl.easy_getinfo(transfer->easy, CURLINFO_SIZE_DOWNLOAD_T, &came);
                infp_curl.easy_getinfo(transfer->easy, CURLINFO_CONTENT_TYPE, &type);
                infp_curl.easy_getinfo(transfer->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced);
        }
        result->n_wire_bytes = (uint64_t) came;
        result->content_type = type ? type : "";
        result->is_whole = announced >= 0 || transfer->is_chunked;
        infp_http_explain(transfer, code);
        if (transfer->is_added)
                infp_curl.multi_remove_handle(http->multi, transfer->easy);
        unlink_transfer(http, transfer);
        http->n_happened++;
        if (transfer->done)
                transfer->done(transfer->context, result);
        infp_http_transfer_free(transfer);
}

struct infp_http *infp_http_free(struct infp_http *http)
{
        struct pipe_guard guard;

        if (!http)
                return NULL;
        guard_begin(&guard);
        while (http->first)
                infp_http_cancel(http, http->first);
        if (http->multi)
                infp_curl.multi_cleanup(http->multi);
        guard_end(&guard);
        infp_close(http->epoll_fd);
        free(http);
        return NULL;
}

int infp_http_start(struct infp_http *http, const struct infp_http_request *request, struct infp_http_transfer **ret,
                    struct infp_err *err)
{
        struct infp_http_transfer *transfer;

        INFP_TRY(infp_http_transfer_new(http, request, &transfer, err));
        transfer->next = http->first;
        if (http->first)
                http->first->previous = transfer;
        http->first = transfer;
        http->n_running++;
        if (ret)
                *ret = transfer;
        return 0;
}

void infp_http_cancel(struct infp_http *http, struct infp_http_transfer *transfer)
{
        if (http->is_inside) {
                transfer->is_cancelled = true;
                return;
        }
        transfer->stop_r = -ECANCELED;
        finish(transfer, CURLE_ABORTED_BY_CALLBACK);
}

/* What was started since the last time. */
static void add_new(struct infp_http *http)
{
        struct infp_http_transfer *next;

        for (struct infp_http_transfer *transfer = http->first; transfer; transfer = next) {
                next = transfer->next;
                if (transfer->is_added)
                        continue;
                transfer->is_added = infp_curl.multi_add_handle(http->multi, transfer->easy) == CURLM_OK;
                if (transfer->is_added)
                        continue;
                finish(transfer, CURLE_OUT_OF_MEMORY);
                next = http->first; /* the owner may have started or cancelled others */
        }
}

static struct infp_http_transfer *find_cancelled(struct infp_http *http)
{
        for (struct infp_http_transfer *transfer = http->first; transfer; transfer = transfer->next)
                if (transfer->is_cancelled)
                        return transfer;
        return NULL;
}

static void take_ends(struct infp_http *http)
{
        struct infp_http_transfer *transfer;
        CURLMsg *message;
        int n;

        while ((message = infp_curl.multi_info_read(http->multi, &n))) {
                CURLcode code = message->data.result;

                if (message->msg != CURLMSG_DONE)
                        continue;
                infp_curl.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **) &transfer);
                if (transfer->is_cancelled)
                        transfer->stop_r = -ECANCELED;
                finish(transfer, code);
        }
        while ((transfer = find_cancelled(http)))
                infp_http_cancel(http, transfer);
}

static CURLMcode act(struct infp_http *http, curl_socket_t fd, int what)
{
        CURLMcode code;
        int n;

        http->is_inside = true;
        code = infp_curl.multi_socket_action(http->multi, fd, what, &n);
        http->is_inside = false;
        return code;
}

static CURLMcode act_on_sockets(struct infp_http *http)
{
        struct epoll_event events[EVENTS];
        int n = epoll_wait(http->epoll_fd, events, EVENTS, 0);
        CURLMcode code = CURLM_OK;

        for (int i = 0; i < n && code == CURLM_OK; i++)
                code = act(http, events[i].data.fd,
                           (events[i].events & EPOLLIN ? CURL_CSELECT_IN : 0) |
                                   (events[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                                   (events[i].events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0));
        return code;
}

static int work(struct infp_http *http)
{
        CURLMcode code;

        add_new(http);
        code = act_on_sockets(http);
        if (code == CURLM_OK && http->due_ns <= infp_clock_ns(CLOCK_MONOTONIC)) {
                http->due_ns = UINT64_MAX;
                code = act(http, CURL_SOCKET_TIMEOUT, 0);
        }
        take_ends(http);
        return code == CURLM_OK ? 0 : code == CURLM_OUT_OF_MEMORY ? -ENOMEM : -EIO;
}

static int poll_until(struct infp_http *http, int timeout_ms, int wake_fd)
{
        struct pollfd fds[2] = { { .fd = http->epoll_fd, .events = POLLIN }, { .fd = wake_fd, .events = POLLIN } };
        uint64_t happened = http->n_happened,
                 end = infp_clock_ns(CLOCK_MONOTONIC) + (uint64_t) timeout_ms * INFP_NS_PER_MS;

        for (;;) {
                uint64_t now, until;
                struct timespec wait;

                INFP_TRY(work(http));
                now = infp_clock_ns(CLOCK_MONOTONIC);
                if (http->n_happened != happened || fds[1].revents || now >= end)
                        return (int) http->n_running;
                until = http->due_ns < end ? http->due_ns : end;
                wait = infp_timespec(until > now ? until - now : 0);
                if (ppoll(fds, wake_fd >= 0 ? 2 : 1, &wait, NULL) >= 0)
                        continue;
                if (errno != EINTR)
                        return -errno;
                fds[1].revents = 0;
        }
}

int infp_http_poll(struct infp_http *http, int timeout_ms, int wake_fd)
{
        struct pipe_guard guard;
        int r;

        guard_begin(&guard);
        r = poll_until(http, timeout_ms > 0 ? timeout_ms : 0, wake_fd);
        guard_end(&guard);
        return r;
}

/* What infp_http_get waits for. */
struct whole {
        struct infp_str body;
        bool is_done;
        int r;
        long status;
        struct infp_err *err;
};

static int add_bytes(void *context, const char *bytes, size_t size, uint64_t t_ns)
{
        struct whole *whole = context;

        (void) t_ns;
        infp_str_put(&whole->body, bytes, size);
        return whole->body.failed ? -ENOMEM : 0;
}

static void end_whole(void *context, const struct infp_http_result *result)
{
        struct whole *whole = context;

        whole->is_done = true;
        whole->status = result->status;
        whole->r = result->r < 0 ? infp_fail(whole->err, result->r, "%s", result->error) : 0;
}

int infp_http_get(struct infp_http *http, const struct infp_http_request *request, char **ret_body, size_t *ret_size,
                  long *ret_status, struct infp_err *err)
{
        struct infp_http_request own = *request;
        struct infp_http_transfer *transfer;
        struct whole whole = { .err = err };
        int r;

        own.data = add_bytes;
        own.done = end_whole;
        own.context = &whole;
        INFP_TRY(infp_http_start(http, &own, &transfer, err));
        while (!whole.is_done) {
                r = infp_http_poll(http, request->is_stop ? 100 : 1000, -1);
                if (r >= 0 && request->is_stop && request->is_stop(request->stop_context))
                        r = -ECANCELED;
                if (r < 0 && !whole.is_done) {
                        infp_http_cancel(http, transfer);
                        whole.r = infp_fail_errno(err, r, "%s", request->method ? request->method : "GET");
                }
        }
        if (whole.r < 0) {
                infp_str_done(&whole.body);
                return whole.r;
        }
        if (ret_size)
                *ret_size = whole.body.size;
        if (ret_status)
                *ret_status = whole.status;
        *ret_body = infp_str_take(&whole.body);
        return *ret_body ? 0 : infp_fail_errno(err, -ENOMEM, "HTTP client");
}
