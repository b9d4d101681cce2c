#include "view/snapshot/static_json.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "view/cell_json.h"

static const char cache_prefix[] = "vCpuCache";

/* Without a row of `host` all is null. */
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

static const char *const makers[INFP_STATIC_MAKERS] = { "nvidia", "amdgpu", "intel" };
static const char driver_table[] = "nvidia_driver", record_end[] = "\n}\n";

/* Names in the record, and their columns. */
static const struct {
        const char *name, *column;
} members[] = {
        { "gName", "gName" },
        { "gUuid", "gUuid" },
        { "gTotalMemoryMb", "gMemoryTotalMb" },
        { "gPciBusId", "gPciBusId" },
        { "gMaxGraphicsClock", "gClockGraphicsMaxMhz" },
        { "gMaxSmClock", "gClockSmMaxMhz" },
        { "gMaxMemClock", "gClockMemMaxMhz" },
};

void infp_static_gpus_done(struct infp_static_gpus *gpus)
{
        for (unsigned i = 0; i < INFP_STATIC_MAKERS; i++) {
                struct infp_static_maker *maker = &gpus->makers[i];

                infp_str_done(&maker->driver_version);
                infp_str_done(&maker->cuda_version);
                for (unsigned k = 0; k < maker->n; k++)
                        infp_str_done(&maker->gpus[k].json);
                free(maker->gpus);
        }
        *gpus = (struct infp_static_gpus){ 0 };
}

static bool take_value(struct infp_str *value, const struct infp_batch *batch, const char *column)
{
        const int at = infp_table_find(batch->table, column);
        struct infp_json json;

        if (at < 0 || !infp_batch_has(batch, (unsigned) at, 0))
                return false;
        infp_str_clear(value);
        infp_json_begin(&json, value, 0);
        infp_cell_json(&json, batch, (unsigned) at, 0);
        return true;
}

static void put_members(struct infp_str *out, const struct infp_batch *batch, uint32_t row)
{
        struct infp_json json;

        infp_json_begin(&json, out, 2);
        json.depth = 3; /* where it will stand */
        json.after_key = true;
        infp_json_object(&json);
        for (size_t i = 0; i < INFP_COUNT(members); i++) {
                const int at = infp_table_find(batch->table, members[i].column);

                infp_json_key(&json, members[i].name);
                if (at >= 0)
                        infp_cell_json(&json, batch, (unsigned) at, row);
                else
                        infp_json_null(&json);
        }
        infp_json_object_end(&json);
}

static bool take_gpu(struct infp_static_maker *maker, const struct infp_batch *batch, uint32_t row)
{
        const int index_at = infp_table_find(batch->table, "gGpuIndex"),
                  uuid_at = infp_table_find(batch->table, "gUuid");
        struct infp_static_gpu gpu = { 0 }, *more;
        unsigned place;
        size_t size;
        const char *uuid;

        if (index_at < 0 || uuid_at < 0)
                return false;
        uuid = infp_batch_str(batch, (unsigned) uuid_at, row, &size);
        gpu.index = infp_batch_i64(batch, (unsigned) index_at, row);
        gpu.id = infp_hash64(uuid, size, (uint64_t) gpu.index);
        for (place = 0; place < maker->n && maker->gpus[place].index <= gpu.index; place++)
                if (maker->gpus[place].id == gpu.id)
                        return false;
        more = reallocarray(maker->gpus, maker->n + 1, sizeof(*more));
        if (!more)
                return false; /* a later row of it is another try */
        maker->gpus = more;
        put_members(&gpu.json, batch, row);
        memmove(&maker->gpus[place + 1], &maker->gpus[place], (maker->n - place) * sizeof(gpu));
        maker->gpus[place] = gpu;
        maker->n++;
        return true;
}

bool infp_static_gpus_take(struct infp_static_gpus *gpus, const struct infp_batch *batch)
{
        bool is_new = false;

        if (!batch->n_rows)
                return false;
        if (!strcmp(batch->table->name, driver_table)) {
                is_new = take_value(&gpus->makers[0].driver_version, batch, "gDriverVersion");
                is_new |= take_value(&gpus->makers[0].cuda_version, batch, "gCudaVersion");
                return is_new;
        }
        for (unsigned i = 0; i < INFP_STATIC_MAKERS; i++)
                for (uint32_t row = 0; row < batch->n_rows && !strcmp(batch->table->name, makers[i]); row++)
                        is_new |= take_gpu(&gpus->makers[i], batch, row);
        return is_new;
}

static void put_value(struct infp_json *json, const char *name, const struct infp_str *value)
{
        infp_json_key(json, name);
        if (value->size)
                infp_json_raw(json, value->data, value->size);
        else
                infp_json_null(json);
}

static void put_maker(struct infp_json *json, const char *name, const struct infp_static_maker *maker,
                      bool has_versions)
{
        infp_json_key(json, name);
        infp_json_object(json);
        if (has_versions) {
                put_value(json, "gDriverVersion", &maker->driver_version);
                put_value(json, "gCudaVersion", &maker->cuda_version);
        }
        infp_json_key(json, "gpus");
        infp_json_array(json);
        for (unsigned i = 0; i < maker->n; i++)
                infp_json_raw(json, maker->gpus[i].json.data, maker->gpus[i].json.size);
        infp_json_array_end(json);
        infp_json_object_end(json);
}

void infp_static_gpus_put(const struct infp_static_gpus *gpus, const struct infp_str *record, struct infp_str *out)
{
        const size_t end = sizeof(record_end) - 1;
        struct infp_json json;

        if (record->failed || record->size < end) {
                out->failed = true;
                return;
        }
        infp_str_put(out, record->data, record->size - end);
        infp_json_begin(&json, out, 2);
        json.depth = 1; /* within the record's object, after its other members */
        json.first[1] = false;
        for (unsigned i = 0; i < INFP_STATIC_MAKERS; i++) {
                const struct infp_static_maker *maker = &gpus->makers[i];

                for (unsigned k = 0; k < maker->n; k++)
                        out->failed |= maker->gpus[k].json.failed;
                if (maker->n || maker->driver_version.size)
                        put_maker(&json, makers[i], maker, i == 0);
        }
        infp_str_puts(out, record_end);
}
