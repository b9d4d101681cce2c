#include "query/duck_state.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "query/series.h"
#include "query/sql_views.h"
#include "query/views.h"
#include "store/path.h"

/* The context of a scalar function that looks up one attribute of an entity. DuckDB calls a function only where the column is
 * used; it would make a join for every query. */
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
                api->destroy_vector(&attribute->texts);
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

/* Loads the entity table at first use; the views show the run at the time of attach anyway. */
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
                        infp_duck_set_null(attribute->texts, i);
        }
        attribute->texts_of = attribute->duck->n_attached;
}

/* Input of a look-up. */
struct ids {
        const uint64_t *ids, *validity;
        idx_t n;
};

/* Equal ids may be one constant, and DuckDB reads a constant's result in place, ignoring the selection: make such results flat. */
static bool are_equal(const struct ids *in)
{
        bool has = infp_duck_has(in->validity, 0);

        for (idx_t row = 1; row < in->n; row++)
                if (infp_duck_has(in->validity, row) != has || (has && in->ids[row] != in->ids[0]))
                        return false;
        return true;
}

static void repeat_text(const struct infp_value *value, idx_t n, duckdb_vector output)
{
        for (idx_t row = 0; row < n; row++)
                if (value)
                        api->vector_assign_string_element_len(output, row, value->text, value->size);
                else
                        infp_duck_set_null(output, row);
}

static void look_up_texts(struct attribute *attribute, const struct infp_entities *entities, unsigned column,
                          const struct ids *in, duckdb_vector output)
{
        duckdb_selection_vector selection;
        uint32_t *chosen, nothing = (uint32_t) infp_entities_count(entities);

        if (are_equal(in)) {
                bool has = infp_duck_has(in->validity, 0);

                repeat_text(has ? infp_entities_value(entities, in->ids[0], column) : NULL, in->n, output);
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
        void *data = api->vector_get_data(output);

        for (idx_t row = 0; row < in->n; row++) {
                const struct infp_value *value =
                        infp_duck_has(in->validity, row) ? infp_entities_value(entities, in->ids[row], column) : NULL;

                if (!value)
                        infp_duck_set_null(output, row);
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
        struct attribute *attribute;
        const struct infp_entities *entities = NULL;
        struct infp_err err = { "the entity table has lost a column" };
        struct ids in;
        int column, r;

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

static int register_attribute(struct infp_duck *duck, const struct infp_shown *shown, struct infp_err *err)
{
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

void infp_duck_detach(struct infp_duck *duck)
{
        struct infp_duck_run *attached = duck->attached;

        if (!attached)
                return;
        for (unsigned i = 0; attached->arrow && i < attached->catalog.n_tables; i++)
                infp_parts_done(&attached->arrow[i]);
        for (unsigned i = 0; i < attached->n_entities; i++) {
                infp_entities_free(attached->entities[i].entities);
                free(attached->entities[i].table);
        }
        free(attached->arrow);
        free(attached->entities);
        infp_catalog_done(&attached->catalog);
        pthread_mutex_destroy(&attached->lock);
        free(attached);
        duck->attached = NULL;
}

/* Keeps the parts that are not Parquet yet. */
static void drop_parquet(struct infp_parts *parts)
{
        unsigned n = 0;

        for (unsigned i = 0; i < parts->n; i++)
                if (parts->parts[i].is_parquet)
                        free(parts->parts[i].path);
                else
                        parts->parts[n++] = parts->parts[i];
        parts->n = n;
}

static int list_entities(struct infp_duck_run *attached)
{
        attached->entities = calloc(attached->catalog.n_tables + 1, sizeof(*attached->entities));
        if (!attached->entities)
                return -ENOMEM;
        for (unsigned i = 0; i < attached->catalog.n_tables; i++)
                if (attached->catalog.tables[i].entity) {
                        char *name = strdup(attached->catalog.tables[i].name);

                        if (!name)
                                return -ENOMEM;
                        attached->entities[attached->n_entities++].table = name;
                }
        return 0;
}

/* Several facts may carry the same id: one function for each attribute is enough. */
static int register_attributes(struct infp_duck *duck, const struct infp_shown_list *shown, struct infp_map *done,
                               struct infp_err *err)
{
        for (unsigned i = 0; i < shown->n; i++) {
                const struct infp_shown *s = &shown->shown[i];
                uint64_t key = (uint64_t) (uintptr_t) s->attribute;

                if (!s->entity || infp_map_get(done, key))
                        continue;
                INFP_TRY(register_attribute(duck, s, err));
                if (infp_map_put(done, key, 1) < 0)
                        return infp_fail(err, -ENOMEM, "out of memory");
        }
        return 0;
}

/* The view of a table that cannot be read has its columns, so that a query of any of them reports why. The condition fails
 * because count(*) reads no columns. */
static int broken_view(struct infp_duck *duck, const struct infp_table *table, const struct infp_shown_list *columns,
                       const char *why, struct infp_err *err)
{
        infp_autostr struct infp_str sql = { 0 };

        infp_str_puts(&sql, "CREATE OR REPLACE VIEW ");
        infp_sql_table(&sql, table);
        infp_str_puts(&sql, " AS SELECT ");
        for (unsigned i = 0; columns && i < columns->n; i++) {
                const struct infp_shown *shown = &columns->shown[i];
                const struct infp_column *column =
                        shown->entity ? shown->attribute : infp_table_column(table, shown->column);

                infp_str_printf(&sql, "CAST(NULL AS %s) AS ", infp_sql_type(column->type));
                infp_sql_name(&sql, shown->name);
                infp_str_putc(&sql, ',');
        }
        infp_str_puts(&sql, columns ? "" : "NULL AS cannot_be_read ");
        infp_str_puts(&sql, "WHERE CAST(error(");
        infp_sql_text(&sql, why);
        infp_str_puts(&sql, ") AS BOOLEAN)");
        return sql.failed ? infp_fail(err, -ENOMEM, "out of memory") : infp_duck_do(duck, sql.data, NULL, err);
}

/* A view that DuckDB refuses (a broken file, two columns that differ only in case) fails when it is read; the others work. */
static int create_broken_view(struct infp_duck *duck, const struct infp_table *table,
                              const struct infp_shown_list *shown, int r, const struct infp_err *text,
                              struct infp_err *err)
{
        struct infp_err why = { "" };

        infp_parts_fail(duck->attached->run, r, text, &why);
        if (shown->n && broken_view(duck, table, shown, why.text, NULL) == 0)
                return 0;
        return broken_view(duck, table, NULL, why.text, err);
}

static int create_view(struct infp_duck *duck, const struct infp_table *table, const struct infp_shown_list *shown,
                       const struct infp_parts *parts, struct infp_err *err)
{
        struct infp_err why = { "" };
        bool exact = infp_sql_all_parquet(parts);
        int r = -EINVAL;

        for (; r < 0; exact = false) {
                infp_autostr struct infp_str sql = { 0 };

                infp_sql_view(&sql, duck->attached->run, table, shown, parts, exact);
                if (sql.failed)
                        return infp_fail(err, -ENOMEM, "out of memory");
                r = infp_duck_do(duck, sql.data, NULL, &why);
                if (r < 0 && !exact)
                        return create_broken_view(duck, table, shown, r, &why, err);
        }
        return 0;
}

static int attach_table(struct infp_duck *duck, unsigned index, struct infp_map *done, struct infp_err *err)
{
        struct infp_duck_run *attached = duck->attached;
        const struct infp_table *table = &attached->catalog.tables[index];
        infp_cleanup(infp_shown_done) struct infp_shown_list shown = { 0 };
        infp_cleanup(infp_parts_done) struct infp_parts parts = { 0 };
        struct infp_err why = { "" };
        int r;

        if (infp_shown_make(table, &attached->catalog, &shown) < 0)
                return infp_fail(err, -ENOMEM, "out of memory");
        r = infp_parts_list(attached->run, table->name, &parts, &why);
        if (r == 0)
                r = infp_parts_list(attached->run, table->name, &attached->arrow[index], &why);
        if (r == -ENOMEM)
                return infp_fail(err, r, "%s", why.text);
        if (r < 0)
                return create_broken_view(duck, table, &shown, r, &why, err);
        drop_parquet(&attached->arrow[index]);
        INFP_TRY(register_attributes(duck, &shown, done, err));
        return create_view(duck, table, &shown, &parts, err);
}

/* The finished file when it is there, else made at each use. Where neither can be read, reading it says why. */
static int attach_series(struct infp_duck *duck, struct infp_err *err)
{
        static const struct infp_shown_list nothing;
        static const struct infp_table table = { .name = INFP_SERIES_NAME, .plain = true };
        static const char view[] = "CREATE OR REPLACE VIEW " INFP_SERIES_NAME " AS SELECT * FROM ";
        const struct infp_run *run = duck->attached->run;
        infp_autostr struct infp_str sql = { 0 };
        char name[64];
        struct infp_err why = { "" };
        int r;

        snprintf(name, sizeof(name), "%s.parquet", run->info.uuid);
        infp_str_printf(&sql, "%sread_parquet('/proc/self/fd/%d/%s', hive_partitioning=false)", view, run->output_fd,
                        name);
        if (sql.failed)
                return infp_fail(err, -ENOMEM, "out of memory");
        if (run->state == INFP_RUN_FINISHED && faccessat(run->output_fd, name, R_OK, 0) == 0 &&
            infp_duck_do(duck, sql.data, NULL, NULL) == 0)
                return 0;
        infp_str_clear(&sql);
        infp_str_printf(&sql, "%sinfp_timeseries()", view);
        r = sql.failed ? infp_fail(&why, -ENOMEM, "out of memory") : infp_duck_do(duck, sql.data, NULL, &why);
        return r < 0 ? create_broken_view(duck, &table, &nothing, r, &why, err) : 0;
}

/* A view exists only if the run has a table that it reads. Before SQL names it only its columns are there: planning the views of stacks
 * takes 4 ms each, a tenth of the CPU time of a short query. */
static int announce_view(struct infp_duck *duck, const struct infp_sql_view_def *def, struct infp_err *err)
{
        infp_cleanup(infp_shown_done) struct infp_shown_list columns = { 0 };
        char why[128];

        if (!infp_sql_view_is_in(def, &duck->attached->catalog))
                return 0;
        if (infp_shown_make(def->table, NULL, &columns) < 0)
                return infp_fail(err, -ENOMEM, "out of memory");
        snprintf(why, sizeof(why), "the SQL must have the name %s in it, in one piece", def->table->name);
        return broken_view(duck, def->table, &columns, why, err);
}

static int make_view(struct infp_duck *duck, const struct infp_sql_view_def *def, struct infp_err *err)
{
        infp_autostr struct infp_str sql = { 0 };
        int r;

        infp_str_puts(&sql, "CREATE OR REPLACE VIEW ");
        infp_sql_table(&sql, def->table);
        infp_str_puts(&sql, " AS ");
        infp_sql_view_put(def, &duck->attached->catalog, &sql);
        r = sql.failed ? infp_fail(err, -ENOMEM, "out of memory") : infp_duck_do(duck, sql.data, NULL, err);
        if (r >= 0 || !def->is_optional)
                return r;
        infp_str_clear(&sql);
        infp_str_puts(&sql, "DROP VIEW ");
        infp_sql_table(&sql, def->table);
        return sql.failed ? infp_fail(err, -ENOMEM, "out of memory") : infp_duck_do(duck, sql.data, NULL, err);
}

int infp_duck_make_views(struct infp_duck *duck, const char *sql, struct infp_err *err)
{
        struct infp_duck_run *attached = duck->attached;

        for (unsigned i = 0; attached && i < INFP_SQL_VIEWS; i++) {
                const struct infp_sql_view_def *def = &infp_sql_views[i];

                if (attached->has_view[i] || !strcasestr(sql, def->table->name) ||
                    !infp_sql_view_is_in(def, &attached->catalog))
                        continue;
                attached->has_view[i] = true;
                INFP_TRY(make_view(duck, def, err));
        }
        return 0;
}

int infp_duck_attach(struct infp_duck *duck, struct infp_run *run, struct infp_err *err)
{
        infp_cleanup(infp_map_done) struct infp_map done = { 0 };
        int r = 0;

        infp_duck_detach(duck);
        duck->attached = calloc(1, sizeof(*duck->attached));
        if (!duck->attached)
                return infp_fail(err, -ENOMEM, "out of memory");
        duck->attached->run = run;
        duck->n_attached++;
        pthread_mutex_init(&duck->attached->lock, NULL);
        INFP_TRY(infp_catalog_read(run, &duck->attached->catalog, err));
        duck->attached->arrow = calloc(duck->attached->catalog.n_tables + 1, sizeof(*duck->attached->arrow));
        if (!duck->attached->arrow || list_entities(duck->attached) < 0)
                return infp_fail(err, -ENOMEM, "out of memory");
        /* No transaction around all views: the first that DuckDB refuses would abort it. */
        for (unsigned i = 0; r == 0 && i < duck->attached->catalog.n_tables; i++)
                r = attach_table(duck, i, &done, err);
        for (unsigned i = 0; r == 0 && i < INFP_SQL_VIEWS; i++)
                r = announce_view(duck, &infp_sql_views[i], err);
        return r < 0 ? r : attach_series(duck, err);
}

/* From here on: SQL that may read a run and nothing else, for runs and statements of strangers.
 *
 * A file of a stranger's run may be a link to one of ours. */
static int allow(struct infp_str *list, int dir_fd, const char *path, const char *table, struct infp_err *err)
{
        infp_autoclose int fd = infp_store_open(dir_fd, path, O_RDONLY);
        infp_autostr struct infp_str name = { 0 };

        if (fd == -ELOOP || fd == -ENOTDIR)
                return infp_fail(err, -ELOOP, "%s (table %s) is reached through a symbolic link, which is not followed",
                                 path, table);
        if (fd < 0)
                return 0; /* reading it says why */
        infp_str_printf(&name, "/proc/self/fd/%d/%s", dir_fd, path);
        infp_str_puts(list, list->size ? "," : "");
        infp_sql_text(list, name.data ? name.data : "");
        list->failed |= name.failed;
        return 0;
}

static int allow_table(struct infp_str *list, const struct infp_run *run, const char *table, struct infp_err *err)
{
        infp_cleanup(infp_parts_done) struct infp_parts parts = { 0 };

        INFP_TRY(infp_parts_list(run, table, &parts, err));
        for (unsigned i = 0; i < parts.n; i++) {
                infp_autostr struct infp_str path = { 0 };

                if (!parts.parts[i].is_parquet)
                        continue;
                infp_part_path(&path, &parts.parts[i], INFP_PARQUET_EXTENSION);
                if (path.failed)
                        return infp_fail(err, -ENOMEM, "out of memory");
                INFP_TRY(allow(list, run->fd, path.data, table, err));
        }
        return 0;
}

int infp_duck_restrict(struct infp_duck *duck, struct infp_err *err)
{
        const struct infp_duck_run *attached = duck->attached;
        infp_autostr struct infp_str list = { 0 }, sql = { 0 };
        struct infp_err why = { "" };
        char name[64];

        for (unsigned i = 0; i < attached->catalog.n_tables; i++)
                INFP_TRY(allow_table(&list, attached->run, attached->catalog.tables[i].name, err));
        snprintf(name, sizeof(name), "%s.parquet", attached->run->info.uuid);
        INFP_TRY(allow(&list, attached->run->output_fd, name, "timeseries", err));
        infp_str_printf(&sql, "SET allowed_paths=[%s]; SET enable_external_access=false; SET lock_configuration=true",
                        list.data ? list.data : "");
        if (list.failed || sql.failed)
                return infp_fail(err, -ENOMEM, "out of memory");
        if (infp_duck_do(duck, sql.data, NULL, &why) < 0)
                return infp_fail(err, -ENOTSUP, "this DuckDB cannot be restricted: %s", why.text);
        duck->is_restricted = true;
        return 0;
}
