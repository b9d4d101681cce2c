/* Programs of the target whose heap cannot be sampled, or not all of it: a thread of its own looks at the file of each process, since a file
 * system that hangs keeps this thread then, and nobody else. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "collect/target.h"

enum infp_heap_program_kind {
        INFP_HEAP_PROGRAM_FITS,
        INFP_HEAP_PROGRAM_STATIC,
        INFP_HEAP_PROGRAM_MUSL,
        INFP_HEAP_PROGRAM_32_BIT,
        INFP_HEAP_PROGRAM_GO,
        INFP_HEAP_PROGRAM_DENIED, /* as a setuid program's is */
        INFP_HEAP_PROGRAM_JEMALLOC,
        INFP_HEAP_PROGRAM_TCMALLOC,
        INFP_HEAP_PROGRAM_MIMALLOC, /* these three are linked statically into it */
};
/* What the open file of a program is. One that cannot be read fits. */
enum infp_heap_program_kind infp_heap_program_look(int file);

struct infp_heap_programs;

/* wake_fd: an eventfd that is written when there is an answer. It is duplicated, as root_fd is; target stays until free. */
int infp_heap_programs_new(struct infp_target *target, int root_fd, int wake_fd, struct infp_heap_programs **ret);
/* Does not wait for the thread. NULL is fine; returns NULL. */
struct infp_heap_programs *infp_heap_programs_free(struct infp_heap_programs *programs);

struct infp_heap_program {
        enum infp_heap_program_kind kind;
        int32_t pid;
        char name[32];
};
/* One that does not fit, each program file once. False: there is none now. */
bool infp_heap_programs_take(struct infp_heap_programs *programs, struct infp_heap_program *ret);
