/* Files of processes, read through descriptors that are kept while there are enough: a read through a kept one costs the
 * kernel about half, and fails with ESRCH once its process has ended, even if another process has its pid now. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "collect/target.h"

enum infp_process_file {
        INFP_FILE_STAT,
        INFP_FILE_STATUS,
        INFP_FILE_IO,
        INFP_FILE_STATM,
        INFP_N_KEPT_FILES,
};

enum { INFP_STAT_TEXT = 640 }; /* longer ones (there are none) count as changed at each read */

struct infp_process_files {
        int fd[INFP_N_KEPT_FILES]; /* -1: not kept */
        bool is_root;
        uint64_t stat_ns;   /* when stat was read last */
        uint16_t text_size; /* of the last stat text; 0: none */
        char text[INFP_STAT_TEXT];
};

/* How many descriptors are kept, and how many may be. */
struct infp_keeper {
        uint32_t n_kept, cap;
};

void infp_keeper_init(struct infp_keeper *keeper, bool may_keep);
void infp_process_files_init(struct infp_process_files *files);
void infp_process_files_close(struct infp_keeper *keeper, struct infp_process_files *files);

/* One file of a process below proc_fd; its descriptor is kept if there is room. Returns the bytes read (a 0 follows them) or
 * a negative errno; -ENOENT and -ESRCH: the process has ended, or there is no such file. -EMFILE: no descriptor was free. */
ssize_t infp_process_file_read(struct infp_keeper *keeper, int proc_fd, struct infp_process *process,
                               enum infp_process_file file, char *buffer, size_t cap);
/* One file of a pid by its name, opened and closed. */
ssize_t infp_pid_file_read(int proc_fd, int32_t pid, const char *name, char *buffer, size_t cap);

const char *infp_process_file_name(enum infp_process_file file);
