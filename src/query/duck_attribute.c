/* The scalar functions behind the names in views: one look-up for each attribute of an entity. A function, since DuckDB calls it
 * only where the column is used; a join would be made for every query. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "query/duck_state.h"
#include "query/views.h"

/* One attribute of one entity table. */
struct attribute {
        struct infp_duck *duck;
        char *table, *column;
        enum infp_type type;
        /* Texts of all entities, and one null after them: results refer to them instead of copying. */
        duckdb_vector texts;
        unsigned texts_of; /* the attach that they were made after; 0: none */
        pthread_mutex_t lock;
};

static void drop_texts(struct attribute *attribute)
{
        if (attribute->texts)
                attribute->duck->api->destroy_vector(&attribute->texts);
        attribute->texts_of = 0;
}

static void free_attribute(void *data)
{
        struct attribute *attribute = data;

        drop_texts(attribute);
        pthread_mutex_destroy(&attribute->lock);
        free(attribute->table);
        free(attribute->column);
        free(attribute);
}

/* Loads the entity table at its first use; the views are a picture of the run at the time of attach anyway. */
static int entities_of(const struct attribute *attribute, const struct infp_entities **ret, struct infp_err *err)
{
        struct infp_duck_run *attached = attribute->duck->attached;
        int r = -ENOENT;

        if (!attached)
                return infp_fail(err, -EINVAL, "no run is attached");
        pthread_mutex_lock(&attached->lock);
        for (unsigned i = 0; i < attached->n_entities; i++) {
                struct infp_duck_entities *e = &attached->entities[i];

                if (strcmp(e->table, attribute->table) != 0)
                        continue;
                if (!e->entities && !e->failed)
                        e->failed =
                                infp_entities_load(attached->run, e->table, &attached->catalog, &e->entities, &e->err);
                if (e->failed)
                        *err = e->err;
                *ret = e->entities;
                r = e->failed;
        }
        pthread_mutex_unlock(&attached->lock);
        return r;
}

static void make_texts(struct attribute *attribute, const struct infp_entities *entities, unsigned column)
{
        const struct infp_duck_api *api = attribute->duck->api;
        size_t n = infp_entities_count(entities);
        duckdb_logical_type type = api->create_logical_type(DUCKDB_TYPE_VARCHAR);

        drop_texts(attribute);
        attribute->texts = api->create_vector(type, n + 1);
        api->destroy_logical_type(&type);
        for (size_t i = 0; i <= n; i++) {
                const struct infp_value *value = i < n ? infp_entities_at(entities, i, column) : NULL;

                if (value)
                        api->vector_assign_string_element_len(attribute->texts, i, value->text, value->size);
                else
                        infp_duck_set_null(api, attribute->texts, i);
        }
        attribute->texts_of = attribute->duck->n_attached;
}

/* Input of a look-up. */
struct ids {
        const uint64_t *ids, *validity;
        idx_t n;
};

/* Equal ids may be one constant, and of a constant's result DuckDB takes the first value as it lies there, without regard to a
 * selection: such results are made flat. */
static bool are_equal(const struct ids *in)
{
        bool has = infp_duck_has(in->validity, 0);

        for (idx_t row = 1; row < in->n; row++)
                if (infp_duck_has(in->validity, row) != has || (has && in->ids[row] != in->ids[0]))
                        return false;
        return true;
}

static void repeat_text(const struct infp_duck_api *api, const struct infp_value *value, idx_t n, duckdb_vector output)
{
        for (idx_t row = 0; row < n; row++)
                if (value)
                        api->vector_assign_string_element_len(output, row, value->text, value->size);
                else
                        infp_duck_set_null(api, output, row);
}

static void look_up_texts(struct attribute *attribute, const struct infp_entities *entities, unsigned column,
                          const struct ids *in, duckdb_vector output)
{
        const struct infp_duck_api *api = attribute->duck->api;
        duckdb_selection_vector selection;
        uint32_t *chosen, nothing = (uint32_t) infp_entities_count(entities);

        if (are_equal(in)) {
                bool has = infp_duck_has(in->validity, 0);

                repeat_text(api, has ? infp_entities_value(entities, in->ids[0], column) : NULL, in->n, output);
                return;
        }
        selection = api->create_selection_vector(in->n);
        chosen = api->selection_vector_get_data_ptr(selection);
        for (idx_t row = 0; row < in->n; row++) {
                int64_t number = infp_duck_has(in->validity, row) ? infp_entities_find(entities, in->ids[row]) : -1;

                chosen[row] = number < 0 ? nothing : (uint32_t) number;
        }
        pthread_mutex_lock(&attribute->lock);
        if (attribute->texts_of != attribute->duck->n_attached)
                make_texts(attribute, entities, column);
        api->vector_reference_vector(output, attribute->texts);
        pthread_mutex_unlock(&attribute->lock);
        api->slice_vector(output, selection, in->n);
        api->destroy_selection_vector(selection);
}

static void look_up_values(const struct attribute *attribute, const struct infp_entities *entities, unsigned column,
                           const struct ids *in, duckdb_vector output)
{
        const struct infp_duck_api *api = attribute->duck->api;
        void *data = api->vector_get_data(output);

        for (idx_t row = 0; row < in->n; row++) {
                const struct infp_value *value =
                        infp_duck_has(in->validity, row) ? infp_entities_value(entities, in->ids[row], column) : NULL;

                if (!value)
                        infp_duck_set_null(api, output, row);
                else if (attribute->type == INFP_BOOL)
                        ((bool *) data)[row] = value->as.b;
                else if (attribute->type == INFP_TS_NS)
                        ((int64_t *) data)[row] = infp_floor_us(value->as.i64);
                else
                        ((uint64_t *) data)[row] = value->as.u64;
        }
}

static void look_up(duckdb_function_info info, duckdb_data_chunk input, duckdb_vector output)
{
        const struct infp_duck_api *api;
        struct attribute *attribute;
        const struct infp_entities *entities = NULL;
        struct infp_err err = { "the entity table has lost a column" };
        struct ids in;
        int column, r;

        if (infp_duck_api_load(&api, &err) < 0)
                return;
        attribute = api->scalar_function_get_extra_info(info);
        r = entities_of(attribute, &entities, &err);
        column = r < 0 ? r : infp_entities_column(entities, attribute->column);
        if (column < 0) {
                api->scalar_function_set_error(info, err.text);
                return;
        }
        in = (struct ids){ api->vector_get_data(api->data_chunk_get_vector(input, 0)),
                           api->vector_get_validity(api->data_chunk_get_vector(input, 0)),
                           api->data_chunk_get_size(input) };
        if (attribute->type == INFP_STR)
                look_up_texts(attribute, entities, (unsigned) column, &in, output);
        else
                look_up_values(attribute, entities, (unsigned) column, &in, output);
}

static struct attribute *make_attribute(struct infp_duck *duck, const struct infp_shown *shown)
{
        struct attribute *attribute = calloc(1, sizeof(*attribute));

        if (!attribute)
                return NULL;
        *attribute = (struct attribute){ .duck = duck,
                                         .table = strdup(shown->entity->name),
                                         .column = strdup(shown->attribute->name),
                                         .type = shown->attribute->type };
        pthread_mutex_init(&attribute->lock, NULL);
        if (!attribute->table || !attribute->column) {
                free_attribute(attribute);
                return NULL;
        }
        return attribute;
}

int infp_duck_register_attribute(struct infp_duck *duck, const struct infp_shown *shown, struct infp_err *err)
{
        const struct infp_duck_api *api = duck->api;
        infp_autostr struct infp_str name = { 0 };
        struct attribute *attribute = make_attribute(duck, shown);
        duckdb_scalar_function f;
        duckdb_logical_type id, type;
        duckdb_state state;

        infp_sql_attribute_function(&name, shown);
        if (!attribute || name.failed) {
                if (attribute)
                        free_attribute(attribute);
                return infp_fail(err, -ENOMEM, "out of memory");
        }
        f = api->create_scalar_function();
        id = api->create_logical_type(DUCKDB_TYPE_UBIGINT);
        type = api->create_logical_type(infp_duck_type(shown->attribute->type));
        api->scalar_function_set_name(f, name.data);
        api->scalar_function_add_parameter(f, id);
        api->scalar_function_set_return_type(f, type);
        api->scalar_function_set_special_handling(f); /* sees nulls */
        api->scalar_function_set_extra_info(f, attribute, free_attribute);
        api->scalar_function_set_function(f, look_up);
        state = api->register_scalar_function(duck->connection, f);
        api->destroy_logical_type(&id);
        api->destroy_logical_type(&type);
        api->destroy_scalar_function(&f);
        return state == DuckDBSuccess ? 0 : infp_fail(err, -EINVAL, "DuckDB refuses the function %s", name.data);
}
