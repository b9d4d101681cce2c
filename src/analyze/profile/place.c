#include "analyze/profile/place.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "base/text.h"

/* Whose code a file is: the lower, the more it says to who wrote the program. */
enum owner { PROGRAM, PACKAGE, LIBRARY, NATIVE, RUNTIME, NOBODY };

static bool starts_with_any(const char *text, const char *const *beginnings)
{
        while (text && *beginnings && strncmp(text, *beginnings, strlen(*beginnings)) != 0)
                beginnings++;
        return text && *beginnings;
}

static bool is_runtime(const struct infp_profile *profile, const struct infp_profile_frame *frame)
{
        static const char *const objects[] = { "libc.so",     "libc-",       "ld-linux",    "libpthread", "libm.so",
                                               "libjemalloc", "libtcmalloc", "libmimalloc", "libpython",  NULL };
        static const char *const functions[] = { "std::",  "__gnu_cxx::", "operator new", "alloc::", "__rust_",
                                                 "__rdl_", NULL };
        const char *object = infp_profile_str(profile, frame->object);

        return frame->kind == INFP_FRAME_CXX_RUNTIME ||
               starts_with_any(object ? infp_base_name(object) : NULL, objects) ||
               starts_with_any(infp_profile_str(profile, profile->levels[frame->first_level].name), functions);
}

static enum owner owner_of(const struct infp_profile *profile, const struct infp_profile_frame *frame)
{
        const char *file = infp_profile_str(profile, profile->levels[frame->first_level].file);

        if (frame->kind != INFP_FRAME_PYTHON)
                return is_runtime(profile, frame) ? RUNTIME : NATIVE;
        if (!file || *file == '<')
                return LIBRARY;
        if (strstr(file, "/site-packages/") || strstr(file, "/dist-packages/"))
                return PACKAGE;
        return strstr(file, "/lib/python3") ? LIBRARY : PROGRAM;
}

struct infp_profile_place infp_profile_place_of(const struct infp_profile *profile, uint32_t node, bool has_packages)
{
        struct infp_profile_place ret = { .node = INFP_PROFILE_NONE };
        enum owner best = NOBODY;

        for (; node != INFP_PROFILE_NONE; node = profile->nodes[node].parent) {
                const struct infp_profile_frame *frame = &profile->frames[profile->nodes[node].frame];
                const struct infp_profile_level *level = &profile->levels[frame->first_level];
                enum owner owner = owner_of(profile, frame);

                if (has_packages && owner == PACKAGE)
                        owner = PROGRAM;
                if (owner < best)
                        ret = (struct infp_profile_place){ level->name, level->file, level->line, 0, node };
                best = owner < best ? owner : best;
        }
        return ret;
}

int infp_profile_places_add(struct infp_profile_places *places, const struct infp_profile *profile, uint32_t node,
                            double seconds)
{
        const struct infp_profile_place place = infp_profile_place_of(profile, node, false);
        struct infp_profile_place *at = places->list;
        uint32_t i = 0;

        while (i < places->n &&
               (at[i].function != place.function || at[i].file != place.file || at[i].line != place.line))
                i++;
        if (i == places->n) {
                if (!INFP_MAKE_ROOM(places->list, places->n, places->cap, 8))
                        return -ENOMEM;
                places->list[places->n++] = place;
        }
        places->list[i].seconds += seconds;
        return 0;
}

static int by_seconds(const void *a, const void *b)
{
        const struct infp_profile_place *x = a, *y = b;

        return x->seconds > y->seconds ? -1 : x->seconds < y->seconds;
}

void infp_profile_places_sort(struct infp_profile_places *places)
{
        infp_sort(places->list, places->n, sizeof(*places->list), by_seconds);
}

void infp_profile_places_done(struct infp_profile_places *places)
{
        free(places->list);
        *places = (struct infp_profile_places){ 0 };
}
