#include "query/views.h"

#include <string.h>

static void quoted(struct infp_str *sql, const char *text, char quote)
{
        infp_str_putc(sql, quote);
        for (; *text; text++) {
                if (*text == quote)
                        infp_str_putc(sql, quote);
                infp_str_putc(sql, *text);
        }
        infp_str_putc(sql, quote);
}

void infp_sql_name(struct infp_str *sql, const char *name)
{
        quoted(sql, name, '"');
}

void infp_sql_table(struct infp_str *sql, const struct infp_table *table)
{
        infp_sql_name(sql, table->schema ? table->schema : "main");
        infp_str_putc(sql, '.');
        infp_sql_name(sql, table->name);
}

void infp_sql_text(struct infp_str *sql, const char *text)
{
        quoted(sql, text, '\'');
}

const char *infp_sql_type(enum infp_type type)
{
        switch (type) {
        case INFP_I64:
                return "BIGINT";
        case INFP_U64:
        case INFP_ID64:
                return "UBIGINT";
        case INFP_F64:
                return "DOUBLE";
        case INFP_BOOL:
                return "BOOLEAN";
        case INFP_TS_NS:
                return "TIMESTAMPTZ";
        case INFP_STR:
                break;
        }
        return "VARCHAR";
}

void infp_sql_read_parquet(struct infp_str *sql, const struct infp_run *run, const struct infp_parts *parts,
                           unsigned index, unsigned n)
{
        infp_str_puts(sql, "read_parquet([");
        for (unsigned i = index; i < index + n; i++) {
                infp_autostr struct infp_str path = { 0 };

                infp_part_path(&path, &parts->parts[i], INFP_PARQUET_EXTENSION);
                if (i > index)
                        infp_str_putc(sql, ',');
                /* The names of tables and segments hold no character that DuckDB's patterns know (store/path.h). */
                infp_str_printf(sql, "'/proc/self/fd/%d/%s'", run->fd, path.data ? path.data : "");
                sql->failed |= path.failed;
        }
        /* A folder named a=b is a table's name, not a partition. */
        infp_str_puts(sql, "], union_by_name=true, hive_partitioning=false)");
}

void infp_sql_attribute_function(struct infp_str *sql, const struct infp_shown *shown)
{
        infp_str_printf(sql, "infp_entity:%s.%s", shown->entity->name, shown->attribute->name);
}

bool infp_sql_all_parquet(const struct infp_parts *parts)
{
        for (unsigned i = 0; i < parts->n; i++)
                if (!parts->parts[i].is_parquet)
                        return false;
        return parts->n > 0;
}

static void put_parquet_parts(struct infp_str *sql, const struct infp_run *run, const struct infp_parts *parts)
{
        for (unsigned i = 0; i < parts->n;) {
                unsigned n = 0;

                while (i + n < parts->n && parts->parts[i + n].is_parquet)
                        n++;
                if (n) {
                        infp_str_puts(sql, "SELECT * FROM ");
                        infp_sql_read_parquet(sql, run, parts, i, n);
                        infp_str_puts(sql, " UNION ALL BY NAME ");
                }
                i += n ? n : 1;
        }
}

static void put_shown(struct infp_str *sql, const struct infp_table *table, const struct infp_shown *shown)
{
        infp_autostr struct infp_str function = { 0 };

        if (!shown->entity) {
                infp_str_puts(sql, "f.");
                infp_sql_name(sql, shown->name);
                return;
        }
        infp_sql_attribute_function(&function, shown);
        sql->failed |= function.failed;
        infp_sql_name(sql, function.data ? function.data : "");
        infp_str_puts(sql, "(f.");
        infp_sql_name(sql, infp_table_column(table, shown->column)->name);
        infp_str_puts(sql, ") AS ");
        infp_sql_name(sql, shown->name);
}

/* Columns that the files have and the catalog does not know pass through. */
static void put_unknown(struct infp_str *sql, const struct infp_table *table)
{
        infp_str_puts(sql, infp_table_width(table) ? ", f.* EXCLUDE (" : "f.*");
        for (unsigned i = 0; i < infp_table_width(table); i++) {
                if (i)
                        infp_str_putc(sql, ',');
                infp_sql_name(sql, infp_table_column(table, i)->name);
        }
        infp_str_puts(sql, infp_table_width(table) ? ")" : "");
}

void infp_sql_view(struct infp_str *sql, const struct infp_run *run, const struct infp_table *table,
                   const struct infp_shown_list *shown, const struct infp_parts *parts, bool exact)
{
        infp_str_puts(sql, "CREATE OR REPLACE VIEW ");
        infp_sql_table(sql, table);
        infp_str_puts(sql, " AS SELECT ");
        for (unsigned i = 0; i < shown->n; i++) {
                if (i)
                        infp_str_putc(sql, ',');
                put_shown(sql, table, &shown->shown[i]);
        }
        put_unknown(sql, table);
        infp_str_puts(sql, " FROM (");
        if (exact) {
                infp_str_puts(sql, "SELECT * FROM ");
                infp_sql_read_parquet(sql, run, parts, 0, parts->n);
        } else {
                put_parquet_parts(sql, run, parts);
                infp_str_puts(sql, "SELECT * FROM infp_scan(");
                infp_sql_text(sql, table->name);
                infp_str_putc(sql, ')');
        }
        infp_str_puts(sql, ") f");
}
