/* Where ring files lie: one list for the writer (the first directory that it can use) and for readers (all of them, below
 * /proc/PID/root). libc only. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Directory number `index` for files of `uid`, from 0: /dev/shm/infprof-UID, $XDG_RUNTIME_DIR/infprof, /tmp/infprof-UID.
 * runtime_dir: the target's XDG_RUNTIME_DIR or NULL. Returns its length; 0: none of that number (skip it); -1: the end.
 * Shared memory comes first: pages of a file on a disk would be written back to it for ever. */
int infp_ring_directory(unsigned index, uint32_t uid, const char *runtime_dir, char *ret, size_t cap);

/* Appends at `at`; returns the new end, or at least cap when this or an earlier text did not fit. */
size_t infp_ring_append(char *ret, size_t cap, size_t at, const char *text);
size_t infp_ring_append_number(char *ret, size_t cap, size_t at, uint64_t number);

#define INFP_RING_ENV \
        "INFPROF_RING" /* a directory, or 1: the first usable of the list above; unset, empty, 0: does not record */
