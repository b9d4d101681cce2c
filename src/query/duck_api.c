#include "query/duck_api.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char library[] = "libduckdb.so";

static struct infp_duck_api api;
static bool is_loaded;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The directory of the running binary, "" when /proc does not say. */
static void own_directory(char *ret, size_t cap)
{
        ssize_t n = readlink("/proc/self/exe", ret, cap - 1);
        char *slash;

        ret[n > 0 ? n : 0] = 0;
        slash = strrchr(ret, '/');
        if (slash)
                *slash = 0;
        else
                ret[0] = 0;
}

static void *open_library(struct infp_err *err)
{
        const char *wanted = getenv("INFPROF_LIBDUCKDB");
        char own[PATH_MAX], beside[PATH_MAX + 32], below[PATH_MAX + 32];
        void *handle;

        if (wanted && *wanted) {
                handle = dlopen(wanted, RTLD_LAZY | RTLD_LOCAL);
                if (!handle)
                        infp_fail(err, -ENOPKG, "DuckDB cannot be loaded from INFPROF_LIBDUCKDB=%s: %s", wanted,
                                  dlerror());
                return handle;
        }
        own_directory(own, sizeof(own));
        snprintf(beside, sizeof(beside), "%s/%s", own, library);
        snprintf(below, sizeof(below), "%s/../lib/infprof/%s", own, library);
        if (!(handle = dlopen(beside, RTLD_LAZY | RTLD_LOCAL)) && !(handle = dlopen(below, RTLD_LAZY | RTLD_LOCAL)) &&
            !(handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL)))
                infp_fail(err, -ENOPKG,
                          "SQL and Parquet need DuckDB: %s is neither beside infprof (%s), nor in ../lib/infprof, nor "
                          "known to the "
                          "loader; `make build` fetches it, INFPROF_LIBDUCKDB=FILE names another",
                          library, own);
        return handle;
}

static int resolve(void *handle, struct infp_err *err)
{
#define X(name)                                                                     \
        *(void **) &api.name = dlsym(handle, "duckdb_" #name);                      \
        if (!api.name)                                                              \
                return infp_fail(err, -ENOPKG,                                      \
                                 "the DuckDB library has no function duckdb_" #name \
                                 "; infprof needs version 1.4 or later");
        INFP_DUCK_FUNCTIONS(X)
#undef X
        return 0;
}

int infp_duck_api_load(const struct infp_duck_api **ret, struct infp_err *err)
{
        int r = 0;

        *ret = &api;
        pthread_mutex_lock(&lock);
        if (!is_loaded) {
                void *handle = open_library(err);

                r = handle ? resolve(handle, err) : -ENOPKG;
                is_loaded = r == 0;
                if (handle && r < 0)
                        dlclose(handle);
        }
        pthread_mutex_unlock(&lock);
        return r;
}
