/* Entities joined back: a fact carries ids, a reader sees names. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "model/batch.h"
#include "query/scan.h"

/* What a reader sees of a table: its own columns, and after each id the attributes of the entity that it names. */
struct infp_shown {
        const char *name; /* the attribute's own, or <id column>_<attribute> when the table has that name already */
        unsigned column;  /* of the table: the column itself, or the id that is looked up */
        const struct infp_table *entity; /* NULL: the column itself */
        const struct infp_column *attribute;
        unsigned attribute_index; /* in the entity's table */
};

struct infp_shown_list {
        struct infp_shown *shown;
        unsigned n;
        char **texts; /* generated names */
        unsigned n_texts;
};

/* catalog NULL: only the table's own columns. */
int infp_shown_make(const struct infp_table *table, const struct infp_catalog *catalog, struct infp_shown_list *ret);
void infp_shown_done(struct infp_shown_list *list);

/* All rows of an entity table in memory, the last one of each id. */
struct infp_entities;
int infp_entities_load(struct infp_run *run, const char *table, const struct infp_catalog *catalog,
                       struct infp_entities **ret, struct infp_err *err);
struct infp_entities *infp_entities_free(struct infp_entities *entities); /* returns NULL */

/* A value of an entity; text is not terminated. */
struct infp_value {
        bool has;
        union {
                int64_t i64;
                uint64_t u64;
                double f64;
                bool b;
        } as;
        const char *text;
        size_t size;
};

/* They are numbered from 0; -1: the id is unknown. */
size_t infp_entities_count(const struct infp_entities *entities);
int64_t infp_entities_find(const struct infp_entities *entities, uint64_t id);
/* NULL: it has no value there. */
const struct infp_value *infp_entities_at(const struct infp_entities *entities, size_t number, unsigned column);
/* NULL: the id, or its value, is unknown. `column` is an index into batches of the entity's table. */
const struct infp_value *infp_entities_value(const struct infp_entities *entities, uint64_t id, unsigned column);
/* Index of a column in what was loaded, negative: it has none of that name. */
int infp_entities_column(const struct infp_entities *entities, const char *name);
