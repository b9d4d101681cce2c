/* All that names the code of one object: its tables of symbols, those of its debug file, DWARF, its linkage tables and the extents of
 * its functions. Each is read when it is first wanted. */
#pragma once

#include "symbols/debug_file.h"
#include "symbols/symbols.h"
#include "symbols/table.h"

struct infp_symbol_object;

/* As infp_symbols_object says; build_id "" for none; wanted: all addresses that infp_symbol_object_at will be called with. */
int infp_symbol_object_open(const struct infp_debug_places *places, const char *path, int fd, const char *build_id,
                            bool with_lines, const struct infp_wanted *wanted, struct infp_symbol_object **ret,
                            struct infp_err *err);
struct infp_symbol_object *infp_symbol_object_close(struct infp_symbol_object *object);
void infp_symbol_object_about(const struct infp_symbol_object *object, struct infp_symbols_about *ret);

uint64_t infp_symbol_object_bytes(const struct infp_symbol_object *object); /* of memory, about */

/* Raw text of files, borrowed until the next call. */
struct infp_object_level {
        const char *name;
        size_t name_size;
        const char *file; /* NULL: not known */
        int64_t line, function_line;
        const char *from;
};
/* ret has room for INFP_SYMBOL_MAX_LEVELS. */
unsigned infp_symbol_object_at(struct infp_symbol_object *object, uint64_t address, struct infp_object_level *ret);
