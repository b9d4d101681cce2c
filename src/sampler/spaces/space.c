#include "sampler/spaces/space.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { FIRST_CAP = 16 };

struct infp_space *infp_space_new(void)
{
        struct infp_space *space = calloc(1, sizeof(*space));

        if (space)
                space->n_refs = 1;
        return space;
}

struct infp_space *infp_space_unref(struct infp_space *space)
{
        if (space && --space->n_refs == 0) {
                for (uint32_t i = 0; i < space->n; i++)
                        infp_object_unref(space->mappings[i].object);
                free(space->mappings);
                free(space->view);
                free(space);
        }
        return NULL;
}

static struct infp_space *copy(const struct infp_space *from)
{
        struct infp_space *space = infp_space_new();

        if (!space)
                return NULL;
        space->mappings = malloc((from->n + FIRST_CAP) * sizeof(*space->mappings));
        if (!space->mappings) {
                free(space);
                return NULL;
        }
        space->cap = from->n + FIRST_CAP;
        space->n = from->n;
        if (from->n)
                memcpy(space->mappings, from->mappings, from->n * sizeof(*space->mappings));
        for (uint32_t i = 0; i < space->n; i++)
                infp_object_ref(space->mappings[i].object);
        return space;
}

/* The first mapping that ends above address. */
static uint32_t first_above(const struct infp_space *space, uint64_t address)
{
        uint32_t low = 0, high = space->n;

        while (low < high) {
                const uint32_t middle = low + (high - low) / 2;

                if (space->mappings[middle].end <= address)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

struct infp_space_mapping *infp_space_find(const struct infp_space *space, uint64_t address)
{
        const uint32_t i = first_above(space, address);

        return i < space->n && space->mappings[i].begin <= address ? &space->mappings[i] : NULL;
}

static int reserve(struct infp_space *space, uint32_t n)
{
        return n == 0 || INFP_MAKE_ROOM(space->mappings, n - 1, space->cap, FIRST_CAP) ? 0 : -ENOMEM;
}

/* Puts `new` in place of the mappings [from, to). There is room. */
static void replace(struct infp_space *space, uint32_t from, uint32_t to, const struct infp_space_mapping *new,
                    uint32_t n)
{
        for (uint32_t i = from; i < to; i++)
                infp_object_unref(space->mappings[i].object);
        memmove(space->mappings + from + n, space->mappings + to, (space->n - to) * sizeof(*new));
        memcpy(space->mappings + from, new, n * sizeof(*new));
        space->n = space->n - (to - from) + n;
        space->generation = 0;
}

/* What stays of the mappings that a new one lies upon: at most a part before it and one after it. */
static uint32_t cut(const struct infp_space *space, uint32_t from, uint32_t to, const struct infp_space_mapping *new,
                    struct infp_space_mapping ret[3])
{
        uint32_t n = 0;

        if (from < to && space->mappings[from].begin < new->begin) {
                ret[n] = space->mappings[from];
                ret[n].end = new->begin;
                infp_object_ref(ret[n++].object);
        }
        ret[n++] = *new;
        if (from < to && space->mappings[to - 1].end > new->end) {
                ret[n] = space->mappings[to - 1];
                ret[n].offset += new->end - ret[n].begin;
                ret[n].begin = new->end;
                infp_object_ref(ret[n++].object);
        }
        return n;
}

/* Memory that grows at its end (an arena of compiled code) stays one mapping. */
static bool goes_on(const struct infp_space *space, uint32_t i, const struct infp_space_mapping *new)
{
        const struct infp_space_mapping *before = i ? &space->mappings[i - 1] : NULL;

        return before && before->end == new->begin && before->object == new->object &&
               (!new->object->is_file || before->offset + (before->end - before->begin) == new->offset);
}

static bool is_there(const struct infp_space *space, uint32_t i, const struct infp_space_mapping *new)
{
        const struct infp_space_mapping *old = i < space->n ? &space->mappings[i] : NULL;

        return old && old->begin <= new->begin && old->end >= new->end && old->object == new->object &&
               (!new->object->is_file || old->offset + (new->begin - old->begin) == new->offset);
}

static int put(struct infp_space *space, const struct infp_space_mapping *new)
{
        const uint32_t from = first_above(space, new->begin);
        uint32_t to = from;
        struct infp_space_mapping parts[3];

        while (to < space->n && space->mappings[to].begin < new->end)
                to++;
        if (from == to && goes_on(space, from, new)) {
                space->mappings[from - 1].end = new->end;
                space->generation = 0;
                infp_object_unref(new->object);
                return 0;
        }
        if (space->n - (to - from) + 3 > INFP_SPACE_MAX_MAPPINGS) {
                space->is_full = true;
                return -ENOSPC;
        }
        if (reserve(space, space->n + 3) < 0)
                return -ENOMEM;
        replace(space, from, to, parts, cut(space, from, to, new, parts));
        return 0;
}

int infp_space_map(struct infp_space **space, uint64_t begin, uint64_t end, uint64_t offset, struct infp_object *object)
{
        const struct infp_space_mapping new = { begin, end, offset, object };
        int r = -EINVAL;

        if (begin < end && is_there(*space, first_above(*space, begin), &new)) {
                infp_object_unref(object);
                return 0;
        }
        if (begin < end && (*space)->n_refs > 1) {
                struct infp_space *own = copy(*space);

                if (!own) {
                        infp_object_unref(object);
                        return -ENOMEM;
                }
                infp_space_unref(*space);
                *space = own;
        }
        if (begin < end)
                r = put(*space, &new);
        if (r < 0)
                infp_object_unref(object);
        return r;
}

/* How the unwinder sees a mapping. */
static struct infp_unwind_mapping view_of(const struct infp_space_mapping *mapping)
{
        struct infp_unwind_mapping view = { .begin = mapping->begin, .end = mapping->end };
        const struct infp_object_image *image = mapping->object->image;
        const uint64_t size = mapping->end - mapping->begin;
        uint64_t vaddr;

        if (!image || !infp_object_image_vaddr(image, mapping->offset, &vaddr))
                return view;
        view.bias = mapping->begin - vaddr;
        view.table = image->table;
        view.entry = image->entry ? image->entry + view.bias : 0;
        if (image->is_go)
                view.flags = INFP_MAPPING_FRAME_POINTERS;
        else if (image->has_few_tables)
                view.flags = INFP_MAPPING_NO_TABLES;
        if (image->bytes && mapping->offset < image->size &&
            size <= ((image->size + 4095) & ~UINT64_C(4095)) - mapping->offset)
                view.code = image->bytes + mapping->offset;
        return view;
}

static int reserve_view(struct infp_space *space)
{
        struct infp_unwind_mapping *more;

        if (space->n <= space->view_cap)
                return 0;
        more = realloc(space->view, space->cap * sizeof(*more));
        if (!more)
                return -ENOMEM;
        space->view = more;
        space->view_cap = space->cap;
        return 0;
}

int infp_space_view(struct infp_space *space, const struct infp_objects *objects, uint32_t *last_id,
                    struct infp_unwind_space *ret)
{
        const uint64_t generation = infp_objects_generation(objects);
        bool is_new = space->generation == 0 || space->view_n != space->n;

        if (space->generation != generation) {
                if (reserve_view(space) < 0)
                        return -ENOMEM;
                for (uint32_t i = 0; i < space->n; i++) {
                        const struct infp_unwind_mapping view = view_of(&space->mappings[i]);

                        is_new = is_new || memcmp(&view, &space->view[i], sizeof(view)) != 0;
                        space->view[i] = view;
                }
                space->view_n = space->n;
                space->generation = generation;
                if (is_new)
                        space->id = ++*last_id;
        }
        *ret = (struct infp_unwind_space){ space->view, space->n, space->id };
        return 0;
}
