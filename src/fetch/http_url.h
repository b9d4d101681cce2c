/* What a URL of the HTTP client may be, and a file with a token; for http.c. */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

enum { HTTP_URL_MAX = 2048, HTTP_SOCKET_MAX = 108 };

/* What libcurl gets: for a socket of the file system its path and the URL after it. */
struct http_url {
        char text[HTTP_URL_MAX + 64];
        char socket[HTTP_SOCKET_MAX]; /* "": TCP */
};
int infp_http_url_parse(const char *url, struct http_url *ret, struct infp_err *err);
void infp_http_url_show(const char *url, char *ret, size_t cap);                   /* masked, for sentences */
int infp_http_token(const char *path, struct infp_str *ret, struct infp_err *err); /* "Authorization: Bearer ..." */
