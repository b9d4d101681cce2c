/* libcurl, loaded when the first URL is looked at: most verbs need no HTTP, and loading it with the thirty libraries that it needs
 * takes 4 ms of CPU. The declarations are those of its own header. For the HTTP client alone. */
#pragma once

#include <curl/curl.h>

// clang-format off
#define INFP_CURL_FUNCTIONS(X) \
        X(global_init) X(free) X(slist_append) X(slist_free_all) X(url) X(url_cleanup) X(url_get) X(url_set) \
        X(easy_cleanup) X(easy_getinfo) X(easy_init) X(easy_setopt) X(easy_strerror) \
        X(multi_add_handle) X(multi_assign) X(multi_cleanup) X(multi_info_read) X(multi_init) X(multi_remove_handle) \
        X(multi_setopt) X(multi_socket_action)
// clang-format on

struct infp_curl {
#define X(name) __typeof__(&curl_##name) name;
        INFP_CURL_FUNCTIONS(X)
        X(url_strerror) /* since 7.80, else NULL */
#undef X
        const char *bundle; /* file of certificates; NULL: the library knows its own */
};

extern struct infp_curl infp_curl; /* valid after infp_http_available() succeeded; not changed after that */
