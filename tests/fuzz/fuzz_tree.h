/* A tree of files in memory that stands for a machine, of which an input replaces one. Sampling it takes a hundred times as long
 * as parsing a text, so where libFuzzer chooses the inputs it is done for one in FUZZ_ONE_IN of them (meson.build): those whose
 * hash says so, which makes an input that broke something break it again. */
#pragma once

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "collect/run_one.h"

struct tree_file {
        const char *path, *text;
};

static char tree_top[] = "/dev/shm/infp-fuzz-XXXXXX";
static int tree_fd = -1;

static inline bool tree_is_chosen(const uint8_t *data, size_t size)
{
#ifdef FUZZ_ONE_IN
        return infp_hash64(data, size, 0) % FUZZ_ONE_IN == 0;
#else
        (void) data;
        (void) size;
        return true;
#endif
}

static void tree_put(const char *path, const void *text, size_t size)
{
        infp_autoclose int fd = openat(tree_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

        if (fd < 0 || write(fd, text, size) != (ssize_t) size)
                abort();
}

static void tree_make_folders(const char *path)
{
        char folder[512];

        for (const char *at = path; (at = strchr(at, '/')); at++) {
                snprintf(folder, sizeof(folder), "%.*s", (int) (at - path), path);
                mkdirat(tree_fd, folder, 0777);
        }
}

static void tree_remove(void)
{
        char command[128];

        snprintf(command, sizeof(command), "rm -rf %s", tree_top);
        if (system(command) != 0)
                fprintf(stderr, "%s is left\n", tree_top);
}

static void tree_begin(const struct tree_file *files, size_t n)
{
        if (!mkdtemp(tree_top)) {
                strcpy(tree_top, "/tmp/infp-fuzz-XXXXXX");
                if (!mkdtemp(tree_top))
                        abort();
        }
        atexit(tree_remove);
        tree_fd = open(tree_top, O_PATH | O_DIRECTORY | O_CLOEXEC);
        for (size_t i = 0; i < n; i++) {
                tree_make_folders(files[i].path);
                tree_put(files[i].path, files[i].text, strlen(files[i].text));
        }
}

static int tree_put_nowhere(void *context, const struct infp_row *row)
{
        *(uint64_t *) context += row->text_size;
        return 0;
}
