#include "app/discard.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "import/import.h"

/* <uuid>-<number>.json */
static void remove_snapshots(const struct infp_run *run)
{
        int fd = openat(run->output_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *directory = fd < 0 ? NULL : fdopendir(fd);
        const size_t size = strlen(run->info.uuid);
        struct dirent *entry;

        if (!directory) {
                infp_close(fd);
                return;
        }
        while ((entry = readdir(directory)))
                if (!strncmp(entry->d_name, run->info.uuid, size) && entry->d_name[size] == '-')
                        unlinkat(fd, entry->d_name, 0);
        closedir(directory);
}

void infp_discard_run(struct infp_run *run)
{
        char name[64];

        infp_import_discard(run);
        remove_snapshots(run);
        snprintf(name, sizeof(name), "static_%s.json", run->info.uuid);
        unlinkat(run->output_fd, name, 0);
        infp_run_remove(run);
}
