#include "query/join_vector.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void infp_join_vector_done(struct infp_join_vector *vector)
{
        free(vector->valid);
        free(vector->values);
        free(vector->offsets);
        *vector = (struct infp_join_vector){ 0 };
}

static int reserve(void **memory, size_t size)
{
        void *more = realloc(*memory, size);

        if (!more)
                return -ENOMEM;
        *memory = more;
        return 0;
}

static int reserve_rows(struct infp_join_vector *v, uint32_t n)
{
        void *valid = v->valid, *offsets = v->offsets;
        int r;

        if (n <= v->cap_rows)
                return 0;
        r = reserve(&valid, (n + 7) / 8);
        v->valid = valid;
        if (r == 0 && v->type == INFP_STR) {
                r = reserve(&offsets, ((size_t) n + 1) * sizeof(int32_t));
                v->offsets = offsets;
        } else if (r == 0) {
                r = reserve(&v->values, (size_t) n * 8);
        }
        if (r == 0)
                v->cap_rows = n;
        return r;
}

static int put_text(struct infp_join_vector *v, uint32_t row, const struct infp_value *value)
{
        size_t at = (size_t) v->offsets[row], end = at + (value ? value->size : 0);

        if (end > INT32_MAX)
                return -E2BIG;
        if (end > v->cap_text) {
                size_t cap = 2 * end + 1024;

                if (reserve(&v->values, cap) < 0)
                        return -ENOMEM;
                v->cap_text = cap;
        }
        if (end > at)
                memcpy((char *) v->values + at, value->text, value->size);
        v->offsets[row + 1] = (int32_t) end;
        return 0;
}

static int put(struct infp_join_vector *v, uint32_t row, const struct infp_value *value)
{
        uint8_t bit = (uint8_t) (1u << row % 8), *bits;

        v->valid[row / 8] = value ? v->valid[row / 8] | bit : v->valid[row / 8] & (uint8_t) ~bit;
        if (v->type == INFP_STR)
                return put_text(v, row, value);
        if (v->type == INFP_BOOL) {
                bits = v->values;
                bits[row / 8] = value && value->as.b ? bits[row / 8] | bit : bits[row / 8] & (uint8_t) ~bit;
        } else {
                ((uint64_t *) v->values)[row] = value ? value->as.u64 : 0;
        }
        return 0;
}

int infp_join_vector_fill(struct infp_join_vector *v, const struct infp_entities *entities,
                          const struct infp_vector *ids, uint32_t n, struct infp_vector *ret)
{
        const uint64_t *id = ids->values;

        INFP_TRY(reserve_rows(v, n ? n : 1));
        if (v->type == INFP_STR)
                v->offsets[0] = 0;
        for (uint32_t row = 0; row < n; row++) {
                bool has = !ids->valid || ids->valid[row / 8] >> row % 8 & 1;

                INFP_TRY(put(v, row, has ? infp_entities_value(entities, id[row], v->column) : NULL));
        }
        *ret = (struct infp_vector){ .valid = v->valid, .values = v->values, .offsets = v->offsets };
        return 0;
}
