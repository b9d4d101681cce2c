#include "query/duck_column.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/str.h"

enum { MAX_ROWS = 2048, EXACT_DIGITS = 15 };

__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 uwide;

void infp_duck_column_plan(const struct infp_duck_api *api, duckdb_logical_type type, struct infp_duck_column *ret)
{
        duckdb_type id = api->get_type_id(type);

        *ret = (struct infp_duck_column){ .from = id };
        switch (id) {
        case DUCKDB_TYPE_BIGINT:
                ret->how = INFP_DUCK_DIRECT, ret->type = INFP_I64;
                break;
        case DUCKDB_TYPE_UBIGINT:
                ret->how = INFP_DUCK_DIRECT, ret->type = INFP_U64;
                break;
        case DUCKDB_TYPE_DOUBLE:
                ret->how = INFP_DUCK_DIRECT, ret->type = INFP_F64;
                break;
        case DUCKDB_TYPE_TIMESTAMP_NS:
                ret->how = INFP_DUCK_DIRECT, ret->type = INFP_TS_NS;
                break;
        case DUCKDB_TYPE_TIMESTAMP:
        case DUCKDB_TYPE_TIMESTAMP_S:
        case DUCKDB_TYPE_TIMESTAMP_MS:
        case DUCKDB_TYPE_TIMESTAMP_TZ:
                ret->how = INFP_DUCK_TIME, ret->type = INFP_TS_NS;
                break;
        case DUCKDB_TYPE_BOOLEAN:
                ret->how = INFP_DUCK_BOOL, ret->type = INFP_BOOL;
                break;
        case DUCKDB_TYPE_TINYINT:
        case DUCKDB_TYPE_SMALLINT:
        case DUCKDB_TYPE_INTEGER:
        case DUCKDB_TYPE_UTINYINT:
        case DUCKDB_TYPE_USMALLINT:
        case DUCKDB_TYPE_UINTEGER:
                ret->how = INFP_DUCK_WIDEN, ret->type = INFP_I64;
                break;
        case DUCKDB_TYPE_FLOAT:
                ret->how = INFP_DUCK_WIDEN, ret->type = INFP_F64;
                break;
        case DUCKDB_TYPE_HUGEINT:
        case DUCKDB_TYPE_UHUGEINT:
                ret->how = INFP_DUCK_HUGE, ret->type = INFP_STR;
                break;
        case DUCKDB_TYPE_DECIMAL:
                ret->how = INFP_DUCK_DECIMAL, ret->type = INFP_STR;
                ret->scale = api->decimal_scale(type);
                ret->from = api->decimal_internal_type(type);
                break;
        case DUCKDB_TYPE_VARCHAR:
                ret->how = INFP_DUCK_TEXT, ret->type = INFP_STR;
                break;
        default:
                ret->how = INFP_DUCK_CAST, ret->type = INFP_STR;
        }
}

void infp_duck_column_done(struct infp_duck_column *column)
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

bool infp_duck_column_fits(const struct infp_duck_api *api, const struct infp_duck_column *column, enum infp_type type,
                           duckdb_vector vector, idx_t n)
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

static void read_numbers(const struct infp_duck_column *c, const void *data, const uint64_t *validity, idx_t n)
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

/* Bytes, not bools: below a null lies anything. */
static void read_flags(const struct infp_duck_column *c, const uint8_t *data, idx_t n)
{
        uint8_t *bits = c->values;

        memset(bits, 0, MAX_ROWS / 8);
        for (idx_t row = 0; row < n; row++)
                if (data[row] == 1)
                        bits[row / 8] |= (uint8_t) (1u << row % 8);
}

static int read_times(const struct infp_duck_column *c, const int64_t *data, const uint64_t *validity, idx_t n)
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

static int read_texts(struct infp_duck_column *c, const duckdb_string_t *data, const uint64_t *validity, idx_t n)
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

static int reserve(struct infp_duck_column *c)
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

int infp_duck_column_read(const struct infp_duck_api *api, struct infp_duck_column *c, duckdb_vector vector, idx_t n,
                          struct infp_vector *ret)
{
        const void *data = api->vector_get_data(vector);
        const uint64_t *validity = api->vector_get_validity(vector);
        int r = 0;

        /* DuckDB's null bits are Arrow's: the first row is the lowest bit (this is little endian, as Arrow itself). */
        *ret = (struct infp_vector){ .valid = (const uint8_t *) validity, .values = data };
        if (c->how == INFP_DUCK_DIRECT)
                return 0;
        if (n > MAX_ROWS || reserve(c) < 0)
                return -ENOMEM;
        if (c->type == INFP_STR)
                r = read_texts(c, data, validity, n);
        else if (c->how == INFP_DUCK_TIME)
                r = read_times(c, data, validity, n);
        else if (c->how == INFP_DUCK_BOOL)
                read_flags(c, data, n);
        else
                read_numbers(c, data, validity, n);
        ret->values = c->values;
        ret->offsets = c->offsets;
        return r;
}
