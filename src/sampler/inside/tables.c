#include "sampler/inside/tables.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/new_file.h"
#include "base/str.h"
#include "base/time.h"
#include "ring/wire.h"
#include "sampler/objects/tables_cache.h"
#include "sampler/stacks/parts.h"

enum {
        OWN_TABLE = 4 << 20, /* of a table that lies in no file of its own: a larger one is left out */
        NAME = 80,
};

static struct infp_space *space_of(struct infp_stacks *stacks, int32_t pid)
{
        const struct infp_space_thread *thread =
                infp_processes_thread(&stacks->processes, pid, pid, infp_clock_ns(CLOCK_MONOTONIC));

        return thread && thread->owner ? thread->owner->space : NULL;
}

bool infp_inside_tables_are_ready(struct infp_stacks *stacks, int32_t pid)
{
        struct infp_space *space = space_of(stacks, pid);
        bool are_ready = true;

        for (uint32_t i = 0; space && i < space->n; i++) {
                const struct infp_space_mapping *mapping = &space->mappings[i];

                infp_object_use(stacks->objects, mapping->object);
                infp_objects_request(stacks->objects, mapping->object, pid, mapping->begin, mapping->end);
                are_ready &= mapping->object->state == INFP_OBJECT_READY;
        }
        return are_ready;
}

uint64_t infp_inside_tables_version(struct infp_stacks *stacks, int32_t pid)
{
        struct infp_space *space = space_of(stacks, pid);
        struct infp_unwind_space view;
        uint64_t version = 0;

        if (!space || !space->n || infp_space_view(space, stacks->objects, &stacks->last_space_id, &view) < 0)
                return 0;
        for (uint32_t i = 0; i < view.n_mappings; i++) {
                const struct infp_unwind_mapping *mapping = &view.mappings[i];
                const uint64_t parts[] = { version,       mapping->begin, mapping->end,
                                           mapping->bias, mapping->flags, (uintptr_t) mapping->table };

                version = infp_hash64(parts, sizeof(parts), 0);
        }
        return version | 1;
}

struct draft {
        struct infp_str mappings, rest; /* rest: texts and tables, which follow the mappings */
        uint64_t rest_at;
};

/* Appends to the rest, aligned to 8. Returns where it lies in the file. */
static uint64_t append(struct draft *draft, const void *bytes, size_t size)
{
        const uint64_t at = draft->rest_at + draft->rest.size;

        infp_str_put(&draft->rest, bytes, size);
        infp_str_put(&draft->rest, "\0\0\0\0\0\0\0", -(draft->rest.size) % 8);
        return at;
}

static void put_table(struct draft *draft, const struct infp_object_image *image, struct infp_wire_mapping *mapping)
{
        char name[INFP_TABLES_CACHE_NAME];

        if (image->memory && image->table->size <= OWN_TABLE) {
                mapping->table_at = append(draft, image->table, image->table->size);
                mapping->table_size = image->table->size;
        } else if (!image->memory) {
                infp_tables_cache_name(image->build_id, image->build_id_size, &image->identity, name);
                mapping->name_at = (uint32_t) append(draft, name, strlen(name) + 1);
                mapping->table_at = (uint64_t) ((const unsigned char *) image->table - image->table_map.at);
                mapping->table_size = image->table_map.size - mapping->table_at;
        }
}

static void put_mapping(struct draft *draft, const struct infp_space_mapping *from,
                        const struct infp_unwind_mapping *view)
{
        struct infp_wire_mapping mapping = {
                .begin = view->begin, .end = view->end, .bias = view->bias, .entry = view->entry, .flags = view->flags
        };

        if (view->table)
                put_table(draft, from->object->image, &mapping);
        infp_str_put(&draft->mappings, &mapping, sizeof(mapping));
}

static void name_of(char ret[NAME], const struct infp_ring_owner *owner, uint64_t number)
{
        snprintf(ret, NAME, INFP_WIRE_TABLES_FILE "%" PRId32 "-%" PRIu64 "-%" PRIu64, owner->pid, owner->start_ticks,
                 number);
}

int infp_inside_tables_write(struct infp_stacks *stacks, int32_t pid, int directory,
                             const struct infp_ring_owner *owner, uint64_t number)
{
        infp_autostr struct infp_str whole = { 0 };
        struct infp_space *space = space_of(stacks, pid);
        struct infp_wire_tables head = { .version = INFP_WIRE_TABLES_VERSION, .number = number };
        struct draft draft = { .rest_at = 0 };
        struct infp_unwind_space view;
        char name[NAME];
        int r = -ENOMEM;

        if (!space || infp_space_view(space, stacks->objects, &stacks->last_space_id, &view) < 0)
                return -ESRCH;
        memcpy(head.magic, INFP_WIRE_TABLES_MAGIC, sizeof(head.magic));
        head.n = view.n_mappings < INFP_WIRE_MAPPINGS ? view.n_mappings : INFP_WIRE_MAPPINGS;
        draft.rest_at = sizeof(head) + head.n * sizeof(struct infp_wire_mapping);
        for (uint32_t i = 0; i < head.n; i++)
                put_mapping(&draft, &space->mappings[i], &view.mappings[i]);
        infp_str_put(&whole, &head, sizeof(head));
        infp_str_put(&whole, draft.mappings.data, draft.mappings.size);
        infp_str_put(&whole, draft.rest.data, draft.rest.size);
        if (!draft.mappings.failed && !draft.rest.failed && !whole.failed) {
                name_of(name, owner, number);
                r = infp_replace_file_at(directory, name, whole.data, whole.size, 0600, false);
        }
        infp_str_done(&draft.mappings);
        infp_str_done(&draft.rest);
        return r;
}

void infp_inside_tables_remove(int directory, const struct infp_ring_owner *owner, uint64_t number)
{
        char name[NAME];

        name_of(name, owner, number);
        unlinkat(directory, name, 0);
}
