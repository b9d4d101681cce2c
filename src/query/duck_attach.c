#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "query/duck_state.h"
#include "query/series.h"
#include "query/sql_views.h"
#include "query/views.h"

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

/* Leaves the parts that are not Parquet yet. */
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

/* Several facts may carry the same id: one function an attribute is enough. */
static int register_attributes(struct infp_duck *duck, const struct infp_shown_list *shown, struct infp_map *done,
                               struct infp_err *err)
{
        for (unsigned i = 0; i < shown->n; i++) {
                const struct infp_shown *s = &shown->shown[i];
                uint64_t key = (uint64_t) (uintptr_t) s->attribute;

                if (!s->entity || infp_map_get(done, key))
                        continue;
                INFP_TRY(infp_duck_register_attribute(duck, s, err));
                if (infp_map_put(done, key, 1) < 0)
                        return infp_fail(err, -ENOMEM, "out of memory");
        }
        return 0;
}

/* The view of a table that cannot be read has its columns, so that a query of any of them says why. The condition fails: a
 * count(*) would do without the columns. */
static int broken_view(struct infp_duck *duck, const char *table, const struct infp_shown_list *columns,
                       const struct infp_table *types, const char *why, struct infp_err *err)
{
        infp_autostr struct infp_str sql = { 0 };

        infp_str_puts(&sql, "CREATE OR REPLACE VIEW ");
        infp_sql_name(&sql, table);
        infp_str_puts(&sql, " AS SELECT ");
        for (unsigned i = 0; columns && i < columns->n; i++) {
                const struct infp_shown *shown = &columns->shown[i];
                const struct infp_column *column =
                        shown->entity ? shown->attribute : infp_table_column(types, shown->column);

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

/* A view that DuckDB refuses (a file is broken, two columns differ only in case) shows so when it is read; the others work. */
static int create_broken_view(struct infp_duck *duck, const struct infp_table *table,
                              const struct infp_shown_list *shown, int r, const struct infp_err *text,
                              struct infp_err *err)
{
        struct infp_err why = { "" };

        infp_parts_fail(duck->attached->run, r, text, &why);
        if (shown->n && broken_view(duck, table->name, shown, table, why.text, NULL) == 0)
                return 0;
        return broken_view(duck, table->name, NULL, NULL, why.text, err);
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

/* Where a run lacks the table that a view reads, there is no such view. */
static int attach_view(struct infp_duck *duck, const struct infp_sql_view_def *def, struct infp_err *err)
{
        infp_autostr struct infp_str sql = { 0 };
        int r;

        if (!infp_catalog_find(&duck->attached->catalog, def->wants))
                return 0;
        infp_str_printf(&sql, "CREATE OR REPLACE VIEW %s AS %s", def->table->name, def->sql);
        if (sql.failed)
                return infp_fail(err, -ENOMEM, "out of memory");
        r = infp_duck_do(duck, sql.data, NULL, def->is_optional ? NULL : err);
        return def->is_optional ? 0 : r;
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
        /* No transaction around all views: one that DuckDB refuses would end it. */
        for (unsigned i = 0; r == 0 && i < duck->attached->catalog.n_tables; i++)
                r = attach_table(duck, i, &done, err);
        for (unsigned i = 0; r == 0 && i < INFP_SQL_VIEWS; i++)
                r = attach_view(duck, &infp_sql_views[i], err);
        return r < 0 ? r : attach_series(duck, err);
}
