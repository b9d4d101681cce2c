/* record --jit-names: variables that make compilers at run time write perf maps, by which their code has names. */
#pragma once

#include <stddef.h>

enum { INFP_JIT_NAMES = 3 };

/* Room for what is made of a variable that is there already. */
struct infp_jit_names {
        char node[4096];
};

/* Puts up to INFP_JIT_NAMES texts "NAME=VALUE" at ret and returns how many. A variable by which the user has said otherwise is left
 * as it is. Those that would print something, keep a program from starting, or cost more than a few percent are not among them. */
unsigned infp_jit_names_variables(struct infp_jit_names *memory, const char **ret);
