#include "view/snapshot/static_json.h"

#include <string.h>

#include "base/json.h"
#include "view/cell_json.h"

static const char cache_prefix[] = "vCpuCache";

/* A machine that says nothing of itself has no row. */
static void put_cell(struct infp_json *json, const struct infp_batch *row, unsigned column)
{
        if (row->n_rows)
                infp_cell_json(json, row, column, 0);
        else
                infp_json_null(json);
}

/* "L1d" of "vCpuCacheL1d"; NULL for all others. */
static const char *cache_level(const struct infp_table *table, unsigned column)
{
        size_t size = sizeof(cache_prefix) - 1;
        const char *name = column < infp_table_width(table) ? infp_table_column(table, column)->name : "";

        return !strncmp(name, cache_prefix, size) && name[size] ? name + size : NULL;
}

/* The caches that stand side by side from `column` on; returns the column after them. */
static unsigned put_caches(struct infp_json *json, const struct infp_batch *row, unsigned column)
{
        const char *level;

        infp_json_key(json, cache_prefix);
        infp_json_object(json);
        for (; (level = cache_level(row->table, column)); column++) {
                infp_json_key(json, level);
                put_cell(json, row, column);
        }
        infp_json_object_end(json);
        return column;
}

static void put_host(struct infp_json *json, const struct infp_batch *row, int id)
{
        unsigned column = INFP_FIXED_COLUMNS;

        infp_json_key(json, "host");
        infp_json_object(json);
        while (column < infp_table_width(row->table)) {
                if (cache_level(row->table, column)) {
                        column = put_caches(json, row, column);
                        continue;
                }
                if ((int) column != id) {
                        infp_json_key(json, infp_table_column(row->table, column)->name);
                        put_cell(json, row, column);
                }
                column++;
        }
        infp_json_object_end(json);
}

void infp_static_json(struct infp_str *out, const char *uuid, const struct infp_batch *host_row)
{
        int id = infp_table_find(host_row->table, "vId");
        struct infp_json json;

        infp_json_begin(&json, out, 2);
        infp_json_object(&json);
        infp_json_key(&json, "uuid");
        infp_json_str(&json, uuid);
        if (id >= 0) {
                infp_json_key(&json, "vId");
                put_cell(&json, host_row, (unsigned) id);
        }
        put_host(&json, host_row, id);
        infp_json_object_end(&json);
        infp_str_putc(out, '\n');
}
