/* Files of debug symbols that belong to an object: by build id, by its debug link, beside it, in directories that the user named. */
#pragma once

#include "symbols/image.h"

struct infp_debug_places {
        int root_fd;                    /* "/" of who runs the object */
        const char *const *directories; /* of the user, ended by NULL; NULL: none */
        int64_t ran_unix_ns;            /* as in struct infp_symbols_options */
        uint64_t most_bytes;            /* of a piece of a file; 0: no bound but that of images */
};

/* A file below root_fd as its processes see it: links do not lead out of it. AT_FDCWD: the user's own path. Only regular files.
 * Descriptor or a negative errno. */
int infp_open_in_root(int root_fd, const char *path);

/* Opens the debug file of an object: path as its processes see it; build_id in hexadecimal, NULL or "" when it has none; object NULL
 * when its file is not there. 0 with the image and the file's path, -ENOENT. */
int infp_debug_file_find(const struct infp_debug_places *places, struct infp_image *object, const char *path,
                         const char *build_id, struct infp_image *ret, char *ret_path, size_t cap);

/* Of whatever has the build id: what `dwz` took out of debug files. Descriptor or -ENOENT. */
int infp_debug_file_by_build_id(const struct infp_debug_places *places, const uint8_t *build_id, size_t size);
