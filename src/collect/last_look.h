/* What the kernel still has of an ended child of ours until it is waited for: the final values of its counters. Its memory is
 * gone by then; its peak comes with the usage of wait4. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

enum infp_last_file { INFP_LAST_STAT, INFP_LAST_STATUS, INFP_LAST_IO, INFP_LAST_CMDLINE, INFP_N_LAST_FILES };

struct infp_last_look {
        struct infp_last_look *next;
        int32_t pid;
        uint64_t start_ticks;
        int64_t cpu_ns;          /* of its CPU clock; -1: cannot be read */
        uint64_t rss_peak_bytes; /* peak RAM of it or of a process that it waited for; 0: not known */
        struct {
                ssize_t size; /* or a negative errno */
                size_t at;    /* in text; a 0 byte follows */
        } file[INFP_N_LAST_FILES];
        char text[];
};

/* Of a child that has not been waited for. usage: as wait4 would return it. io_fd: its /proc/PID/io, opened while it lived,
 * since root owns that of an ended process; -1: it is opened now. cmdline: its command line, since an ended process has none;
 * NULL: not known. Returns NULL without memory or an entry in /proc; free(). */
struct infp_last_look *infp_last_look_new(int root_fd, pid_t pid, const struct rusage *usage, int io_fd,
                                          const char *cmdline, size_t cmdline_size);

/* A file of it by its name, as from infp_process_read: bytes, or a negative errno. */
ssize_t infp_last_look_read(const struct infp_last_look *look, const char *name, char *buffer, size_t cap);
