/* Inside the reader of DWARF: which unit, and which function of it, has an address. Both are lists that are made once, since looking
 * through a unit of a large C++ program takes milliseconds. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "symbols/libdw.h"

enum { INFP_DWARF_MAX_ENTRIES = 16 << 20, INFP_DWARF_MAX_DEPTH = 128 };

struct infp_dwarf_extent {
        uint64_t begin, end;
        uint32_t index; /* of a unit; of a function: of its offset in `functions` */
};

struct infp_dwarf_list {
        struct infp_dwarf_extent *extents; /* by address; those that begin later are the inner ones */
        size_t n, cap;
};

/* A namespace or class, and a function that is declared in one: names of functions that have no linkage name are made of them. */
struct infp_dwarf_scope {
        const char *name; /* NULL: it has none */
        uint32_t parent;  /* 0: none */
        bool is_namespace;
};
struct infp_dwarf_member {
        uint64_t offset; /* of its entry; they are in order */
        uint32_t scope;
};

struct infp_dwarf_unit {
        Dwarf_Die die, lines; /* of its functions; that which has the line table (the skeleton of a split unit) */
        struct infp_dwarf_list functions;
        Dwarf_Die *dies; /* of functions */
        size_t n_dies, cap_dies;
        struct infp_dwarf_scope *scopes; /* 0 is none */
        struct infp_dwarf_member *members;
        size_t n_scopes, cap_scopes, n_members, cap_members;
        bool is_read;
};

struct infp_dwarf {
        const struct infp_libdw *lib;
        Elf *elf, *alt_elf;
        Dwarf *dwarf, *alt;
        int alt_fd;
        struct infp_dwarf_unit *units;
        size_t n_units, cap_units;
        struct infp_dwarf_list places;
        char *file, *name; /* of each level: room */
};

enum { INFP_DWARF_NAME = 1024 };

int infp_dwarf_read_units(struct infp_dwarf *dwarf);
/* "space::Class::name" of a function that is declared in these; false: in none, or it does not fit. */
bool infp_dwarf_qualify(struct infp_dwarf *dwarf, struct infp_dwarf_unit *unit, Dwarf_Die *die, const char *name,
                        char ret[INFP_DWARF_NAME]);
struct infp_dwarf_unit *infp_dwarf_unit_at(struct infp_dwarf *dwarf, uint64_t address);
/* False: no function of the unit has it. */
bool infp_dwarf_function_at(struct infp_dwarf *dwarf, struct infp_dwarf_unit *unit, uint64_t address, Dwarf_Die *ret);
