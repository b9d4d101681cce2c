/* HTTP(S) client over libcurl, which is loaded when it is needed: transfers of one thread side by side.
 *
 * Redirects are refused, cookies and proxies of the environment are not used, nothing is sent but what the request says; TLS is
 * verified. URLs: http://, https://, http://[::1]:8000/x, unix:///path/to/socket:/metrics (path after the last ':'). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct infp_http;          /* for one thread; keeps connections alive between transfers */
struct infp_http_transfer; /* one request in flight */

struct infp_http_result {
        int r;            /* 0: an answer came, whole, whatever its status; else a negative errno: -ETIMEDOUT, -EFBIG,
                                    * -ECONNREFUSED, -EBADMSG (cut: fewer bytes than announced), -ECANCELED ... */
        long status;      /* 200 ...; 0: no answer */
        uint64_t n_bytes; /* of the body as it was given out (unpacked) */
        uint64_t n_wire_bytes;    /* as it came over the wire */
        uint64_t sent_t_ns;       /* CLOCK_MONOTONIC: the request went out (connection made); 0: never */
        uint64_t first_byte_t_ns; /* of the answer's body; 0: none */
        uint64_t done_t_ns;
        bool is_whole;            /* the answer told its length, or came in chunks: the end of its body is known */
        const char *content_type; /* "" when none; borrowed for the call */
        const char *error;        /* "" or a sentence that names the URL (secrets masked); borrowed for the call */
};

struct infp_http_request {
        const char *url;
        const char *method;         /* NULL: GET, with a body POST */
        const char *const *headers; /* "Name: value", ended by NULL; may be NULL */
        const char *token_file; /* NULL, or: its first line goes as "Authorization: Bearer ..."; read at each start, so
                                      * that a token that was replaced is taken */
        const char *body;       /* NULL: none; copied */
        size_t body_size;
        const char *content_type; /* of the body, and */
        const char *
                accept; /* of the answer: NULL sends no such header. A line of `headers` with that name goes before it */
        uint32_t timeout_ms;         /* of the whole; 0: none */
        uint32_t connect_timeout_ms; /* 0: as timeout_ms */
        uint64_t max_bytes;          /* of the unpacked body: -EFBIG beyond; 0: no cap */
        bool no_gzip;                /* does not ask for packing (streams) */
        bool fresh;                  /* a connection of its own */
        /* May be NULL. t_ns: when these bytes were read. Non-zero ends the transfer with that r. */
        int (*data)(void *context, const char *bytes, size_t size, uint64_t t_ns);
        /* Exactly once, also on cancel; the transfer is gone afterwards. Never from within infp_http_start. */
        void (*done)(void *context, const struct infp_http_result *result);
        void *context;
        bool (*is_stop)(void *context); /* infp_http_get asks it ten times a second: true is -ECANCELED; may be NULL */
        void *stop_context;
};

/* Loads and starts libcurl at the first call, from any thread: 0, -ENOPKG when it is not on this machine, -EIO when it does not
 * start. Functions that take a URL return the same errors. */
int infp_http_available(struct infp_err *err);

int infp_http_new(struct infp_http **ret, struct infp_err *err);
struct infp_http *infp_http_free(struct infp_http *http); /* cancels what runs; NULL is fine */

/* Everything is copied or owned by the context. ret may be NULL. 0, -EINVAL (URL, with a sentence), -EACCES (token file) ... */
int infp_http_start(struct infp_http *http, const struct infp_http_request *request, struct infp_http_transfer **ret,
                    struct infp_err *err);
void infp_http_cancel(struct infp_http *http, struct infp_http_transfer *transfer);
/* Works until something happened or timeout_ms passed. Number of transfers that still run, or a negative errno. wake_fd: also
 * returns when it is readable; -1: none. */
int infp_http_poll(struct infp_http *http, int timeout_ms, int wake_fd);

/* One whole GET: body (ended by 0, not counted) into ret_body, which the caller frees. 0 or result's r with the sentence. */
int infp_http_get(struct infp_http *http, const struct infp_http_request *request, char **ret_body, size_t *ret_size,
                  long *ret_status, struct infp_err *err);

/* What a body says went wrong, in its own words: {"error":{"message":...}}, {"error":"..."}, {"message":...}, {"detail":...}, "..."; else
 * its beginning as it is. One line, without control characters; appended. */
void infp_http_words(const char *body, size_t size, struct infp_str *out);

/* Host ("[::1]" without its brackets) and port of a URL; false: it has none (a socket of the file system), or one that is too long. */
bool infp_http_url_host(const char *url, char ret_host[256], unsigned *ret_port);
/* Checks a URL without opening anything. 0 or -EINVAL with a sentence. */
int infp_http_check_url(const char *url, struct infp_err *err);
