/* The text of /proc/PID/stat. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "collect/target.h"

/* Fills pid, name, state and numbers of *ret and leaves the rest of it alone. 0, or -EBADMSG: *ret is as it was. */
int infp_process_stat_parse(const char *text, size_t size, struct infp_process *ret);
/* The same of a process below root_fd; *ret is zeroed first. 0, the negative errno of reading, or -EBADMSG. */
int infp_process_stat_read(int root_fd, int32_t pid, struct infp_process *ret);
