/* Functions of a flame graph: frames of stacks merged by what names them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/profile/flame_parts.h"
#include "analyze/profile/parts.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"

static int function_of(struct infp_flame_builder *b, uint64_t key, const struct infp_flame_function *is, uint32_t *ret,
                       struct infp_err *err)
{
        const uint64_t *known = infp_map_get(&b->functions, key);
        struct infp_flame *f = b->flame;

        if (known) {
                *ret = (uint32_t) *known;
                return 0;
        }
        INFP_TRY(infp_profile_room(&f->functions, &b->cap_functions, f->n_functions, sizeof(*f->functions), err));
        INFP_TRY(infp_profile_room(&b->has_function_line, &b->cap_lines, f->n_functions, sizeof(*b->has_function_line),
                                   err));
        if (infp_map_put(&b->functions, key, f->n_functions) < 0)
                return infp_profile_no_memory(err);
        b->has_function_line[f->n_functions] = false;
        f->functions[f->n_functions] = *is;
        *ret = f->n_functions++;
        return 0;
}

/* A function begins at the line of its symbol, else at the least line seen. */
static void locate(struct infp_flame_builder *b, uint32_t function, const struct infp_profile_level *level)
{
        struct infp_flame_function *f = &b->flame->functions[function];

        if (!f->file)
                f->file = infp_profile_str(b->profile, level->file);
        if (level->function_line > 0) {
                if (!b->has_function_line[function] || level->function_line < f->line)
                        f->line = level->function_line;
                b->has_function_line[function] = true;
        } else if (level->line > 0 && !b->has_function_line[function] && (!f->line || level->line < f->line)) {
                f->line = level->line;
        }
}

static int module_function(struct infp_flame_builder *b, const struct infp_profile_frame *frame, uint32_t *ret,
                           struct infp_err *err)
{
        const char *object = infp_profile_str(b->profile, frame->object);
        const struct infp_flame_function is = { .name = object ? infp_base_name(object) : "[unknown]",
                                                .object = object ? infp_base_name(object) : NULL,
                                                .kind = frame->kind,
                                                .is_unnamed = !object };
        const uint64_t parts[] = { frame->object, frame->kind };

        return function_of(b, infp_hash64(parts, sizeof(parts), 1), &is, ret, err);
}

static int level_function(struct infp_flame_builder *b, const struct infp_profile_frame *frame,
                          const struct infp_profile_level *level, bool is_inlined, uint32_t *ret, struct infp_err *err)
{
        const char *object = infp_profile_str(b->profile, frame->object);
        const bool is_line = b->options->by == INFP_FLAME_BY_LINE;
        const int64_t line = is_line && level->line > 0 ? level->line : 0;
        const struct infp_flame_function is = { .name = infp_profile_str(b->profile, level->name),
                                                .object = object ? infp_base_name(object) : NULL,
                                                .file = is_line ? infp_profile_str(b->profile, level->file) : NULL,
                                                .line = line,
                                                .kind = frame->kind,
                                                .is_unnamed = level->is_unnamed,
                                                .is_inlined = true,
                                                .is_line = is_line };
        const uint64_t parts[] = { frame->object, level->name, frame->kind, is_line ? level->file : 0,
                                   (uint64_t) line };

        INFP_TRY(function_of(b, infp_hash64(parts, sizeof(parts), 2), &is, ret, err));
        b->flame->functions[*ret].is_inlined &= is_inlined;
        if (!is_line)
                locate(b, *ret, level);
        return 0;
}

int infp_flame_name_levels(struct infp_flame_builder *b, struct infp_err *err)
{
        const struct infp_profile *s = b->profile;

        b->level_functions = calloc((size_t) s->n_levels + 1, sizeof(*b->level_functions));
        if (!b->level_functions)
                return infp_profile_no_memory(err);
        for (uint32_t i = 0; i < s->n_frames; i++) {
                const struct infp_profile_frame *frame = &s->frames[i];

                for (uint32_t level = 0; level < frame->n_levels; level++) {
                        const uint32_t at = frame->first_level + level;

                        if (b->options->by == INFP_FLAME_BY_MODULE)
                                INFP_TRY(module_function(b, frame, &b->level_functions[at], err));
                        else
                                INFP_TRY(level_function(b, frame, &s->levels[at], level > 0, &b->level_functions[at],
                                                        err));
                }
        }
        return 0;
}

int infp_flame_group(struct infp_flame_builder *b, const char *name, uint32_t *ret, struct infp_err *err)
{
        struct infp_flame_function is = { .kind = INFP_FRAME_UNKNOWN, .is_group = true };
        uint32_t string;
        uint64_t parts[1];

        if (infp_strings_add(&b->profile->strings, name, strlen(name), &string) < 0)
                return infp_profile_no_memory(err);
        is.name = infp_profile_str(b->profile, string);
        parts[0] = string;
        return function_of(b, infp_hash64(parts, sizeof(parts), 3), &is, ret, err);
}

int infp_flame_group_of(struct infp_flame_builder *b, const struct infp_profile_sum *sum, uint32_t *ret,
                        struct infp_err *err)
{
        const struct infp_profile *s = b->profile;
        char text[512];

        *ret = INFP_PROFILE_NONE;
        switch (b->options->by) {
        case INFP_FLAME_BY_PROCESS:
                infp_profile_process_label(s, sum->process, !b->options->no_numbers, text, sizeof(text));
                break;
        case INFP_FLAME_BY_THREAD:
                infp_profile_thread_label(s, sum->thread, !b->options->no_numbers, text, sizeof(text));
                break;
        case INFP_FLAME_BY_STATE:
                snprintf(text, sizeof(text), "%.500s", sum->state ? infp_profile_str(s, sum->state) : "running");
                break;
        case INFP_FLAME_BY_MODE:
                snprintf(text, sizeof(text), "%.500s", sum->mode ? infp_profile_str(s, sum->mode) : "[no mode]");
                break;
        case INFP_FLAME_BY_TASK:
                infp_profile_task_label(s, sum, text, sizeof(text));
                break;
        default:
                return 0;
        }
        return infp_flame_group(b, text, ret, err);
}
