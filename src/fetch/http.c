/* The HTTP client: transfers of one thread side by side, by libcurl's multi interface. */
#include "fetch/http.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "fetch/curl.h"
#include "fetch/http_url.h"

enum { EVENTS = 64, HEADERS_MAX = 256 * 1024 };

struct infp_http {
        CURLM *multi;
        int epoll_fd;                     /* the sockets that libcurl waits for */
        uint64_t due_ns;                  /* when it wants to be called without one; UINT64_MAX: never */
        struct infp_http_transfer *first; /* all that run */
        unsigned n_running;
        bool is_inside;      /* libcurl is working and must not be called: starts and cancels wait for its return */
        uint64_t n_happened; /* ends and pieces of bodies */
};

struct infp_http_transfer {
        struct infp_http *http;
        struct infp_http_transfer *next, *previous;
        CURL *easy;
        struct curl_slist *headers;
        bool is_added; /* libcurl has it */
        bool is_chunked;
        bool is_cancelled; /* while libcurl was working: ended after it */
        int stop_r;        /* why we ended it: cap, caller */
        uint64_t n_header_bytes;
        struct infp_http_result result;

        uint32_t timeout_ms;
        uint64_t max_bytes;
        int (*data)(void *context, const char *bytes, size_t size, uint64_t t_ns);
        void (*done)(void *context, const struct infp_http_result *result);
        void *context;

        char shown[HTTP_URL_MAX + 64]; /* the URL with secrets masked */
        char message[CURL_ERROR_SIZE];
        struct infp_err err;
};

/* What went wrong with a transfer: one sentence that names the URL. */

static int explain_timeout(struct infp_http_transfer *transfer)
{
        const struct infp_http_result *result = &transfer->result;

        if (!result->sent_t_ns)
                return infp_fail(&transfer->err, -ETIMEDOUT, "%s: no connection within %" PRIu32 " ms", transfer->shown,
                                 transfer->timeout_ms);
        if (!result->first_byte_t_ns)
                return infp_fail(&transfer->err, -ETIMEDOUT, "%s has not answered within %" PRIu32 " ms",
                                 transfer->shown, transfer->timeout_ms);
        return infp_fail(&transfer->err, -ETIMEDOUT,
                         "%s sends too slowly: %" PRIu64 " bytes within %" PRIu32 " ms, and no end", transfer->shown,
                         result->n_wire_bytes, transfer->timeout_ms);
}

static int explain_connect(struct infp_http_transfer *transfer)
{
        long number = 0;

        infp_curl.easy_getinfo(transfer->easy, CURLINFO_OS_ERRNO, &number);
        switch (number) {
        case ECONNREFUSED:
                return infp_fail(&transfer->err, -ECONNREFUSED, "%s: connection refused, nothing listens there",
                                 transfer->shown);
        case ENOENT:
                return infp_fail(&transfer->err, -ENOENT, "%s: the socket does not exist", transfer->shown);
        case EACCES:
                return infp_fail(&transfer->err, -EACCES, "%s: this user may not use the socket", transfer->shown);
        case 0:
                return infp_fail(&transfer->err, -EHOSTUNREACH, "%s: no connection: %s", transfer->shown,
                                 transfer->message);
        default:
                return infp_fail_errno(&transfer->err, (int) -number, "%s: no connection", transfer->shown);
        }
}

/* The body has fewer bytes than were announced. The number shows whether a proxy has a limit or the server died. */
static int explain_cut(struct infp_http_transfer *transfer)
{
        curl_off_t announced = -1, came = 0;

        infp_curl.easy_getinfo(transfer->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced);
        infp_curl.easy_getinfo(transfer->easy, CURLINFO_SIZE_DOWNLOAD_T, &came);
        if (announced > came)
                return infp_fail(&transfer->err, -EBADMSG,
                                 "%s: the answer was cut short: %" PRId64 " of %" PRId64 " bytes are missing",
                                 transfer->shown, (int64_t) (announced - came), (int64_t) announced);
        return infp_fail(&transfer->err, -EBADMSG,
                         "%s: the answer was cut short after %" PRId64 " bytes: its end is missing", transfer->shown,
                         (int64_t) came);
}

static int explain_redirect(struct infp_http_transfer *transfer)
{
        const char *target = NULL;
        char shown[256];

        if (transfer->result.status < 300 || transfer->result.status > 399)
                return 0;
        infp_curl.easy_getinfo(transfer->easy, CURLINFO_REDIRECT_URL, &target);
        if (!target)
                return 0;
        infp_http_url_show(target, shown, sizeof(shown));
        return infp_fail(&transfer->err, -EREMCHG,
                         "%s redirects (%ld) to %s, which is not followed: give that URL instead if you mean it",
                         transfer->shown, transfer->result.status, shown);
}

static int explain_certificate(struct infp_http_transfer *transfer)
{
        return infp_fail(
                &transfer->err, -EKEYREJECTED,
                "%s: the server's certificate is not trusted (%s): add its issuer to the system's certificates",
                transfer->shown, transfer->message);
}

static int explain_headers(struct infp_http_transfer *transfer)
{
        return infp_fail(&transfer->err, -EMSGSIZE, "%s: the headers of the answer are too long", transfer->shown);
}

static int explain_other(struct infp_http_transfer *transfer, CURLcode code)
{
        const char *why = transfer->message[0] ? transfer->message : infp_curl.easy_strerror(code);

        switch (code) {
#if LIBCURL_VERSION_NUM >= 0x080600
        case CURLE_TOO_LARGE:
                return explain_headers(transfer);
#endif
        case CURLE_OUT_OF_MEMORY:
                /* Before 8.6 also of one header that is longer than libcurl takes. */
                if (transfer->result.sent_t_ns && !transfer->result.first_byte_t_ns)
                        return explain_headers(transfer);
                return infp_fail_errno(&transfer->err, -ENOMEM, "%s", transfer->shown);
        case CURLE_COULDNT_RESOLVE_HOST:
                return infp_fail(&transfer->err, -EHOSTUNREACH, "%s: unknown host name", transfer->shown);
        case CURLE_GOT_NOTHING:
                return infp_fail(&transfer->err, -EBADMSG, "%s: the server closed the connection without an answer",
                                 transfer->shown);
        case CURLE_UNSUPPORTED_PROTOCOL: /* "Received HTTP/0.9 when not allowed" */
        case CURLE_WEIRD_SERVER_REPLY:
                return infp_fail(&transfer->err, -EBADMSG, "%s: the answer is not HTTP", transfer->shown);
        case CURLE_BAD_CONTENT_ENCODING:
                return infp_fail(&transfer->err, -EBADMSG, "%s: the answer cannot be unpacked: %s", transfer->shown,
                                 why);
        case CURLE_RECV_ERROR:
        case CURLE_SEND_ERROR:
                return infp_fail(&transfer->err, -ECONNRESET, "%s: the connection broke: %s", transfer->shown, why);
        case CURLE_SSL_CONNECT_ERROR:
                return infp_fail(&transfer->err, -EPROTO, "%s: no TLS connection: %s", transfer->shown, why);
        default:
                return infp_fail(&transfer->err, -EIO, "%s: %s", transfer->shown, why);
        }
}

static int explain_stop(struct infp_http_transfer *transfer)
{
        switch (transfer->stop_r) {
        case -EFBIG:
                return infp_fail(&transfer->err, -EFBIG, "%s: the answer is over the limit of %" PRIu64 " bytes",
                                 transfer->shown, transfer->max_bytes);
        case -EMSGSIZE:
                return infp_fail(&transfer->err, -EMSGSIZE, "%s: the headers of the answer are over %d bytes",
                                 transfer->shown, HEADERS_MAX);
        case -ECANCELED:
                return infp_fail(&transfer->err, -ECANCELED, "%s: cancelled", transfer->shown);
        default:
                return infp_fail(&transfer->err, transfer->stop_r, "%s: the transfer was ended", transfer->shown);
        }
}

static void explain(struct infp_http_transfer *transfer, CURLcode code)
{
        int r;

        if (transfer->stop_r)
                r = explain_stop(transfer);
        else if (code == CURLE_OK)
                r = explain_redirect(transfer);
        else if (code == CURLE_OPERATION_TIMEDOUT)
                r = explain_timeout(transfer);
        else if (code == CURLE_COULDNT_CONNECT)
                r = explain_connect(transfer);
        else if (code == CURLE_PARTIAL_FILE)
                r = explain_cut(transfer);
        else if (code == CURLE_PEER_FAILED_VERIFICATION)
                r = explain_certificate(transfer);
        else
                r = explain_other(transfer, code);
        transfer->result.r = r;
        transfer->result.error = transfer->err.text;
}

/* One request of the HTTP client: its options and what comes back. */

static size_t on_body(char *bytes, size_t one, size_t n, void *context)
{
        struct infp_http_transfer *transfer = context;
        struct infp_http_result *result = &transfer->result;
        uint64_t now = infp_clock_ns(CLOCK_MONOTONIC);
        size_t size = one * n;
        int r;

        transfer->http->n_happened++;
        if (!result->first_byte_t_ns)
                result->first_byte_t_ns = now;
        if (transfer->is_cancelled)
                return 0;
        /* Counted after decompression: a small compressed body can become large. */
        if (transfer->max_bytes && result->n_bytes + size > transfer->max_bytes) {
                transfer->stop_r = -EFBIG;
                return 0;
        }
        result->n_bytes += size;
        r = transfer->data ? transfer->data(transfer->context, bytes, size, now) : 0;
        if (r) {
                transfer->stop_r = r < 0 ? r : -ECANCELED;
                return 0;
        }
        return size;
}

static size_t on_header(char *bytes, size_t one, size_t n, void *context)
{
        struct infp_http_transfer *transfer = context;

        static const char chunked[] = "transfer-encoding: chunked";

        transfer->is_chunked |= one * n >= sizeof(chunked) - 1 && !strncasecmp(bytes, chunked, sizeof(chunked) - 1);
        transfer->n_header_bytes += one * n;
        if (transfer->n_header_bytes <= HEADERS_MAX)
                return one * n;
        transfer->stop_r = -EMSGSIZE;
        return 0;
}

static int on_request(void *context, char *ip, char *local_ip, int port, int local_port)
{
        struct infp_http_transfer *transfer = context;

        (void) ip;
        (void) local_ip;
        (void) port;
        (void) local_port;
        transfer->result.sent_t_ns = infp_clock_ns(CLOCK_MONOTONIC);
        return CURL_PREREQFUNC_OK;
}

/* The same of libcurl before 7.80, which has no such call. */
static int on_debug(CURL *easy, curl_infotype type, char *bytes, size_t n, void *context)
{
        struct infp_http_transfer *transfer = context;

        (void) easy;
        (void) bytes;
        (void) n;
        if (type == CURLINFO_HEADER_OUT)
                transfer->result.sent_t_ns = infp_clock_ns(CLOCK_MONOTONIC);
        return 0;
}

static bool add_header(struct infp_http_transfer *transfer, const char *line)
{
        struct curl_slist *grown = infp_curl.slist_append(transfer->headers, line);

        if (grown)
                transfer->headers = grown;
        return grown;
}

static bool is_named(const char *const *headers, const char *name)
{
        const size_t size = strlen(name);

        for (const char *const *line = headers; line && *line; line++)
                if (!strncasecmp(*line, name, size) && ((*line)[size] == ':' || (*line)[size] == ';'))
                        return true;
        return false;
}

/* A header that libcurl would make up ("Content-Type: application/x-www-form-urlencoded") is ours to say, or is not sent. */
static bool add_own(struct infp_http_transfer *transfer, const char *const *headers, const char *name,
                    const char *value)
{
        char line[256];

        if (is_named(headers, name))
                return true;
        snprintf(line, sizeof(line), "%s:%s%s", name, value ? " " : "", value ? value : "");
        return add_header(transfer, line);
}

static int make_headers(struct infp_http_transfer *transfer, const struct infp_http_request *request,
                        struct infp_err *err)
{
        infp_autostr struct infp_str token = { 0 };
        bool is_good = true;

        for (const char *const *line = request->headers; line && *line; line++)
                is_good = is_good && add_header(transfer, *line);
        if (request->accept)
                is_good = is_good && add_own(transfer, request->headers, "Accept", request->accept);
        /* With "Expect" libcurl waits a second for a "100 Continue" that small servers never send. */
        if (request->body)
                is_good = is_good && add_own(transfer, request->headers, "Expect", NULL) &&
                          add_own(transfer, request->headers, "Content-Type", request->content_type);
        if (request->token_file) {
                INFP_TRY(infp_http_token(request->token_file, &token, err));
                is_good = is_good && !token.failed && add_header(transfer, token.data);
        }
        return is_good ? 0 : infp_fail_errno(err, -ENOMEM, "%s", transfer->shown);
}

/* Never set: redirects, cookies, netrc, proxies (also not those of the environment), HTTP/0.9, other protocols. */
static CURLcode set_guards(CURL *easy)
{
        CURLcode r = CURLE_OK, only;

#define SET(option, value) r = r ? r : infp_curl.easy_setopt(easy, option, value)
        SET(CURLOPT_NOSIGNAL, 1L);
        SET(CURLOPT_FOLLOWLOCATION, 0L);
        SET(CURLOPT_PROXY, "");
        only = infp_curl.easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
        CURL_IGNORE_DEPRECATION(
                if (only == CURLE_UNKNOWN_OPTION) /* before 7.85 */
                only = infp_curl.easy_setopt(easy, CURLOPT_PROTOCOLS, (long) (CURLPROTO_HTTP | CURLPROTO_HTTPS));)
        r = r ? r : only;
        SET(CURLOPT_NETRC, (long) CURL_NETRC_IGNORED);
        SET(CURLOPT_SSL_VERIFYPEER, 1L);
        SET(CURLOPT_SSL_VERIFYHOST, 2L);
        if (infp_curl.bundle)
                SET(CURLOPT_CAINFO, infp_curl.bundle);
        SET(CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
        SET(CURLOPT_USERAGENT, "infprof/" INFP_VERSION);
        /* A name server that does not answer: the thread that asks it is left behind, not waited for; before 7.87 it is waited for. */
        infp_curl.easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
        return r;
}

static CURLcode set_request(struct infp_http_transfer *transfer, const struct infp_http_request *request,
                            const struct http_url *url)
{
        uint32_t connect_ms = request->connect_timeout_ms ? request->connect_timeout_ms : request->timeout_ms;
        CURL *easy = transfer->easy;
        CURLcode r = set_guards(easy);

        SET(CURLOPT_URL, url->text);
        if (url->socket[0])
                SET(CURLOPT_UNIX_SOCKET_PATH, url->socket);
        SET(CURLOPT_TIMEOUT_MS, (long) request->timeout_ms);
        SET(CURLOPT_CONNECTTIMEOUT_MS, (long) connect_ms);
        if (!request->no_gzip)
                SET(CURLOPT_ACCEPT_ENCODING, "gzip");
        if (request->body) {
                SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) request->body_size);
                SET(CURLOPT_COPYPOSTFIELDS, request->body);
        }
        if (request->method)
                SET(CURLOPT_CUSTOMREQUEST, request->method);
        if (request->method && !strcmp(request->method, "HEAD"))
                SET(CURLOPT_NOBODY, 1L);
        SET(CURLOPT_HTTPHEADER, transfer->headers);
        SET(CURLOPT_FRESH_CONNECT, request->fresh ? 1L : 0L);
        SET(CURLOPT_FORBID_REUSE, request->fresh ? 1L : 0L);
        SET(CURLOPT_WRITEFUNCTION, on_body);
        SET(CURLOPT_WRITEDATA, transfer);
        SET(CURLOPT_HEADERFUNCTION, on_header);
        SET(CURLOPT_HEADERDATA, transfer);
        if (infp_curl.easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_request) != CURLE_UNKNOWN_OPTION) {
                SET(CURLOPT_PREREQDATA, transfer);
        } else {
                SET(CURLOPT_VERBOSE, 1L);
                SET(CURLOPT_DEBUGFUNCTION, on_debug);
                SET(CURLOPT_DEBUGDATA, transfer);
        }
        SET(CURLOPT_ERRORBUFFER, transfer->message);
        SET(CURLOPT_PRIVATE, transfer);
        return r;
}
#undef SET

static struct infp_http_transfer *transfer_free(struct infp_http_transfer *transfer)
{
        if (!transfer)
                return NULL;
        infp_curl.easy_cleanup(transfer->easy);
        infp_curl.slist_free_all(transfer->headers);
        free(transfer);
        return NULL;
}

static int transfer_new(struct infp_http *http, const struct infp_http_request *request,
                        struct infp_http_transfer **ret, struct infp_err *err)
{
        struct infp_http_transfer *transfer;
        struct http_url url;
        CURLcode code;
        int r;

        INFP_TRY(infp_http_url_parse(request->url, &url, err));
        transfer = calloc(1, sizeof(*transfer));
        if (!transfer)
                return infp_fail_errno(err, -ENOMEM, "HTTP client");
        infp_http_url_show(request->url, transfer->shown, sizeof(transfer->shown));
        transfer->http = http;
        transfer->easy = infp_curl.easy_init();
        transfer->timeout_ms = request->timeout_ms;
        transfer->max_bytes = request->max_bytes;
        transfer->data = request->data;
        transfer->done = request->done;
        transfer->context = request->context;
        transfer->result.content_type = transfer->result.error = "";
        if (!transfer->easy) {
                transfer_free(transfer);
                return infp_fail_errno(err, -ENOMEM, "HTTP client");
        }
        r = make_headers(transfer, request, err);
        if (r >= 0) {
                code = set_request(transfer, request, &url);
                if (code)
                        r = infp_fail(err, code == CURLE_OUT_OF_MEMORY ? -ENOMEM : -EINVAL, "%s: %s", transfer->shown,
                                      infp_curl.easy_strerror(code));
        }
        if (r < 0)
                transfer = transfer_free(transfer);
        else
                *ret = transfer;
        return r;
}

/* The context. */

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
        explain(transfer, code);
        if (transfer->is_added)
                infp_curl.multi_remove_handle(http->multi, transfer->easy);
        unlink_transfer(http, transfer);
        http->n_happened++;
        if (transfer->done)
                transfer->done(transfer->context, result);
        transfer_free(transfer);
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

        INFP_TRY(transfer_new(http, request, &transfer, err));
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
