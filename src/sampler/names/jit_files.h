/* The files of a process that name the code it made at run time: its perf map and its jitdump. */
#pragma once

#include <stdint.h>

/* Descriptors; -1: none. */
struct infp_jit_files {
        int perf_map, jitdump;
};
#define INFP_JIT_FILES_NONE ((struct infp_jit_files){ -1, -1 })

/* Opens those that are not open and are there; they stay readable when they, or the process, are gone. jitdump: its path as the
 * process sees it, NULL: none was seen. */
void infp_jit_files_open(int root_fd, int32_t pid, const char *jitdump, struct infp_jit_files *files);
void infp_jit_files_close(struct infp_jit_files *files);
