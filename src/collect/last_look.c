#include "collect/last_look.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "collect/process_stat.h"
#include "collect/target_inner.h"

/* status has a line of all groups: if longer it is cut, and leaves room for the files after it. */
enum { TEXT = 16 * 1024, LEAST = 1024 };

static const char *const names[INFP_N_LAST_FILES] = { "stat", "status", "io", "cmdline" };

static ssize_t read_one(int root_fd, pid_t pid, enum infp_last_file file, int kept_fd, char *text, size_t cap)
{
        char path[48];
        ssize_t n;

        if (kept_fd >= 0) {
                n = pread(kept_fd, text, cap - 1, 0);
                return n < 0 ? -errno : n;
        }
        snprintf(path, sizeof(path), "proc/%d/%s", (int) pid, names[file]);
        return infp_read_at(root_fd, path, text, cap);
}

struct infp_last_look *infp_last_look_new(int root_fd, pid_t pid, const struct rusage *usage, int io_fd,
                                          const char *cmdline, size_t cmdline_size)
{
        struct infp_last_look look = { .pid = pid, .rss_peak_bytes = (uint64_t) usage->ru_maxrss * 1024 }, *ret;
        struct infp_process process = { 0 };
        char text[TEXT];
        size_t used = 0;

        for (unsigned i = 0; i < INFP_LAST_CMDLINE; i++) {
                const size_t room = sizeof(text) - used - (INFP_LAST_CMDLINE - 1 - i) * LEAST;
                ssize_t n = read_one(root_fd, pid, i, i == INFP_LAST_IO ? io_fd : -1, text + used, room);

                look.file[i].at = used;
                look.file[i].size = n;
                used += n > 0 ? (size_t) n : 0;
                text[used++] = 0;
        }
        if (look.file[INFP_LAST_STAT].size <= 0 ||
            infp_process_stat_parse(text, (size_t) look.file[INFP_LAST_STAT].size, &process) < 0 || process.pid != pid)
                return NULL;
        look.start_ticks = process.start_ticks;
        look.cpu_ns = infp_process_clock(pid);
        look.file[INFP_LAST_CMDLINE].at = used;
        look.file[INFP_LAST_CMDLINE].size = cmdline ? (ssize_t) cmdline_size : -ESRCH;
        ret = malloc(sizeof(look) + used + cmdline_size + 1);
        if (!ret)
                return NULL;
        *ret = look;
        memcpy(ret->text, text, used);
        if (cmdline)
                memcpy(ret->text + used, cmdline, cmdline_size);
        ret->text[used + cmdline_size] = 0;
        return ret;
}

ssize_t infp_last_look_read(const struct infp_last_look *look, const char *name, char *buffer, size_t cap)
{
        for (unsigned i = 0; i < INFP_N_LAST_FILES; i++) {
                ssize_t n = look->file[i].size;

                if (strcmp(name, names[i]) != 0)
                        continue;
                if (n < 0)
                        return n;
                n = (size_t) n < cap ? n : (ssize_t) cap - 1;
                memcpy(buffer, look->text + look->file[i].at, (size_t) n);
                buffer[n] = 0;
                return n;
        }
        return -ESRCH; /* its memory, and what is in it, is gone */
}
