#include "query/duck_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"
#include "base/time.h"
#include "model/rate.h"
#include "query/engine_quantiles.h"
#include "query/series.h"

duckdb_type infp_duck_type(enum infp_type type)
{
        switch (type) {
        case INFP_I64:
                return DUCKDB_TYPE_BIGINT;
        case INFP_U64:
        case INFP_ID64:
                return DUCKDB_TYPE_UBIGINT;
        case INFP_F64:
                return DUCKDB_TYPE_DOUBLE;
        case INFP_BOOL:
                return DUCKDB_TYPE_BOOLEAN;
        case INFP_TS_NS:
                return DUCKDB_TYPE_TIMESTAMP_TZ; /* microseconds, UTC: as in the files */
        case INFP_STR:
                break;
        }
        return DUCKDB_TYPE_VARCHAR;
}

void infp_duck_set_null(duckdb_vector vector, idx_t row)
{
        uint64_t *validity;

        api->vector_ensure_validity_writable(vector);
        validity = api->vector_get_validity(vector);
        validity[row / 64] &= ~(UINT64_C(1) << row % 64);
}

static void fill_validity(duckdb_vector vector, const struct infp_batch *batch, unsigned column, uint32_t from,
                          uint32_t n)
{
        uint64_t *validity = NULL;

        if (!batch->columns[column].valid)
                return;
        for (uint32_t i = 0; i < n; i++) {
                if (infp_batch_has(batch, column, from + i))
                        continue;
                if (!validity) {
                        api->vector_ensure_validity_writable(vector);
                        validity = api->vector_get_validity(vector);
                }
                validity[i / 64] &= ~(UINT64_C(1) << i % 64);
        }
}

static void fill_texts(duckdb_vector vector, const struct infp_batch *batch, unsigned column, uint32_t from, uint32_t n)
{
        for (uint32_t i = 0; i < n; i++)
                if (infp_batch_has(batch, column, from + i)) {
                        size_t size;
                        const char *text = infp_batch_str(batch, column, from + i, &size);

                        api->vector_assign_string_element_len(vector, i, text, size);
                }
}

/* Rows of one column of a batch into a vector. */
static void fill_vector(duckdb_vector vector, const struct infp_batch *batch, unsigned column, uint32_t from,
                        uint32_t n)
{
        const uint64_t *values = batch->columns[column].values;
        int64_t *us;
        bool *flags;

        fill_validity(vector, batch, column, from, n);
        switch (infp_table_column(batch->table, column)->type) {
        case INFP_STR:
                fill_texts(vector, batch, column, from, n);
                return;
        case INFP_BOOL:
                flags = api->vector_get_data(vector);
                for (uint32_t i = 0; i < n; i++)
                        flags[i] = infp_batch_bool(batch, column, from + i);
                return;
        case INFP_TS_NS:
                us = api->vector_get_data(vector);
                for (uint32_t i = 0; i < n; i++)
                        us[i] = infp_floor_us((int64_t) values[batch->first + from + i]);
                return;
        case INFP_I64:
        case INFP_U64:
        case INFP_F64:
        case INFP_ID64:
                memcpy(api->vector_get_data(vector), values + batch->first + from, n * sizeof(*values));
        }
}

/* Our rows as table functions; they differ only in where batches come from. */
enum { CHUNK_ROWS = 2048, MAX_PARAMETERS = 2, MOST_SECONDS = 366 * 86400 };

/* An open source of batches. */
struct source {
        const struct infp_table *table;
        void *context;
        int (*next)(void *context, struct infp_batch *ret, struct infp_err *err);
        void (*close)(void *context);
};

/* What a query reads, known when it is bound. */
struct binding {
        struct infp_duck *duck;
        char *parameters[MAX_PARAMETERS]; /* as text; "" for null */
        int (*open)(const struct binding *binding, const char *const *columns, struct source *ret,
                    struct infp_err *err);
        char **names;
        unsigned n;
};

struct reading {
        struct source source;
        int *map; /* column of the output -> of the batches; -1: only the number of rows is wanted */
        unsigned n;
        struct infp_batch batch;
        uint32_t at;
};

static int scan_next(void *context, struct infp_batch *ret, struct infp_err *err)
{
        return infp_scan_next(context, ret, err);
}

static void scan_close(void *context)
{
        infp_scan_close(context);
}

static const struct infp_parts *find_parts(const struct infp_duck_run *attached, const char *table)
{
        for (unsigned i = 0; i < attached->catalog.n_tables; i++)
                if (strcmp(attached->catalog.tables[i].name, table) == 0)
                        return &attached->arrow[i];
        return NULL;
}

static int open_scan(const struct binding *binding, const char *const *columns, struct source *ret,
                     struct infp_err *err)
{
        const struct infp_duck_run *attached = binding->duck->attached;
        struct infp_scan_options options = { .columns = columns };
        struct infp_scan *scan;

        if (!attached)
                return infp_fail(err, -EINVAL, "infp_scan: no run is attached");
        options.catalog = &attached->catalog;
        options.parts = find_parts(attached, binding->parameters[0]);
        if (!options.parts)
                return infp_fail(err, -ENOENT, "infp_scan: the run has no table %s", binding->parameters[0]);
        INFP_TRY(infp_scan_open(attached->run, binding->parameters[0], &options, &scan, err));
        *ret = (struct source){ infp_scan_table(scan), scan, scan_next, scan_close };
        return 0;
}

static int series_next(void *context, struct infp_batch *ret, struct infp_err *err)
{
        return infp_series_next(context, ret, err);
}

static void series_close(void *context)
{
        infp_series_close(context);
}

static int open_series(const struct binding *binding, const char *const *columns, struct source *ret,
                       struct infp_err *err)
{
        struct infp_series *series;

        (void) columns;
        if (!binding->duck->attached)
                return infp_fail(err, -EINVAL, "infp_timeseries: no run is attached");
        INFP_TRY(infp_series_open(binding->duck->attached->run, 0, 0, &series, err));
        *ret = (struct source){ infp_series_table(series), series, series_next, series_close };
        return 0;
}

static int quantiles_next(void *context, struct infp_batch *ret, struct infp_err *err)
{
        return infp_engine_quantiles_next(context, ret, err);
}

static void quantiles_close(void *context)
{
        infp_engine_quantiles_close(context);
}

static int open_quantiles(const struct binding *binding, const char *const *columns, struct source *ret,
                          struct infp_err *err)
{
        const struct infp_duck_run *attached = binding->duck->attached;
        struct infp_engine_quantiles *quantiles = NULL;
        uint64_t t[MAX_PARAMETERS] = { 0 };

        if (!attached)
                return infp_fail(err, -EINVAL, INFP_QUANTILES_FUNCTION ": no run is attached");
        for (unsigned i = 0; i < MAX_PARAMETERS; i++)
                if (*binding->parameters[i] &&
                    infp_parse_u64(binding->parameters[i], strlen(binding->parameters[i]), &t[i]) < 0)
                        return infp_fail(err, -EINVAL, INFP_QUANTILES_FUNCTION ": %s is not a t_ns",
                                         binding->parameters[i]);
        /* Binding needs only the columns. */
        if (columns)
                INFP_TRY(infp_engine_quantiles_open(attached->run, t[0], t[1], &attached->catalog, &quantiles, err));
        *ret = (struct source){ &infp_engine_quantiles_table, quantiles, quantiles_next, quantiles_close };
        return 0;
}

static int open_quantiles_by(const struct binding *binding, const char *const *columns, struct source *ret,
                             struct infp_err *err)
{
        const struct infp_duck_run *attached = binding->duck->attached;
        struct infp_engine_quantiles *quantiles = NULL;
        const char *text = binding->parameters[0];
        uint64_t seconds;

        if (!attached)
                return infp_fail(err, -EINVAL, INFP_QUANTILES_STEPS ": no run is attached");
        if (infp_parse_u64(text, strlen(text), &seconds) < 0 || seconds < 1 || seconds > MOST_SECONDS)
                return infp_fail(err, -EINVAL, INFP_QUANTILES_STEPS ": %s is not a number of seconds from 1 to %d",
                                 *text ? text : "NULL", MOST_SECONDS);
        if (columns)
                INFP_TRY(infp_engine_quantiles_open_by(attached->run, seconds * INFP_NS_PER_S, &attached->catalog,
                                                       &quantiles, err));
        *ret = (struct source){ &infp_engine_quantiles_by_table, quantiles, quantiles_next, quantiles_close };
        return 0;
}

/* A row group is encoded when all its rows are there: by then the planner's pages of the library are not needed. Once is enough:
 * each time costs hundreds of page faults, and later statements touch few pages. */
static int rows_next(void *context, struct infp_batch *ret, struct infp_err *err)
{
        struct infp_duck *duck = context;
        const int r = duck->rows->next(duck->rows->context, ret, err);

        if (r == 0 && !duck->is_trimmed) {
                infp_duck_api_trim();
                duck->is_trimmed = true;
        }
        return r;
}

static void rows_close(void *context)
{
        (void) context;
}

static int open_rows(const struct binding *binding, const char *const *columns, struct source *ret,
                     struct infp_err *err)
{
        struct infp_duck *duck = binding->duck;

        (void) columns;
        if (!duck->rows)
                return infp_fail(err, -EINVAL, "infp_rows is for infprof's own use");
        *ret = (struct source){ duck->rows->table, duck, rows_next, rows_close };
        return 0;
}

static void free_binding(void *data)
{
        struct binding *binding = data;

        if (!binding)
                return;
        for (unsigned i = 0; i < binding->n; i++)
                free(binding->names[i]);
        free(binding->names);
        for (unsigned i = 0; i < MAX_PARAMETERS; i++)
                free(binding->parameters[i]);
        free(binding);
}

static void free_binding_ptr(struct binding **binding)
{
        free_binding(*binding);
}

static void free_reading(void *data)
{
        struct reading *reading = data;

        if (reading && reading->source.close)
                reading->source.close(reading->source.context);
        if (reading)
                free(reading->map);
        free(reading);
}

static void free_reading_ptr(struct reading **reading)
{
        free_reading(*reading);
}

static int take_names(struct binding *binding, const struct infp_table *table)
{
        unsigned width = infp_table_width(table);

        binding->names = calloc(width + 1, sizeof(*binding->names));
        if (!binding->names)
                return -ENOMEM;
        for (; binding->n < width; binding->n++) {
                binding->names[binding->n] = strdup(infp_table_column(table, binding->n)->name);
                if (!binding->names[binding->n])
                        return -ENOMEM;
        }
        return 0;
}

/* Asking for the text of a null value is an internal error to DuckDB, which then refuses all further work. */
static int take_parameter(duckdb_bind_info info, unsigned number, char **ret)
{
        duckdb_value value = api->bind_get_parameter(info, number);
        char *text = api->is_null_value(value) ? NULL : api->get_varchar(value);

        *ret = strdup(text ? text : "");
        if (text)
                api->free(text);
        api->destroy_value(&value);
        return *ret ? 0 : -ENOMEM;
}

static int take_parameters(duckdb_bind_info info, struct binding *binding, unsigned n)
{
        for (unsigned i = 0; i < n; i++)
                INFP_TRY(take_parameter(info, i, &binding->parameters[i]));
        return 0;
}

static int bind_columns(duckdb_bind_info info, struct binding *binding, struct infp_err *err)
{
        struct source source;
        int r;

        INFP_TRY(binding->open(binding, NULL, &source, err));
        r = take_names(binding, source.table);
        for (unsigned i = 0; r == 0 && i < binding->n; i++) {
                duckdb_logical_type type =
                        api->create_logical_type(infp_duck_type(infp_table_column(source.table, i)->type));

                api->bind_add_result_column(info, binding->names[i], type);
                api->destroy_logical_type(&type);
        }
        source.close(source.context);
        return r < 0 ? infp_fail(err, r, "out of memory") : 0;
}

static void bind(duckdb_bind_info info, __typeof__(((struct binding *) 0)->open) open, unsigned n_parameters)
{
        infp_cleanup(free_binding_ptr) struct binding *binding = calloc(1, sizeof(*binding));
        struct infp_err err = { "out of memory" };
        int r;

        if (!binding || take_parameters(info, binding, n_parameters) < 0) {
                api->bind_set_error(info, err.text);
                return;
        }
        binding->duck = api->bind_get_extra_info(info);
        binding->open = open;
        r = bind_columns(info, binding, &err);
        if (r < 0)
                api->bind_set_error(info, err.text);
        else
                api->bind_set_bind_data(info, INFP_TAKE(binding), free_binding);
}

static void bind_scan(duckdb_bind_info info)
{
        bind(info, open_scan, 1);
}

static void bind_series(duckdb_bind_info info)
{
        bind(info, open_series, 0);
}

static void bind_quantiles(duckdb_bind_info info)
{
        bind(info, open_quantiles, 2);
}

static void bind_quantiles_by(duckdb_bind_info info)
{
        bind(info, open_quantiles_by, 1);
}

static void bind_rows(duckdb_bind_info info)
{
        bind(info, open_rows, 0);
}

/* Opens with the columns that the query uses. */
static int start(duckdb_init_info info, struct reading *reading, struct infp_err *err)
{
        const struct binding *binding = api->init_get_bind_data(info);
        infp_autofree const char **columns = NULL;
        unsigned n = 0;

        reading->n = (unsigned) api->init_get_column_count(info);
        reading->map = calloc(reading->n + 1, sizeof(*reading->map));
        columns = calloc(reading->n + 1, sizeof(*columns));
        if (!reading->map || !columns)
                return infp_fail(err, -ENOMEM, "out of memory");
        for (unsigned i = 0; i < reading->n; i++) {
                idx_t wanted = api->init_get_column_index(info, i);

                if (wanted < binding->n)
                        columns[n++] = binding->names[wanted];
        }
        INFP_TRY(binding->open(binding, columns, &reading->source, err));
        for (unsigned i = 0; i < reading->n; i++) {
                idx_t wanted = api->init_get_column_index(info, i);

                reading->map[i] =
                        wanted < binding->n ? infp_table_find(reading->source.table, binding->names[wanted]) : -1;
        }
        return 0;
}

static void init(duckdb_init_info info)
{
        infp_cleanup(free_reading_ptr) struct reading *reading = calloc(1, sizeof(*reading));
        struct infp_err err = { "out of memory" };

        if (!reading || start(info, reading, &err) < 0) {
                api->init_set_error(info, err.text);
                return;
        }
        api->init_set_max_threads(info, 1); /* rows come in order */
        api->init_set_init_data(info, INFP_TAKE(reading), free_reading);
}

static void read_chunk(duckdb_function_info info, duckdb_data_chunk output)
{
        struct reading *reading;
        struct infp_err err = { "" };
        uint32_t n;
        int r = 1;

        reading = api->function_get_init_data(info);
        while (r > 0 && reading->at >= reading->batch.n_rows) {
                reading->at = 0;
                reading->batch.n_rows = 0;
                r = reading->source.next(reading->source.context, &reading->batch, &err);
        }
        if (r < 0)
                api->function_set_error(info, err.text);
        n = r > 0 ? reading->batch.n_rows - reading->at : 0;
        if (n > CHUNK_ROWS)
                n = CHUNK_ROWS;
        for (unsigned i = 0; n && i < reading->n; i++)
                if (reading->map[i] >= 0)
                        fill_vector(api->data_chunk_get_vector(output, i), &reading->batch, (unsigned) reading->map[i],
                                    reading->at, n);
        reading->at += n;
        api->data_chunk_set_size(output, n);
}

static int add(struct infp_duck *duck, const char *name, duckdb_table_function_bind_t bind_function,
               duckdb_type parameter, unsigned n_parameters, struct infp_err *err)
{
        duckdb_table_function f = api->create_table_function();
        duckdb_logical_type type = api->create_logical_type(parameter);
        duckdb_state state;

        api->table_function_set_name(f, name);
        for (unsigned i = 0; i < n_parameters; i++)
                api->table_function_add_parameter(f, type);
        api->table_function_set_extra_info(f, duck, NULL);
        api->table_function_set_bind(f, bind_function);
        api->table_function_set_init(f, init);
        api->table_function_set_function(f, read_chunk);
        api->table_function_supports_projection_pushdown(f, true);
        state = api->register_table_function(duck->connection, f);
        api->destroy_logical_type(&type);
        api->destroy_table_function(&f);
        return state == DuckDBSuccess ? 0 : infp_fail(err, -ENOPKG, "DuckDB refuses the table function %s", name);
}

int infp_duck_register_feeds(struct infp_duck *duck, struct infp_err *err)
{
        INFP_TRY(add(duck, "infp_scan", bind_scan, DUCKDB_TYPE_VARCHAR, 1, err));
        INFP_TRY(add(duck, "infp_timeseries", bind_series, DUCKDB_TYPE_VARCHAR, 0, err));
        INFP_TRY(add(duck, INFP_QUANTILES_FUNCTION, bind_quantiles, DUCKDB_TYPE_BIGINT, 2, err));
        INFP_TRY(add(duck, INFP_QUANTILES_STEPS, bind_quantiles_by, DUCKDB_TYPE_BIGINT, 1, err));
        return add(duck, "infp_rows", bind_rows, DUCKDB_TYPE_VARCHAR, 0, err);
}

/* The scalar function infp_increase over model/rate.h: its arguments are reset, before, after and perhaps range. */
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
        struct arguments a = { 0 };
        idx_t n;

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
                        infp_duck_set_null(output, row);
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

static void add_overload(duckdb_scalar_function_set set, duckdb_type type, duckdb_scalar_function_t function,
                         unsigned n_numbers)
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
        duckdb_scalar_function_set set = api->create_scalar_function_set("infp_increase");
        duckdb_state state;

        for (unsigned n = 2; n <= 3; n++) {
                add_overload(set, DUCKDB_TYPE_BIGINT, increase_i64, n);
                add_overload(set, DUCKDB_TYPE_UBIGINT, increase_u64, n);
                add_overload(set, DUCKDB_TYPE_DOUBLE, increase_f64, n);
        }
        state = api->register_scalar_function_set(duck->connection, set);
        api->destroy_scalar_function_set(&set);
        return state == DuckDBSuccess ? 0 : infp_fail(err, -ENOPKG, "DuckDB refuses the function infp_increase");
}
