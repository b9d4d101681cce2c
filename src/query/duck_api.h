/* DuckDB's C functions, found by dlopen: one list names them, their types come from duckdb.h. For src/query/duck*.c alone. */
#pragma once

#include <duckdb.h>

#include "base/err.h"

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

/* Loads the library at the first call. 0, or -ENOPKG with the places that were looked at. */
/* What the loader and DuckDB's start have read and run of the library, some 25 MiB, is not needed again. */
void infp_duck_api_trim(void);
int infp_duck_api_load(const struct infp_duck_api **ret, struct infp_err *err);
