/* The builders of a recording, one a table, and which of its columns name entities of which table. */
#pragma once

#include "base/err.h"
#include "model/builder.h"

struct infp_buffer {
        const struct infp_table *table;
        struct infp_builder *builder; /* NULL: no row yet, as for most tables in one run */
        uint32_t n_told;              /* rows that the sinks of each tick already have */
        unsigned n_names;
        struct infp_name {
                unsigned cell;
                const struct infp_table *entity;
        } * names;
};

struct infp_builders {
        struct infp_buffer *buffers; /* entity tables first */
        unsigned n_buffers;
        struct infp_buffer **by_address; /* open addressing by the table's address */
        unsigned n_slots;
};

int infp_builders_init(struct infp_builders *builders, const struct infp_table *const *tables, struct infp_err *err);
void infp_builders_done(struct infp_builders *builders);
/* Makes the builder, before the first row. 0 or -ENOMEM. */
int infp_builders_begin(struct infp_buffer *buffer);
struct infp_buffer *infp_builders_find(const struct infp_builders *builders, const struct infp_table *table); /* NULL */
