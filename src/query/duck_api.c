#include "query/duck_api.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/debug.h"

static const char library[] = "libduckdb.so";

static struct infp_duck_api api;
static ElfW(Addr) base; /* where the library lies */
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

/* Look up its own symbols before those of infprof and of the C library: there are 40,000, and this saves 10 of 118 ms of CPU. The
 * sanitizers, which replace functions, do not allow it. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { LOAD_FLAGS = RTLD_LAZY | RTLD_LOCAL };
#else
enum { LOAD_FLAGS = RTLD_LAZY | RTLD_LOCAL | RTLD_DEEPBIND };
#endif

static void *open_library(struct infp_err *err)
{
        const char *wanted = getenv("INFPROF_LIBDUCKDB");
        char own[PATH_MAX], beside[PATH_MAX + 32], below[PATH_MAX + 32];
        void *handle;

        if (wanted && *wanted) {
                handle = dlopen(wanted, LOAD_FLAGS);
                if (!handle)
                        infp_fail(err, -ENOPKG, "DuckDB cannot be loaded from INFPROF_LIBDUCKDB=%s: %s", wanted,
                                  dlerror());
                return handle;
        }
        own_directory(own, sizeof(own));
        snprintf(beside, sizeof(beside), "%s/%s", own, library);
        snprintf(below, sizeof(below), "%s/../lib/infprof/%s", own, library);
        if (!(handle = dlopen(beside, LOAD_FLAGS)) && !(handle = dlopen(below, LOAD_FLAGS)) &&
            !(handle = dlopen(library, LOAD_FLAGS)))
                infp_fail(err, -ENOPKG,
                          "SQL and Parquet need DuckDB: %s is neither beside infprof (%s), nor in ../lib/infprof, nor "
                          "known to the "
                          "loader; `make build` fetches it, INFPROF_LIBDUCKDB=FILE names another",
                          library, own);
        infp_debug("DuckDB: %s", !handle ? "not found" : "loaded");
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

static int trim(struct dl_phdr_info *info, size_t size, void *context)
{
        const uintptr_t page = (uintptr_t) sysconf(_SC_PAGESIZE);

        (void) size;
        if (info->dlpi_addr != *(const ElfW(Addr) *) context)
                return 0;
        for (unsigned i = 0; i < info->dlpi_phnum; i++) {
                const ElfW(Phdr) *p = &info->dlpi_phdr[i];
                const uintptr_t begin = (info->dlpi_addr + p->p_vaddr) & ~(page - 1);

                /* Nobody has written there: what is needed again comes from the page cache. */
                if (p->p_type == PT_LOAD && !(p->p_flags & PF_W))
                        madvise((void *) begin, info->dlpi_addr + p->p_vaddr + p->p_memsz - begin, MADV_DONTNEED);
        }
        return 1;
}

void infp_duck_api_trim(void)
{
        if (is_loaded && base)
                dl_iterate_phdr(trim, &base);
}

int infp_duck_api_load(const struct infp_duck_api **ret, struct infp_err *err)
{
        int r = 0;

        *ret = &api;
        pthread_mutex_lock(&lock);
        if (!is_loaded) {
                void *handle = open_library(err);
                struct link_map *map;

                r = handle ? resolve(handle, err) : -ENOPKG;
                is_loaded = r == 0;
                if (r == 0 && dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0)
                        base = map->l_addr;
                if (handle && r < 0)
                        dlclose(handle);
        }
        pthread_mutex_unlock(&lock);
        return r;
}
