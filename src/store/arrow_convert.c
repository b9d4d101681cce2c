#include "store/arrow_convert.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 256 << 20 };

void infp_arrow_scratch_done(struct infp_arrow_scratch *scratch)
{
        free(scratch->valid);
        free(scratch->values);
        free(scratch->offsets);
        infp_str_done(&scratch->bytes);
}

static int reserve(struct infp_arrow_scratch *scratch, uint32_t n)
{
        if (n > scratch->cap_rows) {
                uint8_t *valid = realloc(scratch->valid, n / 8 + 1);
                void *values = valid ? realloc(scratch->values, (size_t) n * 8) : NULL;
                int32_t *offsets = values ? realloc(scratch->offsets, ((size_t) n + 1) * sizeof(*offsets)) : NULL;

                scratch->valid = valid ? valid : scratch->valid;
                scratch->values = values ? values : scratch->values;
                scratch->offsets = offsets ? offsets : scratch->offsets;
                if (!offsets)
                        return -ENOMEM;
                scratch->cap_rows = n;
        }
        memset(scratch->valid, 0, n / 8 + 1);
        memset(scratch->values, 0, (size_t) n * 8);
        infp_str_clear(&scratch->bytes);
        return 0;
}

static bool put_integer(const struct infp_arrow_source *source, const struct ArrowArrayView *values, int64_t at,
                        int64_t *ret)
{
        if (source->type == NANOARROW_TYPE_UINT64 && ArrowArrayViewGetUIntUnsafe(values, at) > INT64_MAX)
                return false;
        return !__builtin_mul_overflow(ArrowArrayViewGetIntUnsafe(values, at), source->ns_per_unit, ret);
}

/* False: the cell is absent. */
static bool put_cell(const struct infp_arrow_source *source, const struct ArrowArrayView *values, int64_t at,
                     uint32_t row, struct infp_arrow_scratch *scratch)
{
        struct ArrowStringView text;

        switch (source->target) {
        case INFP_I64:
        case INFP_TS_NS:
                return put_integer(source, values, at, (int64_t *) scratch->values + row);
        case INFP_U64:
        case INFP_ID64:
                ((uint64_t *) scratch->values)[row] = ArrowArrayViewGetUIntUnsafe(values, at);
                return true;
        case INFP_F64:
                ((double *) scratch->values)[row] = ArrowArrayViewGetDoubleUnsafe(values, at);
                return true;
        case INFP_BOOL:
                if (ArrowArrayViewGetIntUnsafe(values, at))
                        ((uint8_t *) scratch->values)[row / 8] |= (uint8_t) (1u << (row % 8));
                return true;
        case INFP_STR:
                text = ArrowArrayViewGetStringUnsafe(values, at);
                if (text.size_bytes > 0)
                        infp_str_put(&scratch->bytes, text.data, (size_t) text.size_bytes);
                return true;
        }
        return false;
}

static int convert(const struct infp_arrow_source *source, const struct ArrowArrayView *view, int64_t start, uint32_t n,
                   struct infp_arrow_scratch *scratch)
{
        for (uint32_t i = 0; i < n; i++) {
                const struct ArrowArrayView *values = view;
                int64_t at = start + i;
                bool has = !ArrowArrayViewIsNull(view, at);

                if (has && source->is_dictionary) {
                        at = ArrowArrayViewGetIntUnsafe(view, at);
                        values = view->dictionary;
                        if (at < 0 || at >= values->length)
                                return -EBADMSG;
                        has = !ArrowArrayViewIsNull(values, at);
                }
                scratch->offsets[i] = (int32_t) scratch->bytes.size;
                if (has && put_cell(source, values, at, i, scratch))
                        scratch->valid[i / 8] |= (uint8_t) (1u << (i % 8));
                if (scratch->bytes.size > MAX_TEXT)
                        return -EOVERFLOW;
        }
        scratch->offsets[n] = (int32_t) scratch->bytes.size;
        return scratch->bytes.failed ? -ENOMEM : 0;
}

static void point(const struct infp_arrow_source *source, const struct ArrowArrayView *view, int64_t start,
                  struct infp_vector *ret)
{
        const uint8_t *valid = view->buffer_views[0].data.as_uint8;

        *ret = (struct infp_vector){ .valid = valid ? valid + start / 8 : NULL };
        if (source->target == INFP_STR) {
                ret->offsets = view->buffer_views[1].data.as_int32 + start;
                ret->values = view->buffer_views[2].data.data ? view->buffer_views[2].data.data : "";
        } else if (source->target == INFP_BOOL) {
                ret->values = view->buffer_views[1].data.as_uint8 + start / 8;
        } else {
                ret->values = view->buffer_views[1].data.as_int64 + start;
        }
}

int infp_arrow_vector(const struct infp_arrow_source *source, const struct ArrowArrayView *view, int64_t start,
                      uint32_t n, struct infp_arrow_scratch *scratch, struct infp_vector *ret)
{
        if (view->null_count > 0 && source->type != NANOARROW_TYPE_NA && !view->buffer_views[0].data.data)
                return -EBADMSG;
        if (source->is_direct) {
                point(source, view, start, ret);
                return 0;
        }
        INFP_TRY(reserve(scratch, n));
        INFP_TRY(convert(source, view, start, n, scratch));
        ret->valid = scratch->valid;
        ret->offsets = source->target == INFP_STR ? scratch->offsets : NULL;
        ret->values = source->target != INFP_STR ? scratch->values : scratch->bytes.data ? scratch->bytes.data : "";
        return 0;
}
