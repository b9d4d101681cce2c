#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/new_file.h"
#include "base/str.h"
#include "query/duck_state.h"
#include "query/views.h"

/* A row group is in memory until it is full: the more columns, the fewer rows. */
static unsigned group_rows(unsigned n_columns)
{
        unsigned rows = 2000000 / (n_columns ? n_columns : 1);

        return rows > 122880 ? 122880 : rows < 2048 ? 2048 : rows / 2048 * 2048;
}

static int copy(struct infp_duck *duck, const char *sql, unsigned n_columns, const char *compression, const char *path,
                uint64_t *ret_rows, struct infp_err *err)
{
        infp_autostr struct infp_str text = { 0 };

        infp_str_printf(&text, "COPY (\n%s\n) TO ", sql);
        infp_sql_text(&text, path);
        infp_str_printf(&text,
                        " (FORMAT parquet, USE_TMP_FILE false, PARQUET_VERSION v2, COMPRESSION %s, ROW_GROUP_SIZE %u)",
                        compression, group_rows(n_columns));
        if (text.failed)
                return infp_fail(err, -ENOMEM, "out of memory");
        return infp_duck_do(duck, text.data, ret_rows, err);
}

/* DuckDB writes a 128-bit integer to Parquet as a double, which loses digits: such columns become BIGINT or, if a value is too
 * large, a decimal, or else text. */
static int narrow(struct infp_duck *duck, const char *sql, const char *type, struct infp_str *ret,
                  unsigned *ret_columns, bool *ret_narrowed, struct infp_err *err)
{
        duckdb_prepared_statement statement;
        infp_autostr struct infp_str names = { 0 }, columns = { 0 };
        int r = 0;

        *ret_narrowed = false;
        if (api->prepare(duck->connection, sql, &statement) != DuckDBSuccess)
                r = infp_duck_fail_text(api->prepare_error(statement), err);
        *ret_columns = r < 0 ? 0 : (unsigned) api->prepared_statement_column_count(statement);
        for (unsigned i = 0; i < *ret_columns; i++) {
                duckdb_type id = api->prepared_statement_column_type(statement, i);
                const char *name = api->prepared_statement_column_name(statement, i);
                bool is_huge = id == DUCKDB_TYPE_HUGEINT || id == DUCKDB_TYPE_UHUGEINT;

                infp_str_printf(&names, "%sc%u", i ? "," : "", i);
                if (is_huge)
                        infp_str_printf(&columns, "%sCAST(c%u AS %s) AS ", i ? "," : "", i, type);
                else
                        infp_str_printf(&columns, "%sc%u AS ", i ? "," : "", i);
                infp_sql_name(&columns, name ? name : "");
                if (name)
                        api->free((void *) name);
                *ret_narrowed |= is_huge;
        }
        api->destroy_prepare(&statement);
        if (r == 0 && *ret_narrowed && !names.failed && !columns.failed)
                infp_str_printf(ret, "SELECT %s FROM (\n%s\n) t(%s)", columns.data, sql, names.data);
        else if (r == 0)
                infp_str_puts(ret, sql);
        return r < 0 ? r : ret->failed || names.failed || columns.failed ? infp_fail(err, -ENOMEM, "out of memory") : 0;
}

/* The statement without its terminator: COPY puts it in parentheses. */
static char *trimmed(const char *sql)
{
        size_t size = strlen(sql);

        while (size && strchr("; \t\r\n", sql[size - 1]))
                size--;
        return strndup(sql, size);
}

static int copy_sql(struct infp_duck *duck, const char *given, const char *path, uint64_t *ret_rows,
                    struct infp_err *err)
{
        static const char *const types[] = { "BIGINT", "DECIMAL(38,0)", "VARCHAR" };
        infp_autofree char *sql = trimmed(given);
        int r = -EINVAL;

        if (!sql)
                return infp_fail(err, -ENOMEM, "out of memory");
        /* COPY would report errors in terms of a statement that the user did not write. */
        INFP_TRY(infp_duck_check_select(duck, sql, "Parquet needs", err));
        for (unsigned i = 0; r < 0 && i < INFP_COUNT(types); i++) {
                infp_autostr struct infp_str text = { 0 };
                unsigned n_columns;
                bool is_narrowed;

                INFP_TRY(narrow(duck, sql, types[i], &text, &n_columns, &is_narrowed, err));
                r = copy(duck, text.data, n_columns, "zstd", path, ret_rows, err);
                if (!is_narrowed || r == -EINTR || r == -ENOSPC)
                        break;
        }
        return r;
}

/* /dev/stdout is a symbolic link; the file that it leads to must not be replaced. */
static bool is_stdout(const char *path)
{
        return strcmp(path, "/dev/stdout") == 0;
}

/* DuckDB opens the file that we created. */
static const char *path_of(const struct infp_new_file *file, char ret[40])
{
        snprintf(ret, 40, "/proc/self/fd/%d", file->fd);
        return ret;
}

/* In `Could not write file "/dir/#79 (deleted)": File too large` the part after our file, which DuckDB knows by its descriptor;
 * NULL: the text is not about that file. */
static const char *reason_of(const struct infp_new_file *file, const char *text)
{
        char link[40], real[PATH_MAX];
        const ssize_t n = readlink(path_of(file, link), real, sizeof(real) - 1);
        const char *at;

        real[n > 0 ? n : 0] = 0;
        at = n > 0 ? strstr(text, real) : NULL;
        return at && strncmp(at + n, "\": ", 3) == 0 ? at + n + 3 : NULL;
}

/* is_ours: whatever fails concerns this file; otherwise an error in the user's SQL is kept as it is. */
static int name_file(int r, const struct infp_new_file *file, const char *name, bool is_ours, struct infp_err *err)
{
        const struct infp_err why = err ? *err : (struct infp_err){ "" };
        const char *reason = r < 0 ? reason_of(file, why.text) : NULL;

        if (r == -ENOSPC)
                return infp_fail(err, r, "cannot write %s: no space left on the disk", name);
        if (reason || (r < 0 && is_ours))
                return infp_fail(err, r, "cannot write %s: %s", name, reason ? reason : why.text);
        return r;
}

static int commit(int r, struct infp_new_file *file, const char *name, struct infp_err *err)
{
        if (r < 0)
                return r;
        r = infp_new_file_commit(file, true);
        return r < 0 ? infp_fail_errno(err, r, "cannot write %s", name) : 0;
}

int infp_duck_to_parquet(struct infp_duck *duck, const char *sql, const char *path, uint64_t *ret_rows,
                         struct infp_err *err)
{
        infp_cleanup(infp_new_file_done) struct infp_new_file file = INFP_NEW_FILE_INIT;
        char own[40];
        int r;

        INFP_TRY(infp_duck_make_views(duck, sql, err));
        if (is_stdout(path))
                return copy_sql(duck, sql, path, ret_rows, err);
        r = infp_new_file_open(&file, path, 0666);
        if (r < 0)
                return infp_fail_errno(err, r, "cannot write %s", path);
        r = copy_sql(duck, sql, file.is_direct ? path : path_of(&file, own), ret_rows, err);
        return commit(name_file(r, &file, path, false, err), &file, path, err);
}

int infp_duck_rows_to_parquet(struct infp_duck *duck, const struct infp_rows *rows, int dir_fd, const char *name,
                              mode_t mode, uint64_t *ret_rows, struct infp_err *err)
{
        infp_cleanup(infp_new_file_done) struct infp_new_file file = INFP_NEW_FILE_INIT;
        char own[40];
        int r = 0;

        if (dir_fd != AT_FDCWD)
                r = infp_new_file_at(&file, dir_fd, name, mode);
        else if (!is_stdout(name))
                r = infp_new_file_open(&file, name, mode);
        if (r < 0)
                return infp_fail_errno(err, r, "cannot write %s", name);
        duck->rows = rows;
        r = copy(duck, "SELECT * FROM infp_rows()", infp_table_width(rows->table), rows->is_small ? "snappy" : "zstd",
                 file.fd < 0 || file.is_direct ? name : path_of(&file, own), ret_rows, err);
        duck->rows = NULL;
        r = name_file(r, &file, name, true, err);
        return file.fd < 0 ? r : commit(r, &file, name, err);
}
