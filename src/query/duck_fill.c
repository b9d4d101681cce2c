#include <string.h>

#include "base/time.h"
#include "query/duck_state.h"

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

void infp_duck_set_null(const struct infp_duck_api *api, duckdb_vector vector, idx_t row)
{
        uint64_t *validity;

        api->vector_ensure_validity_writable(vector);
        validity = api->vector_get_validity(vector);
        validity[row / 64] &= ~(UINT64_C(1) << row % 64);
}

static void fill_validity(const struct infp_duck_api *api, duckdb_vector vector, const struct infp_batch *batch,
                          unsigned column, uint32_t from, uint32_t n)
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

static void fill_texts(const struct infp_duck_api *api, duckdb_vector vector, const struct infp_batch *batch,
                       unsigned column, uint32_t from, uint32_t n)
{
        for (uint32_t i = 0; i < n; i++)
                if (infp_batch_has(batch, column, from + i)) {
                        size_t size;
                        const char *text = infp_batch_str(batch, column, from + i, &size);

                        api->vector_assign_string_element_len(vector, i, text, size);
                }
}

void infp_duck_fill(const struct infp_duck_api *api, duckdb_vector vector, const struct infp_batch *batch,
                    unsigned column, uint32_t from, uint32_t n)
{
        const uint64_t *values = batch->columns[column].values;
        int64_t *us;
        bool *flags;

        fill_validity(api, vector, batch, column, from, n);
        switch (infp_table_column(batch->table, column)->type) {
        case INFP_STR:
                fill_texts(api, vector, batch, column, from, n);
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
