#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "model/python_tables.h"
#include "model/tables.h"
#include "query/made.h"
#include "query/scan.h"

enum { MAX_TABLES = 10000 };

struct infp_catalog_memory {
        struct infp_made **made; /* n_tables of the catalog */
        unsigned n, cap;
};

void infp_catalog_done(struct infp_catalog *catalog)
{
        struct infp_catalog_memory *memory = catalog->memory;

        if (memory)
                for (unsigned i = 0; i < memory->n; i++)
                        infp_made_free(memory->made[i]);
        if (memory)
                free(memory->made);
        free(memory);
        free(catalog->tables);
        *catalog = (struct infp_catalog){ 0 };
}

const struct infp_table *infp_catalog_find(const struct infp_catalog *catalog, const char *name)
{
        for (unsigned i = 0; i < catalog->n_tables; i++)
                if (strcmp(catalog->tables[i].name, name) == 0)
                        return &catalog->tables[i];
        return NULL;
}

static struct infp_made *find_made(const struct infp_catalog_memory *memory, const char *name)
{
        /* Rows of a table follow each other: the last one is nearly always the one. */
        for (unsigned i = memory->n; i > 0; i--)
                if (strcmp(memory->made[i - 1]->table.name, name) == 0)
                        return memory->made[i - 1];
        return NULL;
}

static int add_made(struct infp_catalog_memory *memory, const char *name, bool plain, struct infp_made **ret)
{
        if (memory->n >= MAX_TABLES)
                return -E2BIG;
        if (!INFP_MAKE_ROOM(memory->made, memory->n, memory->cap, 32))
                return -ENOMEM;
        *ret = infp_made_new(name, plain);
        if (!*ret)
                return -ENOMEM;
        memory->made[memory->n++] = *ret;
        return 0;
}

/* Where the cells of table `columns` are in a batch; -1: this writer did not have that one. */
struct places {
        int at[INFP_COLUMNS_N];
};

static struct places find_places(const struct infp_table *table)
{
        struct places places;

        for (unsigned i = 0; i < INFP_COLUMNS_N; i++) {
                const struct infp_column *c = infp_table_column(&infp_table_columns, INFP_FIXED_COLUMNS + i);
                int at = infp_table_find(table, c->name);

                places.at[i] = at >= 0 && infp_table_column(table, (unsigned) at)->type == c->type ? at : -1;
        }
        return places;
}

/* A copy of the text, terminated; NULL: absent. */
static char *text_of(const struct infp_batch *batch, const struct places *places, enum infp_columns_cell cell,
                     uint32_t row)
{
        int at = places->at[cell];
        const char *text;
        size_t size;

        if (at < 0 || !infp_batch_has(batch, (unsigned) at, row))
                return NULL;
        text = infp_batch_str(batch, (unsigned) at, row, &size);
        return strndup(text, size);
}

static bool flag_of(const struct infp_batch *batch, const struct places *places, enum infp_columns_cell cell,
                    uint32_t row)
{
        int at = places->at[cell];

        return at >= 0 && infp_batch_has(batch, (unsigned) at, row) && infp_batch_bool(batch, (unsigned) at, row);
}

/* The texts of one row of `columns`. */
struct described {
        char *text[INFP_COLUMNS_N];
};

static void free_described(struct described *d)
{
        for (unsigned i = 0; i < INFP_COLUMNS_N; i++)
                free(d->text[i]);
}

static int enumerator(const char *name, int (*by_name)(const char *name), int otherwise)
{
        int r = name ? by_name(name) : -ENOENT;

        return r < 0 ? otherwise : r;
}

static int describe_table(struct infp_catalog_memory *memory, const struct described *d, bool is_entity,
                          struct infp_made **ret)
{
        const char *section = d->text[INFP_COLUMNS_SECTION], *series = d->text[INFP_COLUMNS_SERIES],
                   *schema = d->text[INFP_COLUMNS_SCHEMA];

        *ret = find_made(memory, d->text[INFP_COLUMNS_TABLE]);
        if (*ret)
                return 0;
        INFP_TRY(add_made(memory, d->text[INFP_COLUMNS_TABLE], false, ret));
        (*ret)->table.entity = is_entity;
        if (section && !((*ret)->table.section = infp_made_text(*ret, section, strlen(section))))
                return -ENOMEM;
        if (series && !((*ret)->table.series = infp_made_text(*ret, series, strlen(series))))
                return -ENOMEM;
        if (schema && !strcmp(schema, INFP_PYTHON_SCHEMA)) /* no other one is known: its tables are in main */
                (*ret)->table.schema = INFP_PYTHON_SCHEMA;
        return 0;
}

static int add_column(struct infp_made *made, const struct described *d, int64_t scale, bool is_key)
{
        struct infp_column column = {
                .name = d->text[INFP_COLUMNS_COLUMN],
                .type = (enum infp_type) enumerator(d->text[INFP_COLUMNS_TYPE], infp_type_by_name, 0),
                .kind = (enum infp_kind) enumerator(d->text[INFP_COLUMNS_KIND], infp_kind_by_name, INFP_LABEL),
                .quality = (enum infp_quality) enumerator(d->text[INFP_COLUMNS_QUALITY], infp_quality_by_name,
                                                          INFP_MEASURED),
                .reset = (enum infp_reset) enumerator(d->text[INFP_COLUMNS_RESET], infp_reset_by_name, 0),
                .key = d->text[INFP_COLUMNS_KEY],
                .scale = scale > 0 && scale <= UINT32_MAX ? (uint32_t) scale : 1,
                .prom = d->text[INFP_COLUMNS_PROM],
                .help = d->text[INFP_COLUMNS_HELP] ? d->text[INFP_COLUMNS_HELP] : "",
        };

        /* The segments describe a type of a newer infprof; a second description of a column repeats the first. */
        if (!column.type || infp_table_find(&made->table, column.name) >= 0)
                return 0;
        if (d->text[INFP_COLUMNS_UNIT]) {
                column.unit = infp_made_unit(made, d->text[INFP_COLUMNS_UNIT]);
                if (!column.unit)
                        return -ENOMEM;
        }
        return infp_made_add(made, &column, is_key);
}

static int add_row(struct infp_catalog_memory *memory, const struct infp_batch *batch, const struct places *places,
                   uint32_t row)
{
        infp_cleanup(free_described) struct described d = { 0 };
        struct infp_made *made;
        int scale = places->at[INFP_COLUMNS_SCALE];

        for (unsigned i = 0; i < INFP_COLUMNS_N; i++)
                if (infp_table_column(&infp_table_columns, INFP_FIXED_COLUMNS + i)->type == INFP_STR)
                        d.text[i] = text_of(batch, places, i, row);
        if (!d.text[INFP_COLUMNS_TABLE] || !*d.text[INFP_COLUMNS_TABLE] || !d.text[INFP_COLUMNS_COLUMN])
                return 0;
        INFP_TRY(describe_table(memory, &d, flag_of(batch, places, INFP_COLUMNS_ENTITY, row), &made));
        return add_column(made, &d, scale < 0 ? 1 : infp_batch_i64(batch, (unsigned) scale, row),
                          flag_of(batch, places, INFP_COLUMNS_IS_KEY, row));
}

static int read_columns(struct infp_run *run, struct infp_catalog_memory *memory, struct infp_err *err)
{
        static const struct infp_catalog nothing; /* do not ask the catalog how to read the catalog */
        struct infp_scan *scan;
        struct infp_batch batch;
        struct places places;
        int r = infp_scan_open(run, infp_table_columns.name, &(struct infp_scan_options){ .catalog = &nothing }, &scan,
                               err);

        if (r == -ENOENT) {
                infp_run_note(run,
                              "table columns is missing: the units of all tables are not known, and their values are "
                              "shown as the sources gave them");
                return 0;
        }
        if (r < 0)
                return r;
        places = find_places(infp_scan_table(scan));
        while ((r = infp_scan_next(scan, &batch, err)) > 0)
                for (uint32_t row = 0; r >= 0 && row < batch.n_rows; row++)
                        if ((r = add_row(memory, &batch, &places, row)) < 0)
                                goto end;
end:
        if (r == -ENOMEM || r == -E2BIG)
                infp_fail(err, r, "table columns of run %s describes too many columns", run->info.uuid);
        infp_scan_close(scan);
        return r;
}

/* Adds what the segments themselves say about a table. One that cannot be read is listed without columns: reading it reports why,
 * and the others can be read. */
static int read_segments(struct infp_run *run, const char *name, struct infp_catalog_memory *memory,
                         struct infp_err *err)
{
        struct infp_scan *scan;
        const struct infp_table *table;
        struct infp_made *made;
        static const struct infp_catalog nothing;
        int r;

        r = infp_scan_open(run, name, &(struct infp_scan_options){ .catalog = &nothing }, &scan, err);
        if (r < 0 && r != -ENOMEM && r != -ENOPKG)
                return add_made(memory, name, true, &made) < 0 ? infp_fail(err, -ENOMEM, "out of memory") : 0;
        if (r < 0)
                return r;
        table = infp_scan_table(scan);
        r = add_made(memory, name, table->plain, &made);
        if (r == 0) {
                made->table.entity = table->entity;
                for (unsigned i = 0; r == 0 && i < table->n_keys; i++)
                        r = infp_made_add(made, &table->keys[i], true);
                for (unsigned i = 0; r == 0 && i < table->n_columns; i++)
                        r = infp_made_add(made, &table->columns[i], false);
        }
        infp_scan_close(scan);
        return r < 0 ? infp_fail(err, r, "table %s of run %s has too many columns", name, run->info.uuid) : 0;
}

static int read_tables(struct infp_run *run, struct infp_catalog_memory *memory, struct infp_err *err)
{
        char **names;
        int n = infp_run_tables(run, &names, err), r = n < 0 ? n : 0;

        for (int i = 0; i < n; i++) {
                if (r == 0 && !find_made(memory, names[i]))
                        r = read_segments(run, names[i], memory, err);
                free(names[i]);
        }
        if (n >= 0)
                free(names);
        return r;
}

static int by_name(const void *a, const void *b)
{
        const struct infp_made *const *x = a, *const *y = b;

        return strcmp((*x)->table.name, (*y)->table.name);
}

int infp_catalog_read(struct infp_run *run, struct infp_catalog *ret, struct infp_err *err)
{
        infp_cleanup(infp_catalog_done) struct infp_catalog catalog = { .memory = calloc(1, sizeof(*catalog.memory)) };
        struct infp_catalog_memory *memory = catalog.memory;

        *ret = (struct infp_catalog){ 0 };
        if (!memory)
                return infp_fail(err, -ENOMEM, "out of memory");
        INFP_TRY(read_columns(run, memory, err));
        INFP_TRY(read_tables(run, memory, err));
        catalog.tables = calloc(memory->n ? memory->n : 1, sizeof(*catalog.tables));
        if (!catalog.tables)
                return infp_fail(err, -ENOMEM, "out of memory");
        infp_sort(memory->made, memory->n, sizeof(struct infp_made *), by_name);
        for (unsigned i = 0; i < memory->n; i++)
                catalog.tables[i] = memory->made[i]->table;
        catalog.n_tables = memory->n;
        *ret = catalog;
        catalog = (struct infp_catalog){ 0 };
        return 0;
}
