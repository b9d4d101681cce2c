/* Shared by the files that read Go's table. */
#pragma once

#include "unwind/go_table.h"

/* The bytes of the address that a function begins with; then come fields of 4 bytes: name, size of arguments, where deferred calls
 * return to, values of the stack pointer, of files, of lines, number of further values, and since 1.16 the compilation. */
#define INFP_GO_FIRST(go) ((go)->version >= 18 ? UINT64_C(4) : UINT64_C(8))

/* size bytes at an offset of the table. */
bool infp_go_read(const struct infp_go *go, uint64_t at, uint64_t size, uint64_t *ret);
