/* Lines and inlined functions by DWARF. What reads it is elfutils, which hostile files can make slow or crash: only for a process
 * that may be lost. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "symbols/debug_file.h"

struct infp_dwarf;

/* fd: a file with .debug_info, borrowed for as long as the object is open. -ENOPKG: libdw is not there; -EBADMSG. */
int infp_dwarf_open(int fd, const char *path, const struct infp_debug_places *places, struct infp_dwarf **ret,
                    struct infp_err *err);
struct infp_dwarf *infp_dwarf_close(struct infp_dwarf *dwarf); /* NULL is fine; returns NULL */

/* One function at an address. Text is borrowed until close, apart from `file`: until the next call. */
struct infp_dwarf_level {
        const char *name;            /* as in the source; NULL: not told */
        const char *linkage;         /* mangled; NULL: the same */
        const char *file;            /* where `line` is */
        int64_t line, function_line; /* 0: not told */
};
/* Outermost first; their number, 0 when DWARF says nothing of the address. */
unsigned infp_dwarf_at(struct infp_dwarf *dwarf, uint64_t address, struct infp_dwarf_level *ret, unsigned max);
