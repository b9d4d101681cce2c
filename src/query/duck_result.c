#include "query/duck_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"
#include "base/str.h"
#include "query/made.h"

/* How a column of an SQL result becomes a vector of a batch. */
enum column_how {
        DIRECT, /* same layout as ours: used in place */
        WIDEN,  /* small integers, float */
        BOOL,
        TEXT,
        TIME,         /* a time stamp of another unit */
        HUGE_INTEGER, /* 128 bits: i64 or u64 when all values fit, else text */
        DECIMAL,      /* f64 when no digit is lost (i64 without decimals), else text */
        CAST,         /* converted to text by DuckDB */
};

struct column {
        enum column_how how;
        enum infp_type type; /* ours */
        duckdb_type from;    /* type of the values in memory */
        uint8_t scale;       /* decimals */
        /* Own memory for 2,048 rows. */
        void *values;
        int32_t *offsets;
        size_t cap_text;
};

enum { MAX_ROWS = 2048, EXACT_DIGITS = 15 };

__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 uwide;

/* From DuckDB's type. DECIMAL and HUGE_INTEGER are provisional: see decide. */
static void plan_column(duckdb_logical_type type, struct column *ret)
{
        duckdb_type id = api->get_type_id(type);

        *ret = (struct column){ .from = id };
        switch (id) {
        case DUCKDB_TYPE_BIGINT:
                ret->how = DIRECT, ret->type = INFP_I64;
                break;
        case DUCKDB_TYPE_UBIGINT:
                ret->how = DIRECT, ret->type = INFP_U64;
                break;
        case DUCKDB_TYPE_DOUBLE:
                ret->how = DIRECT, ret->type = INFP_F64;
                break;
        case DUCKDB_TYPE_TIMESTAMP_NS:
                ret->how = DIRECT, ret->type = INFP_TS_NS;
                break;
        case DUCKDB_TYPE_TIMESTAMP:
        case DUCKDB_TYPE_TIMESTAMP_S:
        case DUCKDB_TYPE_TIMESTAMP_MS:
        case DUCKDB_TYPE_TIMESTAMP_TZ:
                ret->how = TIME, ret->type = INFP_TS_NS;
                break;
        case DUCKDB_TYPE_BOOLEAN:
                ret->how = BOOL, ret->type = INFP_BOOL;
                break;
        case DUCKDB_TYPE_TINYINT:
        case DUCKDB_TYPE_SMALLINT:
        case DUCKDB_TYPE_INTEGER:
        case DUCKDB_TYPE_UTINYINT:
        case DUCKDB_TYPE_USMALLINT:
        case DUCKDB_TYPE_UINTEGER:
                ret->how = WIDEN, ret->type = INFP_I64;
                break;
        case DUCKDB_TYPE_FLOAT:
                ret->how = WIDEN, ret->type = INFP_F64;
                break;
        case DUCKDB_TYPE_HUGEINT:
        case DUCKDB_TYPE_UHUGEINT:
                ret->how = HUGE_INTEGER, ret->type = INFP_STR;
                break;
        case DUCKDB_TYPE_DECIMAL:
                ret->how = DECIMAL, ret->type = INFP_STR;
                ret->scale = api->decimal_scale(type);
                ret->from = api->decimal_internal_type(type);
                break;
        case DUCKDB_TYPE_VARCHAR:
                ret->how = TEXT, ret->type = INFP_STR;
                break;
        default:
                ret->how = CAST, ret->type = INFP_STR;
        }
}

static void column_done(struct column *column)
{
        free(column->values);
        free(column->offsets);
}

/* An integer of any width; of UHUGEINT the values from 2^127 on are not representable: false. */
static bool integer_at(duckdb_type type, const void *data, idx_t row, wide *ret)
{
        switch (type) {
        case DUCKDB_TYPE_TINYINT:
                *ret = ((const int8_t *) data)[row];
                break;
        case DUCKDB_TYPE_SMALLINT:
                *ret = ((const int16_t *) data)[row];
                break;
        case DUCKDB_TYPE_INTEGER:
                *ret = ((const int32_t *) data)[row];
                break;
        case DUCKDB_TYPE_BIGINT:
                *ret = ((const int64_t *) data)[row];
                break;
        case DUCKDB_TYPE_UTINYINT:
                *ret = ((const uint8_t *) data)[row];
                break;
        case DUCKDB_TYPE_USMALLINT:
                *ret = ((const uint16_t *) data)[row];
                break;
        case DUCKDB_TYPE_UINTEGER:
                *ret = ((const uint32_t *) data)[row];
                break;
        case DUCKDB_TYPE_UHUGEINT:
        case DUCKDB_TYPE_HUGEINT:
                *ret = (wide) (((uwide) (uint64_t) ((const duckdb_hugeint *) data)[row].upper << 64) |
                               ((const duckdb_hugeint *) data)[row].lower);
                return type == DUCKDB_TYPE_HUGEINT || *ret >= 0;
        default:
                return false;
        }
        return true;
}

static bool fits(wide value, enum infp_type type)
{
        wide limit = 1;

        switch (type) {
        case INFP_I64:
                return value >= INT64_MIN && value <= INT64_MAX;
        case INFP_U64:
                return value >= 0 && value <= UINT64_MAX;
        case INFP_F64:
                for (unsigned i = 0; i < EXACT_DIGITS; i++)
                        limit *= 10;
                return value > -limit && value < limit;
        default:
                return false;
        }
}

/* Looks through the values of a chunk: false when they do not fit `type`, a type that is tried. */
static bool column_fits(const struct column *column, enum infp_type type, duckdb_vector vector, idx_t n)
{
        const void *data = api->vector_get_data(vector);
        const uint64_t *validity = api->vector_get_validity(vector);
        wide value;

        for (idx_t row = 0; row < n; row++)
                if (infp_duck_has(validity, row) &&
                    (!integer_at(column->from, data, row, &value) || !fits(value, type)))
                        return false;
        return true;
}

/* value / 10^scale, correctly rounded: by way of its decimal text. */
static double decimal(int64_t value, unsigned scale)
{
        infp_autostr struct infp_str text = { 0 };
        double result = 0;

        infp_str_printf(&text, "%llde-%u", (long long) value, scale);
        if (!text.failed)
                infp_parse_f64(text.data, text.size, &result);
        return result;
}

/* Powers up to 10^15 and the value below 10^15 are exact doubles, so one division rounds once. */
static double exact_decimal(int64_t value, unsigned scale)
{
        double power = 1;

        if (scale > EXACT_DIGITS)
                return decimal(value, scale);
        for (unsigned i = 0; i < scale; i++)
                power *= 10;
        return (double) value / power;
}

static void read_numbers(const struct column *c, const void *data, const uint64_t *validity, idx_t n)
{
        int64_t *integers = c->values;
        double *doubles = c->values;
        wide value = 0;

        for (idx_t row = 0; row < n; row++) {
                integers[row] = 0;
                if (!infp_duck_has(validity, row))
                        continue;
                if (c->from == DUCKDB_TYPE_FLOAT) {
                        doubles[row] = ((const float *) data)[row];
                        continue;
                }
                integer_at(c->from, data, row, &value);
                if (c->type == INFP_F64)
                        doubles[row] = exact_decimal((int64_t) value, c->scale);
                else
                        integers[row] = (int64_t) (uint64_t) value;
        }
}

/* Bytes, not bools: a null may hold any value. */
static void read_flags(const struct column *c, const uint8_t *data, idx_t n)
{
        uint8_t *bits = c->values;

        memset(bits, 0, MAX_ROWS / 8);
        for (idx_t row = 0; row < n; row++)
                if (data[row] == 1)
                        bits[row / 8] |= (uint8_t) (1u << row % 8);
}

static int read_times(const struct column *c, const int64_t *data, const uint64_t *validity, idx_t n)
{
        int64_t factor = c->from == DUCKDB_TYPE_TIMESTAMP_S    ? 1000000000
                         : c->from == DUCKDB_TYPE_TIMESTAMP_MS ? 1000000
                                                               : 1000;
        int64_t *values = c->values;

        for (idx_t row = 0; row < n; row++) {
                values[row] = 0;
                if (infp_duck_has(validity, row) && __builtin_mul_overflow(data[row], factor, &values[row]))
                        return -ERANGE;
        }
        return 0;
}

static const char *text_at(const duckdb_string_t *data, idx_t row, uint32_t *ret_size)
{
        const duckdb_string_t *text = &data[row];

        *ret_size = text->value.inlined.length;
        return *ret_size <= sizeof(text->value.inlined.inlined) ? text->value.inlined.inlined : text->value.pointer.ptr;
}

static int read_texts(struct column *c, const duckdb_string_t *data, const uint64_t *validity, idx_t n)
{
        size_t at = 0;

        c->offsets[0] = 0;
        for (idx_t row = 0; row < n; row++) {
                uint32_t size = 0;
                const char *text = infp_duck_has(validity, row) ? text_at(data, row, &size) : "";

                if (at + size > INT32_MAX)
                        return -ENOMEM;
                if (at + size > c->cap_text) {
                        size_t cap = 2 * (at + size) + 4096;
                        void *more = realloc(c->values, cap);

                        if (!more)
                                return -ENOMEM;
                        c->values = more;
                        c->cap_text = cap;
                }
                if (size)
                        memcpy((char *) c->values + at, text, size);
                at += size;
                c->offsets[row + 1] = (int32_t) at;
        }
        return 0;
}

static int reserve(struct column *c)
{
        if (c->type == INFP_STR) {
                if (!c->offsets)
                        c->offsets = calloc(MAX_ROWS + 1, sizeof(*c->offsets));
                if (!c->values)
                        c->values = malloc(c->cap_text = 4096);
                return c->offsets && c->values ? 0 : -ENOMEM;
        }
        if (!c->values)
                c->values = calloc(MAX_ROWS, 8);
        return c->values ? 0 : -ENOMEM;
}

/* -ENOMEM, -ERANGE (a time stamp beyond the years 1678 to 2261). */
static int read_column(struct column *c, duckdb_vector vector, idx_t n, struct infp_vector *ret)
{
        const void *data = api->vector_get_data(vector);
        const uint64_t *validity = api->vector_get_validity(vector);
        int r = 0;

        /* DuckDB's null bits are Arrow's: the first row is the lowest bit (this is little endian, as Arrow itself). */
        *ret = (struct infp_vector){ .valid = (const uint8_t *) validity, .values = data };
        if (c->how == DIRECT)
                return 0;
        if (n > MAX_ROWS || reserve(c) < 0)
                return -ENOMEM;
        if (c->type == INFP_STR)
                r = read_texts(c, data, validity, n);
        else if (c->how == TIME)
                r = read_times(c, data, validity, n);
        else if (c->how == BOOL)
                read_flags(c, data, n);
        else
                read_numbers(c, data, validity, n);
        ret->values = c->values;
        ret->offsets = c->offsets;
        return r;
}

/* DuckDB itself converts cells of other types (lists, intervals, dates) to text: the chunk goes through the table function
 * infp_chunk into SELECT CAST(c AS VARCHAR). */
static void bind_chunk(duckdb_bind_info info)
{
        struct infp_duck *duck;
        char name[24];

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

static void init_chunk(duckdb_init_info info)
{
        api->init_set_max_threads(info, 1);
}

static void give_chunk(duckdb_function_info info, duckdb_data_chunk output)
{
        struct infp_duck *duck;

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
        duckdb_table_function f = api->create_table_function();
        duckdb_state state;

        api->table_function_set_name(f, "infp_chunk");
        api->table_function_set_extra_info(f, duck, NULL);
        api->table_function_set_bind(f, bind_chunk);
        api->table_function_set_init(f, init_chunk);
        api->table_function_set_function(f, give_chunk);
        state = api->register_table_function(duck->connection, f);
        api->destroy_table_function(&f);
        return state == DuckDBSuccess ? 0 : infp_fail(err, -ENOPKG, "DuckDB refuses the table function infp_chunk");
}

/* The columns `which` (n of them) of the chunk as VARCHAR, in a chunk of the result that the caller destroys. */
static int cast_chunk(struct infp_duck *duck, duckdb_data_chunk chunk, const unsigned *which, unsigned n,
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
        state = api->query(duck->helper, sql.data, ret);
        duck->cast.chunk = NULL;
        if (state == DuckDBSuccess)
                *ret_chunk = api->fetch_chunk(*ret);
        return *ret_chunk ? 0 : infp_duck_fail(ret, err);
}

struct infp_duck_result {
        struct infp_duck *duck;
        duckdb_result result;
        struct infp_made *made;
        unsigned n; /* columns */
        struct column *columns;
        struct infp_vector *vectors;
        unsigned *cast; /* columns that DuckDB turns into text */
        unsigned n_cast;

        duckdb_data_chunk chunk, texts;
        duckdb_result texts_result;
        bool has_texts;
        /* The first chunks, or all, when a type depends on the values. */
        duckdb_data_chunk *held;
        size_t n_held, cap_held, next_held;
        bool is_ended; /* DuckDB has no more */
};

/* A larger result is not held: columns that depend on values become text. */
enum { MAX_HELD = 256 << 20 };

static void drop_texts(struct infp_duck_result *r)
{
        if (r->texts)
                api->destroy_data_chunk(&r->texts);
        if (r->has_texts)
                api->destroy_result(&r->texts_result);
        r->has_texts = false;
}

struct infp_duck_result *infp_duck_result_free(struct infp_duck_result *r)
{
        if (!r)
                return NULL;
        drop_texts(r);
        if (r->chunk)
                api->destroy_data_chunk(&r->chunk);
        for (size_t i = r->next_held; i < r->n_held; i++)
                api->destroy_data_chunk(&r->held[i]);
        free(r->held);
        for (unsigned i = 0; r->columns && i < r->n; i++)
                column_done(&r->columns[i]);
        free(r->columns);
        free(r->vectors);
        free(r->cast);
        infp_made_free(r->made);
        api->destroy_result(&r->result);
        free(r);
        return NULL;
}

static void free_result(struct infp_duck_result **r)
{
        infp_duck_result_free(*r);
}

const struct infp_table *infp_duck_result_table(const struct infp_duck_result *result)
{
        return &result->made->table;
}

/* Runs one statement; its result streams. */
static int execute(duckdb_prepared_statement statement, duckdb_result *ret, struct infp_err *err)
{
        duckdb_pending_result pending;
        int r = 0;

        if (api->pending_prepared_streaming(statement, &pending) != DuckDBSuccess)
                r = infp_duck_fail_text(api->pending_error(pending), err);
        else if (api->execute_pending(pending, ret) != DuckDBSuccess) {
                r = infp_duck_fail(ret, err);
                api->destroy_result(ret);
        }
        api->destroy_pending(&pending);
        return r;
}

/* Runs all statements but keeps only the last one's result. */
static int execute_all(struct infp_duck *duck, duckdb_extracted_statements list, idx_t n, duckdb_result *ret,
                       struct infp_err *err)
{
        int r = 0;

        for (idx_t i = 0; r == 0 && i < n; i++) {
                duckdb_prepared_statement statement;

                if (i)
                        api->destroy_result(ret);
                if (api->prepare_extracted_statement(duck->connection, list, i, &statement) != DuckDBSuccess)
                        r = infp_duck_fail_text(api->prepare_error(statement), err);
                else
                        r = execute(statement, ret, err);
                api->destroy_prepare(&statement);
        }
        return r;
}

static int run(struct infp_duck *duck, const char *sql, duckdb_result *ret, struct infp_err *err)
{
        duckdb_extracted_statements list;
        idx_t n = api->extract_statements(duck->connection, sql, &list);
        int r;

        if (n) {
                r = execute_all(duck, list, n, ret, err);
        } else {
                const char *text = api->extract_statements_error(list);

                r = text && *text ? infp_duck_fail_text(text, err)
                                  : infp_fail(err, -EINVAL, "there is no SQL statement in it");
        }
        api->destroy_extracted(&list);
        return r;
}

static int hold(struct infp_duck_result *r, duckdb_data_chunk chunk)
{
        if (!INFP_MAKE_ROOM(r->held, r->n_held, r->cap_held, 64))
                return -ENOMEM;
        r->held[r->n_held++] = chunk;
        return 0;
}

/* The next chunk of DuckDB; NULL at the end. */
static int fetch(struct infp_duck_result *r, duckdb_data_chunk *ret, struct infp_err *err)
{
        const char *text;

        *ret = api->fetch_chunk(r->result);
        text = *ret ? NULL : api->result_error(&r->result);
        return text && *text ? infp_duck_fail(&r->result, err) : 0;
}

/* Memory of a chunk with its texts; nested values count as pointers. */
static size_t chunk_size(const struct infp_duck_result *r, duckdb_data_chunk chunk)
{
        idx_t n = api->data_chunk_get_size(chunk);
        size_t size = 0;

        for (unsigned i = 0; i < r->n; i++) {
                duckdb_vector vector = api->data_chunk_get_vector(chunk, i);
                const duckdb_string_t *texts = api->vector_get_data(vector);
                const uint64_t *validity = api->vector_get_validity(vector);

                size += n * sizeof(*texts);
                for (idx_t row = 0; r->columns[i].how == TEXT && row < n; row++)
                        size += infp_duck_has(validity, row) ? texts[row].value.inlined.length : 0;
        }
        return size;
}

static int hold_all(struct infp_duck_result *r, struct infp_err *err)
{
        duckdb_data_chunk chunk;
        size_t size = 0;

        while (size < MAX_HELD) {
                INFP_TRY(fetch(r, &chunk, err));
                r->is_ended = !chunk;
                if (!chunk)
                        break;
                if (hold(r, chunk) < 0) {
                        api->destroy_data_chunk(&chunk);
                        return infp_fail(err, -ENOMEM, "out of memory for the result");
                }
                size += chunk_size(r, chunk);
        }
        return 0;
}

static bool all_fit(const struct infp_duck_result *r, unsigned column, enum infp_type type)
{
        for (size_t i = 0; i < r->n_held; i++)
                if (!column_fits(&r->columns[column], type, api->data_chunk_get_vector(r->held[i], column),
                                 api->data_chunk_get_size(r->held[i])))
                        return false;
        return true;
}

/* sum() of integers has 128 bits but rarely needs them; decimals are usually short. */
static void decide(struct infp_duck_result *r, unsigned column)
{
        struct column *c = &r->columns[column];

        if (!r->is_ended)
                c->type = INFP_STR;
        else if (c->how == DECIMAL && c->scale)
                c->type = all_fit(r, column, INFP_F64) ? INFP_F64 : INFP_STR;
        else
                c->type = all_fit(r, column, INFP_I64) ? INFP_I64 : all_fit(r, column, INFP_U64) ? INFP_U64 : INFP_STR;
        if (c->type == INFP_STR)
                c->how = CAST;
}

static int plan_columns(struct infp_duck_result *r, struct infp_err *err)
{
        bool depends = false;

        for (unsigned i = 0; i < r->n; i++) {
                duckdb_logical_type type = api->column_logical_type(&r->result, i);

                plan_column(type, &r->columns[i]);
                api->destroy_logical_type(&type);
                depends |= r->columns[i].how == HUGE_INTEGER || r->columns[i].how == DECIMAL;
        }
        if (depends)
                INFP_TRY(hold_all(r, err));
        for (unsigned i = 0; i < r->n; i++) {
                if (r->columns[i].how == HUGE_INTEGER || r->columns[i].how == DECIMAL)
                        decide(r, i);
                if (r->columns[i].how == CAST)
                        r->cast[r->n_cast++] = i;
        }
        return 0;
}

static int make_table(struct infp_duck_result *r)
{
        r->made = infp_made_new("result", true);
        if (!r->made)
                return -ENOMEM;
        for (unsigned i = 0; i < r->n; i++) {
                const char *name = api->column_name(&r->result, i);
                struct infp_column column = {
                        .name = name ? name : "",
                        .type = r->columns[i].type,
                        .kind = r->columns[i].type == INFP_STR ? INFP_LABEL : INFP_GAUGE,
                        .quality = INFP_DERIVED,
                        .help = "",
                };

                INFP_TRY(infp_made_add(r->made, &column, false));
        }
        return 0;
}

int infp_duck_query(struct infp_duck *duck, const char *sql, struct infp_duck_result **ret, struct infp_err *err)
{
        infp_cleanup(free_result) struct infp_duck_result *r = NULL;
        duckdb_result result = { 0 };

        *ret = NULL;
        INFP_TRY(infp_duck_make_views(duck, sql, err));
        if (duck->is_restricted)
                INFP_TRY(infp_duck_check_select(duck, sql, "--restricted takes", err));
        INFP_TRY(run(duck, sql, &result, err));
        r = calloc(1, sizeof(*r));
        if (!r) {
                api->destroy_result(&result);
                return infp_fail(err, -ENOMEM, "out of memory");
        }
        r->duck = duck;
        r->result = result;
        /* SET, CREATE and similar statements return a meaningless column. */
        if (api->result_return_type(result) != DUCKDB_RESULT_TYPE_NOTHING)
                r->n = (unsigned) api->column_count(&r->result);
        r->columns = calloc(r->n + 1, sizeof(*r->columns));
        r->vectors = calloc(r->n + 1, sizeof(*r->vectors));
        r->cast = calloc(r->n + 1, sizeof(*r->cast));
        if (!r->columns || !r->vectors || !r->cast)
                return infp_fail(err, -ENOMEM, "out of memory");
        INFP_TRY(plan_columns(r, err));
        if (make_table(r) < 0)
                return infp_fail(err, -ENOMEM, "the result has too many columns");
        *ret = INFP_TAKE(r);
        return 0;
}

static int next_chunk(struct infp_duck_result *r, struct infp_err *err)
{
        if (r->chunk)
                api->destroy_data_chunk(&r->chunk);
        if (r->next_held < r->n_held) {
                r->chunk = r->held[r->next_held++];
                return 0;
        }
        return r->is_ended ? 0 : fetch(r, &r->chunk, err);
}

static int make_texts(struct infp_duck_result *r, struct infp_err *err)
{
        drop_texts(r);
        if (!r->n_cast)
                return 0;
        r->has_texts = true;
        return cast_chunk(r->duck, r->chunk, r->cast, r->n_cast, &r->texts_result, &r->texts, err);
}

static int read_chunk(struct infp_duck_result *r, idx_t n, struct infp_err *err)
{
        unsigned n_cast = 0;
        duckdb_vector vector;
        int code;

        INFP_TRY(make_texts(r, err));
        for (unsigned i = 0; i < r->n; i++) {
                bool is_cast = r->columns[i].how == CAST;

                vector = is_cast ? api->data_chunk_get_vector(r->texts, n_cast++)
                                 : api->data_chunk_get_vector(r->chunk, i);
                code = read_column(&r->columns[i], vector, n, &r->vectors[i]);
                if (code == -ERANGE)
                        return infp_fail(
                                err, code,
                                "column %s holds a time outside the years 1678 to 2261; CAST(... AS VARCHAR) shows it",
                                r->made->table.columns[i].name);
                if (code < 0)
                        return infp_fail(err, code, "out of memory for the result");
        }
        return 0;
}

int infp_duck_result_next(struct infp_duck_result *r, struct infp_batch *ret, struct infp_err *err)
{
        idx_t n;

        do {
                INFP_TRY(next_chunk(r, err));
                if (!r->chunk || !r->n)
                        return 0;
                n = api->data_chunk_get_size(r->chunk);
        } while (!n);
        INFP_TRY(read_chunk(r, n, err));
        *ret = (struct infp_batch){ .table = &r->made->table, .columns = r->vectors, .n_rows = (uint32_t) n };
        return 1;
}
