#include "query/duck_state.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
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
#include "base/fd.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/own_directory.h"
#include "base/procfile.h"
#include "base/str.h"
#include "model/python_tables.h"
#include "query/duck.h"
#include "query/views.h"

static const char library[] = "libduckdb.so";

struct infp_duck_api infp_duck_api;
static ElfW(Addr) base; /* where the library lies */
static bool is_loaded;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

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
        infp_own_directory(own, sizeof(own));
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
        *(void **) &infp_duck_api.name = dlsym(handle, "duckdb_" #name);            \
        if (!infp_duck_api.name)                                                    \
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

                /* Never written: pages that are needed again come from the page cache. */
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

/* Loads the library at the first call. 0, or -ENOPKG with the places that were looked at. */
static int load_api(struct infp_err *err)
{
        int r = 0;

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

bool infp_duck_available(struct infp_err *err)
{
        return load_api(err) == 0;
}

/* DuckDB opens files of a run through /proc/self/fd; show the names that the user knows. */
static void put_real_names(struct infp_str *out, const char *text, size_t size)
{
        static const char start[] = "/proc/self/fd/";
        const char *end = text + size, *at;

        while ((at = memmem(text, (size_t) (end - text), start, sizeof(start) - 1))) {
                size_t length = sizeof(start) - 1 + strspn(at + sizeof(start) - 1, "0123456789");
                char link[40], real[PATH_MAX];
                ssize_t n;

                snprintf(link, sizeof(link), "%.*s", (int) length, at);
                n = readlink(link, real, sizeof(real));
                infp_str_put(out, text, (size_t) (at - text));
                infp_str_put(out, n > 0 ? real : link, n > 0 ? (size_t) n : strlen(link));
                text = at + length;
        }
        infp_str_put(out, text, (size_t) (end - text));
}

/* DuckDB's text often ends with a newline; long ones are cut. */
int infp_duck_fail_text(const char *text, struct infp_err *err)
{
        infp_autostr struct infp_str shown = { 0 };
        size_t size;

        if (!text || !*text)
                text = "DuckDB gave no reason";
        size = strlen(text);
        while (size && (text[size - 1] == '\n' || text[size - 1] == ' '))
                size--;
        put_real_names(&shown, text, size);
        text = shown.failed || !shown.data ? text : shown.data;
        if (strstr(text, "Too many open files"))
                return infp_fail(err, -EMFILE, strstr(text, infp_more_fds()) ? "%.*s" : "%.*s (%s)",
                                 (int) sizeof(err->text) - 64, text, infp_more_fds());
        return infp_fail(err, strstr(text, "No space left on device") ? -ENOSPC : -EINVAL, "%s", text);
}

int infp_duck_fail(duckdb_result *result, struct infp_err *err)
{
        bool is_interrupted = api->result_error_type(result) == DUCKDB_ERROR_INTERRUPT;
        int r = infp_duck_fail_text(api->result_error(result), err);

        return is_interrupted ? infp_fail(err, -EINTR, "interrupted") : r;
}

int infp_duck_do(struct infp_duck *duck, const char *sql, uint64_t *ret_rows, struct infp_err *err)
{
        duckdb_result result;
        int r = 0;

        if (api->query(duck->connection, sql, &result) != DuckDBSuccess)
                r = infp_duck_fail(&result, err);
        else if (ret_rows)
                *ret_rows = api->rows_changed(&result);
        api->destroy_result(&result);
        return r;
}

int infp_duck_check_select(struct infp_duck *duck, const char *sql, const char *what, struct infp_err *err)
{
        duckdb_extracted_statements list;
        duckdb_prepared_statement statement = NULL;
        idx_t n = api->extract_statements(duck->connection, sql, &list);
        const char *text = n ? NULL : api->extract_statements_error(list);
        int r = 0;

        if (text && *text)
                r = infp_duck_fail_text(text, err);
        else if (n != 1)
                r = infp_fail(err, -EINVAL, "%s one SELECT; there %s", what,
                              n ? "are several statements" : "is no SQL statement in it");
        else if (api->prepare_extracted_statement(duck->connection, list, 0, &statement) != DuckDBSuccess)
                r = infp_duck_fail_text(api->prepare_error(statement), err);
        else if (api->prepared_statement_type(statement) != DUCKDB_STATEMENT_TYPE_SELECT)
                r = infp_fail(err, -EINVAL, "%s a SELECT statement", what);
        if (statement)
                api->destroy_prepare(&statement);
        api->destroy_extracted(&list);
        return r;
}

void infp_duck_interrupt(struct infp_duck *duck)
{
        api->interrupt(duck->connection);
}

/* Parses "18.8 GiB", the way DuckDB prints a size; 0: not understood. */
static double parse_shown_size(const char *text)
{
        static const char *const units[] = { "KiB", "MiB", "GiB", "TiB" };
        const char *blank = strchr(text, ' ');
        double value, factor = 1;

        if (!blank || infp_parse_f64(text, (size_t) (blank - text), &value) < 0)
                return 0;
        for (unsigned i = 0; i < INFP_COUNT(units); i++) {
                factor *= 1024;
                if (strcmp(blank + 1, units[i]) == 0)
                        return value * factor;
        }
        return 0;
}

/* MemAvailable in bytes; 0: unknown. */
static double available_memory(void)
{
        infp_autoclose int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        char text[4096];
        ssize_t n = infp_read_at(root, "proc/meminfo", text, sizeof(text));
        struct infp_span rest = { text, n > 0 ? (size_t) n : 0 }, line;
        uint64_t kib;

        while (infp_span_line(&rest, &line))
                if (infp_span_starts(line, "MemAvailable:")) {
                        infp_span_word(&line);
                        return infp_span_u64(infp_span_word(&line), &kib) == 0 ? (double) kib * 1024 : 0;
                }
        return 0;
}

/* A query must not drive the target's machine out of memory: it gets half of what is available, and at most half of DuckDB's own
 * default (80 % of the memory or of the cgroup's limit). */
static int limit_memory(struct infp_duck *duck, struct infp_err *err)
{
        struct infp_duck_result *result;
        struct infp_batch batch;
        char sql[64], shown[64] = "";
        double own, available = available_memory();

        INFP_TRY(infp_duck_query(duck, "SELECT current_setting('memory_limit')", &result, err));
        if (infp_duck_result_next(result, &batch, NULL) == 1) {
                size_t size;
                const char *text = infp_batch_str(&batch, 0, 0, &size);

                snprintf(shown, sizeof(shown), "%.*s", (int) size, text);
        }
        infp_duck_result_free(result);
        own = parse_shown_size(shown);
        if (!own || (available && available < own))
                own = available;
        if (!own)
                return 0;
        snprintf(sql, sizeof(sql), "SET memory_limit='%lluMiB'", (unsigned long long) (own / 2 / 1048576) + 1);
        return infp_duck_do(duck, sql, NULL, err);
}

static int configure(duckdb_config config, const char *threads, struct infp_err *err)
{
        /* No files but the user's, no downloads, no spilling into the working directory: DuckDB fails instead. By default it
         * starts a thread for each CPU of the affinity and the cgroup; each thread opens a table's file itself, which needs
         * descriptors. */
        unsigned limit;
        const char *set = getenv("INFPROF_SQL_THREADS");
        const char *given = threads ? threads : !set && infp_fds_are_few(&limit) ? "1" : set;
        const char *const settings[][2] = {
                { "autoinstall_known_extensions", "false" },
                { "autoload_known_extensions", "false" },
                { "temp_directory", "" },
                { "threads", given },
        };

        for (unsigned i = 0; i < INFP_COUNT(settings); i++)
                if (settings[i][1] && api->set_config(config, settings[i][0], settings[i][1]) != DuckDBSuccess)
                        return infp_fail(err, -EINVAL, "DuckDB does not take the setting %s = '%s'", settings[i][0],
                                         settings[i][1]);
        return 0;
}

static int open_database(struct infp_duck *duck, const char *threads, struct infp_err *err)
{
        duckdb_config config;
        char *text = NULL;
        int r;

        if (api->create_config(&config) != DuckDBSuccess)
                return infp_fail(err, -ENOMEM, "DuckDB has no configuration");
        r = configure(config, threads, err);
        if (r == 0 && api->open_ext(NULL, &duck->database->handle, config, &text) != DuckDBSuccess)
                r = infp_duck_fail_text(text, err);
        if (text)
                api->free(text);
        api->destroy_config(&config);
        return r;
}

static int connect_to(struct infp_duck *duck, struct infp_err *err)
{
        if (api->connect(duck->database->handle, &duck->connection) != DuckDBSuccess ||
            api->connect(duck->database->handle, &duck->helper) != DuckDBSuccess)
                return infp_fail(err, -ENOMEM, "DuckDB gives no connection");
        return 0;
}

static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static struct infp_duck_database *shared; /* NULL: not open */

static void release(struct infp_duck_database *database)
{
        bool is_last;

        pthread_mutex_lock(&shared_lock);
        is_last = --database->n_users == 0;
        if (is_last && shared == database)
                shared = NULL;
        pthread_mutex_unlock(&shared_lock);
        if (!is_last)
                return;
        if (database->handle)
                api->close(&database->handle);
        free(database);
}

/* Not under the lock: DuckDB stops what still runs on the connection, and our readers in it open and close other connections. */
static void close_duck(struct infp_duck *duck)
{
        if (duck->helper)
                api->disconnect(&duck->helper);
        if (duck->connection)
                api->disconnect(&duck->connection);
        if (duck->database)
                release(duck->database);
        infp_duck_detach(duck);
        free(duck);
}

static void free_duck(struct infp_duck **duck)
{
        if (*duck)
                close_duck(*duck);
}

/* Memory is bounded by the size of a row group, and there is nothing to optimize in SELECT * of rows. */
static int prepare_for_rows(struct infp_duck *duck, struct infp_err *err)
{
        return infp_duck_do(duck, "PRAGMA disable_optimizer", NULL, err);
}

static int prepare_for_sql(struct infp_duck *duck, struct infp_err *err)
{
        INFP_TRY(limit_memory(duck, err));
        INFP_TRY(infp_duck_register_cast(duck, err));
        INFP_TRY(infp_duck_register_functions(duck, err));
        /* Times without a zone are UTC, as in our files. Tables of Python are found without their schema, too. */
        return infp_duck_do(duck,
                            "SET TimeZone = 'UTC'; CREATE SCHEMA IF NOT EXISTS " INFP_PYTHON_SCHEMA
                            "; SET search_path = 'main," INFP_PYTHON_SCHEMA "'",
                            NULL, err);
}

static int open_own(bool is_writer, struct infp_duck **ret, struct infp_err *err)
{
        infp_cleanup(free_duck) struct infp_duck *duck = NULL;

        *ret = NULL;
        INFP_TRY(load_api(err));
        duck = calloc(1, sizeof(*duck));
        if (!duck || !(duck->database = calloc(1, sizeof(*duck->database))))
                return infp_fail(err, -ENOMEM, "out of memory");
        duck->database->n_users = 1;
        INFP_TRY(open_database(duck, is_writer ? "1" : NULL, err));
        INFP_TRY(connect_to(duck, err));
        INFP_TRY(infp_duck_register_feeds(duck, err));
        INFP_TRY(is_writer ? prepare_for_rows(duck, err) : prepare_for_sql(duck, err));
        infp_duck_api_trim();
        *ret = INFP_TAKE(duck);
        return 0;
}

int infp_duck_open(struct infp_duck **ret, struct infp_err *err)
{
        return open_own(false, ret, err);
}

/* Never closed: that takes 3 ms of CPU, and a process that writes one run or table ends after it. */
static struct infp_duck *writer;

int infp_duck_open_writer(struct infp_duck **ret, struct infp_err *err)
{
        *ret = NULL;
        if (!writer)
                INFP_TRY(open_own(true, &writer, err));
        *ret = writer;
        return 0;
}

/* The readers' database, with one more user; NULL: not open yet. */
static struct infp_duck_database *take_shared(void)
{
        struct infp_duck_database *ret;

        pthread_mutex_lock(&shared_lock);
        ret = shared;
        if (ret)
                ret->n_users++;
        pthread_mutex_unlock(&shared_lock);
        return ret;
}

/* When two threads open one at the same time, later callers share the first one's. */
static int open_first(struct infp_duck **ret, struct infp_err *err)
{
        INFP_TRY(open_own(false, ret, err));
        pthread_mutex_lock(&shared_lock);
        if (!shared)
                shared = (*ret)->database;
        pthread_mutex_unlock(&shared_lock);
        return 0;
}

int infp_duck_open_shared(struct infp_duck **ret, struct infp_err *err)
{
        infp_cleanup(free_duck) struct infp_duck *duck = NULL;

        *ret = NULL;
        INFP_TRY(load_api(err));
        duck = calloc(1, sizeof(*duck));
        if (!duck)
                return infp_fail(err, -ENOMEM, "out of memory");
        duck->database = take_shared();
        if (!duck->database)
                return open_first(ret, err);
        INFP_TRY(connect_to(duck, err));
        *ret = INFP_TAKE(duck);
        return 0;
}

struct infp_duck *infp_duck_close(struct infp_duck *duck)
{
        if (duck && duck != writer)
                close_duck(duck);
        return NULL;
}
