#include "symbols/symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "symbols/name.h"
#include "symbols/object.h"

enum { OBJECTS = 32, CACHED_NAMES = 1024, PIECES = 4 /* that one object may have within the bound */ };

struct slot {
        struct infp_symbol_object *object; /* NULL: free */
        char *path, *build_id;
        unsigned number;
        uint64_t used;
};

/* Inlined functions come again and again: each is demangled once. */
struct cached_name {
        uint64_t hash; /* 0: free */
        char *name;
        bool was_mangled;
};

struct infp_symbols {
        struct infp_debug_places places;
        uint64_t most_bytes;
        bool no_lines, no_demangling;
        struct slot slots[OBJECTS];
        unsigned n_objects;
        uint64_t clock;
        struct cached_name names[CACHED_NAMES];
        struct infp_str demangled, text;
        struct infp_str name[INFP_SYMBOL_MAX_LEVELS], mangled[INFP_SYMBOL_MAX_LEVELS], file[INFP_SYMBOL_MAX_LEVELS];
};

int infp_symbols_new(const struct infp_symbols_options *options, struct infp_symbols **ret, struct infp_err *err)
{
        struct infp_symbols *symbols = calloc(1, sizeof(*symbols));

        if (!symbols)
                return infp_fail(err, -ENOMEM, "no memory for symbols");
        symbols->places = (struct infp_debug_places){ options->root_fd, options->debug_directories,
                                                      options->ran_unix_ns, options->most_bytes / PIECES };
        symbols->most_bytes = options->most_bytes;
        symbols->no_lines = options->no_lines;
        symbols->no_demangling = options->no_demangling;
        *ret = symbols;
        return 0;
}

static void clear_slot(struct slot *slot)
{
        infp_symbol_object_close(slot->object);
        free(slot->path);
        free(slot->build_id);
        *slot = (struct slot){ 0 };
}

struct infp_symbols *infp_symbols_free(struct infp_symbols *symbols)
{
        if (!symbols)
                return NULL;
        for (unsigned i = 0; i < OBJECTS; i++)
                clear_slot(&symbols->slots[i]);
        for (unsigned i = 0; i < CACHED_NAMES; i++)
                free(symbols->names[i].name);
        for (unsigned i = 0; i < INFP_SYMBOL_MAX_LEVELS; i++) {
                infp_str_done(&symbols->name[i]);
                infp_str_done(&symbols->mangled[i]);
                infp_str_done(&symbols->file[i]);
        }
        infp_str_done(&symbols->demangled);
        infp_str_done(&symbols->text);
        free(symbols);
        return NULL;
}

static struct slot *find(const struct infp_symbols *symbols, const char *path, const char *build_id)
{
        for (unsigned i = 0; i < OBJECTS; i++) {
                const struct slot *slot = &symbols->slots[i];

                if (slot->object && strcmp(slot->path, path) == 0 && strcmp(slot->build_id, build_id) == 0)
                        return (struct slot *) slot;
        }
        return NULL;
}

static struct slot *oldest(struct infp_symbols *symbols)
{
        struct slot *ret = &symbols->slots[0];

        for (unsigned i = 0; i < OBJECTS; i++)
                if (symbols->slots[i].used < ret->used)
                        ret = &symbols->slots[i];
        return ret;
}

/* All but the newest may go. */
static void keep_bound(struct infp_symbols *symbols, const struct slot *newest)
{
        for (;;) {
                struct slot *first = NULL;
                uint64_t sum = 0;

                for (unsigned i = 0; i < OBJECTS; i++) {
                        struct slot *slot = &symbols->slots[i];

                        if (!slot->object)
                                continue;
                        sum += infp_symbol_object_bytes(slot->object);
                        if (slot != newest && (!first || slot->used < first->used))
                                first = slot;
                }
                if (!symbols->most_bytes || sum <= symbols->most_bytes || !first)
                        return;
                clear_slot(first);
        }
}

int infp_symbols_object(struct infp_symbols *symbols, const char *path, int fd, const char *build_id, unsigned *ret,
                        struct infp_err *err)
{
        const char *id = build_id ? build_id : "";
        struct slot *slot = find(symbols, path, id);
        int r;

        if (!slot) {
                slot = oldest(symbols);
                clear_slot(slot);
                slot->path = strdup(path);
                slot->build_id = strdup(id);
                if (!slot->path || !slot->build_id) {
                        clear_slot(slot);
                        return infp_fail(err, -ENOMEM, "no memory for symbols of %s", path);
                }
                r = infp_symbol_object_open(&symbols->places, path, fd, id, !symbols->no_lines,
                                            &(struct infp_wanted){ NULL, 0 }, &slot->object, err);
                if (r < 0) {
                        clear_slot(slot);
                        return r;
                }
                slot->number = symbols->n_objects++;
        }
        slot->used = ++symbols->clock;
        keep_bound(symbols, slot);
        *ret = slot->number;
        return 0;
}

static struct slot *by_number(const struct infp_symbols *symbols, unsigned number)
{
        for (unsigned i = 0; i < OBJECTS; i++)
                if (symbols->slots[i].object && symbols->slots[i].number == number)
                        return (struct slot *) &symbols->slots[i];
        return NULL;
}

bool infp_symbols_object_about(const struct infp_symbols *symbols, unsigned object, struct infp_symbols_about *ret)
{
        const struct slot *slot = by_number(symbols, object);

        if (slot)
                infp_symbol_object_about(slot->object, ret);
        return slot != NULL;
}

/* The name as people read it; NULL without memory. */
static const struct cached_name *read_name(struct infp_symbols *symbols, const char *name, size_t size)
{
        const uint64_t hash = infp_hash64(name, size, 1) | 1;
        struct cached_name *cached = &symbols->names[(hash >> 1) % CACHED_NAMES];
        bool was_mangled;

        if (cached->hash == hash)
                return cached;
        was_mangled = !symbols->no_demangling && infp_demangle(name, size, &symbols->demangled);
        if (was_mangled) {
                infp_symbol_text(&symbols->text, symbols->demangled.data, symbols->demangled.size);
        } else {
                const size_t own = symbols->no_demangling ? size : infp_without_clones(name, size);

                was_mangled = own < size;
                infp_symbol_text(&symbols->text, name, own);
        }
        free(cached->name);
        *cached = (struct cached_name){ 0 };
        cached->name = strdup(symbols->text.data ? symbols->text.data : "");
        if (!cached->name)
                return NULL;
        cached->hash = hash;
        cached->was_mangled = was_mangled;
        return cached;
}

bool infp_symbols_demangle(struct infp_symbols *symbols, const char *name, size_t size, const char **ret)
{
        const struct cached_name *read = read_name(symbols, name, size);

        *ret = read ? read->name : "";
        return read && read->was_mangled;
}

static const char *keep(struct infp_str *s, const char *text, size_t size)
{
        infp_symbol_text(s, text, size);
        return s->failed || !s->size ? NULL : s->data;
}

static void set_level(struct infp_symbols *symbols, unsigned level, const struct infp_object_level *from,
                      struct infp_symbol *ret)
{
        const struct cached_name *read = read_name(symbols, from->name, from->name_size);
        struct infp_str *name = &symbols->name[level];

        infp_str_clear(name);
        infp_str_puts(name, read ? read->name : "?");
        *ret = (struct infp_symbol){
                .name = name->failed || !name->size ? "?" : name->data,
                .mangled =
                        read && read->was_mangled ? keep(&symbols->mangled[level], from->name, from->name_size) : NULL,
                .file = from->file ? keep(&symbols->file[level], from->file, strlen(from->file)) : NULL,
                .line = from->line,
                .function_line = from->function_line,
                .from = from->from,
        };
}

static unsigned name_at(struct infp_symbols *symbols, struct infp_symbol_object *object, uint64_t address,
                        struct infp_symbol *ret)
{
        struct infp_object_level levels[INFP_SYMBOL_MAX_LEVELS];
        const unsigned n = infp_symbol_object_at(object, address, levels);

        for (unsigned i = 0; i < n; i++)
                set_level(symbols, i, &levels[i], &ret[i]);
        return n;
}

unsigned infp_symbols_at(struct infp_symbols *symbols, unsigned object, uint64_t address, struct infp_symbol *ret)
{
        struct slot *slot = by_number(symbols, object);

        if (!slot)
                return 0;
        slot->used = ++symbols->clock;
        return name_at(symbols, slot->object, address, ret);
}

int infp_symbols_all(struct infp_symbols *symbols, const char *path, int fd, const char *build_id,
                     const uint64_t *addresses, size_t n,
                     void (*take)(void *context, size_t index, const struct infp_symbol *symbol), void *context,
                     struct infp_err *err)
{
        struct infp_symbol names[INFP_SYMBOL_MAX_LEVELS];
        struct infp_symbol_object *object;

        INFP_TRY(infp_symbol_object_open(&symbols->places, path, fd, build_id ? build_id : "", !symbols->no_lines,
                                         &(struct infp_wanted){ addresses, n }, &object, err));
        for (size_t i = 0; i < n; i++)
                if (name_at(symbols, object, addresses[i], names))
                        take(context, i, &names[0]);
        infp_symbol_object_close(object);
        return 0;
}
