/* The names that Python's module threading has for threads, read from memory of another process, which may run meanwhile.
 *
 * No allocation, lock or output, and errno stays; it needs 16 KiB of stack. */
#pragma once

#include "unwind/python/code.h"
#include "unwind/python/object.h"

enum { INFP_PYTHON_NAMED_THREADS = 16384 }; /* of an interpreter; of more the newest have no name */

/* Calls take for each living Thread of the interpreter whose name is a str, and no subclass of it: another class has code that makes the
 * text, and none is run. items: room for INFP_PYTHON_NAMED_THREADS. 0; -ENOENT: threading was not imported; -EFAULT, -EBADMSG. */
int infp_python_thread_names(struct infp_python_objects *o, uint64_t interpreter, struct infp_python_item *items,
                             void (*take)(void *context, uint64_t pthread, const char *name), void *context);
