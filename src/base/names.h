/* The names in a directory, in the kernel's order, "." and ".." included. Allocates nothing, unlike opendir. */
#pragma once

#include <dirent.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

struct infp_names {
        int fd; /* borrowed; negative: no names */
        ssize_t n, at;
        _Alignas(struct dirent64) char buffer[8192];
};

static inline void infp_names_begin(struct infp_names *names, int fd)
{
        names->fd = fd;
        names->n = names->at = 0;
}

/* Valid until the next call; NULL at the end, with n negative after an error (errno). */
static inline const char *infp_names_next(struct infp_names *names)
{
        const struct dirent64 *entry;

        if (names->at >= names->n) {
                names->at = 0;
                names->n = names->fd < 0 ? 0
                                         : syscall(SYS_getdents64, names->fd, names->buffer,
                                                   sizeof(names->buffer)); /* glibc has it since 2.30 */
                if (names->n <= 0)
                        return NULL;
        }
        entry = (const void *) (names->buffer + names->at);
        names->at += entry->d_reclen;
        return entry->d_name;
}
