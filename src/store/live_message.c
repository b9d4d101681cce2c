#include "store/live_message.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/number.h"
#include "base/time.h"

/* Senders are on this machine and have its clock, but for a constant that a namespace of time may add. What lies further away
 * is no moment of that clock, and its time does not fit. */
static const uint64_t ahead_ns = 366 * UINT64_C(86400) * INFP_NS_PER_S;

static int refuse(struct infp_err *err, const struct infp_table *table, const char *column, const char *want)
{
        return infp_fail(err, -EBADMSG, "column '%.64s' of %s must be %s", column, table->name, want);
}

static bool get_i64(const json_t *value, int64_t *ret)
{
        if (json_is_integer(value)) {
                *ret = json_integer_value(value);
                return true;
        }
        return json_is_string(value) && infp_parse_i64(json_string_value(value), json_string_length(value), ret) == 0;
}

static bool get_u64(const json_t *value, uint64_t *ret)
{
        if (json_is_integer(value) && json_integer_value(value) >= 0) {
                *ret = (uint64_t) json_integer_value(value);
                return true;
        }
        return json_is_string(value) && infp_parse_u64(json_string_value(value), json_string_length(value), ret) == 0;
}

/* Unix ms, with a fraction if it likes; as a text Unix ns, since ns do not survive every writer of JSON. */
static bool get_time(const json_t *value, int64_t *ret)
{
        double ms, whole;

        if (json_is_string(value))
                return get_i64(value, ret);
        if (json_is_integer(value))
                return !__builtin_mul_overflow((int64_t) json_integer_value(value), 1000000, ret);
        ms = json_is_real(value) ? json_real_value(value) : NAN;
        if (!(ms > -9.2e12 && ms < 9.2e12))
                return false;
        whole = floor(ms); /* apart: ns of today do not fit a double */
        *ret = (int64_t) whole * 1000000 + (int64_t) ((ms - whole) * 1e6);
        return true;
}

static int set_text(struct infp_row *row, unsigned cell, const struct infp_column *column, const json_t *value,
                    struct infp_err *err)
{
        if (!json_is_string(value))
                return refuse(err, row->table, column->name, "a text");
        if (json_string_length(value) > row->text_cap - row->text_size)
                return infp_fail(err, -EBADMSG, "the texts of one row of %s are longer than %u bytes", row->table->name,
                                 (unsigned) row->text_cap);
        infp_row_str(row, cell, json_string_value(value));
        return 0;
}

static int set_cell(struct infp_row *row, unsigned cell, const struct infp_column *column, const json_t *value,
                    struct infp_err *err)
{
        uint64_t u;
        int64_t i;

        switch (column->type) {
        case INFP_I64:
                if (!get_i64(value, &i))
                        return refuse(err, row->table, column->name, "an integer");
                infp_row_i64(row, cell, i);
                return 0;
        case INFP_U64:
        case INFP_ID64:
                if (!get_u64(value, &u))
                        return refuse(err, row->table, column->name, "a non-negative integer (above 2^53 as a text)");
                if (column->type == INFP_U64)
                        infp_row_u64(row, cell, u);
                else
                        infp_row_id(row, cell, u);
                return 0;
        case INFP_F64:
                if (!json_is_number(value))
                        return refuse(err, row->table, column->name, "a number");
                infp_row_f64(row, cell, json_number_value(value));
                return 0;
        case INFP_BOOL:
                if (!json_is_boolean(value))
                        return refuse(err, row->table, column->name, "true or false");
                infp_row_bool(row, cell, json_is_true(value));
                return 0;
        case INFP_TS_NS:
                if (!get_time(value, &i))
                        return refuse(err, row->table, column->name, "a time in Unix ms, or in ns as a text");
                infp_row_ts(row, cell, i);
                return 0;
        case INFP_STR:
                return set_text(row, cell, column, value, err);
        }
        return -EBADMSG;
}

static int set_member(struct infp_row *row, const char *name, const json_t *value, struct infp_err *err)
{
        int index = infp_table_find(row->table, name);

        if (strcmp(name, "t_ns") == 0)
                return 0;
        if (index < INFP_FIXED_COLUMNS)
                return infp_fail(err, -EBADMSG, "table %s has no column '%.64s' to write", row->table->name, name);
        if (json_is_null(value))
                return 0;
        return set_cell(row, (unsigned) index - INFP_FIXED_COLUMNS, infp_table_column(row->table, (unsigned) index),
                        value, err);
}

static int fill_row(struct infp_row *row, const struct infp_table *table, json_t *object, struct infp_err *err)
{
        const char *name;
        json_t *value;
        int64_t t_ns;

        if (!json_is_object(object))
                return infp_fail(err, -EBADMSG, "\"rows\" must be a list of objects");
        if (!get_i64(json_object_get(object, "t_ns"), &t_ns) || t_ns <= 0)
                return infp_fail(err, -EBADMSG, "each row needs t_ns, its CLOCK_MONOTONIC in ns");
        if ((uint64_t) t_ns > infp_clock_ns(CLOCK_MONOTONIC) + ahead_ns)
                return infp_fail(err, -EBADMSG, "t_ns of a row lies in the future: it is CLOCK_MONOTONIC in ns");
        infp_row_begin(row, table, (uint64_t) t_ns);
        json_object_foreach(object, name, value) INFP_TRY(set_member(row, name, value, err));
        return 0;
}

static const struct infp_table *find_table(const struct infp_live_taker *taker, const char *name)
{
        for (const struct infp_table *const *t = taker->tables; name && *t; t++)
                if (strcmp((*t)->name, name) == 0)
                        return *t;
        return NULL;
}

static int take(json_t *root, const struct infp_live_taker *taker, struct infp_row *row, unsigned *ret_rows,
                struct infp_err *err)
{
        const char *name = json_string_value(json_object_get(root, "table")),
                   *url = json_string_value(json_object_get(root, "serves"));
        const struct infp_table *table = find_table(taker, name);
        json_t *rows = json_object_get(root, "rows"), *one;
        size_t i;

        if (url && taker->serves)
                return taker->serves(taker->serves_context, url, err);
        if (!table)
                return infp_fail(err, -EBADMSG, "table '%.64s' takes no rows from other programs", name ? name : "");
        if (!json_is_array(rows))
                return infp_fail(err, -EBADMSG, "\"rows\" must be a list of objects");
        json_array_foreach(rows, i, one) INFP_TRY(fill_row(row, table, one, err));
        json_array_foreach(rows, i, one)
        {
                int r;

                INFP_TRY(fill_row(row, table, one, err));
                r = taker->row(taker->context, row);
                if (r < 0)
                        return infp_fail(err, r, "%u of %zu rows were taken: %s", *ret_rows, json_array_size(rows),
                                         strerror(-r));
                ++*ret_rows;
        }
        return 0;
}

int infp_live_message_take(const char *message, size_t size, const struct infp_live_taker *taker, struct infp_row *row,
                           unsigned *ret_rows, struct infp_err *err)
{
        json_error_t error;
        json_t *root = json_loadb(message, size, JSON_REJECT_DUPLICATES, &error);
        int r;

        *ret_rows = 0;
        if (!root)
                return infp_fail(err, -EBADMSG, "not JSON: line %d: %s", error.line, error.text);
        if (json_is_object(root))
                r = take(root, taker, row, ret_rows, err);
        else
                r = infp_fail(err, -EBADMSG, "a message must be one JSON object");
        json_decref(root);
        return r;
}
