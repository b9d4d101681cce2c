/* SQL that may read a run and nothing else: for runs and statements of strangers. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "query/duck_state.h"
#include "query/views.h"
#include "store/path.h"

int infp_duck_check_select(struct infp_duck *duck, const char *sql, const char *what, struct infp_err *err)
{
        const struct infp_duck_api *api = duck->api;
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

/* A file of a stranger's run may be a link to one of ours. */
static int allow(struct infp_str *list, int dir_fd, const char *path, const char *table, struct infp_err *err)
{
        infp_autoclose int fd = infp_store_open(dir_fd, path, O_RDONLY);
        infp_autostr struct infp_str name = { 0 };

        if (fd == -ELOOP || fd == -ENOTDIR)
                return infp_fail(err, -ELOOP, "%s (table %s) is reached through a symbolic link, which is not followed",
                                 path, table);
        if (fd < 0)
                return 0; /* reading it says why */
        infp_str_printf(&name, "/proc/self/fd/%d/%s", dir_fd, path);
        infp_str_puts(list, list->size ? "," : "");
        infp_sql_text(list, name.data ? name.data : "");
        list->failed |= name.failed;
        return 0;
}

static int allow_table(struct infp_str *list, const struct infp_run *run, const char *table, struct infp_err *err)
{
        infp_cleanup(infp_parts_done) struct infp_parts parts = { 0 };

        INFP_TRY(infp_parts_list(run, table, &parts, err));
        for (unsigned i = 0; i < parts.n; i++) {
                infp_autostr struct infp_str path = { 0 };

                if (!parts.parts[i].is_parquet)
                        continue;
                infp_part_path(&path, &parts.parts[i], INFP_PARQUET_EXTENSION);
                if (path.failed)
                        return infp_fail(err, -ENOMEM, "out of memory");
                INFP_TRY(allow(list, run->fd, path.data, table, err));
        }
        return 0;
}

int infp_duck_restrict(struct infp_duck *duck, struct infp_err *err)
{
        const struct infp_duck_run *attached = duck->attached;
        infp_autostr struct infp_str list = { 0 }, sql = { 0 };
        struct infp_err why = { "" };
        char name[64];

        for (unsigned i = 0; i < attached->catalog.n_tables; i++)
                INFP_TRY(allow_table(&list, attached->run, attached->catalog.tables[i].name, err));
        snprintf(name, sizeof(name), "%s.parquet", attached->run->info.uuid);
        INFP_TRY(allow(&list, attached->run->output_fd, name, "timeseries", err));
        infp_str_printf(&sql, "SET allowed_paths=[%s]; SET enable_external_access=false; SET lock_configuration=true",
                        list.data ? list.data : "");
        if (list.failed || sql.failed)
                return infp_fail(err, -ENOMEM, "out of memory");
        if (infp_duck_do(duck, sql.data, NULL, &why) < 0)
                return infp_fail(err, -ENOTSUP, "this DuckDB cannot be restricted: %s", why.text);
        duck->is_restricted = true;
        return 0;
}
