#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "query/duck_column.h"
#include "query/made.h"

struct infp_duck_result {
        struct infp_duck *duck;
        const struct infp_duck_api *api;
        duckdb_result result;
        struct infp_made *made;
        unsigned n; /* columns */
        struct infp_duck_column *columns;
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

/* A larger result is not held: its columns that might need it are texts. */
enum { MAX_HELD = 256 << 20 };

static void drop_texts(struct infp_duck_result *r)
{
        if (r->texts)
                r->api->destroy_data_chunk(&r->texts);
        if (r->has_texts)
                r->api->destroy_result(&r->texts_result);
        r->has_texts = false;
}

struct infp_duck_result *infp_duck_result_free(struct infp_duck_result *r)
{
        if (!r)
                return NULL;
        drop_texts(r);
        if (r->chunk)
                r->api->destroy_data_chunk(&r->chunk);
        for (size_t i = r->next_held; i < r->n_held; i++)
                r->api->destroy_data_chunk(&r->held[i]);
        free(r->held);
        for (unsigned i = 0; r->columns && i < r->n; i++)
                infp_duck_column_done(&r->columns[i]);
        free(r->columns);
        free(r->vectors);
        free(r->cast);
        infp_made_free(r->made);
        r->api->destroy_result(&r->result);
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
static int execute(struct infp_duck *duck, duckdb_prepared_statement statement, duckdb_result *ret,
                   struct infp_err *err)
{
        const struct infp_duck_api *api = duck->api;
        duckdb_pending_result pending;
        int r = 0;

        if (api->pending_prepared_streaming(statement, &pending) != DuckDBSuccess)
                r = infp_duck_fail_text(api->pending_error(pending), err);
        else if (api->execute_pending(pending, ret) != DuckDBSuccess) {
                r = infp_duck_fail(duck, ret, err);
                api->destroy_result(ret);
        }
        api->destroy_pending(&pending);
        return r;
}

/* Runs all statements but keeps only the last one's result. */
static int execute_all(struct infp_duck *duck, duckdb_extracted_statements list, idx_t n, duckdb_result *ret,
                       struct infp_err *err)
{
        const struct infp_duck_api *api = duck->api;
        int r = 0;

        for (idx_t i = 0; r == 0 && i < n; i++) {
                duckdb_prepared_statement statement;

                if (i)
                        api->destroy_result(ret);
                if (api->prepare_extracted_statement(duck->connection, list, i, &statement) != DuckDBSuccess)
                        r = infp_duck_fail_text(api->prepare_error(statement), err);
                else
                        r = execute(duck, statement, ret, err);
                api->destroy_prepare(&statement);
        }
        return r;
}

static int run(struct infp_duck *duck, const char *sql, duckdb_result *ret, struct infp_err *err)
{
        duckdb_extracted_statements list;
        idx_t n = duck->api->extract_statements(duck->connection, sql, &list);
        int r;

        if (n) {
                r = execute_all(duck, list, n, ret, err);
        } else {
                const char *text = duck->api->extract_statements_error(list);

                r = text && *text ? infp_duck_fail_text(text, err)
                                  : infp_fail(err, -EINVAL, "there is no SQL statement in it");
        }
        duck->api->destroy_extracted(&list);
        return r;
}

static int hold(struct infp_duck_result *r, duckdb_data_chunk chunk)
{
        if (r->n_held == r->cap_held) {
                size_t cap = r->cap_held ? 2 * r->cap_held : 64;
                duckdb_data_chunk *more = realloc(r->held, cap * sizeof(duckdb_data_chunk));

                if (!more)
                        return -ENOMEM;
                r->held = more;
                r->cap_held = cap;
        }
        r->held[r->n_held++] = chunk;
        return 0;
}

/* The next chunk of DuckDB; NULL at the end. */
static int fetch(struct infp_duck_result *r, duckdb_data_chunk *ret, struct infp_err *err)
{
        const char *text;

        *ret = r->api->fetch_chunk(r->result);
        text = *ret ? NULL : r->api->result_error(&r->result);
        return text && *text ? infp_duck_fail(r->duck, &r->result, err) : 0;
}

/* What a chunk takes in memory, texts included; nested values count as their pointers. */
static size_t chunk_size(const struct infp_duck_result *r, duckdb_data_chunk chunk)
{
        idx_t n = r->api->data_chunk_get_size(chunk);
        size_t size = 0;

        for (unsigned i = 0; i < r->n; i++) {
                duckdb_vector vector = r->api->data_chunk_get_vector(chunk, i);
                const duckdb_string_t *texts = r->api->vector_get_data(vector);
                const uint64_t *validity = r->api->vector_get_validity(vector);

                size += n * sizeof(*texts);
                for (idx_t row = 0; r->columns[i].how == INFP_DUCK_TEXT && row < n; row++)
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
                        r->api->destroy_data_chunk(&chunk);
                        return infp_fail(err, -ENOMEM, "out of memory for the result");
                }
                size += chunk_size(r, chunk);
        }
        return 0;
}

static bool all_fit(const struct infp_duck_result *r, unsigned column, enum infp_type type)
{
        for (size_t i = 0; i < r->n_held; i++)
                if (!infp_duck_column_fits(r->api, &r->columns[column], type,
                                           r->api->data_chunk_get_vector(r->held[i], column),
                                           r->api->data_chunk_get_size(r->held[i])))
                        return false;
        return true;
}

/* sum() of integers is a 128-bit number nearly always for nothing; a decimal is nearly always short. */
static void decide(struct infp_duck_result *r, unsigned column)
{
        struct infp_duck_column *c = &r->columns[column];

        if (!r->is_ended)
                c->type = INFP_STR;
        else if (c->how == INFP_DUCK_DECIMAL && c->scale)
                c->type = all_fit(r, column, INFP_F64) ? INFP_F64 : INFP_STR;
        else
                c->type = all_fit(r, column, INFP_I64) ? INFP_I64 : all_fit(r, column, INFP_U64) ? INFP_U64 : INFP_STR;
        if (c->type == INFP_STR)
                c->how = INFP_DUCK_CAST;
}

static int plan_columns(struct infp_duck_result *r, struct infp_err *err)
{
        bool depends = false;

        for (unsigned i = 0; i < r->n; i++) {
                duckdb_logical_type type = r->api->column_logical_type(&r->result, i);

                infp_duck_column_plan(r->api, type, &r->columns[i]);
                r->api->destroy_logical_type(&type);
                depends |= r->columns[i].how == INFP_DUCK_HUGE || r->columns[i].how == INFP_DUCK_DECIMAL;
        }
        if (depends)
                INFP_TRY(hold_all(r, err));
        for (unsigned i = 0; i < r->n; i++) {
                if (r->columns[i].how == INFP_DUCK_HUGE || r->columns[i].how == INFP_DUCK_DECIMAL)
                        decide(r, i);
                if (r->columns[i].how == INFP_DUCK_CAST)
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
                const char *name = r->api->column_name(&r->result, i);
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
        if (duck->is_restricted)
                INFP_TRY(infp_duck_check_select(duck, sql, "--restricted takes", err));
        INFP_TRY(run(duck, sql, &result, err));
        r = calloc(1, sizeof(*r));
        if (!r) {
                duck->api->destroy_result(&result);
                return infp_fail(err, -ENOMEM, "out of memory");
        }
        r->duck = duck;
        r->api = duck->api;
        r->result = result;
        /* SET, CREATE and their like have a column without meaning. */
        if (duck->api->result_return_type(result) != DUCKDB_RESULT_TYPE_NOTHING)
                r->n = (unsigned) r->api->column_count(&r->result);
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
                r->api->destroy_data_chunk(&r->chunk);
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
        return infp_duck_cast(r->duck, r->chunk, r->cast, r->n_cast, &r->texts_result, &r->texts, err);
}

static int read_chunk(struct infp_duck_result *r, idx_t n, struct infp_err *err)
{
        unsigned n_cast = 0;
        duckdb_vector vector;
        int code;

        INFP_TRY(make_texts(r, err));
        for (unsigned i = 0; i < r->n; i++) {
                bool is_cast = r->columns[i].how == INFP_DUCK_CAST;

                vector = is_cast ? r->api->data_chunk_get_vector(r->texts, n_cast++)
                                 : r->api->data_chunk_get_vector(r->chunk, i);
                code = infp_duck_column_read(r->api, &r->columns[i], vector, n, &r->vectors[i]);
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
                n = r->api->data_chunk_get_size(r->chunk);
        } while (!n);
        INFP_TRY(read_chunk(r, n, err));
        *ret = (struct infp_batch){ .table = &r->made->table, .columns = r->vectors, .n_rows = (uint32_t) n };
        return 1;
}
