#include "model/batch.h"

#include <assert.h>
#include <errno.h>
#include <math.h>

static bool bit(const void *bits, uint32_t i)
{
        return ((const uint8_t *) bits)[i / 8] >> (i % 8) & 1;
}

bool infp_batch_has(const struct infp_batch *batch, unsigned column, uint32_t row)
{
        const uint8_t *valid = batch->columns[column].valid;

        return !valid || bit(valid, batch->first + row);
}

static enum infp_type type_of(const struct infp_batch *batch, unsigned column)
{
        return infp_table_column(batch->table, column)->type;
}

int64_t infp_batch_i64(const struct infp_batch *batch, unsigned column, uint32_t row)
{
        assert(type_of(batch, column) == INFP_I64 || type_of(batch, column) == INFP_TS_NS);
        if (!infp_batch_has(batch, column, row))
                return 0;
        return ((const int64_t *) batch->columns[column].values)[batch->first + row];
}

uint64_t infp_batch_u64(const struct infp_batch *batch, unsigned column, uint32_t row)
{
        assert(type_of(batch, column) == INFP_U64 || type_of(batch, column) == INFP_ID64);
        if (!infp_batch_has(batch, column, row))
                return 0;
        return ((const uint64_t *) batch->columns[column].values)[batch->first + row];
}

double infp_batch_f64(const struct infp_batch *batch, unsigned column, uint32_t row)
{
        assert(type_of(batch, column) == INFP_F64);
        if (!infp_batch_has(batch, column, row))
                return NAN;
        return ((const double *) batch->columns[column].values)[batch->first + row];
}

bool infp_batch_bool(const struct infp_batch *batch, unsigned column, uint32_t row)
{
        assert(type_of(batch, column) == INFP_BOOL);
        return infp_batch_has(batch, column, row) && bit(batch->columns[column].values, batch->first + row);
}

const char *infp_batch_str(const struct infp_batch *batch, unsigned column, uint32_t row, size_t *ret_size)
{
        const struct infp_vector *v = &batch->columns[column];
        const int32_t *offset;

        assert(type_of(batch, column) == INFP_STR);
        *ret_size = 0;
        if (!infp_batch_has(batch, column, row))
                return "";
        offset = v->offsets + batch->first + row;
        *ret_size = (size_t) (offset[1] - offset[0]);
        return *ret_size ? (const char *) v->values + offset[0] : "";
}

double infp_batch_number(const struct infp_batch *batch, unsigned column, uint32_t row)
{
        if (!infp_batch_has(batch, column, row))
                return NAN;
        switch (type_of(batch, column)) {
        case INFP_I64:
        case INFP_TS_NS:
                return (double) infp_batch_i64(batch, column, row);
        case INFP_U64:
                return (double) infp_batch_u64(batch, column, row);
        case INFP_F64:
                return infp_batch_f64(batch, column, row);
        case INFP_BOOL:
                return infp_batch_bool(batch, column, row);
        case INFP_STR:
        case INFP_ID64: /* a hash has no size that could be compared */
                break;
        }
        return NAN;
}

double infp_batch_counted_s(const struct infp_batch *batch, const struct infp_column *counter, uint32_t row)
{
        const int at = counter->reset == INFP_RESET_GAP && counter->key ? infp_table_find(batch->table, counter->key)
                                                                        : -ENOENT;

        return at < 0 ? NAN : infp_batch_number(batch, (unsigned) at, row);
}
