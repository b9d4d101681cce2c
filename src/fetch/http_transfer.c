/* One request of the HTTP client: its options and what comes back. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "fetch/http_inner.h"

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
        /* Behind the unpacking: what a small packed body grows to counts. */
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
        if (transfer->n_header_bytes <= HTTP_HEADERS_MAX)
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

/* First line of the file, which is read at each start: tokens of clusters are replaced while we run. */
static int read_token(const char *path, struct infp_str *ret, struct infp_err *err)
{
        infp_autofree char *text = malloc(HTTP_TOKEN_MAX + 1);
        infp_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        struct stat info;
        ssize_t n;
        size_t size;

        if (!text)
                return infp_fail_errno(err, -ENOMEM, "token file %s", path);
        if (fd < 0 || fstat(fd, &info))
                return infp_fail_errno(err, -errno, "token file %s cannot be read", path);
        if (!S_ISREG(info.st_mode))
                return infp_fail(err, -EINVAL, "token file %s is not a regular file: it is read again for each request",
                                 path);
        n = read(fd, text, HTTP_TOKEN_MAX);
        if (n < 0)
                return infp_fail_errno(err, -errno, "token file %s cannot be read", path);
        text[n] = 0;
        size = strcspn(text, "\r\n");
        while (size && (text[size - 1] == ' ' || text[size - 1] == '\t'))
                size--;
        if (!size)
                return infp_fail(err, -EINVAL, "token file %s has no token in its first line", path);
        text[size] = 0;
        for (size_t i = 0; i < size; i++)
                if ((unsigned char) text[i] <= ' ' || (unsigned char) text[i] >= 0x7f)
                        return infp_fail(err, -EINVAL, "token file %s has a byte that is not allowed in a token", path);
        if (size == HTTP_TOKEN_MAX)
                return infp_fail(err, -EINVAL, "token file %s holds more than a token", path);
        infp_str_puts(ret, "Authorization: Bearer ");
        infp_str_put(ret, text, size);
        explicit_bzero(text, size);
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
                INFP_TRY(read_token(request->token_file, &token, err));
                is_good = is_good && !token.failed && add_header(transfer, token.data);
        }
        return is_good ? 0 : infp_fail_errno(err, -ENOMEM, "%s", transfer->shown);
}

/* Never set: redirects, cookies, netrc, proxies (also not those of the environment), HTTP/0.9, other protocols. */
static CURLcode set_guards(CURL *easy)
{
        CURLcode r = CURLE_OK;

#define SET(option, value) r = r ? r : infp_curl.easy_setopt(easy, option, value)
        SET(CURLOPT_NOSIGNAL, 1L);
        SET(CURLOPT_FOLLOWLOCATION, 0L);
        SET(CURLOPT_PROXY, "");
        SET(CURLOPT_PROTOCOLS_STR, "http,https");
        SET(CURLOPT_NETRC, (long) CURL_NETRC_IGNORED);
        SET(CURLOPT_SSL_VERIFYPEER, 1L);
        SET(CURLOPT_SSL_VERIFYHOST, 2L);
        SET(CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
        SET(CURLOPT_USERAGENT, "infprof/" INFP_VERSION);
        /* A name server that does not answer: the thread that asks it is left behind, not waited for. */
        SET(CURLOPT_QUICK_EXIT, 1L);
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
        SET(CURLOPT_PREREQFUNCTION, on_request);
        SET(CURLOPT_PREREQDATA, transfer);
        SET(CURLOPT_ERRORBUFFER, transfer->message);
        SET(CURLOPT_PRIVATE, transfer);
        return r;
}
#undef SET

int infp_http_transfer_new(struct infp_http *http, const struct infp_http_request *request,
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
                infp_http_transfer_free(transfer);
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
                transfer = infp_http_transfer_free(transfer);
        else
                *ret = transfer;
        return r;
}

struct infp_http_transfer *infp_http_transfer_free(struct infp_http_transfer *transfer)
{
        if (!transfer)
                return NULL;
        infp_curl.easy_cleanup(transfer->easy);
        infp_curl.slist_free_all(transfer->headers);
        free(transfer);
        return NULL;
}
