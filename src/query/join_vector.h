/* One attribute of an entity as a vector of a batch: made anew for each batch from the ids in it. */
#pragma once

#include "query/joins.h"

struct infp_join_vector {
        enum infp_type type;
        unsigned column; /* of the entity's table */
        uint8_t *valid;
        void *values;
        int32_t *offsets;
        size_t cap_rows, cap_text;
};

void infp_join_vector_done(struct infp_join_vector *vector);
/* Fills rows 0 .. n-1 from ids[0 .. n-1]; valid as in struct infp_vector. -ENOMEM or -E2BIG. */
int infp_join_vector_fill(struct infp_join_vector *vector, const struct infp_entities *entities,
                          const struct infp_vector *ids, uint32_t n, struct infp_vector *ret);
