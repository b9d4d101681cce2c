/* What the kernel still says of a child of ours that has ended, until it is waited for: the final values of its counters. Its
 * memory is gone by then; its peak comes with the usage that wait4 gives. */
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
        uint64_t rss_peak_bytes; /* the most that it, or one that it has waited for, had in RAM; 0: not known */
        struct {
                ssize_t size; /* or a negative errno */
                size_t at;    /* in text; a 0 byte follows */
        } file[INFP_N_LAST_FILES];
        char text[];
};

/* Of a child that has not been waited for. usage: as wait4 would give it. io_fd: its /proc/PID/io, opened while it lived, since
 * that of an ended process is root's; -1: it is opened now. cmdline: what it was, since an ended process has none; NULL: not
 * known. Returns NULL where /proc does not have it, or there is no memory; free(). */
struct infp_last_look *infp_last_look_new(int root_fd, pid_t pid, const struct rusage *usage, int io_fd,
                                          const char *cmdline, size_t cmdline_size);

/* A file of it by its name, as infp_process_read gives it: bytes, or a negative errno. */
ssize_t infp_last_look_read(const struct infp_last_look *look, const char *name, char *buffer, size_t cap);
