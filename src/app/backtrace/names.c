/* Names of native frames: each place once, whatever stacks have it. Files are read by the child that `finish` uses, since they may be
 * made to crash their reader. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "app/backtrace/parts.h"
#include "base/cache_directory.h"
#include "base/debug.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/time.h"
#include "finish/symbolize_parts.h"
#include "sampler/names/jit_files.h"
#include "symbols/kept.h"

enum { CPU_SECONDS = 10 }; /* for an object: a person waits */

static uint32_t object_of(struct infp_backtraces *b, const struct infp_stack_frame *frame)
{
        const char *id = frame->build_id ? frame->build_id : "";
        const uint64_t key = infp_hash64(id, strlen(id), infp_hash64(frame->object, strlen(frame->object), 1)),
                       *known = infp_map_get(&b->by_object, key);
        struct infp_backtrace_object *object;

        if (known)
                return (uint32_t) *known;
        if (!INFP_MAKE_ROOM(b->objects, b->n_objects, b->cap_objects, 64))
                return UINT32_MAX;
        object = &b->objects[b->n_objects];
        *object = (struct infp_backtrace_object){ .path = infp_strings_keep(&b->texts, frame->object),
                                                  .build_id = infp_strings_keep(&b->texts, id),
                                                  .fd = -1 };
        if (!object->path || !object->build_id || infp_map_put(&b->by_object, key, b->n_objects) < 0)
                return UINT32_MAX;
        if (frame->fd >= 0)
                object->fd = fcntl(frame->fd, F_DUPFD_CLOEXEC, 0);
        return b->n_objects++;
}

/* pid: of code that is the process's own; else 0. */
static uint64_t key_of(uint64_t address, uint32_t object, enum infp_frame_kind kind, int32_t pid)
{
        const uint64_t parts[] = { address, object, kind, (uint64_t) pid };

        return infp_hash64(parts, sizeof(parts), 0);
}

uint32_t infp_backtrace_place(struct infp_backtraces *b, int32_t pid, const struct infp_stack_frame *frame)
{
        const bool is_made = frame->kind == INFP_FRAME_JIT;
        const uint32_t object = frame->object ? object_of(b, frame) : UINT32_MAX;
        const uint64_t key = key_of(frame->address, object, frame->kind, is_made || !frame->object ? pid : 0),
                       *known = infp_map_get(&b->by_place, key);

        if (known)
                return (uint32_t) *known;
        if (!INFP_MAKE_ROOM(b->places, b->n_places, b->cap_places, 256) ||
            infp_map_put(&b->by_place, key, b->n_places) < 0)
                return UINT32_MAX;
        b->places[b->n_places] = (struct infp_backtrace_place){
                .address = frame->address, .object = object, .pid = pid, .kind = frame->kind
        };
        return b->n_places++;
}

static void put_levels(struct infp_backtraces *b, struct infp_backtrace_place *place, const struct infp_symbol *levels,
                       unsigned n)
{
        if (place->levels || !n)
                return;
        place->levels = calloc(n, sizeof(*place->levels));
        for (unsigned i = 0; i < n && place->levels; i++) {
                place->levels[i].func = infp_strings_keep(&b->texts, levels[i].name);
                place->levels[i].file = infp_strings_keep(&b->texts, levels[i].file);
                place->levels[i].lineno = levels[i].line;
                place->n_levels++;
        }
}

/* ---- code made at run time ---- */

static const char *jitdump_of(const struct infp_backtraces *b, int32_t pid)
{
        struct infp_stack_nameless nameless;

        for (size_t i = 0; infp_stacks_nameless(b->stacks, i, &nameless); i++)
                if (nameless.pid == pid && nameless.jitdump)
                        return nameless.jitdump;
        return NULL;
}

static void name_made(struct infp_backtraces *b, int32_t pid)
{
        const uint64_t now = infp_clock_ns(CLOCK_MONOTONIC);
        struct infp_jit_files files = INFP_JIT_FILES_NONE;
        struct infp_jit_symbols *symbols;

        if (infp_jit_symbols_new(&symbols) < 0)
                return;
        infp_jit_files_open(b->env.root_fd, pid, jitdump_of(b, pid), &files);
        if (files.perf_map >= 0)
                infp_jit_symbols_read_perf_map(symbols, files.perf_map, NULL);
        if (files.jitdump >= 0)
                infp_jit_symbols_read_jitdump(symbols, files.jitdump, NULL);
        for (uint32_t i = 0; i < b->n_places; i++) {
                struct infp_backtrace_place *place = &b->places[i];
                struct infp_symbol symbol;

                if (place->kind == INFP_FRAME_JIT && place->pid == pid && !place->was_asked) {
                        place->was_asked = true;
                        if (infp_jit_symbols_at(symbols, place->address, now, &symbol))
                                put_levels(b, place, &symbol, 1);
                }
        }
        infp_jit_files_close(&files);
        infp_jit_symbols_free(symbols);
}

void infp_backtrace_name_made(struct infp_backtraces *b)
{
        for (uint32_t i = 0; i < b->n_places; i++)
                if (b->places[i].kind == INFP_FRAME_JIT && !b->places[i].was_asked)
                        name_made(b, b->places[i].pid);
}

/* ---- files that were named before ---- */

struct keeping {
        struct infp_backtraces *b;
        uint32_t object;
};

static void take_kept(void *context, uint64_t address, const struct infp_symbol *levels, unsigned n)
{
        const struct keeping *keeping = context;
        static const enum infp_frame_kind kinds[] = { INFP_FRAME_NATIVE, INFP_FRAME_CXX_RUNTIME, INFP_FRAME_GO,
                                                      INFP_FRAME_VDSO };

        for (size_t i = 0; i < INFP_COUNT(kinds); i++) {
                const uint64_t *at = infp_map_get(&keeping->b->by_place, key_of(address, keeping->object, kinds[i], 0));

                if (!at)
                        continue;
                put_levels(keeping->b, &keeping->b->places[*at], levels, n);
                keeping->b->places[*at].was_asked = true;
        }
}

static void add_kept(void *context, uint64_t address, const struct infp_symbol *levels, unsigned n)
{
        infp_kept_names_add(context, address, levels, n);
}

static struct infp_kept_names *open_kept(void)
{
        infp_autofree char *directory = infp_cache_path("names");
        struct infp_kept_names *kept = NULL;
        struct infp_err err = { "" };

        if (directory && infp_kept_names_open(directory, &kept, &err) < 0)
                infp_debug("names of code are not kept: %s", err.text);
        return kept;
}

static void take_all_kept(struct infp_backtraces *b, const struct infp_kept_names *kept)
{
        for (uint32_t i = 0; i < b->n_objects && kept; i++) {
                const struct infp_kept_file file = { b->objects[i].build_id, b->objects[i].path };

                infp_kept_names_each(kept, &file, take_kept, &(struct keeping){ b, i });
        }
}

/* Adds what the child has found. */
static void keep(struct infp_backtraces *b, const struct infp_kept_names *kept, const struct infp_naming *naming,
                 uint32_t object)
{
        const struct infp_asked_object *asked = &naming->objects[object];
        const struct infp_kept_file file = { asked->build_id, asked->path };
        infp_autostr struct infp_str names = { 0 };

        if (!asked->n || asked->problem || !*file.build_id)
                return;
        infp_kept_names_each(kept, &file, add_kept, &names);
        for (uint32_t i = asked->first; i < asked->first + asked->n; i++) {
                const struct infp_backtrace_place *place = &b->places[naming->order[i]];
                struct infp_symbol levels[INFP_SYMBOL_MAX_LEVELS];

                for (unsigned k = 0; k < place->n_levels; k++)
                        levels[k] = (struct infp_symbol){ .name = place->levels[k].func ? place->levels[k].func : "?",
                                                          .file = place->levels[k].file,
                                                          .line = place->levels[k].lineno };
                infp_kept_names_add(&names, place->address, levels, place->n_levels);
        }
        infp_kept_names_put(kept, &file, &names);
}

/* ---- files ---- */

static int take(void *context, uint32_t frame, const struct infp_symbol *levels, unsigned n, struct infp_err *err)
{
        struct infp_backtraces *b = context;

        (void) err;
        put_levels(b, &b->places[frame], levels, n);
        return 0;
}

/* Frames have the numbers of their places. */
static int fill(struct infp_backtraces *b, struct infp_naming *naming, struct infp_err *err)
{
        static const struct infp_backtrace_object none = { .path = "", .build_id = "", .fd = -1 };

        for (uint32_t i = 0; i < b->n_places; i++) {
                const struct infp_backtrace_place *place = &b->places[i];
                const struct infp_backtrace_object *object =
                        place->object == UINT32_MAX ? &none : &b->objects[place->object];
                const struct infp_asked_frame frame = { .id = i + 1,
                                                        .address = place->address,
                                                        .kind = (uint8_t) place->kind,
                                                        .rank = place->was_asked ? INFP_NAME_FIXED : INFP_NAME_NONE };

                if (infp_naming_add(naming, &frame, object->path, strlen(object->path), object->build_id,
                                    strlen(object->build_id)) < 0)
                        return infp_fail(err, -ENOMEM, "no memory for names of code");
                if (naming->frames[i].object != UINT32_MAX)
                        naming->objects[naming->frames[i].object].fd = object->fd;
        }
        return infp_naming_sort(naming, err);
}

int infp_backtrace_name_files(struct infp_backtraces *b, struct infp_err *err)
{
        const struct infp_symbolize_options options = { .root_fd = b->env.root_fd };
        struct infp_naming naming = {
                .options = &options, .notices = b->notices, .take = take, .take_context = b, .cpu_seconds = CPU_SECONDS
        };
        struct infp_kept_names *kept = open_kept();
        int r;

        take_all_kept(b, kept);
        r = fill(b, &naming, err);
        if (r == 0)
                r = infp_naming_ask(&naming, err);
        b->shown.n_named = naming.n_asked;
        for (uint32_t i = 0; i < naming.n_objects && kept && r >= 0; i++)
                keep(b, kept, &naming, i);
        infp_kept_names_close(kept);
        infp_naming_done(&naming);
        return r;
}
