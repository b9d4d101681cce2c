/* The inside of the HTTP client, shared by its files alone: http.c (the context), http_transfer.c (one request), http_url.c
 * (what a URL may be), http_error.c (what went wrong, in words), curl.c (libcurl). */
#pragma once

#include "fetch/curl.h"
#include "fetch/http.h"

enum { HTTP_URL_MAX = 2048, HTTP_SOCKET_MAX = 108, HTTP_TOKEN_MAX = 16384, HTTP_HEADERS_MAX = 256 * 1024 };

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

/* http_url.c. What libcurl gets: for a socket of the file system its path and the URL after it. */
struct http_url {
        char text[HTTP_URL_MAX + 64];
        char socket[HTTP_SOCKET_MAX]; /* "": TCP */
};
int infp_http_url_parse(const char *url, struct http_url *ret, struct infp_err *err);
void infp_http_url_show(const char *url, char *ret, size_t cap); /* masked, for sentences */

/* http_transfer.c */
int infp_http_transfer_new(struct infp_http *http, const struct infp_http_request *request,
                           struct infp_http_transfer **ret, struct infp_err *err);
struct infp_http_transfer *infp_http_transfer_free(struct infp_http_transfer *transfer);

/* http_error.c: fills result.r and result.error from what libcurl says. */
void infp_http_explain(struct infp_http_transfer *transfer, CURLcode code);
