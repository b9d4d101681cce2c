/* Finds the file behind a mapping of another process and opens it: by its path below our root or the process's, else by what /proc
 * has of it. Never something else by the same name; never a device or a pipe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sampler/objects/image.h"

/* A mapping as the kernel told of it. */
struct infp_object_place {
        pid_t pid;
        uint64_t begin, end;
        uint32_t major, minor;
        uint64_t inode; /* 0: not told */
        const uint8_t *build_id;
        uint32_t build_id_size; /* 0: not told. Without both nothing is opened */
        const char *path;       /* without " (deleted)" */
};

/* Where to look, in this order. */
enum infp_object_way {
        INFP_BY_OUR_ROOT,
        INFP_BY_ITS_ROOT,  /* another mount namespace or chroot */
        INFP_BY_MAP_FILES, /* deleted files too; root alone may */
        INFP_BY_EXE,       /* a deleted program */
        INFP_BY_FD,        /* memory files that it holds open */
        INFP_BY_MEMORY,    /* what of it is mapped */
        INFP_OBJECT_WAYS,
};

/* One way: a descriptor, or a negative errno (-ESTALE: another file is there now). ret: who the file is. */
int infp_object_open(int root_fd, const struct infp_object_place *place, enum infp_object_way way,
                     struct infp_file_identity *ret);

/* Looks again where the process has the mapping, and of which inode it is. False: there is nothing executable now. */
bool infp_object_find(int root_fd, struct infp_object_place *place);
