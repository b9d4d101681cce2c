/* The one way to make a file (tests/lint/house_rules.py forbids others). A file is written without a name, or where the file
 * system or a machine without /proc cannot do that, under a random one (.NAME.RANDOM.part, O_EXCL), and gets its name when it is
 * whole. Nothing that lies at the name is opened: it may be a symbolic link that somebody else has put there. Writers of one
 * name each have a file of their own; the last one wins whole. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct infp_new_file {
        int fd; /* open to read and write; -1: closed */
        int dir_fd;
        bool owns_dir, is_direct;
        char name[NAME_MAX + 1]; /* below dir_fd */
        char part[NAME_MAX + 1]; /* "": it has no name yet */
};
#define INFP_NEW_FILE_INIT ((struct infp_new_file){ .fd = -1, .dir_fd = -1 })

/* Begins a file in a directory of ours, which is borrowed until the end; name may hold one folder, which may be no symbolic
 * link. mode as open(2). */
int infp_new_file_at(struct infp_new_file *ret, int dir_fd, const char *name, mode_t mode);
/* The same for a path of the user's. What is no regular file (a device, a pipe) is opened as it is (is_direct). A symbolic link
 * stays, and the file is made where it leads to; unless it is another user's and lies where others can write: then the file
 * takes its place. A file of ours that is replaced hands its mode on. -EISDIR for a directory. */
int infp_new_file_open(struct infp_new_file *ret, const char *path, mode_t mode);
/* Gives it its name, after fsync where the file must survive a crash of the machine. fd stays open. */
int infp_new_file_commit(struct infp_new_file *file, bool is_synced);
/* Closes; what has no name by then is gone. */
void infp_new_file_done(struct infp_new_file *file);

/* Writes `name` below dir_fd whole or not at all. */
int infp_replace_file_at(int dir_fd, const char *name, const void *data, size_t size, mode_t mode, bool is_synced);

/* A file that has its name from the beginning, for those who are to see it grow: -EEXIST where something has that name.
 * flags: further ones of open(2), such as O_APPEND. */
int infp_make_file_at(int dir_fd, const char *name, int flags, mode_t mode);

/* A temporary file without a name in $TMPDIR, else /tmp. */
int infp_unnamed_file(void);
