#include "model/schema.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/mem.h"

// clang-format off
static const struct infp_column fixed[INFP_FIXED_COLUMNS] = {
        INFP_COLUMN(t_ns, I64, LABEL, ns, MEASURED, NO, NULL, 0, NULL, "CLOCK_MONOTONIC just before the source was read."),
        INFP_COLUMN(time, TS_NS, LABEL, none, DERIVED, NO, NULL, 0, NULL, "UTC of t_ns, from the newest clock anchor."),
};
// clang-format on

static unsigned n_fixed(const struct infp_table *table)
{
        return table->plain ? 0 : INFP_FIXED_COLUMNS;
}

const struct infp_column *infp_table_column(const struct infp_table *table, unsigned index)
{
        if (index < n_fixed(table))
                return &fixed[index];
        index -= n_fixed(table);
        if (index < table->n_keys)
                return &table->keys[index];
        index -= table->n_keys;
        return index < table->n_columns ? &table->columns[index] : NULL;
}

unsigned infp_table_width(const struct infp_table *table)
{
        return n_fixed(table) + table->n_keys + table->n_columns;
}

int infp_table_find(const struct infp_table *table, const char *column)
{
        unsigned width = infp_table_width(table);

        for (unsigned i = 0; i < width; i++) {
                if (strcmp(infp_table_column(table, i)->name, column) == 0)
                        return (int) i;
        }
        return -ENOENT;
}

static const char *const type_names[] = {
        [INFP_I64] = "i64", [INFP_U64] = "u64",     [INFP_F64] = "f64",   [INFP_BOOL] = "bool",
        [INFP_STR] = "str", [INFP_TS_NS] = "ts_ns", [INFP_ID64] = "id64",
};
static const char *const kind_names[] = {
        [INFP_LABEL] = "label",
        [INFP_GAUGE] = "gauge",
        [INFP_COUNTER] = "counter",
};
static const char *const quality_names[] = {
        [INFP_MEASURED] = "measured",
        [INFP_DERIVED] = "derived",
        [INFP_ESTIMATED] = "estimated",
};
static const char *const reset_names[] = {
        [0] = "",
        [INFP_RESET_NONE] = "none",
        [INFP_RESET_ZERO] = "zero",
        [INFP_RESET_WRAP] = "wrap",
        [INFP_RESET_GAP] = "gap",
};

/* "" for a number that is not in the enumeration: tables can come from files. */
static const char *name_of(const char *const *names, size_t n, unsigned value)
{
        return value < n && names[value] ? names[value] : "";
}

static int by_name(const char *const *names, size_t n, const char *name)
{
        for (size_t i = 0; i < n; i++) {
                if (names[i] && names[i][0] && strcmp(names[i], name) == 0)
                        return (int) i;
        }
        return -ENOENT;
}

const char *infp_type_name(enum infp_type type)
{
        return name_of(type_names, INFP_COUNT(type_names), type);
}

const char *infp_kind_name(enum infp_kind kind)
{
        return name_of(kind_names, INFP_COUNT(kind_names), kind);
}

const char *infp_quality_name(enum infp_quality quality)
{
        return name_of(quality_names, INFP_COUNT(quality_names), quality);
}

const char *infp_reset_name(enum infp_reset reset)
{
        return name_of(reset_names, INFP_COUNT(reset_names), reset);
}

int infp_type_by_name(const char *name)
{
        return by_name(type_names, INFP_COUNT(type_names), name);
}

int infp_kind_by_name(const char *name)
{
        return by_name(kind_names, INFP_COUNT(kind_names), name);
}

int infp_quality_by_name(const char *name)
{
        return by_name(quality_names, INFP_COUNT(quality_names), name);
}

int infp_reset_by_name(const char *name)
{
        return by_name(reset_names, INFP_COUNT(reset_names), name);
}

/* The lint. Each check returns the fault in words, NULL when there is none. */

static bool good_name(const char *name)
{
        static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";

        return name && *name && !(*name >= '0' && *name <= '9') && name[strspn(name, letters)] == 0;
}

static bool is_sentence(const char *text)
{
        size_t n = text ? strlen(text) : 0;

        return n > 1 && text[n - 1] == '.' && !strchr(text, '\n');
}

static bool ends_with(const char *text, size_t size, const char *end)
{
        size_t n = strlen(end);

        return n <= size && memcmp(text + size - n, end, n) == 0;
}

static const char *prom_fault(const struct infp_column *c)
{
        static const char total[] = "_total", house[] = "infprof_";
        const char *base = c->unit->base;
        size_t n = strlen(c->prom);

        if (!((*c->prom >= 'a' && *c->prom <= 'z') || *c->prom == '_') ||
            strspn(c->prom, "abcdefghijklmnopqrstuvwxyz0123456789_") != n)
                return "its Prometheus name must match [a-z_][a-z0-9_]*";
        if (c->kind == INFP_LABEL)
                return NULL; /* the name of a label */
        if (strncmp(c->prom, house, strlen(house)) != 0)
                return "its Prometheus name must begin with infprof_";
        if (ends_with(c->prom, n, total) != (c->kind == INFP_COUNTER))
                return "Prometheus names of counters, and only theirs, must end in _total";
        if (c->kind == INFP_COUNTER)
                n -= strlen(total);
        /* A plain quotient needs no unit in its name (load1, as everybody's dashboards call it); a percentage does. */
        if (strcmp(base, "ratio") == 0 && c->unit->factor == 1)
                return NULL;
        if (*base && !(ends_with(c->prom, n, base) && n > strlen(base) && c->prom[n - strlen(base) - 1] == '_'))
                return "its Prometheus name must end in the base unit's name";
        return NULL;
}

bool infp_column_is_share(const struct infp_column *column)
{
        return !strcmp(column->unit->base, "ratio") &&
               (column->unit->factor != 1 || (column->prom && ends_with(column->prom, strlen(column->prom), "_ratio")));
}

bool infp_column_is_metric(const struct infp_column *column)
{
        return column->kind != INFP_LABEL && column->type != INFP_STR && column->type != INFP_ID64 &&
               column->type != INFP_TS_NS;
}

static bool is_number(enum infp_type type)
{
        return type == INFP_I64 || type == INFP_U64 || type == INFP_F64;
}

static const char *column_fault(const struct infp_column *c, bool is_key)
{
        if (!good_name(c->name))
                return "its name must match [A-Za-z_][A-Za-z0-9_]*";
        if (!*infp_type_name(c->type) || !*infp_kind_name(c->kind) || !*infp_quality_name(c->quality))
                return "its type, kind or quality is none of the enumeration";
        if (!c->unit || infp_unit_by_name(c->unit->name) != c->unit)
                return "its unit is none of model/unit.h";
        if (!is_sentence(c->help))
                return "its help must be a sentence that ends in a full stop";
        if (is_key && c->kind != INFP_LABEL)
                return "a key must be a label";
        if (c->kind == INFP_COUNTER && !is_number(c->type))
                return "a counter must be a number";
        if (c->kind != INFP_LABEL && c->type == INFP_ID64)
                return "an id must be a label";
        if ((c->kind == INFP_COUNTER) != (c->reset != 0) || (c->reset && !*infp_reset_name(c->reset)))
                return "counters, and only they, have a reset rule";
        if (c->reset == INFP_RESET_GAP && !c->key)
                return "a counter with gaps names the column of its seconds";
        if (c->type == INFP_ID64 && !c->key)
                return "an id must name its entity's table (\"\" for this one)";
        if (c->scale && !is_number(c->type))
                return "only numbers have a scale";
        return c->prom ? prom_fault(c) : NULL;
}

/* SQL ignores case; the time series puts <name>_time beside each name. */
static bool clash(const struct infp_table *table, const char *a, const char *b)
{
        size_t n = strlen(a);

        if (strcasecmp(a, b) == 0)
                return true;
        return table->series && strncasecmp(a, b, n) == 0 && strcasecmp(b + n, "_time") == 0;
}

static int check_names(const struct infp_table *table, struct infp_err *err)
{
        unsigned width = infp_table_width(table);

        for (unsigned i = 0; i < width; i++) {
                for (unsigned k = 0; k < width; k++) {
                        const char *a = infp_table_column(table, i)->name, *b = infp_table_column(table, k)->name;

                        if (i != k && clash(table, a, b))
                                return infp_fail(err, -EINVAL, "table %s: the columns %s and %s clash", table->name, a,
                                                 b);
                }
        }
        return 0;
}

static int check_entity(const struct infp_table *table, struct infp_err *err)
{
        if (!table->entity)
                return 0;
        if (table->n_keys < 1 || strcmp(table->keys[0].name, "id") != 0 || table->keys[0].type != INFP_ID64)
                return infp_fail(err, -EINVAL, "table %s: the first key of an entity must be `id` of type ID64",
                                 table->name);
        return 0;
}

static int check_section(const struct infp_table *table, struct infp_err *err)
{
        if (table->lead && (!table->section || !table->n_keys || table->entity))
                return infp_fail(err, -EINVAL, "table %s: only a keyed table with a section has a leading instance",
                                 table->name);
        if (table->lead_by && infp_table_find(table, table->lead_by) < 0)
                return infp_fail(err, -EINVAL, "table %s: it has no column %s to lead by", table->name, table->lead_by);
        if (!table->lead && (table->list || table->lead_by || table->flat_section || table->histograms))
                return infp_fail(err, -EINVAL,
                                 "table %s: list, lead_by, flat_section and histograms are of tables with lead",
                                 table->name);
        if (table->histograms && table->keys[0].type != INFP_ID64)
                return infp_fail(err, -EINVAL, "table %s: histograms are found by an id, and its first key is none",
                                 table->name);
        if (table->spread &&
            (table->lead || table->n_keys != 2 || table->keys[0].type != INFP_ID64 || table->keys[1].type != INFP_I64))
                return infp_fail(err, -EINVAL, "table %s: keys of a spread table are an id and a number", table->name);
        return 0;
}

int infp_table_check(const struct infp_table *table, struct infp_err *err)
{
        if (!good_name(table->name))
                return infp_fail(err, -EINVAL, "table %s: its name must match [A-Za-z_][A-Za-z0-9_]*",
                                 table->name ? table->name : "without a name");
        if (table->schema && !good_name(table->schema))
                return infp_fail(err, -EINVAL, "table %s: its schema must match [A-Za-z_][A-Za-z0-9_]*", table->name);
        if (!is_sentence(table->help))
                return infp_fail(err, -EINVAL, "table %s: its help must be a sentence that ends in a full stop",
                                 table->name);
        if (table->n_keys + table->n_columns > INFP_MAX_COLUMNS)
                return infp_fail(err, -EINVAL, "table %s: it has %d columns, %d are the most", table->name,
                                 table->n_keys + table->n_columns, INFP_MAX_COLUMNS);
        for (unsigned i = n_fixed(table); i < infp_table_width(table); i++) {
                const struct infp_column *c = infp_table_column(table, i);
                const char *fault = column_fault(c, i < n_fixed(table) + table->n_keys);

                if (fault)
                        return infp_fail(err, -EINVAL, "table %s, column %s (cell %u): %s", table->name,
                                         c->name ? c->name : "without a name", i - n_fixed(table), fault);
        }
        INFP_TRY(check_names(table, err));
        INFP_TRY(check_section(table, err));
        return check_entity(table, err);
}
