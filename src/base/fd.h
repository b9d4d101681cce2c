/* File descriptors and whole files. Everything opened here is O_CLOEXEC. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Closes a valid descriptor, keeps errno; returns -1, so that: fd = infp_close(fd). */
int infp_close(int fd);
void infp_close_ptr_(int *fd);
#define infp_autoclose __attribute__((cleanup(infp_close_ptr_)))

/* One of the last descriptors below RLIMIT_NOFILE: not to be kept, since everybody else has to open and close files, too. */
bool infp_fd_is_scarce(int fd);

/* Fewer than this may be open at once: there is room for what is needed at all, not for a caller that wants many. A recording of one
 * process keeps about 50 without perf events. */
enum { INFP_ENOUGH_FDS = 96 };
bool infp_fds_are_few(unsigned *ret_limit);

/* Reads a file below `dir_fd` into `buffer` (at most cap - 1 bytes, a 0 byte is put after them); a leading '/' of path is
 * dropped, so that a fixture tree can stand for the machine; it stays where dir_fd is AT_FDCWD. Returns the number of bytes or a
 * negative errno. One open, reads until end or cap, close: no allocation. */
ssize_t infp_read_at(int dir_fd, const char *path, char *buffer, size_t cap);

/* The same into memory of its own, at most `max` bytes (-EFBIG beyond); free(*ret). */
ssize_t infp_read_all_at(int dir_fd, const char *path, size_t max, char **ret);

/* Writes all or fails; on failure *ret_written (may be NULL) says how much did get out. */
int infp_write_all(int fd, const void *data, size_t size, size_t *ret_written);
/* The same at a place of a file: 0, or a negative errno after a part, maybe. */
int infp_pwrite_all(int fd, const void *data, size_t size, off_t offset);

/* flock(2) that waits no longer than this: 0, -EWOULDBLOCK when somebody else still has the lock, or another errno. */
int infp_lock(int fd, int operation, unsigned wait_ms);

/* Path without leading '/', "." for the root itself: what openat() below a root descriptor takes. */
const char *infp_relative(const char *path);
