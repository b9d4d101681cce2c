/* Frames, nodes and threads as rows. */
#include <string.h>

#include "base/hash.h"
#include "sampler/stacks/parts.h"

static const char kernel_name[] = "[kernel]", unknown_name[] = "[unknown]";

int infp_stack_put_row(struct infp_stacks *stacks)
{
        return stacks->options.put(stacks->options.put_context, &stacks->row);
}

/* Ids of the kernel's frames hold for this boot alone, since it lies elsewhere in the next. */
static struct infp_frame_place kernel_place(const struct infp_stacks *stacks, uint64_t address)
{
        const bool is_hidden = address < UINT64_C(1) << 63;
        const enum infp_frame_kind kind = is_hidden ? INFP_FRAME_UNKNOWN : INFP_FRAME_KERNEL;

        return (struct infp_frame_place){
                .id = infp_frame_id(kind, stacks->env.boot_id, strlen(stacks->env.boot_id), address, false),
                .address = address,
                .kind = kind,
        };
}

static enum infp_frame_kind kind_of(const struct infp_object *object, uint64_t address)
{
        const struct infp_object_image *image = object->image;

        if (image && image->is_go &&
            (image->go_end ? address >= image->go_begin && address < image->go_end : !image->has_eh_frame))
                return INFP_FRAME_GO;
        return object->state == INFP_OBJECT_READY ? object->kind : INFP_FRAME_UNKNOWN;
}

/* Where a frame is: in the file's own addresses, of an ELF file; of memory in the process's; of what could not be read in the
 * file's offsets. A caller is where its call is, not where that returns to. */
static struct infp_frame_place user_place(const struct infp_unwound *user, const struct infp_unwind_frame *frame,
                                          uint64_t process)
{
        const uint64_t pc = frame->pc - !(frame->flags & INFP_FRAME_EXACT);
        struct infp_frame_place place = { .address = pc,
                                          .kind = INFP_FRAME_UNKNOWN,
                                          .is_guessed = frame->flags & INFP_FRAME_GUESSED };
        const struct infp_space_mapping *mapping;
        const struct infp_object *object;
        bool is_elf;

        if (frame->mapping == INFP_NO_MAPPING) {
                place.id = infp_frame_id(place.kind, &process, sizeof(process), pc, place.is_guessed);
                return place;
        }
        mapping = &user->space->mappings[frame->mapping];
        object = place.object = mapping->object;
        is_elf = object->image && object->image->is_elf;
        if (is_elf)
                place.address = pc - user->space->view[frame->mapping].bias;
        place.kind = kind_of(object, place.address);
        if (!is_elf && place.kind != INFP_FRAME_JIT)
                place.address = pc - mapping->begin + mapping->offset;
        if (place.kind == INFP_FRAME_JIT)
                place.id = infp_frame_id(place.kind, &process, sizeof(process), place.address, place.is_guessed);
        else if (object->image && object->image->build_id_size)
                place.id = infp_frame_id(place.kind, object->image->build_id, object->image->build_id_size,
                                         place.address, place.is_guessed);
        else
                place.id =
                        infp_frame_id(place.kind, object->name, strlen(object->name), place.address, place.is_guessed);
        return place;
}

static void put_frame(struct infp_stacks *stacks, const struct infp_stack_found *moment,
                      const struct infp_frame_place *place)
{
        const struct infp_object *object = place->object;
        const char *name = object ? object->name : place->kind == INFP_FRAME_KERNEL ? kernel_name : unknown_name;

        if (infp_seen_has(&stacks->seen, place->id))
                return;
        infp_row_begin(&stacks->row, &infp_table_frames, moment->t_ns);
        infp_row_id(&stacks->row, INFP_FRAMES_ID, place->id);
        infp_row_str(&stacks->row, INFP_FRAMES_KIND, infp_frame_kind_name(place->kind));
        infp_row_bytes(&stacks->row, INFP_FRAMES_OBJECT, name, strlen(name));
        if (object && object->image && object->image->build_id_size)
                infp_row_str(&stacks->row, INFP_FRAMES_BUILD_ID, object->image->build_id_text);
        infp_row_u64(&stacks->row, INFP_FRAMES_ADDRESS, place->address);
        infp_row_bool(&stacks->row, INFP_FRAMES_IS_GUESSED, place->is_guessed);
        if (infp_stack_put_row(stacks) == 0) {
                infp_seen_add(&stacks->seen, place->id);
                stacks->counts.n_frame_rows++;
        }
        infp_stack_note_nameless(stacks, moment, place);
}

static uint64_t mapping_id(uint64_t process, const struct infp_space_mapping *mapping)
{
        const struct infp_object *object = mapping->object;
        const uint64_t parts[] = { process,
                                   mapping->begin,
                                   mapping->end,
                                   mapping->offset,
                                   infp_hash64(object->name, strlen(object->name), 0),
                                   object->image ? infp_hash64(object->image->build_id, object->image->build_id_size, 0)
                                                 : 0 };

        return infp_hash64(parts, sizeof(parts), 0x6d6170); /* "map" */
}

static void put_mapping(struct infp_stacks *stacks, const struct infp_stack_found *moment,
                        const struct infp_space_mapping *mapping)
{
        const struct infp_object *object = mapping->object;
        const uint64_t id = mapping_id(moment->process, mapping);

        if (infp_seen_has(&stacks->seen, id))
                return;
        infp_row_begin(&stacks->row, &infp_table_mappings, moment->t_ns);
        infp_row_id(&stacks->row, INFP_MAPPINGS_ID, id);
        infp_row_id(&stacks->row, INFP_MAPPINGS_PROCESS, moment->process);
        infp_row_u64(&stacks->row, INFP_MAPPINGS_START, mapping->begin);
        infp_row_u64(&stacks->row, INFP_MAPPINGS_END, mapping->end);
        infp_row_u64(&stacks->row, INFP_MAPPINGS_OFFSET, mapping->offset);
        infp_row_bytes(&stacks->row, INFP_MAPPINGS_PATH, object->name, strlen(object->name));
        if (object->image && object->image->build_id_size)
                infp_row_str(&stacks->row, INFP_MAPPINGS_BUILD_ID, object->image->build_id_text);
        if (object->is_file)
                infp_row_bool(&stacks->row, INFP_MAPPINGS_IS_DELETED, object->is_deleted);
        if (infp_stack_put_row(stacks) == 0)
                infp_seen_add(&stacks->seen, id);
}

/* The id of a user's frame, through a cache by address: a space that changes has another id. */
static uint64_t user_frame(struct infp_stacks *stacks, const struct infp_stack_found *moment,
                           const struct infp_unwound *user, const struct infp_unwind_frame *frame)
{
        const uint64_t slot = frame->pc * UINT64_C(0x9e3779b97f4a7c15) >> (64 - __builtin_ctz(INFP_STACK_FRAMES));
        const uint32_t flags = frame->flags & (INFP_FRAME_EXACT | INFP_FRAME_GUESSED);
        struct infp_cached_frame *cached = &stacks->ids[slot];
        struct infp_frame_place place;

        if (cached->pc == frame->pc && cached->space == user->space_id && cached->flags == flags)
                return cached->id;
        place = user_place(user, frame, moment->process);
        if (place.object) {
                infp_object_use(stacks->objects, place.object);
                put_mapping(stacks, moment, &user->space->mappings[frame->mapping]);
        }
        if (place.kind != INFP_FRAME_JIT && place.object) /* ids of the rest hold in one process */
                *cached = (struct infp_cached_frame){ frame->pc, place.id, user->space_id, flags };
        return place.id;
}

void infp_stack_put_node(struct infp_stacks *stacks, const struct infp_stack_found *moment, uint64_t id,
                         uint64_t parent, uint64_t frame, uint32_t depth)
{
        infp_row_begin(&stacks->row, &infp_table_stacks, moment->t_ns);
        infp_row_id(&stacks->row, INFP_STACKS_ID, id);
        if (parent)
                infp_row_id(&stacks->row, INFP_STACKS_PARENT, parent);
        infp_row_id(&stacks->row, INFP_STACKS_FRAME, frame);
        infp_row_i64(&stacks->row, INFP_STACKS_DEPTH, depth);
        if (infp_stack_put_row(stacks) < 0)
                return;
        stacks->counts.n_stack_rows++;
        if (infp_seen_has(&stacks->seen, frame))
                infp_seen_add(&stacks->seen, id);
}

uint64_t infp_stack_nodes(struct infp_stacks *stacks, const struct infp_stack_found *moment,
                          const struct infp_unwound *user, const uint64_t *kernel, uint32_t n_kernel)
{
        uint64_t node = 0;
        uint32_t depth = 0;

        for (uint32_t i = user->n_frames; i-- > 0; depth++) {
                const uint64_t frame = user_frame(stacks, moment, user, &user->frames[i]);
                const uint64_t id = infp_stack_id(node, frame);

                if (!infp_seen_has(&stacks->seen, id)) {
                        const struct infp_frame_place place = user_place(user, &user->frames[i], moment->process);

                        put_frame(stacks, moment, &place);
                        infp_stack_put_node(stacks, moment, id, node, frame, depth);
                }
                node = id;
        }
        for (uint32_t i = n_kernel; i-- > 0; depth++) {
                const struct infp_frame_place place = kernel_place(stacks, kernel[i]);
                const uint64_t id = infp_stack_id(node, place.id);

                if (!infp_seen_has(&stacks->seen, id)) {
                        put_frame(stacks, moment, &place);
                        infp_stack_put_node(stacks, moment, id, node, place.id, depth);
                }
                node = id;
        }
        return node;
}

void infp_stack_thread_row(struct infp_stacks *stacks, uint64_t t_ns, const struct infp_space_thread *thread)
{
        if (infp_seen_has(&stacks->seen, thread->id))
                return;
        infp_row_begin(&stacks->row, &infp_table_threads, t_ns);
        infp_row_id(&stacks->row, INFP_THREADS_ID, thread->id);
        infp_row_id(&stacks->row, INFP_THREADS_PROCESS, thread->process);
        infp_row_i64(&stacks->row, INFP_THREADS_TID, thread->tid);
        infp_row_bytes(&stacks->row, INFP_THREADS_NAME, thread->name, strlen(thread->name));
        if (infp_stack_put_row(stacks) == 0)
                infp_seen_add(&stacks->seen, thread->id);
}
