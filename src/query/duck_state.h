/* Shared by the files that use DuckDB. */
#pragma once

#include <duckdb.h>
#include <pthread.h>

#include "query/duck.h"
#include "query/joins.h"
#include "query/parts.h"
#include "query/sql_views.h"

/* DuckDB's C functions, found by dlopen: one list names them, their types come from duckdb.h. */
// clang-format off
#define INFP_DUCK_FUNCTIONS(X) \
        X(free) X(interrupt) \
        X(create_config) X(set_config) X(destroy_config) X(open_ext) X(close) X(connect) X(disconnect) \
        X(query) X(extract_statements) X(extract_statements_error) X(destroy_extracted) X(prepare_extracted_statement) \
        X(prepare) X(prepare_error) X(destroy_prepare) X(pending_prepared_streaming) X(pending_error) X(execute_pending) \
        X(destroy_pending) X(fetch_chunk) X(destroy_result) X(result_error) X(result_error_type) X(result_return_type) X(rows_changed) X(column_count) X(column_name) \
        X(column_logical_type) X(prepared_statement_type) X(prepared_statement_column_count) X(prepared_statement_column_name) X(prepared_statement_column_type) \
        X(create_logical_type) X(destroy_logical_type) X(get_type_id) X(decimal_scale) X(decimal_internal_type) \
        X(data_chunk_get_vector) X(data_chunk_get_size) X(data_chunk_get_column_count) X(data_chunk_set_size) X(destroy_data_chunk) \
        X(vector_get_data) X(vector_get_validity) X(vector_ensure_validity_writable) X(vector_get_column_type) \
        X(vector_assign_string_element_len) X(vector_reference_vector) X(create_vector) X(destroy_vector) X(slice_vector) \
        X(create_selection_vector) X(destroy_selection_vector) X(selection_vector_get_data_ptr) X(is_null_value) X(get_varchar) X(destroy_value) \
        X(create_table_function) X(destroy_table_function) X(table_function_set_name) X(table_function_add_parameter) \
        X(table_function_set_extra_info) X(table_function_set_bind) X(table_function_set_init) X(table_function_set_function) \
        X(table_function_supports_projection_pushdown) X(register_table_function) \
        X(bind_get_extra_info) X(bind_get_parameter) X(bind_add_result_column) X(bind_set_bind_data) X(bind_set_error) \
        X(init_get_bind_data) X(init_get_column_count) X(init_get_column_index) X(init_set_init_data) X(init_set_max_threads) \
        X(init_set_error) X(function_get_bind_data) X(function_get_init_data) X(function_set_error) \
        X(create_scalar_function) X(destroy_scalar_function) X(scalar_function_set_name) X(scalar_function_add_parameter) \
        X(scalar_function_set_return_type) X(scalar_function_set_extra_info) X(scalar_function_set_function) \
        X(scalar_function_set_special_handling) X(scalar_function_get_extra_info) X(scalar_function_set_error) \
        X(register_scalar_function) X(create_scalar_function_set) X(add_scalar_function_to_set) \
        X(register_scalar_function_set) X(destroy_scalar_function_set)
// clang-format on

struct infp_duck_api {
#define X(name) __typeof__(&duckdb_##name) name;
        INFP_DUCK_FUNCTIONS(X)
#undef X
};

/* Drops the library's pages from memory: the loader and DuckDB's start read some 25 MiB that are not needed again. */
void infp_duck_api_trim(void);
/* Valid once a database was opened. */
extern struct infp_duck_api infp_duck_api;
static const struct infp_duck_api *const api = &infp_duck_api;

/* The attached run as it was at that time. */
struct infp_duck_run {
        struct infp_run *run;
        struct infp_catalog catalog;
        struct infp_parts *arrow; /* of each table of the catalog: the parts that are not Parquet */
        struct infp_duck_entities {
                char *table;
                struct infp_entities *entities; /* loaded when first asked for */
                struct infp_err err;
                int failed;
        } * entities;
        unsigned n_entities;
        bool has_view[INFP_SQL_VIEWS]; /* they were made */
        pthread_mutex_t lock;          /* of entities: DuckDB calls from its threads */
};

struct infp_duck_database {
        duckdb_database handle;
        unsigned n_users;
};

struct infp_duck {
        struct infp_duck_database *database;
        duckdb_connection connection;
        duckdb_connection helper; /* for our own queries while a result of `connection` is open */
        struct infp_duck_run *attached;
        bool is_restricted;
        unsigned n_attached;          /* number of attaches; what an earlier one made has another number */
        const struct infp_rows *rows; /* of a running infp_duck_rows_to_parquet */
        bool is_trimmed;              /* after its first write */
        /* The chunk whose cells are turned into texts (duck_result.c). */
        struct {
                duckdb_data_chunk chunk;
                bool is_read;
        } cast;
};

/* Runs our own SQL that has no result. */
int infp_duck_do(struct infp_duck *duck, const char *sql, uint64_t *ret_rows, struct infp_err *err);
/* -EINVAL, -EINTR or -ENOSPC with DuckDB's text; result may have none. */
int infp_duck_fail(duckdb_result *result, struct infp_err *err);
int infp_duck_fail_text(const char *text, struct infp_err *err);

/* -EINVAL unless it is one SELECT; what: the beginning of the error, "Parquet needs". */
int infp_duck_check_select(struct infp_duck *duck, const char *sql, const char *what, struct infp_err *err);

void infp_duck_detach(struct infp_duck *duck);
/* Those that the SQL names, each once (duck_attach.c). */
int infp_duck_make_views(struct infp_duck *duck, const char *sql, struct infp_err *err);

duckdb_type infp_duck_type(enum infp_type type);

/* Table functions infp_scan, infp_timeseries, infp_rows (duck_feed.c) and infp_chunk (duck_result.c). */
int infp_duck_register_feeds(struct infp_duck *duck, struct infp_err *err);
int infp_duck_register_cast(struct infp_duck *duck, struct infp_err *err);
/* infp_increase (duck_feed.c). */
int infp_duck_register_functions(struct infp_duck *duck, struct infp_err *err);
/* Null bits of DuckDB's vectors: NULL = all valid. */
static inline bool infp_duck_has(const uint64_t *validity, idx_t row)
{
        return !validity || validity[row / 64] >> (row % 64) & 1;
}
void infp_duck_set_null(duckdb_vector vector, idx_t row);
