/* The text of /proc/PID/maps, with any bytes: lines stay inside the text, and an address space that is made of them stays sorted
 * and disjoint, also when it is shared with a child. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sampler/spaces/space.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_OBJECTS = 4 };

static void expect(bool truth)
{
        if (!truth)
                abort();
}

static void check(const struct infp_space *space)
{
        expect(space->n <= INFP_SPACE_MAX_MAPPINGS && space->n <= space->cap);
        for (uint32_t i = 0; i < space->n; i++) {
                const struct infp_space_mapping *mapping = &space->mappings[i];

                expect(mapping->begin < mapping->end && mapping->object);
                expect(i == 0 || space->mappings[i - 1].end <= mapping->begin);
                expect(infp_space_find(space, mapping->begin) == mapping);
                expect(infp_space_find(space, mapping->end - 1) == mapping);
        }
}

static struct infp_space *put(struct infp_space *space, struct infp_object *object, const struct infp_maps_line *line)
{
        const int r = infp_space_map(&space, line->begin, line->end, line->offset, infp_object_ref(object));

        expect(space != NULL);
        check(space);
        if (r == 0) {
                const struct infp_space_mapping *found = infp_space_find(space, line->begin);

                expect(found && found->object == object && found->end >= line->end);
                expect(!object->is_file || found->offset + (line->begin - found->begin) == line->offset);
        }
        return space;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct infp_object *objects[N_OBJECTS];
        struct infp_space *space = infp_space_new(), *child = NULL;
        char *text = malloc(size + 1), *at = text;
        struct infp_maps_line line;
        unsigned n = 0;

        if (!text || !space)
                abort();
        memcpy(text, data, size);
        text[size] = 0;
        for (unsigned i = 0; i < N_OBJECTS; i++) {
                objects[i] = calloc(1, sizeof(*objects[i]) + 2);
                if (!objects[i])
                        abort();
                objects[i]->n_refs = 1;
                objects[i]->is_file = i % 2;
        }
        while (n < 512 && infp_maps_next(&at, &line)) {
                expect(line.begin < line.end && line.path >= text && line.path <= text + size);
                expect(line.path + strlen(line.path) <= text + size && at <= text + size);
                if (!line.is_executable)
                        continue;
                space = put(space, objects[line.inode % N_OBJECTS], &line);
                if (n++ % 8 == 3) { /* a fork: the child's changes are not the parent's */
                        infp_space_unref(child);
                        child = infp_space_ref(space);
                        child = put(child, objects[n % N_OBJECTS], &line);
                        check(space);
                }
        }
        infp_space_unref(child);
        infp_space_unref(space);
        for (unsigned i = 0; i < N_OBJECTS; i++) {
                expect(objects[i]->n_refs == 1);
                free(objects[i]);
        }
        free(text);
        return 0;
}
