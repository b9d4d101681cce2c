/* The driver where there is no libFuzzer: feeds every file of the given directories to the target. An empty or missing
 * directory is a failure: a test that looked at nothing must not pass. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(int dir_fd, const char *name)
{
        infp_autofree char *text = NULL, *exact = NULL;
        ssize_t size = infp_read_all_at(dir_fd, name, 16u << 20, &text);

        if (size < 0)
                return -1;
        /* Memory of exactly this size, so that the sanitizer sees one byte too many. */
        exact = malloc(size ? (size_t) size : 1);
        if (!exact)
                return -1;
        for (ssize_t i = 0; i < size; i++)
                exact[i] = text[i];
        LLVMFuzzerTestOneInput((const uint8_t *) exact, (size_t) size);
        return 0;
}

static int run_directory(const char *path)
{
        DIR *dir = opendir(path);
        struct dirent *entry;
        int n = 0;

        if (!dir) {
                fprintf(stderr, "%s: cannot be opened\n", path);
                return -1;
        }
        while ((entry = readdir(dir))) {
                if (entry->d_name[0] == '.')
                        continue;
                if (run_file(dirfd(dir), entry->d_name) < 0) {
                        fprintf(stderr, "%s/%s: cannot be read\n", path, entry->d_name);
                        n = -1;
                        break;
                }
                n++;
        }
        closedir(dir);
        return n;
}

int main(int argc, char **argv)
{
        int files = 0;

        for (int i = 1; i < argc; i++) {
                int n = run_directory(argv[i]);

                if (n < 0)
                        return 1;
                files += n;
        }
        printf("%d inputs\n", files);
        return files ? 0 : 1;
}
