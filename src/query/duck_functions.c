/* The scalar function infp_increase over model/rate.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/rate.h"
#include "query/duck_state.h"

/* Arguments of infp_increase: reset, before, after and perhaps range. */
struct arguments {
        void *data[4];
        uint64_t *validity[4];
        unsigned n;
};

static bool all_given(const struct arguments *a, idx_t row)
{
        for (unsigned i = 0; i < a->n; i++)
                if (!infp_duck_has(a->validity[i], row))
                        return false;
        return true;
}

static int reset_at(const struct arguments *a, idx_t row)
{
        const duckdb_string_t *text = (const duckdb_string_t *) a->data[0] + row;
        char name[16];

        if (text->value.inlined.length >= sizeof(text->value.inlined.inlined))
                return -ENOENT;
        memcpy(name, text->value.inlined.inlined, text->value.inlined.length);
        name[text->value.inlined.length] = 0;
        return infp_reset_by_name(name);
}

/* One row; false: null (a negative counter, an increase beyond BIGINT). */
static bool increase(duckdb_type type, const struct arguments *a, enum infp_reset reset, idx_t row, void *output)
{
        const uint64_t *before = a->data[1], *after = a->data[2], *range = a->n > 3 ? a->data[3] : NULL;
        const double *before_f = a->data[1], *after_f = a->data[2], *range_f = a->n > 3 ? a->data[3] : NULL;
        uint64_t *result = output;

        if (type == DUCKDB_TYPE_DOUBLE) {
                ((double *) output)[row] =
                        infp_increase_f64(reset, before_f[row], after_f[row], range_f ? range_f[row] : 0);
                return true;
        }
        if (type == DUCKDB_TYPE_BIGINT && ((int64_t) before[row] < 0 || (int64_t) after[row] < 0))
                return false;
        result[row] = infp_increase_u64(reset, before[row], after[row], range ? range[row] : 0);
        return type != DUCKDB_TYPE_BIGINT || result[row] <= INT64_MAX;
}

static void run_increase(duckdb_function_info info, duckdb_data_chunk input, duckdb_vector output, duckdb_type type)
{
        const struct infp_duck_api *api;
        struct arguments a = { 0 };
        idx_t n;

        if (infp_duck_api_load(&api, NULL) < 0)
                return;
        n = api->data_chunk_get_size(input);
        a.n = (unsigned) api->data_chunk_get_column_count(input);
        for (unsigned i = 0; i < a.n; i++) {
                a.data[i] = api->vector_get_data(api->data_chunk_get_vector(input, i));
                a.validity[i] = api->vector_get_validity(api->data_chunk_get_vector(input, i));
        }
        for (idx_t row = 0; row < n; row++) {
                int reset = all_given(&a, row) ? reset_at(&a, row) : 0;

                if (reset < 0) {
                        api->scalar_function_set_error(
                                info, "infp_increase: the first argument is 'none', 'zero', 'wrap' or 'gap'");
                        return;
                }
                if (!reset || !increase(type, &a, (enum infp_reset) reset, row, api->vector_get_data(output)))
                        infp_duck_set_null(api, output, row);
        }
}

static void increase_i64(duckdb_function_info info, duckdb_data_chunk input, duckdb_vector output)
{
        run_increase(info, input, output, DUCKDB_TYPE_BIGINT);
}

static void increase_u64(duckdb_function_info info, duckdb_data_chunk input, duckdb_vector output)
{
        run_increase(info, input, output, DUCKDB_TYPE_UBIGINT);
}

static void increase_f64(duckdb_function_info info, duckdb_data_chunk input, duckdb_vector output)
{
        run_increase(info, input, output, DUCKDB_TYPE_DOUBLE);
}

static void add_overload(const struct infp_duck_api *api, duckdb_scalar_function_set set, duckdb_type type,
                         duckdb_scalar_function_t function, unsigned n_numbers)
{
        duckdb_scalar_function f = api->create_scalar_function();
        duckdb_logical_type text = api->create_logical_type(DUCKDB_TYPE_VARCHAR),
                            number = api->create_logical_type(type);

        api->scalar_function_set_name(f, "infp_increase");
        api->scalar_function_add_parameter(f, text);
        for (unsigned i = 0; i < n_numbers; i++)
                api->scalar_function_add_parameter(f, number);
        api->scalar_function_set_return_type(f, number);
        api->scalar_function_set_special_handling(f); /* sees nulls */
        api->scalar_function_set_function(f, function);
        api->add_scalar_function_to_set(set, f);
        api->destroy_logical_type(&text);
        api->destroy_logical_type(&number);
        api->destroy_scalar_function(&f);
}

int infp_duck_register_functions(struct infp_duck *duck, struct infp_err *err)
{
        const struct infp_duck_api *api = duck->api;
        duckdb_scalar_function_set set = api->create_scalar_function_set("infp_increase");
        duckdb_state state;

        for (unsigned n = 2; n <= 3; n++) {
                add_overload(api, set, DUCKDB_TYPE_BIGINT, increase_i64, n);
                add_overload(api, set, DUCKDB_TYPE_UBIGINT, increase_u64, n);
                add_overload(api, set, DUCKDB_TYPE_DOUBLE, increase_f64, n);
        }
        state = api->register_scalar_function_set(duck->connection, set);
        api->destroy_scalar_function_set(&set);
        return state == DuckDBSuccess ? 0 : infp_fail(err, -ENOPKG, "DuckDB refuses the function infp_increase");
}
