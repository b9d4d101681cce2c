/* Names as people read them: demangled, without what could harm a terminal that prints them. Names come from files: they may be of any
 * length, and made to keep a demangler busy for ever. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

enum { INFP_SYMBOL_MAX_NAME = 4096, INFP_SYMBOL_MAX_MANGLED = 16384 };

/* C++ (Itanium) and Rust (both schemes), functions without their parameters, at most INFP_SYMBOL_MAX_NAME bytes: the rest is cut and
 * "..." stands for it. False: the name is not mangled, or is no good; ret is empty then. Needs up to 256 MiB of address space for
 * the stack of a long name. */
bool infp_demangle(const char *name, size_t size, struct infp_str *ret);

/* The size of a name without what compilers put after those of their copies: foo.isra.0.cold is foo. */
size_t infp_without_clones(const char *name, size_t size);

/* Replaces ret by the name as one line of UTF-8 (base/text.h's escapes, control characters become \xHH too), cut at
 * INFP_SYMBOL_MAX_NAME. */
void infp_symbol_text(struct infp_str *ret, const char *name, size_t size);
