/* Finds libcurl's functions. The library stays loaded. */
#include "fetch/curl.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include "fetch/http.h"

struct infp_curl infp_curl;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int load_r;
static struct infp_err load_err;

static int load(struct infp_err *err)
{
        const char *name = "libcurl.so.4";
        void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        CURLcode code;

        if (!library) {
                infp_fail(err, -ENOPKG, "HTTP needs libcurl.so.4 (Debian: apt-get install libcurl4): %s", dlerror());
                name = "libcurl-gnutls.so.4"; /* Debian's other build, which git needs */
                library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        }
        if (!library)
                return -ENOPKG;
#define X(function)                                                                                                 \
        *(void **) &infp_curl.function = dlsym(library, "curl_" #function);                                         \
        if (!infp_curl.function)                                                                                    \
                return infp_fail(err, -ENOPKG, "%s has no curl_" #function "; infprof needs version 7.62 or later", \
                                 name);
        INFP_CURL_FUNCTIONS(X)
#undef X
        *(void **) &infp_curl.url_strerror = dlsym(library, "curl_url_strerror");
        code = infp_curl.global_init(CURL_GLOBAL_DEFAULT);
        return code ? infp_fail(err, -EIO, "libcurl cannot be started: %s", infp_curl.easy_strerror(code)) : 0;
}

static void load_once(void)
{
        load_r = load(&load_err);
}

int infp_http_available(struct infp_err *err)
{
        pthread_once(&once, load_once);
        return load_r < 0 ? infp_fail(err, load_r, "%s", load_err.text) : 0;
}
