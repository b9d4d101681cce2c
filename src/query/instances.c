#include "query/instances.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "query/joins.h"

void infp_instances_done(struct infp_instances *instances)
{
        for (unsigned i = 0; i < instances->n; i++) {
                free(instances->list[i].key);
                free(instances->list[i].prefix);
        }
        free(instances->list);
        infp_str_done(&instances->scratch);
        *instances = (struct infp_instances){ 0 };
}

void infp_instance_key(struct infp_str *key, const struct infp_batch *batch, uint32_t row)
{
        for (unsigned i = INFP_FIXED_COLUMNS; i < (unsigned) INFP_FIXED_COLUMNS + batch->table->n_keys; i++) {
                enum infp_type type = infp_table_column(batch->table, i)->type;
                uint64_t value = 0;
                size_t size = 0;
                const char *text = "";

                infp_str_putc(key, infp_batch_has(batch, i, row) ? '1' : '0');
                if (type == INFP_STR)
                        text = infp_batch_str(batch, i, row, &size);
                else if (type == INFP_BOOL)
                        value = infp_batch_bool(batch, i, row);
                else if (type == INFP_U64 || type == INFP_ID64)
                        value = infp_batch_u64(batch, i, row);
                else if (type != INFP_F64)
                        value = (uint64_t) infp_batch_i64(batch, i, row);
                infp_str_put(key, &value, sizeof(value));
                infp_str_put(key, &size, sizeof(size));
                infp_str_put(key, text, size);
        }
}

bool infp_instance_second(const struct infp_instance *instance, int64_t *ret)
{
        enum { NUMBER_SIZE = 1 + sizeof(uint64_t) + sizeof(size_t) }; /* of a key without text */

        if (instance->key_size < 2 * NUMBER_SIZE)
                return false;
        memcpy(ret, instance->key + NUMBER_SIZE + 1, sizeof(*ret));
        return true;
}

static int find(const struct infp_instances *instances, const struct infp_str *key)
{
        for (unsigned i = 0; i < instances->n; i++)
                if (instances->list[i].key_size == key->size &&
                    (!key->size || memcmp(instances->list[i].key, key->data, key->size) == 0))
                        return (int) i;
        return -1;
}

int infp_instances_of(struct infp_instances *instances, const struct infp_batch *batch, uint32_t row)
{
        infp_str_clear(&instances->scratch);
        infp_instance_key(&instances->scratch, batch, row);
        return find(instances, &instances->scratch);
}

static int add(struct infp_instances *instances, const struct infp_str *key, const char *prefix, uint64_t id)
{
        struct infp_instance *more = reallocarray(instances->list, instances->n + 1, sizeof(*more));
        struct infp_instance instance = { .key_size = key->size, .id = id };

        if (!more)
                return -ENOMEM;
        instances->list = more;
        instance.prefix = strdup(prefix);
        instance.key = malloc(key->size + 1);
        if (!instance.prefix || !instance.key || key->failed) {
                free(instance.prefix);
                free(instance.key);
                return -ENOMEM;
        }
        if (key->size)
                memcpy(instance.key, key->data, key->size);
        instances->list[instances->n++] = instance;
        return 0;
}

static uint64_t id_of(const struct infp_batch *batch, uint32_t row)
{
        return batch->table->n_keys && batch->table->keys[0].type == INFP_ID64
                       ? infp_batch_u64(batch, INFP_FIXED_COLUMNS, row)
                       : 0;
}

static bool has_prefix(const struct infp_instances *instances, const char *prefix)
{
        for (unsigned i = 0; i < instances->n; i++)
                if (!strcmp(instances->list[i].prefix, prefix))
                        return true;
        return false;
}

/* "container0_" in order of appearance; "nvidia3_" where the first key is a number, so that it does not depend on which of the
 * others can be read. */
static void make_prefix(const struct infp_instances *instances, const char *series, const struct infp_batch *batch,
                        uint32_t row, char ret[128])
{
        const bool has_number = batch->table->n_keys && batch->table->keys[0].type == INFP_I64 &&
                                infp_batch_has(batch, INFP_FIXED_COLUMNS, row);

        snprintf(ret, 128, "%.80s%lld_", series,
                 has_number ? (long long) infp_batch_i64(batch, INFP_FIXED_COLUMNS, row) : (long long) instances->n);
        /* Another thing with the same number came later: it goes after all others. */
        for (unsigned i = instances->n; has_prefix(instances, ret); i++)
                snprintf(ret, 128, "%.80s%u_", series, i);
}

static int add_all(struct infp_instances *instances, const char *series, bool is_one, const struct infp_batch *batch)
{
        for (uint32_t row = 0; row < batch->n_rows; row++) {
                char prefix[128] = "";

                if (instances->n && is_one)
                        return 0;
                if (infp_instances_of(instances, batch, row) >= 0)
                        continue;
                if (*series)
                        make_prefix(instances, series, batch, row, prefix);
                INFP_TRY(add(instances, &instances->scratch, prefix, id_of(batch, row)));
        }
        return 0;
}

/* Things may have a number of their own in the run (engines: the order in which they were named). Returns the entity table and
 * the number's column; NULL: none. */
static const struct infp_table *numbered_entity(const struct infp_table *table, const struct infp_catalog *catalog,
                                                unsigned *ret_column)
{
        const struct infp_column *key = &table->keys[0];
        const struct infp_table *entity =
                key->type == INFP_ID64 && key->key && *key->key ? infp_catalog_find(catalog, key->key) : NULL;
        const int column = entity && entity->entity ? infp_table_find(entity, "number") : -1;

        if (column < 0 || infp_table_column(entity, (unsigned) column)->type != INFP_I64)
                return NULL;
        *ret_column = (unsigned) column;
        return entity;
}

/* For a table under bare names: moves the instance with the lowest number, else the first that appeared, to the front. */
static int put_first(struct infp_run *run, const struct infp_table *table, const struct infp_catalog *catalog,
                     struct infp_instances *instances, struct infp_err *err)
{
        unsigned column = 0, best = 0;
        const struct infp_table *entity = numbered_entity(table, catalog, &column);
        const struct infp_value *lowest = NULL;
        struct infp_entities *things;
        struct infp_instance first;
        int r;

        if (!entity || instances->n < 2)
                return 0;
        r = infp_entities_load(run, entity->name, catalog, &things, err);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        for (unsigned i = 0; i < instances->n; i++) {
                const struct infp_value *number = infp_entities_value(things, instances->list[i].id, column);

                if (number && (!lowest || number->as.i64 < lowest->as.i64)) {
                        lowest = number;
                        best = i;
                }
        }
        infp_entities_free(things);
        first = instances->list[best];
        instances->list[best] = instances->list[0];
        instances->list[0] = first;
        return 0;
}

static void drop_all_but_one(struct infp_instances *instances)
{
        while (instances->n > 1) {
                struct infp_instance *last = &instances->list[--instances->n];

                free(last->key);
                free(last->prefix);
        }
}

static int read_keys(struct infp_run *run, const struct infp_table *table, const struct infp_catalog *catalog,
                     struct infp_instances *instances, struct infp_err *err)
{
        unsigned column;
        const bool is_bare = !*table->series, is_one = is_bare && !numbered_entity(table, catalog, &column);
        infp_autofree const char **keys = calloc(table->n_keys + 1u, sizeof(*keys));
        struct infp_scan *scan;
        struct infp_batch batch;
        int r;

        if (!keys)
                return infp_fail(err, -ENOMEM, "out of memory");
        for (unsigned i = 0; i < table->n_keys; i++)
                keys[i] = table->keys[i].name;
        INFP_TRY(infp_scan_open(run, table->name, &(struct infp_scan_options){ .columns = keys, .catalog = catalog },
                                &scan, err));
        while ((r = infp_scan_next(scan, &batch, err)) > 0)
                if (add_all(instances, table->series, is_one, &batch) < 0) {
                        r = infp_fail(err, -ENOMEM, "out of memory");
                        break;
                }
        infp_scan_close(scan);
        if (r == 0 && is_bare) {
                r = put_first(run, table, catalog, instances, err);
                drop_all_but_one(instances);
        }
        return r;
}

int infp_instances_find(struct infp_run *run, const struct infp_table *table, const struct infp_catalog *catalog,
                        struct infp_instances *ret, struct infp_err *err)
{
        infp_cleanup(infp_instances_done) struct infp_instances instances = { 0 };

        if (table->n_keys)
                INFP_TRY(read_keys(run, table, catalog, &instances, err));
        else if (add(&instances, &instances.scratch, "", 0) < 0)
                return infp_fail(err, -ENOMEM, "out of memory");
        *ret = instances;
        instances = (struct infp_instances){ 0 };
        return 0;
}
