/* Frames, their names, and the tree of nodes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/watch/parts.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"
#include "model/stack_tables.h"

int watch_text(struct infp_watch *watch, const struct watch_batch *b, unsigned column, uint32_t row, uint32_t *ret)
{
        size_t size;
        const char *text = watch_str(b, column, row, &size);

        *ret = 0;
        return size ? infp_strings_add(&watch->strings, text, size, ret) : 0;
}

const char *watch_string(const struct infp_watch *watch, uint32_t number)
{
        return infp_strings_get(&watch->strings, number);
}

/* The function, made where it is new. */
static int function_of(struct infp_watch *watch, const struct watch_function *is, uint32_t *ret)
{
        const uint64_t parts[] = { is->name, is->object, is->kind };
        const uint64_t key = infp_hash64(parts, sizeof(parts), 11), *found = infp_map_get(&watch->function_by_key, key);

        if (found) {
                struct watch_function *known = &watch->functions[*found];

                known->line = known->line ? known->line : is->line;
                known->file = known->file ? known->file : is->file;
                *ret = (uint32_t) *found;
                return 0;
        }
        if (!INFP_MAKE_ROOM(watch->functions, watch->n_functions, watch->cap_functions, 256) ||
            infp_map_put(&watch->function_by_key, key, watch->n_functions) < 0)
                return -ENOMEM;
        watch->functions[watch->n_functions] = *is;
        *ret = watch->n_functions++;
        return 0;
}

static int line_of(struct infp_watch *watch, uint32_t function, uint32_t file, int64_t line, uint32_t *ret)
{
        const uint64_t parts[] = { function, file, (uint64_t) line };
        const uint64_t key = infp_hash64(parts, sizeof(parts), 12), *found = infp_map_get(&watch->line_by_key, key);

        if (found) {
                *ret = (uint32_t) *found;
                return 0;
        }
        if (!INFP_MAKE_ROOM(watch->lines, watch->n_lines, watch->cap_lines, 256) ||
            infp_map_put(&watch->line_by_key, key, watch->n_lines) < 0)
                return -ENOMEM;
        watch->lines[watch->n_lines] = (struct watch_line){ .function = function, .file = file, .line = line };
        *ret = watch->n_lines++;
        return 0;
}

static int add_text(struct infp_watch *watch, const char *text, uint32_t *ret)
{
        return infp_strings_add(&watch->strings, text, strlen(text), ret);
}

/* The object's base name; of Python code that of the file. */
static int object_of(struct infp_watch *watch, const struct watch_frame *frame, uint32_t *ret)
{
        const char *path = watch_string(watch, frame->object);

        *ret = 0;
        return path ? add_text(watch, infp_base_name(path), ret) : 0;
}

/* What is shown of a frame without a name. */
static int unnamed(struct infp_watch *watch, const struct watch_frame *frame, struct watch_function *ret)
{
        const char *path = watch_string(watch, frame->object);
        char text[300] = "[unknown]";

        ret->is_unnamed = true;
        if (path) {
                path = infp_base_name(path);
                snprintf(text, sizeof(text), *path == '[' ? "%.280s" : "[%.280s]", path);
        }
        return add_text(watch, text, &ret->name);
}

/* Puts a function at a level of the frame; level 0 begins anew. name 0: it has none. */
static int set_level(struct infp_watch *watch, struct watch_frame *frame, unsigned level,
                     const struct watch_function *named, int64_t line)
{
        struct watch_function function = *named;
        struct watch_level *more;
        uint32_t number, at = WATCH_NONE;

        if (level >= WATCH_LEVELS || (level && level != frame->n_levels))
                return 0;
        function.kind = frame->kind;
        INFP_TRY(object_of(watch, frame, &function.object));
        if (!function.name)
                INFP_TRY(unnamed(watch, frame, &function));
        INFP_TRY(function_of(watch, &function, &number));
        if (function.file && line > 0)
                INFP_TRY(line_of(watch, number, function.file, line, &at));
        more = reallocarray(frame->levels, level + 1, sizeof(*more));
        if (!more)
                return -ENOMEM;
        frame->levels = more;
        watch->is_stale |= frame->is_used &&
                           (level >= frame->n_levels || more[level].function != number || more[level].line != at);
        more[level] = (struct watch_level){ number, at };
        frame->n_levels = (uint8_t) (level + 1);
        return 0;
}

static int frame_of(struct infp_watch *watch, uint64_t id, uint32_t *ret)
{
        const uint64_t *found = infp_map_get(&watch->frame_by_id, id);

        *ret = WATCH_NONE;
        if (found) {
                *ret = (uint32_t) *found;
                return 0;
        }
        if (watch->n_frames >= WATCH_MOST_FRAMES) { /* bound: stacks with it are counted as left out */
                watch->left_out++;
                return 0;
        }
        if (!INFP_MAKE_ROOM(watch->frames, watch->n_frames, watch->cap_frames, 256) ||
            infp_map_put(&watch->frame_by_id, id, watch->n_frames) < 0)
                return -ENOMEM;
        watch->frames[watch->n_frames] = (struct watch_frame){ .id = id, .kind = INFP_FRAME_UNKNOWN };
        *ret = watch->n_frames++;
        return set_level(watch, &watch->frames[*ret], 0, &(struct watch_function){ 0 }, 0);
}

static void ask(struct infp_watch *watch, uint32_t number)
{
        struct watch_frame *frame = &watch->frames[number];
        const char *path = watch_string(watch, frame->object);

        if (!frame->is_used || frame->is_asked || !frame->is_known || !frame->has_address ||
            !infp_frame_is_in_file(frame->kind, path, path ? strlen(path) : 0) ||
            !INFP_MAKE_ROOM(watch->asked, watch->n_asked, watch->cap_asked, 256))
                return;
        frame->is_asked = true;
        watch->asked[watch->n_asked++] = number;
}

int watch_take_frame(struct infp_watch *watch, const struct watch_batch *b, uint32_t row)
{
        struct watch_frame *frame;
        const char *kind;
        uint32_t number;
        size_t size;
        int of;

        INFP_TRY(frame_of(watch, watch_id(b, W_FRAME_ID, row), &number));
        if (number == WATCH_NONE || watch->frames[number].is_known)
                return 0;
        frame = &watch->frames[number];
        kind = watch_str(b, W_FRAME_KIND, row, &size);
        of = infp_frame_kind_by_name(kind, size);
        frame->kind = (uint8_t) (of < 0 ? INFP_FRAME_UNKNOWN : of);
        frame->address = watch_id(b, W_FRAME_ADDRESS, row);
        frame->has_address = watch_has(b, W_FRAME_ADDRESS, row);
        INFP_TRY(watch_text(watch, b, W_FRAME_OBJECT, row, &frame->object));
        INFP_TRY(watch_text(watch, b, W_FRAME_BUILD_ID, row, &frame->build_id));
        frame->is_known = true;
        /* A name may have come before it. */
        if (frame->n_levels && watch->functions[frame->levels[0].function].is_unnamed)
                INFP_TRY(set_level(watch, frame, 0, &(struct watch_function){ 0 }, 0));
        ask(watch, number);
        return 0;
}

int watch_take_symbol(struct infp_watch *watch, const struct watch_batch *b, uint32_t row)
{
        struct watch_function function = { .line = watch_i64(b, W_SYMBOL_FUNCTION_LINE, row) };
        const int64_t level = watch_i64(b, W_SYMBOL_LEVEL, row);
        uint32_t number;
        size_t size;
        const char *from = watch_str(b, W_SYMBOL_FROM, row, &size);

        INFP_TRY(frame_of(watch, watch_id(b, W_SYMBOL_FRAME, row), &number));
        if (number == WATCH_NONE || level < 0)
                return 0;
        INFP_TRY(watch_text(watch, b, W_SYMBOL_NAME, row, &function.name));
        INFP_TRY(watch_text(watch, b, W_SYMBOL_FILE, row, &function.file));
        function.is_unnamed = size == 5 && memcmp(from, "range", 5) == 0;
        return set_level(watch, &watch->frames[number], (unsigned) (level < WATCH_LEVELS ? level : WATCH_LEVELS),
                         &function, watch_i64(b, W_SYMBOL_LINE, row));
}

int infp_watch_set_name(struct infp_watch *watch, uint64_t id, const struct infp_watch_name *levels, unsigned n)
{
        const uint64_t *found = infp_map_get(&watch->frame_by_id, id);

        for (unsigned i = 0; found && i < n; i++) {
                struct watch_function function = { .line = levels[i].function_line };

                INFP_TRY(add_text(watch, levels[i].name, &function.name));
                if (levels[i].file)
                        INFP_TRY(add_text(watch, levels[i].file, &function.file));
                function.is_unnamed = levels[i].from && strcmp(levels[i].from, "range") == 0;
                INFP_TRY(set_level(watch, &watch->frames[*found], i, &function, levels[i].line));
        }
        return 0;
}

bool infp_watch_nameless(struct infp_watch *watch, struct infp_watch_frame *ret)
{
        const struct watch_frame *frame;
        const char *object, *build_id;

        if (watch->next_asked >= watch->n_asked) {
                watch->next_asked = watch->n_asked = 0;
                return false;
        }
        frame = &watch->frames[watch->asked[watch->next_asked++]];
        object = watch_string(watch, frame->object);
        build_id = watch_string(watch, frame->build_id);
        *ret = (struct infp_watch_frame){ .id = frame->id,
                                          .address = frame->address,
                                          .kind = frame->kind,
                                          .object = object ? object : "",
                                          .build_id = build_id ? build_id : "" };
        return true;
}

uint32_t watch_node_of(struct infp_watch *watch, uint64_t id)
{
        const uint64_t *found = id ? infp_map_get(&watch->node_by_id, id) : NULL;

        if (found)
                return (uint32_t) *found;
        if (!id || watch->n_nodes >= WATCH_MOST_NODES ||
            !INFP_MAKE_ROOM(watch->nodes, watch->n_nodes, watch->cap_nodes, 1024) ||
            infp_map_put(&watch->node_by_id, id, watch->n_nodes) < 0)
                return WATCH_NONE;
        watch->nodes[watch->n_nodes] = (struct watch_node){ .parent = WATCH_NONE, .frame = WATCH_NONE };
        return watch->n_nodes++;
}

int watch_take_stack(struct infp_watch *watch, const struct watch_batch *b, uint32_t row)
{
        const uint32_t node = watch_node_of(watch, watch_id(b, W_STACK_ID, row));
        uint32_t parent, frame;

        if (node == WATCH_NONE || watch->nodes[node].frame != WATCH_NONE)
                return 0;
        parent = watch_node_of(watch, watch_id(b, W_STACK_PARENT, row));
        INFP_TRY(frame_of(watch, watch_id(b, W_STACK_FRAME, row), &frame));
        watch->nodes[node].parent = parent;
        watch->nodes[node].frame = frame;
        watch->is_stale |= watch->nodes[node].is_awaited;
        return 0;
}

void watch_use_stack(struct infp_watch *watch, uint32_t leaf)
{
        uint32_t node = leaf;
        bool is_whole = true;

        for (unsigned depth = 0; node != WATCH_NONE && depth < WATCH_DEEPEST && !watch->nodes[node].is_used; depth++) {
                const uint32_t frame = watch->nodes[node].frame;

                if (frame == WATCH_NONE) { /* its row comes later */
                        watch->nodes[node].is_awaited = true;
                        is_whole = false;
                        break;
                }
                watch->frames[frame].is_used = true;
                ask(watch, frame);
                node = watch->nodes[node].parent;
        }
        node = leaf;
        for (unsigned depth = 0; is_whole && node != WATCH_NONE && depth < WATCH_DEEPEST && !watch->nodes[node].is_used;
             depth++) {
                watch->nodes[node].is_used = true;
                node = watch->nodes[node].parent;
        }
}

static void add(struct watch_sums *sums, uint32_t stamp, bool is_leaf, double weight, int since_mode)
{
        double *self = since_mode < 0 ? &sums->self : &sums->since_self[since_mode];
        double *total = since_mode < 0 ? &sums->total : &sums->since_total[since_mode];

        if (is_leaf)
                *self += weight;
        if (sums->stamp != stamp)
                *total += weight;
        sums->stamp = stamp;
}

void watch_count(struct infp_watch *watch, uint32_t node, double weight, int since_mode)
{
        const uint32_t stamp = ++watch->stamp;
        bool is_leaf = true;

        for (unsigned depth = 0; node != WATCH_NONE && depth < WATCH_DEEPEST; depth++) {
                const struct watch_node *at = &watch->nodes[node];
                const struct watch_frame *frame = at->frame == WATCH_NONE ? NULL : &watch->frames[at->frame];

                for (unsigned i = frame ? frame->n_levels : 0; i-- > 0;) {
                        const struct watch_level *level = &frame->levels[i];

                        add(&watch->functions[level->function].sums, stamp, is_leaf, weight, since_mode);
                        if (level->line != WATCH_NONE)
                                add(&watch->lines[level->line].sums, stamp, is_leaf, weight, since_mode);
                        is_leaf = false;
                }
                node = at->parent;
        }
}
