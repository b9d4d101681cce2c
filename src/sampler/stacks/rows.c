/* Frames, nodes and threads as rows. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "sampler/stacks/parts.h"

enum { MAX_NAMED = 131072 };
#define MIX UINT64_C(0x9e3779b97f4a7c15)

static const char kernel_name[] = "[kernel]", unknown_name[] = "[unknown]";

int infp_stack_put_row(struct infp_stacks *stacks)
{
        return stacks->options.put(stacks->options.put_context, &stacks->row);
}

static void add_seen(struct infp_stacks *stacks, uint64_t id)
{
        if (!id || infp_ids_add(&stacks->seen, id) >= 0)
                return;
        infp_ids_clear(&stacks->seen);
        infp_ids_add(&stacks->seen, id);
}

/* ---- frames that have to be named while the recording lasts, or from descriptors that are kept for it ---- */

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
static bool reserve_nameless(struct infp_stacks *stacks, bool has_path)
{
        if (stacks->n_nameless >= (has_path ? INFP_MAX_NAMELESS / 2 : INFP_MAX_NAMELESS))
                return false;
        return INFP_MAKE_ROOM(stacks->nameless, stacks->n_nameless, stacks->cap_nameless, 64);
}

/* The process's jitdump, kept once: its place in the list. */
static size_t jitdump_of(struct infp_stacks *stacks, struct infp_nameless *entry)
{
        const struct infp_space_process *process = infp_processes_find(&stacks->processes, entry->pid);

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

/* Remembers a frame whose name may be out of reach later. */
static void note_nameless(struct infp_stacks *stacks, const struct infp_stack_found *moment,
                          const struct infp_frame_place *place)
{
        struct infp_nameless entry = { .frame = place->id,
                                       .address = place->address,
                                       .t_ns = moment->t_ns,
                                       .kind = place->kind,
                                       .pid = moment->pid,
                                       .jitdump_at = SIZE_MAX };

        if (is_named_later(place) || infp_map_get(&stacks->nameless_ids, place->id) ||
            !reserve_nameless(stacks, is_reachable(place->object)) ||
            infp_map_put(&stacks->nameless_ids, place->id, 1) < 0)
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

/* ---- frames ---- */

/* Its name, once: a join of names and frames would count twice what has two. */
static bool put_symbol(struct infp_stacks *stacks, uint64_t t_ns, uint64_t frame, const struct infp_python_name *name,
                       const char *from)
{
        if (!name->function || infp_map_get(&stacks->named, frame))
                return true;
        if (stacks->named.n >= MAX_NAMED)
                return false;
        infp_row_begin(&stacks->row, &infp_table_symbols, t_ns);
        infp_row_id(&stacks->row, INFP_SYMBOLS_FRAME, frame);
        infp_row_i64(&stacks->row, INFP_SYMBOLS_LEVEL, 0);
        infp_row_bytes(&stacks->row, INFP_SYMBOLS_NAME, name->function, strlen(name->function));
        if (name->file)
                infp_row_bytes(&stacks->row, INFP_SYMBOLS_FILE, name->file, strlen(name->file));
        if (name->line)
                infp_row_i64(&stacks->row, INFP_SYMBOLS_LINE, name->line);
        if (name->first_line)
                infp_row_i64(&stacks->row, INFP_SYMBOLS_FUNCTION_LINE, name->first_line);
        infp_row_str(&stacks->row, INFP_SYMBOLS_FROM, from);
        return infp_stack_put_row(stacks) == 0 && infp_map_put(&stacks->named, frame, 1) == 0;
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

static struct infp_frame_place python_place(const struct infp_stacks *stacks, uint64_t id)
{
        const struct infp_python_name *name = infp_python_names_get(stacks->options.python, id);

        return (struct infp_frame_place){
                .id = id,
                .address = name->address,
                .kind = INFP_FRAME_PYTHON,
                .python = name,
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
        const char *name = object                             ? object->name
                           : place->python                    ? place->python->file
                           : place->kind == INFP_FRAME_KERNEL ? kernel_name
                                                              : unknown_name;

        if (infp_ids_has(&stacks->seen, place->id) ||
            (place->python && !put_symbol(stacks, moment->t_ns, place->id, place->python, "python")))
                return;
        infp_row_begin(&stacks->row, &infp_table_frames, moment->t_ns);
        infp_row_id(&stacks->row, INFP_FRAMES_ID, place->id);
        infp_row_str(&stacks->row, INFP_FRAMES_KIND, infp_frame_kind_name(place->kind));
        infp_row_bytes(&stacks->row, INFP_FRAMES_OBJECT, name, strlen(name));
        if (object && object->image && object->image->build_id_size)
                infp_row_str(&stacks->row, INFP_FRAMES_BUILD_ID, object->image->build_id_text);
        if (place->address || !place->python)
                infp_row_u64(&stacks->row, INFP_FRAMES_ADDRESS, place->address);
        infp_row_bool(&stacks->row, INFP_FRAMES_IS_GUESSED, place->is_guessed);
        if (infp_stack_put_row(stacks) == 0) {
                add_seen(stacks, place->id);
                stacks->counts.n_frame_rows++;
        }
        note_nameless(stacks, moment, place);
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

        if (infp_ids_has(&stacks->seen, id))
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
                add_seen(stacks, id);
}

/* ---- nodes ---- */

/* A node that is new, or was not told of for long. */
static void put_node(struct infp_stacks *stacks, const struct infp_stack_found *moment, uint64_t id, uint64_t parent,
                     uint64_t frame, uint32_t depth)
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
        if (infp_ids_has(&stacks->seen, frame))
                add_seen(stacks, id);
}

static struct infp_frame_place place_of(const struct infp_stacks *stacks, const struct infp_stack_found *moment,
                                        const struct infp_unwound *unwound, const struct infp_unwind_frame *frame)
{
        if (frame->flags & INFP_FRAME_OF_PYTHON)
                return python_place(stacks, frame->pc);
        return frame->flags & INFP_FRAME_OF_KERNEL ? kernel_place(stacks, frame->pc)
                                                   : user_place(unwound, frame, moment->process);
}

enum { FLAGS = INFP_FRAME_EXACT | INFP_FRAME_GUESSED | INFP_FRAME_OF_KERNEL | INFP_FRAME_OF_PYTHON };

/* The id of a frame, through a cache by address. */
static uint64_t frame_id(struct infp_stacks *stacks, const struct infp_stack_found *moment,
                         const struct infp_unwound *unwound, const struct infp_unwind_frame *frame, uint64_t where)
{
        const uint64_t slot = frame->pc * MIX >> (64 - __builtin_ctz(INFP_STACK_FRAMES));
        struct infp_cached_frame *cached = &stacks->ids[slot];
        struct infp_frame_place place;

        if (cached->pc == frame->pc && cached->place == where && cached->flags == (frame->flags & FLAGS))
                return cached->id;
        place = place_of(stacks, moment, unwound, frame);
        if (place.object) {
                infp_object_use(stacks->objects, place.object);
                put_mapping(stacks, moment, &unwound->space->mappings[frame->mapping]);
        }
        *cached = (struct infp_cached_frame){ frame->pc, where, place.id, frame->flags & FLAGS };
        return place.id;
}

/* The node below a parent. False: it found no room, and is to be written with the next sample. */
static bool make_node(struct infp_stacks *stacks, const struct infp_stack_found *moment,
                      const struct infp_unwound *unwound, const struct infp_unwind_frame *frame, uint64_t where,
                      uint32_t depth, uint64_t *node)
{
        const uint64_t parent = *node, id = infp_stack_id(parent, frame_id(stacks, moment, unwound, frame, where));

        *node = id;
        if (!infp_ids_has(&stacks->seen, id)) {
                const struct infp_frame_place place = place_of(stacks, moment, unwound, frame);

                put_frame(stacks, moment, &place);
                put_node(stacks, moment, id, parent, place.id, depth);
        }
        return infp_ids_has(&stacks->seen, id);
}

/* How many outer frames of the stack are those of the path. */
static uint32_t n_same(const struct infp_cached_path *path, const struct infp_unwind_frame *frames, uint32_t n)
{
        uint32_t k = 0;

        while (k < path->n && k < n && frames[n - 1 - k].pc == path->nodes[k].pc &&
               (frames[n - 1 - k].flags & FLAGS) == path->nodes[k].flags)
                k++;
        return k;
}

uint64_t infp_stack_nodes(struct infp_stacks *stacks, const struct infp_stack_found *moment,
                          const struct infp_unwound *unwound)
{
        /* A space that changes has another id. Spaces are shared, and some frames are of one process alone. */
        const uint64_t where = moment->process + unwound->view.id * MIX;
        const uint32_t n = unwound->n_kernel + unwound->result.n_frames;
        struct infp_cached_path *path = &stacks->paths[(uint32_t) moment->tid % INFP_STACK_PATHS];
        uint64_t node;

        path->n = path->place == where ? n_same(path, stacks->frames, n) : 0;
        path->place = where;
        node = path->n ? path->nodes[path->n - 1].id : 0;
        for (uint32_t k = path->n; k < n; k++) {
                const struct infp_unwind_frame *frame = &stacks->frames[n - 1 - k];
                const bool is_written = make_node(stacks, moment, unwound, frame, where, k, &node);

                if (is_written && path->n == k && k < INFP_STACK_PATH)
                        path->nodes[path->n++] = (struct infp_cached_node){ frame->pc, node, frame->flags & FLAGS };
        }
        return node;
}

void infp_stack_thread_row(struct infp_stacks *stacks, struct infp_space_thread *thread)
{
        if (!thread->id || (infp_ids_has(&stacks->seen, thread->id) && !thread->has_news))
                return;
        infp_row_begin(&stacks->row, &infp_table_threads, thread->t_ns);
        infp_row_id(&stacks->row, INFP_THREADS_ID, thread->id);
        infp_row_id(&stacks->row, INFP_THREADS_PROCESS, thread->process);
        infp_row_i64(&stacks->row, INFP_THREADS_TID, thread->tid);
        if (*thread->name)
                infp_row_bytes(&stacks->row, INFP_THREADS_NAME, thread->name, strlen(thread->name));
        infp_row_i64(&stacks->row, INFP_THREADS_PID, thread->pid);
        if (*thread->python_name)
                infp_row_bytes(&stacks->row, INFP_THREADS_PYTHON_NAME, thread->python_name,
                               strlen(thread->python_name));
        if (infp_stack_put_row(stacks) < 0)
                return;
        add_seen(stacks, thread->id);
        thread->has_news = false;
}

uint32_t infp_stacks_frames(const struct infp_stacks *stacks, struct infp_stack_frame *ret, uint32_t max,
                            enum infp_unwind_end *ret_end)
{
        const struct infp_unwound *unwound = stacks->found;
        uint32_t n;

        *ret_end = unwound ? unwound->result.end : INFP_UNWIND_BROKEN;
        if (!unwound)
                return 0;
        n = unwound->result.n_frames < max ? unwound->result.n_frames : max;
        for (uint32_t i = 0; i < n; i++) {
                const struct infp_unwind_frame *frame = &stacks->frames[unwound->n_kernel + i];
                const struct infp_frame_place place = user_place(unwound, frame, 0);
                const struct infp_object_image *image = place.object ? place.object->image : NULL;

                ret[i] = (struct infp_stack_frame){
                        .pc = frame->pc,
                        .address = place.address,
                        .kind = place.kind,
                        .is_exact = frame->flags & INFP_FRAME_EXACT,
                        .is_guessed = place.is_guessed,
                        .object = place.object ? place.object->name : NULL,
                        .build_id = image && image->build_id_size ? image->build_id_text : NULL,
                        .fd = image ? image->fd : -1,
                };
        }
        return n;
}

/* ---- frames that have a name alone ---- */

static void put_named_frame(struct infp_stacks *stacks, uint64_t t_ns, uint64_t frame, enum infp_frame_kind kind,
                            const char *name)
{
        const struct infp_python_name alone = { .function = name };

        if (infp_ids_has(&stacks->seen, frame) || !put_symbol(stacks, t_ns, frame, &alone, "proc"))
                return;
        infp_row_begin(&stacks->row, &infp_table_frames, t_ns);
        infp_row_id(&stacks->row, INFP_FRAMES_ID, frame);
        infp_row_str(&stacks->row, INFP_FRAMES_KIND, infp_frame_kind_name(kind));
        if (kind == INFP_FRAME_KERNEL)
                infp_row_str(&stacks->row, INFP_FRAMES_OBJECT, kernel_name);
        infp_row_bool(&stacks->row, INFP_FRAMES_IS_GUESSED, false);
        if (infp_stack_put_row(stacks) < 0)
                return;
        add_seen(stacks, frame);
        stacks->counts.n_frame_rows++;
}

void infp_stacks_extend(struct infp_stacks *stacks, struct infp_stack_found *found, enum infp_frame_kind kind,
                        const char *name)
{
        const uint64_t frame = infp_named_frame_id(kind, kind == INFP_FRAME_KERNEL ? kernel_name : "", name, "", 0);
        const uint64_t node = infp_stack_id(found->stack, frame);
        const uint32_t depth = found->stack ? found->depth + 1 : 0;

        if (!infp_ids_has(&stacks->seen, node)) {
                put_named_frame(stacks, found->t_ns, frame, kind, name);
                put_node(stacks, found, node, found->stack, frame, depth);
        }
        found->stack = node;
        found->depth = depth;
}
