/* Cells of types that are not ours as text: DuckDB itself says how a list, an interval or a date reads. The chunk goes through
 * a table function into SELECT CAST(c AS VARCHAR). */
#include <errno.h>
#include <stdio.h>

#include "base/str.h"
#include "query/duck_state.h"

static void bind(duckdb_bind_info info)
{
        const struct infp_duck_api *api;
        struct infp_duck *duck;
        char name[24];

        if (infp_duck_api_load(&api, NULL) < 0)
                return;
        duck = api->bind_get_extra_info(info);
        if (!duck->cast.chunk) {
                api->bind_set_error(info, "infp_chunk is for infprof's own use");
                return;
        }
        for (idx_t i = 0; i < api->data_chunk_get_column_count(duck->cast.chunk); i++) {
                duckdb_logical_type type = api->vector_get_column_type(api->data_chunk_get_vector(duck->cast.chunk, i));

                snprintf(name, sizeof(name), "c%u", (unsigned) i);
                api->bind_add_result_column(info, name, type);
                api->destroy_logical_type(&type);
        }
        api->bind_set_bind_data(info, duck, NULL);
}

static void init(duckdb_init_info info)
{
        const struct infp_duck_api *api;

        if (infp_duck_api_load(&api, NULL) == 0)
                api->init_set_max_threads(info, 1);
}

static void function(duckdb_function_info info, duckdb_data_chunk output)
{
        const struct infp_duck_api *api;
        struct infp_duck *duck;

        if (infp_duck_api_load(&api, NULL) < 0)
                return;
        duck = api->function_get_bind_data(info);
        if (duck->cast.is_read) {
                api->data_chunk_set_size(output, 0);
                return;
        }
        for (idx_t i = 0; i < api->data_chunk_get_column_count(output); i++)
                api->vector_reference_vector(api->data_chunk_get_vector(output, i),
                                             api->data_chunk_get_vector(duck->cast.chunk, i));
        api->data_chunk_set_size(output, api->data_chunk_get_size(duck->cast.chunk));
        duck->cast.is_read = true;
}

int infp_duck_register_cast(struct infp_duck *duck, struct infp_err *err)
{
        const struct infp_duck_api *api = duck->api;
        duckdb_table_function f = api->create_table_function();
        duckdb_state state;

        api->table_function_set_name(f, "infp_chunk");
        api->table_function_set_extra_info(f, duck, NULL);
        api->table_function_set_bind(f, bind);
        api->table_function_set_init(f, init);
        api->table_function_set_function(f, function);
        state = api->register_table_function(duck->connection, f);
        api->destroy_table_function(&f);
        return state == DuckDBSuccess ? 0 : infp_fail(err, -ENOPKG, "DuckDB refuses the table function infp_chunk");
}

int infp_duck_cast(struct infp_duck *duck, duckdb_data_chunk chunk, const unsigned *which, unsigned n,
                   duckdb_result *ret, duckdb_data_chunk *ret_chunk, struct infp_err *err)
{
        infp_autostr struct infp_str sql = { 0 };
        duckdb_state state;

        *ret_chunk = NULL;
        infp_str_puts(&sql, "SELECT ");
        for (unsigned i = 0; i < n; i++)
                infp_str_printf(&sql, "%sCAST(c%u AS VARCHAR)", i ? "," : "", which[i]);
        infp_str_puts(&sql, " FROM infp_chunk()");
        if (sql.failed)
                return infp_fail(err, -ENOMEM, "out of memory");
        duck->cast.chunk = chunk;
        duck->cast.is_read = false;
        state = duck->api->query(duck->helper, sql.data, ret);
        duck->cast.chunk = NULL;
        if (state == DuckDBSuccess)
                *ret_chunk = duck->api->fetch_chunk(*ret);
        return *ret_chunk ? 0 : infp_duck_fail(duck, ret, err);
}
