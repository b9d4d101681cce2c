/* Finds libcurl's functions. The library stays loaded. */
#include "fetch/curl.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/own_directory.h"
#include "fetch/http.h"

struct infp_curl infp_curl;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int load_r;
static struct infp_err load_err;

/* Where a wheel is installed (docs/install.md), PyPI's pycurl brings one: images that serve have often none of their own. It looks for
 * certificates where its builder had them, so it is told where this machine's are. */
static void *open_packaged(char *name, size_t cap)
{
        static const char *const places[] = { "../lib/python3*/site-packages", "../lib64/python3*/site-packages",
                                              "../lib/python3*/dist-packages", "../local/lib/python3*/dist-packages" };
        static const char *const bundles[] = { "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                                               "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem" };
        char own[PATH_MAX], pattern[PATH_MAX + 96];
        void *library = NULL;

        infp_own_directory(own, sizeof(own));
        if (!own[0])
                return NULL;
        for (size_t i = 0; !library && i < INFP_COUNT(places); i++) {
                glob_t found = { .gl_pathc = 0 };

                snprintf(pattern, sizeof(pattern), "%s/%s/pycurl.libs/libcurl-*.so.4*", own, places[i]);
                if (glob(pattern, 0, NULL, &found) == 0 &&
                    (size_t) snprintf(name, cap, "%s", found.gl_pathv[0]) < cap) {
                        library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
                }
                globfree(&found);
        }
        for (size_t i = 0; library && !infp_curl.bundle && i < INFP_COUNT(bundles); i++)
                if (access(bundles[i], R_OK) == 0)
                        infp_curl.bundle = bundles[i];
        return library;
}

static int load(struct infp_err *err)
{
        static char packaged[PATH_MAX];
        const char *name = "libcurl.so.4";
        void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        CURLcode code;

        if (!library) {
                infp_fail(err, -ENOPKG,
                          "HTTP needs libcurl.so.4 (Debian: apt-get install libcurl4; beside a wheel: pip install "
                          "pycurl): %s",
                          dlerror());
                name = "libcurl-gnutls.so.4"; /* Debian's other build, which git needs */
                library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        }
        if (!library) {
                name = packaged;
                library = open_packaged(packaged, sizeof(packaged));
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
