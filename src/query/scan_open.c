/* Which columns a scan has: what the catalog and the segments say, and what the reader asked for. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/tables.h"
#include "query/scan_state.h"

struct infp_scan *infp_scan_close(struct infp_scan *scan)
{
        if (!scan)
                return NULL;
        for (unsigned i = 0; scan->joins && i < scan->shown.n; i++) {
                infp_join_vector_done(&scan->joins[i].vector);
                if (scan->joins[i].owns)
                        infp_entities_free(scan->joins[i].entities);
        }
        free(scan->joins);
        infp_source_close(scan->source);
        infp_shown_done(&scan->shown);
        infp_made_free(scan->out);
        infp_made_free(scan->base);
        infp_parts_done(&scan->own_parts);
        infp_catalog_done(&scan->own_catalog);
        free(scan->vectors);
        free(scan->needed);
        free(scan->map);
        free(scan->zeros);
        free(scan);
        return NULL;
}

static void free_scan(struct infp_scan **scan)
{
        infp_scan_close(*scan);
}

static int out_of_memory(struct infp_err *err)
{
        return infp_fail(err, -ENOMEM, "out of memory");
}

static bool is_stamped(const struct infp_table *table)
{
        int t_ns = infp_table_find(table, "t_ns"), time = infp_table_find(table, "time");

        return t_ns >= 0 && time >= 0 && infp_table_column(table, (unsigned) t_ns)->type == INFP_I64 &&
               infp_table_column(table, (unsigned) time)->type == INFP_TS_NS;
}

/* Adds the columns of `table` that base does not have. */
static int add_unknown(struct infp_scan *scan, const struct infp_table *table)
{
        unsigned n_fixed = table->plain ? 0 : INFP_FIXED_COLUMNS;

        for (unsigned i = 0; i < infp_table_width(table); i++) {
                const struct infp_column *column = infp_table_column(table, i);
                bool is_key = i >= n_fixed && i < n_fixed + table->n_keys;

                if (infp_table_find(&scan->base->table, column->name) < 0)
                        INFP_TRY(infp_made_add(scan->base, column, is_key));
        }
        return 0;
}

static int make_base(struct infp_scan *scan, const struct infp_table *table, bool plain)
{
        scan->base = infp_made_new(scan->parts->table, plain);
        if (!scan->base)
                return -ENOMEM;
        if (!table)
                return 0;
        scan->base->table.entity = table->entity;
        return add_unknown(scan, table);
}

static bool knows_all(const struct infp_scan *scan, const char *const *columns)
{
        for (; columns && *columns; columns++)
                if (!scan->base || infp_table_find(&scan->base->table, *columns) < 0)
                        return false;
        return columns != NULL;
}

/* The columns of the table: as the catalog has them, then those that only the segments know. */
static int find_columns(struct infp_scan *scan, const char *const *columns, struct infp_err *err)
{
        static const struct infp_source_hint hint = { .no_rows = true };
        const struct infp_table *known = infp_catalog_find(scan->catalog, scan->parts->table);
        unsigned n;
        int r;

        if (known && make_base(scan, known, known->plain) < 0)
                return out_of_memory(err);
        for (unsigned i = 0; !knows_all(scan, columns) && i < scan->parts->n; i += n) {
                struct infp_source *source;
                const struct infp_table *table;

                INFP_TRY(infp_source_open(scan->run, scan->parts, i, &hint, &source, &n, err));
                table = infp_source_table(source);
                r = !table ? 0 : scan->base ? add_unknown(scan, table) : make_base(scan, table, !is_stamped(table));
                infp_source_close(source);
                if (r < 0)
                        return infp_fail(err, r, "table %s has too many columns", scan->parts->table);
        }
        if (!scan->base)
                return infp_fail(err, -ENOENT, "run %s has no table %s; `infprof tables` lists them",
                                 scan->run->info.uuid, scan->parts->table);
        return 0;
}

static bool is_listed(const char *const *columns, const char *name)
{
        for (; *columns; columns++)
                if (strcmp(*columns, name) == 0)
                        return true;
        return false;
}

/* Keeps of what could be shown what was asked for; an id brings its names along. */
static int choose(struct infp_scan *scan, const char *const *columns, struct infp_err *err)
{
        const struct infp_table *table = &scan->base->table;
        unsigned n = 0, n_fixed = table->plain ? 0 : INFP_FIXED_COLUMNS;

        if (!columns)
                return 0;
        for (const char *const *wanted = columns; *wanted; wanted++) {
                bool found = false;

                for (unsigned i = 0; i < scan->shown.n; i++)
                        found |= strcmp(scan->shown.shown[i].name, *wanted) == 0;
                if (!found)
                        return infp_fail(err, -ENOENT, "table %s has no column %s; `infprof tables %s` lists them",
                                         table->name, *wanted, table->name);
        }
        for (unsigned i = 0; i < scan->shown.n; i++) {
                const struct infp_shown *s = &scan->shown.shown[i];
                bool is_stamp = !s->entity && s->column < n_fixed;
                bool follows = s->entity && is_listed(columns, infp_table_column(table, s->column)->name);

                if (is_stamp || follows || is_listed(columns, s->name))
                        scan->shown.shown[n++] = *s;
        }
        scan->shown.n = n;
        return 0;
}

static int list_needed(struct infp_scan *scan)
{
        const struct infp_table *table = &scan->base->table;
        unsigned n = 0;

        scan->needed = calloc(infp_table_width(table) + 1, sizeof(*scan->needed));
        if (!scan->needed)
                return -ENOMEM;
        for (unsigned i = 0; i < infp_table_width(table); i++)
                for (unsigned k = 0; k < scan->shown.n; k++)
                        if (scan->shown.shown[k].column == i || scan->duration == (int) i) {
                                scan->needed[n++] = infp_table_column(table, i)->name;
                                break;
                        }
        return 0;
}

static int add_out(struct infp_scan *scan, const struct infp_shown *shown)
{
        const struct infp_table *table = &scan->base->table;
        struct infp_column column = shown->entity ? *shown->attribute : *infp_table_column(table, shown->column);
        unsigned n_fixed = table->plain ? 0 : INFP_FIXED_COLUMNS;

        if (!shown->entity && shown->column < n_fixed)
                return 0;
        column.name = shown->name;
        return infp_made_add(scan->out, &column, !shown->entity && shown->column < n_fixed + table->n_keys);
}

/* Loads each entity table once. */
static int load_joins(struct infp_scan *scan, struct infp_err *err)
{
        for (unsigned i = 0; i < scan->shown.n; i++) {
                const struct infp_shown *shown = &scan->shown.shown[i];
                struct join *join = &scan->joins[i];
                int column;

                if (!shown->entity)
                        continue;
                for (unsigned k = 0; k < i && !join->entities; k++)
                        if (scan->shown.shown[k].entity == shown->entity)
                                join->entities = scan->joins[k].entities;
                if (!join->entities) {
                        INFP_TRY(infp_entities_load(scan->run, shown->entity->name, scan->catalog, &join->entities,
                                                    err));
                        join->owns = true;
                }
                column = infp_entities_column(join->entities, shown->attribute->name);
                if (column < 0)
                        return infp_fail(err, -EBADMSG, "table %s has no column %s", shown->entity->name,
                                         shown->attribute->name);
                join->vector.column = (unsigned) column;
                join->vector.type = shown->attribute->type;
        }
        return 0;
}

static int make_output(struct infp_scan *scan, const struct infp_scan_options *options, struct infp_err *err)
{
        const struct infp_table *table = &scan->base->table;

        if (infp_shown_make(table, options->names ? scan->catalog : NULL, &scan->shown) < 0)
                return out_of_memory(err);
        INFP_TRY(choose(scan, options->columns, err));
        scan->out = infp_made_new(table->name, table->plain);
        scan->vectors = calloc(scan->shown.n + 1, sizeof(*scan->vectors));
        scan->joins = calloc(scan->shown.n + 1, sizeof(*scan->joins));
        scan->map = calloc(infp_table_width(table) + 1, sizeof(*scan->map));
        if (!scan->out || !scan->vectors || !scan->joins || !scan->map)
                return out_of_memory(err);
        scan->out->table.entity = table->entity;
        for (unsigned i = 0; i < scan->shown.n; i++)
                if (add_out(scan, &scan->shown.shown[i]) < 0)
                        return out_of_memory(err);
        if (options->columns && list_needed(scan) < 0)
                return out_of_memory(err);
        return load_joins(scan, err);
}

int infp_scan_open(struct infp_run *run, const char *table, const struct infp_scan_options *options,
                   struct infp_scan **ret, struct infp_err *err)
{
        static const struct infp_scan_options everything;
        infp_cleanup(free_scan) struct infp_scan *scan = calloc(1, sizeof(*scan));

        *ret = NULL;
        if (!scan)
                return out_of_memory(err);
        options = options ? options : &everything;
        scan->run = run;
        scan->t0 = options->t0;
        scan->t1 = options->t1;
        scan->parts = options->parts ? options->parts : &scan->own_parts;
        scan->catalog = options->catalog ? options->catalog : &scan->own_catalog;
        if (!options->parts)
                INFP_TRY(infp_parts_list(run, table, &scan->own_parts, err));
        if (!options->catalog)
                INFP_TRY(infp_catalog_read(run, &scan->own_catalog, err));
        INFP_TRY(find_columns(scan, options->columns, err));
        scan->duration =
                strcmp(table, infp_table_spans.name) == 0 ? infp_table_find(&scan->base->table, "duration_ns") : -1;
        INFP_TRY(make_output(scan, options, err));
        *ret = INFP_TAKE(scan);
        return 0;
}
