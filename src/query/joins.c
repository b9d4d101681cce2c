#include "query/joins.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"

static bool is_taken(const struct infp_table *table, const struct infp_shown_list *list, const char *name)
{
        for (unsigned i = 0; i < infp_table_width(table); i++)
                if (strcasecmp(infp_table_column(table, i)->name, name) == 0)
                        return true;
        for (unsigned i = 0; i < list->n; i++)
                if (list->shown[i].entity && strcasecmp(list->shown[i].name, name) == 0)
                        return true;
        return false;
}

static int add_shown(struct infp_shown_list *list, const struct infp_shown *shown)
{
        if (!INFP_ONE_MORE(list->shown, list->n))
                return -ENOMEM;
        list->shown[list->n++] = *shown;
        return 0;
}

static const char *made_up(struct infp_shown_list *list, const char *id, const char *attribute)
{
        char **more = realloc(list->texts, (list->n_texts + 1) * sizeof(*more)), *text;

        if (!more)
                return NULL;
        list->texts = more;
        if (asprintf(&text, "%s_%s", id, attribute) < 0)
                return NULL;
        return list->texts[list->n_texts++] = text;
}

static int add_attributes(const struct infp_table *table, unsigned column, const struct infp_table *entity,
                          struct infp_shown_list *list)
{
        const char *id = infp_table_column(table, column)->name;

        for (unsigned i = INFP_FIXED_COLUMNS; i < infp_table_width(entity); i++) {
                const struct infp_column *attribute = infp_table_column(entity, i);
                struct infp_shown shown = { attribute->name, column, entity, attribute, i };

                if (attribute == &entity->keys[0])
                        continue;
                if (is_taken(table, list, shown.name))
                        shown.name = made_up(list, id, attribute->name);
                if (!shown.name)
                        return -ENOMEM;
                if (!is_taken(table, list, shown.name))
                        INFP_TRY(add_shown(list, &shown));
        }
        return 0;
}

static const struct infp_table *entity_of(const struct infp_column *column, const struct infp_catalog *catalog)
{
        const struct infp_table *entity;

        if (!catalog || column->type != INFP_ID64 || !column->key || !*column->key)
                return NULL;
        entity = infp_catalog_find(catalog, column->key);
        return entity && entity->entity && entity->n_keys ? entity : NULL;
}

int infp_shown_make(const struct infp_table *table, const struct infp_catalog *catalog, struct infp_shown_list *ret)
{
        int r = 0;

        *ret = (struct infp_shown_list){ 0 };
        for (unsigned i = 0; r == 0 && i < infp_table_width(table); i++) {
                const struct infp_column *column = infp_table_column(table, i);
                const struct infp_table *entity = entity_of(column, catalog);

                r = add_shown(ret, &(struct infp_shown){ .name = column->name, .column = i });
                if (r == 0 && entity)
                        r = add_attributes(table, i, entity, ret);
        }
        if (r < 0)
                infp_shown_done(ret);
        return r;
}

void infp_shown_done(struct infp_shown_list *list)
{
        for (unsigned i = 0; i < list->n_texts; i++)
                free(list->texts[i]);
        free(list->texts);
        free(list->shown);
        *list = (struct infp_shown_list){ 0 };
}

struct infp_entities {
        struct infp_scan *scan; /* keeps the table's description alive */
        const struct infp_table *table;
        unsigned width;
        struct infp_map rows;      /* id -> row */
        struct infp_value *values; /* row x width */
        size_t n, cap;
        char **texts;
        size_t n_texts, cap_texts;
};

struct infp_entities *infp_entities_free(struct infp_entities *entities)
{
        if (entities) {
                infp_map_done(&entities->rows);
                for (size_t i = 0; i < entities->n_texts; i++)
                        free(entities->texts[i]);
                free(entities->texts);
                free(entities->values);
                infp_scan_close(entities->scan);
                free(entities);
        }
        return NULL;
}

static void free_entities(struct infp_entities **entities)
{
        infp_entities_free(*entities);
}

/* Each segment repeats ids with the same texts: keep one copy. */
static int keep_text(struct infp_entities *e, struct infp_value *value, const char *text, size_t size)
{
        char *copy;

        if (value->has && value->size == size && memcmp(value->text, text, size) == 0)
                return 0;
        if (!INFP_MAKE_ROOM(e->texts, e->n_texts, e->cap_texts, 256))
                return -ENOMEM;
        copy = malloc(size + 1);
        if (!copy)
                return -ENOMEM;
        memcpy(copy, text, size);
        copy[size] = 0;
        e->texts[e->n_texts++] = copy;
        value->text = copy;
        value->size = size;
        return 0;
}

static int keep_value(struct infp_entities *e, struct infp_value *value, const struct infp_batch *batch,
                      unsigned column, uint32_t row)
{
        size_t size;
        const char *text;
        int r = 0;

        if (!infp_batch_has(batch, column, row)) {
                value->has = false;
                return 0;
        }
        switch (infp_table_column(batch->table, column)->type) {
        case INFP_STR:
                text = infp_batch_str(batch, column, row, &size);
                r = keep_text(e, value, text, size);
                break;
        case INFP_F64:
                value->as.f64 = infp_batch_f64(batch, column, row);
                break;
        case INFP_BOOL:
                value->as.b = infp_batch_bool(batch, column, row);
                break;
        case INFP_U64:
        case INFP_ID64:
                value->as.u64 = infp_batch_u64(batch, column, row);
                break;
        case INFP_I64:
        case INFP_TS_NS:
                value->as.i64 = infp_batch_i64(batch, column, row);
                break;
        }
        value->has = r == 0;
        return r;
}

static int row_of(struct infp_entities *e, uint64_t id, size_t *ret)
{
        const uint64_t *known = infp_map_get(&e->rows, id);

        if (known) {
                *ret = *known;
                return 0;
        }
        if (e->n == e->cap) {
                size_t cap = e->cap ? 2 * e->cap : 256;
                struct infp_value *more = realloc(e->values, cap * e->width * sizeof(*more));

                if (!more)
                        return -ENOMEM;
                e->values = more;
                e->cap = cap;
        }
        INFP_TRY(infp_map_put(&e->rows, id, e->n));
        memset(e->values + e->n * e->width, 0, e->width * sizeof(*e->values));
        *ret = e->n++;
        return 0;
}

static int keep_row(struct infp_entities *e, const struct infp_batch *batch, uint32_t row)
{
        size_t at;

        if (!infp_batch_has(batch, INFP_FIXED_COLUMNS, row))
                return 0;
        INFP_TRY(row_of(e, infp_batch_u64(batch, INFP_FIXED_COLUMNS, row), &at));
        for (unsigned i = INFP_FIXED_COLUMNS + 1; i < e->width; i++)
                INFP_TRY(keep_value(e, &e->values[at * e->width + i], batch, i, row));
        return 0;
}

int infp_entities_load(struct infp_run *run, const char *table, const struct infp_catalog *catalog,
                       struct infp_entities **ret, struct infp_err *err)
{
        infp_cleanup(free_entities) struct infp_entities *e = calloc(1, sizeof(*e));
        struct infp_batch batch;
        int r;

        *ret = NULL;
        if (!e)
                return infp_fail(err, -ENOMEM, "out of memory");
        INFP_TRY(infp_scan_open(run, table, &(struct infp_scan_options){ .catalog = catalog }, &e->scan, err));
        e->table = infp_scan_table(e->scan);
        e->width = infp_table_width(e->table);
        if (e->width <= INFP_FIXED_COLUMNS || infp_table_column(e->table, INFP_FIXED_COLUMNS)->type != INFP_ID64)
                return infp_fail(err, -EBADMSG, "table %s describes entities, but its first column is not an id",
                                 table);
        while ((r = infp_scan_next(e->scan, &batch, err)) > 0)
                for (uint32_t row = 0; row < batch.n_rows; row++)
                        if (keep_row(e, &batch, row) < 0)
                                return infp_fail(err, -ENOMEM, "out of memory for the rows of table %s", table);
        if (r == 0)
                *ret = INFP_TAKE(e);
        return r;
}

size_t infp_entities_count(const struct infp_entities *e)
{
        return e->n;
}

int64_t infp_entities_find(const struct infp_entities *e, uint64_t id)
{
        const uint64_t *row = infp_map_get(&e->rows, id);

        return row ? (int64_t) *row : -1;
}

const struct infp_value *infp_entities_at(const struct infp_entities *e, size_t number, unsigned column)
{
        const struct infp_value *value = &e->values[number * e->width + column];

        return value->has ? value : NULL;
}

const struct infp_value *infp_entities_value(const struct infp_entities *e, uint64_t id, unsigned column)
{
        int64_t number = infp_entities_find(e, id);

        return number < 0 ? NULL : infp_entities_at(e, (size_t) number, column);
}

int infp_entities_column(const struct infp_entities *e, const char *name)
{
        return infp_table_find(e->table, name);
}
