#include "query/scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/tables.h"
#include "query/joins.h"
#include "query/made.h"
#include "query/parts.h"
#include "query/source.h"

/* One attribute of an entity as a vector of a batch, filled for each batch from the ids in it. */
struct join_vector {
        enum infp_type type;
        unsigned column; /* of the entity's table */
        uint8_t *valid;
        void *values;
        int32_t *offsets;
        size_t cap_rows, cap_text;
};

static void join_vector_done(struct join_vector *vector)
{
        free(vector->valid);
        free(vector->values);
        free(vector->offsets);
        *vector = (struct join_vector){ 0 };
}

static int reserve(void **memory, size_t size)
{
        void *more = realloc(*memory, size);

        if (!more)
                return -ENOMEM;
        *memory = more;
        return 0;
}

static int reserve_rows(struct join_vector *v, uint32_t n)
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

static int put_text(struct join_vector *v, uint32_t row, const struct infp_value *value)
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

static int put(struct join_vector *v, uint32_t row, const struct infp_value *value)
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

/* Fills rows 0 .. n-1 from ids[0 .. n-1]; valid as in struct infp_vector. -ENOMEM or -E2BIG. */
static int join_vector_fill(struct join_vector *v, const struct infp_entities *entities, const struct infp_vector *ids,
                            uint32_t n, struct infp_vector *ret)
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

/* An entity table that this scan joins, and one vector for each column that is shown. */
struct join {
        struct infp_entities *entities; /* shared by the columns of the same entity: only the first one owns it */
        bool owns;
        struct join_vector vector;
};

struct infp_scan {
        struct infp_run *run;
        uint64_t t0, t1;
        struct infp_catalog own_catalog;
        struct infp_parts own_parts;
        const struct infp_catalog *catalog;
        const struct infp_parts *parts;

        struct infp_made *base; /* all columns that the table has */
        struct infp_shown_list shown;
        struct infp_made *out; /* what is shown */
        struct infp_vector *vectors;
        struct join *joins;  /* of each shown */
        const char **needed; /* of base, ended by NULL; NULL: all */

        unsigned next_part;
        struct infp_source *source;
        int duration; /* column of base with the duration of a row; -1: rows are moments */
        int *map;     /* column of base -> of the source, or -1 */
        struct infp_batch batch;
        uint32_t at; /* rows of batch that were given out or skipped */
        void *zeros;
        size_t zeros_size;
};

struct infp_scan *infp_scan_close(struct infp_scan *scan)
{
        if (!scan)
                return NULL;
        for (unsigned i = 0; scan->joins && i < scan->shown.n; i++) {
                join_vector_done(&scan->joins[i].vector);
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

/* The columns of the table: those in the catalog, then those that only the segments have. */
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

/* Keeps the columns that were asked for; an id includes its names. */
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

const struct infp_table *infp_scan_table(const struct infp_scan *scan)
{
        return &scan->out->table;
}

/* Types with the same layout in memory. */
static bool is_alike(enum infp_type a, enum infp_type b)
{
        bool is_signed = (a == INFP_I64 || a == INFP_TS_NS) && (b == INFP_I64 || b == INFP_TS_NS);
        bool is_unsigned = (a == INFP_U64 || a == INFP_ID64) && (b == INFP_U64 || b == INFP_ID64);

        return a == b || is_signed || is_unsigned;
}

static int map_columns(struct infp_scan *scan, struct infp_err *err)
{
        const struct infp_table *table = &scan->base->table, *source = infp_source_table(scan->source);

        for (unsigned i = 0; source && i < infp_table_width(table); i++) {
                const struct infp_column *column = infp_table_column(table, i);
                int at = infp_table_find(source, column->name);

                if (at >= 0 && !is_alike(infp_table_column(source, (unsigned) at)->type, column->type))
                        return infp_fail(err, -EBADMSG, "a segment of table %s holds column %s as %s, the run says %s",
                                         table->name, column->name,
                                         infp_type_name(infp_table_column(source, (unsigned) at)->type),
                                         infp_type_name(column->type));
                scan->map[i] = at >= 0 ? at : -1;
        }
        return 0;
}

/* The row began before the range and reaches into it. */
static bool reaches(const struct infp_scan *scan, uint64_t t, uint32_t row)
{
        const int at = scan->duration < 0 ? -1 : scan->map[scan->duration];

        if (at < 0)
                return false;
        return !infp_batch_has(&scan->batch, (unsigned) at, row) ||
               t + (uint64_t) infp_batch_i64(&scan->batch, (unsigned) at, row) > scan->t0;
}

static bool in_range(const struct infp_scan *scan, const int64_t *t_ns, uint32_t row)
{
        uint64_t t = (uint64_t) t_ns[scan->batch.first + row];

        return (!scan->t1 || t < scan->t1) && (t >= scan->t0 || reaches(scan, t, row));
}

/* The next consecutive rows of the batch that are in the range. False: none are left. */
static bool next_slice(struct infp_scan *scan, uint32_t *ret_row, uint32_t *ret_n)
{
        const int64_t *t_ns;
        uint32_t from = scan->at, to = scan->batch.n_rows;

        if (from >= to)
                return false;
        if (scan->t0 || scan->t1) {
                if (scan->base->table.plain || scan->map[0] < 0)
                        return false;
                t_ns = scan->batch.columns[scan->map[0]].values;
                while (from < scan->batch.n_rows && !in_range(scan, t_ns, from))
                        from++;
                to = from;
                while (to < scan->batch.n_rows && in_range(scan, t_ns, to))
                        to++;
        }
        scan->at = to;
        *ret_row = from;
        *ret_n = to - from;
        return to > from;
}

/* The next segment, or row of segments. 1, 0 when there is none, or a negative errno. */
static int next_source(struct infp_scan *scan, struct infp_err *err)
{
        struct infp_source_hint hint = { scan->duration < 0 ? scan->t0 : 0, scan->t1, scan->needed, false };
        unsigned n;

        scan->source = infp_source_close(scan->source);
        if (scan->next_part >= scan->parts->n)
                return 0;
        INFP_TRY(infp_source_open(scan->run, scan->parts, scan->next_part, &hint, &scan->source, &n, err));
        scan->next_part += n;
        INFP_TRY(map_columns(scan, err));
        return 1;
}

/* Reads until there is a batch. 1, 0 at the end, or a negative errno. */
static int next_batch(struct infp_scan *scan, struct infp_err *err)
{
        int r;

        scan->at = 0;
        scan->batch.n_rows = 0;
        for (;;) {
                r = scan->source ? infp_source_next(scan->source, &scan->batch, err) : 0;
                if (r != 0)
                        return r;
                r = next_source(scan, err);
                if (r <= 0)
                        return r;
        }
}

/* A column that this segment lacks: null in every row. */
static int null_vector(struct infp_scan *scan, uint32_t n, struct infp_vector *ret)
{
        size_t size = ((size_t) n + 1) * 8;

        if (size > scan->zeros_size) {
                free(scan->zeros);
                scan->zeros_size = 0;
                scan->zeros = calloc(1, size);
                if (!scan->zeros)
                        return -ENOMEM;
                scan->zeros_size = size;
        }
        *ret = (struct infp_vector){ .valid = scan->zeros, .values = scan->zeros, .offsets = scan->zeros };
        return 0;
}

static int fill(struct infp_scan *scan, uint32_t first, uint32_t n)
{
        for (unsigned i = 0; i < scan->shown.n; i++) {
                const struct infp_shown *shown = &scan->shown.shown[i];
                int at = scan->map[shown->column];

                if (at < 0)
                        INFP_TRY(null_vector(scan, first + n, &scan->vectors[i]));
                else if (shown->entity)
                        INFP_TRY(join_vector_fill(&scan->joins[i].vector, scan->joins[i].entities,
                                                  &scan->batch.columns[at], first + n, &scan->vectors[i]));
                else
                        scan->vectors[i] = scan->batch.columns[at];
        }
        return 0;
}

int infp_scan_next(struct infp_scan *scan, struct infp_batch *ret, struct infp_err *err)
{
        uint32_t row, n;
        int r;

        while (!next_slice(scan, &row, &n)) {
                r = next_batch(scan, err);
                if (r <= 0)
                        return r;
        }
        row += scan->batch.first;
        if (fill(scan, row, n) < 0)
                return infp_fail(err, -ENOMEM, "out of memory");
        *ret = (struct infp_batch){ .table = &scan->out->table, .columns = scan->vectors, .first = row, .n_rows = n };
        return 1;
}
