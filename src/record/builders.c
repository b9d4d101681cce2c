#include "record/builders.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum { FIRST_ROWS = 64 }; /* they grow to what one flush interval brings */

static const struct infp_table *table_by_name(const struct infp_table *const *tables, const char *name)
{
        for (; *tables; tables++)
                if (strcmp((*tables)->name, name) == 0)
                        return *tables;
        return NULL;
}

/* The entity table that a column names; NULL for all others, and for the id of the entity itself. */
static const struct infp_table *entity_of(const struct infp_table *table, unsigned cell,
                                          const struct infp_table *const *tables)
{
        const struct infp_column *column = infp_table_column(table, INFP_FIXED_COLUMNS + cell);
        const struct infp_table *entity;

        if (column->type != INFP_ID64 || !column->key || (table->entity && cell == 0))
                return NULL;
        entity = column->key[0] ? table_by_name(tables, column->key) : table;
        return entity && entity->entity ? entity : NULL;
}

static int buffer_init(struct infp_buffer *buffer, const struct infp_table *table,
                       const struct infp_table *const *tables)
{
        unsigned n_cells = table->n_keys + table->n_columns;

        buffer->table = table;
        buffer->names = calloc(n_cells ? n_cells : 1, sizeof *buffer->names);
        if (!buffer->names)
                return -ENOMEM;
        for (unsigned i = 0; i < n_cells; i++) {
                const struct infp_table *entity = entity_of(table, i, tables);

                if (entity)
                        buffer->names[buffer->n_names++] = (struct infp_name){ .cell = i, .entity = entity };
        }
        return 0;
}

int infp_builders_begin(struct infp_buffer *buffer)
{
        if (!buffer->builder)
                buffer->builder = infp_builder_new(buffer->table, FIRST_ROWS);
        return buffer->builder ? 0 : -ENOMEM;
}

static unsigned slot_of(const struct infp_builders *builders, const struct infp_table *table)
{
        uint64_t address = (uintptr_t) table;
        unsigned i = (unsigned) infp_hash64(&address, sizeof address, 0);

        for (;; i++) {
                struct infp_buffer *buffer = builders->by_address[i & (builders->n_slots - 1)];

                if (!buffer || buffer->table == table)
                        return i & (builders->n_slots - 1);
        }
}

static int fill(struct infp_builders *builders, const struct infp_table *const *tables, bool entities)
{
        for (const struct infp_table *const *t = tables; *t; t++) {
                struct infp_buffer *buffer = &builders->buffers[builders->n_buffers];

                if ((*t)->entity != entities)
                        continue;
                builders->n_buffers++;
                if (buffer_init(buffer, *t, tables) < 0)
                        return -ENOMEM;
                builders->by_address[slot_of(builders, *t)] = buffer;
        }
        return 0;
}

int infp_builders_init(struct infp_builders *builders, const struct infp_table *const *tables, struct infp_err *err)
{
        unsigned n = 0;

        *builders = (struct infp_builders){ .n_slots = 16 };
        while (tables[n])
                n++;
        while (builders->n_slots < 2 * n)
                builders->n_slots *= 2;
        builders->buffers = calloc(n ? n : 1, sizeof *builders->buffers);
        builders->by_address = calloc(builders->n_slots, sizeof(struct infp_buffer *));
        if (builders->buffers && builders->by_address && fill(builders, tables, true) == 0 &&
            fill(builders, tables, false) == 0)
                return 0;
        infp_builders_done(builders);
        return infp_fail(err, -ENOMEM, "no memory for the recorder's tables");
}

void infp_builders_done(struct infp_builders *builders)
{
        for (unsigned i = 0; i < builders->n_buffers; i++) {
                infp_builder_free(builders->buffers[i].builder);
                free(builders->buffers[i].names);
        }
        free(builders->buffers);
        free(builders->by_address);
        *builders = (struct infp_builders){ 0 };
}

struct infp_buffer *infp_builders_find(const struct infp_builders *builders, const struct infp_table *table)
{
        return builders->by_address[slot_of(builders, table)];
}
