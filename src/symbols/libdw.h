/* elfutils' libdw and libelf, loaded when lines are wanted: recording needs neither, and a machine without them has names all the
 * same. Their declarations are those of their own headers. */
#pragma once

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <libelf.h>
#include <stdbool.h>

#define INFP_LIBDW(F)           \
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

#define INFP_LIBELF(F) \
        F(elf_begin)   \
        F(elf_end)     \
        F(elf_version)

struct infp_libdw {
#define INFP_LIBDW_FIELD(name) __typeof__(name) *name;
        INFP_LIBDW(INFP_LIBDW_FIELD)
        INFP_LIBELF(INFP_LIBDW_FIELD)
#undef INFP_LIBDW_FIELD
};

/* NULL: not on this machine. Loaded once, and kept. */
const struct infp_libdw *infp_libdw(void);
