/* Opening below a run's directory: names are checked, symbolic links are never followed. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Valid table names: [a-z0-9_]+, at most 64 characters. */
bool infp_store_is_table_name(const char *name);

/* "000001.arrows" -> 1 (*ret_parquet false), "000001.parquet" -> 1; anything else false. */
bool infp_store_parse_segment(const char *name, unsigned *ret_seq, bool *ret_parquet);

/* openat, component by component with O_NOFOLLOW. With dir_fd AT_FDCWD the path is the user's own, and links are fine. Opens only
 * regular files and directories, without blocking. A descriptor or a negative errno. */
int infp_store_open(int dir_fd, const char *path, int flags);
/* Creates a file that does not exist yet, for writing. */
int infp_store_make(int dir_fd, const char *path, mode_t mode);
