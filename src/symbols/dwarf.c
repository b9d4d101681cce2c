#include "symbols/dwarf.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "symbols/dwarf_parts.h"
#include "symbols/symbols.h"

/* What `dwz` moved into a file that several debug files share. */
static void open_alt(struct infp_dwarf *dwarf, const struct infp_debug_places *places)
{
        const struct infp_libdw *lib = dwarf->lib;
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
        const struct infp_libdw *lib = infp_libdw();
        struct infp_dwarf *dwarf;
        int r = -EBADMSG;

        if (!lib)
                return infp_fail(err, -ENOPKG,
                                 "lines of source and inlined functions need libdw.so.1 (Debian: libdw1)");
        dwarf = calloc(1, sizeof(*dwarf));
        if (dwarf) {
                dwarf->file = malloc((size_t) INFP_SYMBOL_MAX_LEVELS * PATH_MAX);
                dwarf->name = malloc((size_t) INFP_SYMBOL_MAX_LEVELS * INFP_DWARF_NAME);
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
                r = infp_dwarf_read_units(dwarf);
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

static const char *text_of(const struct infp_libdw *lib, Dwarf_Die *die, unsigned name)
{
        Dwarf_Attribute attribute;

        return lib->dwarf_attr_integrate(die, name, &attribute) ? lib->dwarf_formstring(&attribute) : NULL;
}

static int64_t number_of(const struct infp_libdw *lib, Dwarf_Die *die, unsigned name)
{
        Dwarf_Attribute attribute;
        Dwarf_Word number;

        if (!lib->dwarf_attr_integrate(die, name, &attribute) || lib->dwarf_formudata(&attribute, &number) != 0)
                return 0;
        return number <= INT32_MAX ? (int64_t) number : 0;
}

/* Names of files are kept as the compiler wrote them, below its directory. */
static const char *whole_path(struct infp_dwarf *dwarf, struct infp_dwarf_unit *unit, unsigned level, const char *file)
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

static void name_level(struct infp_dwarf *dwarf, struct infp_dwarf_unit *unit, unsigned level, Dwarf_Die *die,
                       struct infp_dwarf_level *ret)
{
        const struct infp_libdw *lib = dwarf->lib;
        char *whole = dwarf->name + (size_t) level * INFP_DWARF_NAME;

        *ret = (struct infp_dwarf_level){ .name = text_of(lib, die, DW_AT_name),
                                          .linkage = text_of(lib, die, DW_AT_linkage_name),
                                          .function_line = number_of(lib, die, DW_AT_decl_line) };
        if (!ret->linkage)
                ret->linkage = text_of(lib, die, DW_AT_MIPS_linkage_name);
        /* Static functions of C++ have none. */
        if (!ret->linkage && ret->name && infp_dwarf_qualify(dwarf, unit, die, ret->name, whole))
                ret->name = whole;
}

/* The inlined call below `parent` that has the address. Blocks are looked through. */
static bool find_inlined(const struct infp_libdw *lib, Dwarf_Die *parent, uint64_t address, unsigned depth,
                         Dwarf_Die *ret)
{
        Dwarf_Off last = lib->dwarf_dieoffset(parent);
        Dwarf_Die die;

        if (depth > INFP_DWARF_MAX_DEPTH || lib->dwarf_child(parent, &die) != 0)
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
static void take_call(struct infp_dwarf *dwarf, struct infp_dwarf_unit *unit, Dwarf_Die *call, unsigned level,
                      struct infp_dwarf_level *caller)
{
        const struct infp_libdw *lib = dwarf->lib;
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
        const struct infp_libdw *lib = dwarf->lib;
        struct infp_dwarf_unit *unit = infp_dwarf_unit_at(dwarf, address);
        Dwarf_Line *line;
        Dwarf_Die die;
        unsigned n = 0;
        int number;

        if (!unit || max > INFP_SYMBOL_MAX_LEVELS)
                return 0;
        if (infp_dwarf_function_at(dwarf, unit, address, &die)) {
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
