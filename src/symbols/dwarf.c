#include "symbols/dwarf.h"

#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <errno.h>
#include <libelf.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/sort.h"
#include "symbols/symbols.h"

/* ---- elfutils' libdw and libelf ----
 * Loaded when lines are wanted: recording needs neither, and a machine without them has names all the same. Their declarations are
 * those of their own headers. */

#define LIBDW(F)                \
        F(dwarf_attr)           \
        F(dwarf_attr_integrate) \
        F(dwarf_begin_elf)      \
        F(dwarf_child)          \
        F(dwarf_dieoffset)      \
        F(dwarf_end)            \
        F(dwarf_filesrc)        \
        F(dwarf_formref_die)    \
        F(dwarf_formstring)     \
        F(dwarf_formudata)      \
        F(dwarf_get_units)      \
        F(dwarf_getsrc_die)     \
        F(dwarf_getsrcfiles)    \
        F(dwarf_haspc)          \
        F(dwarf_lineno)         \
        F(dwarf_linesrc)        \
        F(dwarf_offdie)         \
        F(dwarf_ranges)         \
        F(dwarf_setalt)         \
        F(dwarf_siblingof)      \
        F(dwarf_tag)            \
        F(dwelf_dwarf_gnu_debugaltlink)

#define LIBELF(F)    \
        F(elf_begin) \
        F(elf_end)   \
        F(elf_version)

struct libdw {
#define FIELD(name) __typeof__(name) *name;
        LIBDW(FIELD)
        LIBELF(FIELD)
#undef FIELD
};

static struct libdw functions;

static bool load(void)
{
        void *dw = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL), *elf = dlopen("libelf.so.1", RTLD_NOW | RTLD_LOCAL);
        bool has_all = dw && elf;

#define LOAD_DW(name) has_all = has_all && (*(void **) &functions.name = dlsym(dw, #name)) != NULL;
        LIBDW(LOAD_DW)
#undef LOAD_DW
#define LOAD_ELF(name) has_all = has_all && (*(void **) &functions.name = dlsym(elf, #name)) != NULL;
        LIBELF(LOAD_ELF)
#undef LOAD_ELF
        return has_all && functions.elf_version(EV_CURRENT) != EV_NONE;
}

/* NULL: not on this machine. Loaded once, and kept. */
static const struct libdw *load_libdw(void)
{
        static enum { NEW, THERE, MISSING } state;

        if (state == NEW)
                state = load() ? THERE : MISSING;
        return state == THERE ? &functions : NULL;
}

bool infp_symbols_have_lines(void)
{
        return load_libdw() != NULL;
}

enum { MAX_ENTRIES = 16 << 20, MAX_DEPTH = 128 };

struct extent {
        uint64_t begin, end;
        uint32_t index; /* of a unit; of a function: of its offset in `functions` */
};

struct extents {
        struct extent *extents; /* by address; those that begin later are the inner ones */
        size_t n, cap;
};

/* A namespace or class, and a function that is declared in one: names of functions that have no linkage name are made of them. */
struct scope {
        const char *name; /* NULL: it has none */
        uint32_t parent;  /* 0: none */
        bool is_namespace;
};
struct member {
        uint64_t offset; /* of its entry; they are in order */
        uint32_t scope;
};

struct unit {
        Dwarf_Die die, lines; /* of its functions; that which has the line table (the skeleton of a split unit) */
        struct extents functions;
        Dwarf_Die *dies; /* of functions */
        size_t n_dies, cap_dies;
        struct scope *scopes; /* scopes[0] stands for "no scope" */
        struct member *members;
        size_t n_scopes, cap_scopes, n_members, cap_members;
        bool is_read;
};

struct infp_dwarf {
        const struct libdw *lib;
        Elf *elf, *alt_elf;
        Dwarf *dwarf, *alt;
        int alt_fd;
        struct unit *units;
        size_t n_units, cap_units;
        struct extents places;
        char *file, *name; /* of each level: room */
};

enum { NAME = 1024 };

/* ---- units and functions ----
 * Which of them has an address is found by lists that are made once, since looking through a unit of a large C++ program takes
 * milliseconds. */

static int add(struct extents *list, uint64_t begin, uint64_t end, uint32_t index)
{
        if (begin >= end || !begin) /* code that the linker dropped is said to be at 0 */
                return 0;
        if (list->n >= MAX_ENTRIES || !INFP_MAKE_ROOM(list->extents, list->n, list->cap, 64))
                return -ENOMEM;
        list->extents[list->n++] = (struct extent){ begin, end, index };
        return 0;
}

static int add_ranges(const struct libdw *lib, struct extents *list, Dwarf_Die *die, uint32_t index)
{
        Dwarf_Addr base, begin, end;
        ptrdiff_t at = 0;
        int r = 0;

        while (r == 0 && (at = lib->dwarf_ranges(die, at, &base, &begin, &end)) > 0)
                r = add(list, begin, end, index);
        return r;
}

static int by_begin(const void *left, const void *right)
{
        const struct extent *a = left, *b = right;

        if (a->begin != b->begin)
                return a->begin < b->begin ? -1 : 1;
        return a->end != b->end ? (a->end > b->end ? -1 : 1) : (a->index > b->index) - (a->index < b->index);
}

static void sort(struct extents *list)
{
        infp_sort(list->extents, list->n, sizeof(*list->extents), by_begin);
}

enum { MOST_STEPS_BACK = 64 };

/* The one that begins last of those that have the address. Extents do not overlap in good files: a few steps back are enough. */
static const struct extent *find(const struct extents *list, uint64_t address)
{
        size_t low = 0, high = list->n;

        while (low < high) {
                const size_t middle = low + (high - low) / 2;

                if (list->extents[middle].begin <= address)
                        low = middle + 1;
                else
                        high = middle;
        }
        for (unsigned i = 0; i < MOST_STEPS_BACK && low > 0; i++)
                if (address < list->extents[--low].end)
                        return &list->extents[low];
        return NULL;
}

static int read_units(struct infp_dwarf *dwarf)
{
        const struct libdw *lib = dwarf->lib;
        Dwarf_CU *cu = NULL;
        Dwarf_Half version;
        uint8_t type;
        Dwarf_Die die, split;
        int r = 0;

        while (r == 0 && lib->dwarf_get_units(dwarf->dwarf, cu, &cu, &version, &type, &die, &split) == 0) {
                struct unit *unit;

                if (type != DW_UT_compile && type != DW_UT_skeleton && type != DW_UT_partial)
                        continue;
                if (dwarf->n_units >= MAX_ENTRIES ||
                    !INFP_MAKE_ROOM(dwarf->units, dwarf->n_units, dwarf->cap_units, 64))
                        return -ENOMEM;
                unit = &dwarf->units[dwarf->n_units];
                *unit = (struct unit){ .die = die, .lines = die };
                if (type == DW_UT_skeleton && lib->dwarf_tag(&split) != DW_TAG_invalid)
                        unit->die = split;
                r = add_ranges(lib, &dwarf->places, &die, (uint32_t) dwarf->n_units++);
        }
        sort(&dwarf->places);
        return r;
}

static struct unit *unit_at(struct infp_dwarf *dwarf, uint64_t address)
{
        const struct extent *found = find(&dwarf->places, address);

        return found ? &dwarf->units[found->index] : NULL;
}

static int add_function(struct infp_dwarf *dwarf, struct unit *unit, Dwarf_Die *die)
{
        const size_t before = unit->functions.n;

        if (unit->n_dies >= MAX_ENTRIES || !INFP_MAKE_ROOM(unit->dies, unit->n_dies, unit->cap_dies, 64))
                return -ENOMEM;
        if (add_ranges(dwarf->lib, &unit->functions, die, (uint32_t) unit->n_dies) < 0)
                return -ENOMEM;
        if (unit->functions.n > before)
                unit->dies[unit->n_dies++] = *die;
        return 0;
}

static int add_scope(struct infp_dwarf *dwarf, struct unit *unit, Dwarf_Die *die, uint32_t parent)
{
        Dwarf_Attribute attribute;

        if (unit->n_scopes >= MAX_ENTRIES || !INFP_MAKE_ROOM(unit->scopes, unit->n_scopes, unit->cap_scopes, 64))
                return -ENOMEM;
        unit->n_scopes += !unit->n_scopes; /* scopes[0] is not used */
        unit->scopes[unit->n_scopes] = (struct scope){
                .name = dwarf->lib->dwarf_attr(die, DW_AT_name, &attribute) ? dwarf->lib->dwarf_formstring(&attribute)
                                                                            : NULL,
                .parent = parent,
                .is_namespace = dwarf->lib->dwarf_tag(die) == DW_TAG_namespace,
        };
        return (int) unit->n_scopes++;
}

static int add_member(struct unit *unit, uint64_t offset, uint32_t scope)
{
        if (unit->n_members >= MAX_ENTRIES || !INFP_MAKE_ROOM(unit->members, unit->n_members, unit->cap_members, 64))
                return -ENOMEM;
        unit->members[unit->n_members++] = (struct member){ offset, scope };
        return 0;
}

static uint32_t scope_of(const struct unit *unit, uint64_t offset)
{
        size_t low = 0, high = unit->n_members;

        while (low < high) {
                const size_t middle = low + (high - low) / 2;

                if (unit->members[middle].offset < offset)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low < unit->n_members && unit->members[low].offset == offset ? unit->members[low].scope : 0;
}

/* Functions lie below the unit, and in namespaces and classes. The walk ends at a sibling that does not lie after its entry: libdw would
 * follow it for ever. */
static int walk(struct infp_dwarf *dwarf, struct unit *unit, Dwarf_Die *parent, uint32_t scope, unsigned depth)
{
        const struct libdw *lib = dwarf->lib;
        Dwarf_Off last = lib->dwarf_dieoffset(parent);
        Dwarf_Die die;
        int r = lib->dwarf_child(parent, &die) == 0 ? 0 : 1;

        while (r == 0) {
                const Dwarf_Off at = lib->dwarf_dieoffset(&die);
                int inner;

                if (at <= last)
                        return -EBADMSG;
                last = at;
                switch (lib->dwarf_tag(&die)) {
                case DW_TAG_subprogram:
                        if (add_function(dwarf, unit, &die) < 0 || (scope && add_member(unit, at, scope) < 0))
                                return -ENOMEM;
                        break;
                case DW_TAG_namespace:
                case DW_TAG_class_type:
                case DW_TAG_structure_type:
                case DW_TAG_union_type:
                case DW_TAG_module:
                        inner = depth < MAX_DEPTH ? add_scope(dwarf, unit, &die, scope) : 0;
                        if (inner < 0 || (inner && walk(dwarf, unit, &die, (uint32_t) inner, depth + 1) < 0))
                                return -EBADMSG;
                        break;
                default:
                        break;
                }
                r = lib->dwarf_siblingof(&die, &die);
        }
        return r < 0 ? -EBADMSG : 0;
}

/* Where the function is declared: the entry that has its name says so. */
static uint32_t find_scope(struct infp_dwarf *dwarf, const struct unit *unit, Dwarf_Die *die)
{
        static const unsigned ways[] = { DW_AT_abstract_origin, DW_AT_specification };
        const struct libdw *lib = dwarf->lib;
        uint32_t scope = scope_of(unit, lib->dwarf_dieoffset(die));
        Dwarf_Attribute attribute;
        Dwarf_Die at = *die;

        for (unsigned i = 0; i < 2 && !scope; i++)
                if (lib->dwarf_attr(&at, ways[i], &attribute) && lib->dwarf_formref_die(&attribute, &at))
                        scope = scope_of(unit, lib->dwarf_dieoffset(&at));
        return scope;
}

/* "space::Class::name" of a function that is declared in these; false: in none, or it does not fit. */
static bool qualify(struct infp_dwarf *dwarf, struct unit *unit, Dwarf_Die *die, const char *name, char ret[NAME])
{
        uint32_t scopes[MAX_DEPTH], scope = find_scope(dwarf, unit, die);
        unsigned n = 0;
        int at = 0;

        for (; scope && n < MAX_DEPTH; scope = unit->scopes[scope].parent)
                scopes[n++] = scope;
        if (!n)
                return false;
        while (n-- > 0 && at < NAME) {
                const struct scope *s = &unit->scopes[scopes[n]];
                const char *text = s->name ? s->name : s->is_namespace ? "(anonymous namespace)" : "(anonymous)";

                at += snprintf(ret + at, (size_t) (NAME - at), "%s::", text);
        }
        if (at < NAME)
                at += snprintf(ret + at, (size_t) (NAME - at), "%s", name);
        return at < NAME;
}

/* False: no function of the unit has it. */
static bool function_at(struct infp_dwarf *dwarf, struct unit *unit, uint64_t address, Dwarf_Die *ret)
{
        const struct extent *found;

        if (!unit->is_read) {
                unit->is_read = true; /* what was found before a fault stays */
                walk(dwarf, unit, &unit->die, 0, 0);
                sort(&unit->functions);
        }
        found = find(&unit->functions, address);
        if (found)
                *ret = unit->dies[found->index];
        return found != NULL;
}

/* ---- names and lines ---- */

/* What `dwz` moved into a file that several debug files share. */
static void open_alt(struct infp_dwarf *dwarf, const struct infp_debug_places *places)
{
        const struct libdw *lib = dwarf->lib;
        const char *name;
        const void *build_id;
        const ssize_t size = lib->dwelf_dwarf_gnu_debugaltlink(dwarf->dwarf, &name, &build_id);

        if (size <= 0)
                return;
        dwarf->alt_fd = infp_debug_file_by_build_id(places, build_id, (size_t) size);
        if (dwarf->alt_fd < 0)
                return; /* libdw looks for it in its own places */
        dwarf->alt_elf = lib->elf_begin(dwarf->alt_fd, ELF_C_READ_MMAP, NULL);
        dwarf->alt = dwarf->alt_elf ? lib->dwarf_begin_elf(dwarf->alt_elf, DWARF_C_READ, NULL) : NULL;
        if (dwarf->alt)
                lib->dwarf_setalt(dwarf->dwarf, dwarf->alt);
}

int infp_dwarf_open(int fd, const char *path, const struct infp_debug_places *places, struct infp_dwarf **ret,
                    struct infp_err *err)
{
        const struct libdw *lib = load_libdw();
        struct infp_dwarf *dwarf;
        int r = -EBADMSG;

        if (!lib)
                return infp_fail(err, -ENOPKG,
                                 "lines of source and inlined functions need libdw.so.1 (Debian: libdw1)");
        dwarf = calloc(1, sizeof(*dwarf));
        if (dwarf) {
                dwarf->file = malloc((size_t) INFP_SYMBOL_MAX_LEVELS * PATH_MAX);
                dwarf->name = malloc((size_t) INFP_SYMBOL_MAX_LEVELS * NAME);
        }
        if (!dwarf || !dwarf->file || !dwarf->name) {
                if (dwarf)
                        free(dwarf->file);
                free(dwarf);
                return infp_fail(err, -ENOMEM, "no memory for the debug information of %s", path);
        }
        dwarf->lib = lib;
        dwarf->alt_fd = -1;
        dwarf->elf = lib->elf_begin(fd, ELF_C_READ_MMAP, NULL);
        dwarf->dwarf = dwarf->elf ? lib->dwarf_begin_elf(dwarf->elf, DWARF_C_READ, NULL) : NULL;
        if (dwarf->dwarf) {
                open_alt(dwarf, places);
                r = read_units(dwarf);
        }
        if (r < 0) {
                infp_dwarf_close(dwarf);
                return infp_fail(err, r, "%s: its debug information cannot be read: there will be no lines", path);
        }
        *ret = dwarf;
        return 0;
}

struct infp_dwarf *infp_dwarf_close(struct infp_dwarf *dwarf)
{
        if (!dwarf)
                return NULL;
        for (size_t i = 0; i < dwarf->n_units; i++) {
                free(dwarf->units[i].functions.extents);
                free(dwarf->units[i].dies);
                free(dwarf->units[i].scopes);
                free(dwarf->units[i].members);
        }
        free(dwarf->units);
        free(dwarf->places.extents);
        if (dwarf->dwarf)
                dwarf->lib->dwarf_end(dwarf->dwarf);
        if (dwarf->elf)
                dwarf->lib->elf_end(dwarf->elf);
        if (dwarf->alt)
                dwarf->lib->dwarf_end(dwarf->alt);
        if (dwarf->alt_elf)
                dwarf->lib->elf_end(dwarf->alt_elf);
        infp_close(dwarf->alt_fd);
        free(dwarf->file);
        free(dwarf->name);
        free(dwarf);
        return NULL;
}

static const char *text_of(const struct libdw *lib, Dwarf_Die *die, unsigned name)
{
        Dwarf_Attribute attribute;

        return lib->dwarf_attr_integrate(die, name, &attribute) ? lib->dwarf_formstring(&attribute) : NULL;
}

static int64_t number_of(const struct libdw *lib, Dwarf_Die *die, unsigned name)
{
        Dwarf_Attribute attribute;
        Dwarf_Word number;

        if (!lib->dwarf_attr_integrate(die, name, &attribute) || lib->dwarf_formudata(&attribute, &number) != 0)
                return 0;
        return number <= INT32_MAX ? (int64_t) number : 0;
}

/* Names of files are kept as the compiler wrote them, below its directory. */
static const char *whole_path(struct infp_dwarf *dwarf, struct unit *unit, unsigned level, const char *file)
{
        char *ret = dwarf->file + (size_t) level * PATH_MAX;
        const char *directory;

        if (!file || file[0] == '/')
                return file;
        directory = text_of(dwarf->lib, &unit->lines, DW_AT_comp_dir);
        while (file[0] == '.' && file[1] == '/')
                file += 2;
        if (!directory || snprintf(ret, PATH_MAX, "%s/%s", directory, file) >= PATH_MAX)
                return file;
        return ret;
}

static void name_level(struct infp_dwarf *dwarf, struct unit *unit, unsigned level, Dwarf_Die *die,
                       struct infp_dwarf_level *ret)
{
        const struct libdw *lib = dwarf->lib;
        char *whole = dwarf->name + (size_t) level * NAME;

        *ret = (struct infp_dwarf_level){ .name = text_of(lib, die, DW_AT_name),
                                          .linkage = text_of(lib, die, DW_AT_linkage_name),
                                          .function_line = number_of(lib, die, DW_AT_decl_line) };
        if (!ret->linkage)
                ret->linkage = text_of(lib, die, DW_AT_MIPS_linkage_name);
        /* Static functions of C++ have none. */
        if (!ret->linkage && ret->name && qualify(dwarf, unit, die, ret->name, whole))
                ret->name = whole;
}

/* The inlined call below `parent` that has the address. Blocks are looked through. */
static bool find_inlined(const struct libdw *lib, Dwarf_Die *parent, uint64_t address, unsigned depth, Dwarf_Die *ret)
{
        Dwarf_Off last = lib->dwarf_dieoffset(parent);
        Dwarf_Die die;

        if (depth > MAX_DEPTH || lib->dwarf_child(parent, &die) != 0)
                return false;
        do {
                const int tag = lib->dwarf_tag(&die);
                const Dwarf_Off at = lib->dwarf_dieoffset(&die);

                if (at <= last)
                        return false;
                last = at;
                if (tag == DW_TAG_inlined_subroutine && lib->dwarf_haspc(&die, address) == 1) {
                        *ret = die;
                        return true;
                }
                if (tag == DW_TAG_lexical_block && lib->dwarf_haspc(&die, address) == 1 &&
                    find_inlined(lib, &die, address, depth + 1, ret))
                        return true;
        } while (lib->dwarf_siblingof(&die, &die) == 0);
        return false;
}

/* The line of an inlined call is that of the function which it is inlined into. */
static void take_call(struct infp_dwarf *dwarf, struct unit *unit, Dwarf_Die *call, unsigned level,
                      struct infp_dwarf_level *caller)
{
        const struct libdw *lib = dwarf->lib;
        Dwarf_Attribute attribute;
        Dwarf_Word file;
        Dwarf_Files *files;
        size_t n;

        if (lib->dwarf_attr(call, DW_AT_call_line, &attribute) && lib->dwarf_formudata(&attribute, &file) == 0 &&
            file <= INT32_MAX)
                caller->line = (int64_t) file;
        if (lib->dwarf_attr(call, DW_AT_call_file, &attribute) && lib->dwarf_formudata(&attribute, &file) == 0 &&
            lib->dwarf_getsrcfiles(&unit->die, &files, &n) == 0 && file < n)
                caller->file = whole_path(dwarf, unit, level, lib->dwarf_filesrc(files, file, NULL, NULL));
}

unsigned infp_dwarf_at(struct infp_dwarf *dwarf, uint64_t address, struct infp_dwarf_level *ret, unsigned max)
{
        const struct libdw *lib = dwarf->lib;
        struct unit *unit = unit_at(dwarf, address);
        Dwarf_Line *line;
        Dwarf_Die die;
        unsigned n = 0;
        int number;

        if (!unit || max > INFP_SYMBOL_MAX_LEVELS)
                return 0;
        if (function_at(dwarf, unit, address, &die)) {
                name_level(dwarf, unit, n, &die, &ret[n]);
                n++;
                while (n < max && find_inlined(lib, &die, address, 0, &die)) {
                        take_call(dwarf, unit, &die, n - 1, &ret[n - 1]);
                        name_level(dwarf, unit, n, &die, &ret[n]);
                        n++;
                }
        } else {
                ret[n++] = (struct infp_dwarf_level){ 0 };
        }
        line = lib->dwarf_getsrc_die(&unit->lines, address);
        if (line) {
                ret[n - 1].file = whole_path(dwarf, unit, n - 1, lib->dwarf_linesrc(line, NULL, NULL));
                ret[n - 1].line = lib->dwarf_lineno(line, &number) == 0 && number > 0 ? number : 0;
        }
        return n;
}
