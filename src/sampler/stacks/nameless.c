/* Frames that have to be named while the recording lasts, or from descriptors that are kept for it. */
#include <stdlib.h>
#include <string.h>

#include "sampler/stacks/parts.h"

struct infp_nameless {
        uint64_t frame, address, t_ns;
        struct infp_object *object;      /* a reference, for its name */
        struct infp_object_image *image; /* a reference, for its descriptor; NULL */
        enum infp_frame_kind kind;
        int32_t pid;
        char *jitdump; /* of the first frame of an object that has one; others find it there */
        size_t jitdump_at;
};

static bool is_reachable(const struct infp_object *object)
{
        return object->image && object->image->is_reachable;
}

/* Whether its name can be found at the end, from the file under its path. */
static bool is_named_later(const struct infp_frame_place *place)
{
        const struct infp_object *object = place->object;

        if (!object || place->kind == INFP_FRAME_VDSO)
                return true;
        if (place->kind == INFP_FRAME_JIT)
                return false;
        return !object->image || (object->image->is_reachable && object->image->fd < 0);
}

/* The rest of the list is for those that nothing else can name. */
static bool reserve(struct infp_stacks *stacks, bool has_path)
{
        const size_t cap = stacks->cap_nameless ? stacks->cap_nameless * 2 : 64;
        struct infp_nameless *more;

        if (has_path && stacks->n_nameless >= INFP_MAX_NAMELESS / 2)
                return false;
        if (stacks->n_nameless < stacks->cap_nameless)
                return true;
        if (cap > INFP_MAX_NAMELESS)
                return false;
        more = realloc(stacks->nameless, cap * sizeof(*more));
        if (!more)
                return false;
        stacks->nameless = more;
        stacks->cap_nameless = cap;
        return true;
}

/* The process's jitdump, kept once: its place in the list. */
static size_t jitdump_of(struct infp_stacks *stacks, struct infp_nameless *entry)
{
        const uint64_t *at = infp_map_get(&stacks->processes.by_pid, (uint32_t) entry->pid);
        const struct infp_space_process *process = at ? (const void *) (uintptr_t) *at : NULL;

        if (!process || !process->jitdump)
                return SIZE_MAX;
        for (size_t i = stacks->n_nameless; i-- > 0 && i + 256 > stacks->n_nameless;) {
                const struct infp_nameless *before = &stacks->nameless[i];

                if (before->pid == entry->pid && before->jitdump_at != SIZE_MAX)
                        return before->jitdump_at;
        }
        entry->jitdump = strdup(process->jitdump);
        return entry->jitdump ? stacks->n_nameless : SIZE_MAX;
}

void infp_stack_note_nameless(struct infp_stacks *stacks, const struct infp_stack_found *moment,
                              const struct infp_frame_place *place)
{
        struct infp_nameless entry = { .frame = place->id,
                                       .address = place->address,
                                       .t_ns = moment->t_ns,
                                       .kind = place->kind,
                                       .pid = moment->pid,
                                       .jitdump_at = SIZE_MAX };

        if (is_named_later(place) || infp_map_get(&stacks->nameless_ids, place->id) ||
            !reserve(stacks, is_reachable(place->object)) || infp_map_put(&stacks->nameless_ids, place->id, 1) < 0)
                return;
        entry.object = infp_object_ref(place->object);
        entry.image = place->object->image;
        if (entry.image)
                atomic_fetch_add(&entry.image->n_refs, 1);
        if (place->kind == INFP_FRAME_JIT)
                entry.jitdump_at = jitdump_of(stacks, &entry);
        stacks->nameless[stacks->n_nameless++] = entry;
}

bool infp_stacks_nameless(const struct infp_stacks *stacks, size_t index, struct infp_stack_nameless *ret)
{
        const struct infp_nameless *entry;

        if (index >= stacks->n_nameless)
                return false;
        entry = &stacks->nameless[index];
        *ret = (struct infp_stack_nameless){
                .frame = entry->frame,
                .address = entry->address,
                .t_ns = entry->t_ns,
                .kind = entry->kind,
                .pid = entry->pid,
                .object = entry->object->name,
                .build_id = entry->image && entry->image->build_id_size ? entry->image->build_id_text : NULL,
                .fd = entry->image ? entry->image->fd : -1,
                .is_reachable = is_reachable(entry->object),
                .jitdump = entry->jitdump_at == SIZE_MAX ? NULL : stacks->nameless[entry->jitdump_at].jitdump,
        };
        return true;
}

void infp_stack_nameless_done(struct infp_stacks *stacks)
{
        for (size_t i = 0; i < stacks->n_nameless; i++) {
                infp_objects_release(stacks->objects, stacks->nameless[i].image);
                infp_object_unref(stacks->nameless[i].object);
                free(stacks->nameless[i].jitdump);
        }
        free(stacks->nameless);
        infp_map_done(&stacks->nameless_ids);
}
