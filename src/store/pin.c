#include "store/pin.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/new_file.h"
#include "base/sort.h"
#include "store/path.h"

#define PINS "pins"

bool infp_pin_check(const char *name)
{
        static const char all[] = "0123456789abcdefABCDEF-ghijklmnopqrstuvwxyzGHIJKLMNOPQRSTUVWXYZ._";
        const size_t size = strspn(name, all);

        return size && size <= INFP_PIN_MOST && !name[size] && *name != '.' &&
               name[strspn(name, "0123456789abcdefABCDEF-")];
}

int infp_pin_set(const struct infp_run *run, const char *name, struct infp_err *err)
{
        infp_autoclose int fd = -1;
        char text[64];
        int r;

        if (!infp_pin_check(name))
                return infp_fail(
                        err, -EINVAL,
                        "'%.80s' is no name for a run: 1 to %d letters, digits, ., _ and -, not all of them digits "
                        "of a uuid, no . in front",
                        name, INFP_PIN_MOST);
        if (mkdirat(run->output_fd, PINS, 0777) < 0 && errno != EEXIST)
                return infp_fail_errno(err, -errno, "cannot make %s/" PINS, run->output);
        fd = infp_store_open(run->output_fd, PINS, O_RDONLY | O_DIRECTORY);
        if (fd < 0)
                return infp_fail_errno(err, fd, "cannot open %s/" PINS, run->output);
        snprintf(text, sizeof(text), "%s\n", run->info.uuid);
        r = infp_replace_file_at(fd, name, text, strlen(text), 0666, true);
        return r < 0 ? infp_fail_errno(err, r, "cannot write %s/" PINS "/%s", run->output, name) : 0;
}

int infp_pin_remove(const char *output, const char *name, struct infp_err *err)
{
        infp_autoclose int dir = open(output, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        infp_autoclose int fd = dir < 0 ? -errno : infp_store_open(dir, PINS, O_RDONLY | O_DIRECTORY);
        const int r = fd < 0 ? fd : !infp_pin_check(name) ? -ENOENT : unlinkat(fd, name, 0) < 0 ? -errno : 0;

        if (r == -ENOENT)
                return infp_fail(err, r, "no run of %s is named '%.80s'", output, name);
        return r < 0 ? infp_fail_errno(err, r, "cannot remove %s/" PINS "/%.80s", output, name) : 0;
}

int infp_pin_find(int output_fd, const char *name, char ret[37])
{
        infp_autofree char *text = NULL;
        char path[INFP_PIN_MOST + 8];
        ssize_t n;

        if (!infp_pin_check(name))
                return -ENOENT;
        snprintf(path, sizeof(path), PINS "/%s", name);
        n = infp_read_all_at(output_fd, path, 64, &text);
        if (n < 0)
                return (int) n;
        snprintf(ret, 37, "%.*s", (int) strcspn(text, "\n"), text);
        return infp_uuid_check(ret) ? 0 : -EBADMSG;
}

static int is_pin(const struct dirent *entry)
{
        return infp_pin_check(entry->d_name);
}

int infp_pin_names(int output_fd, const char *uuid, struct infp_str *ret)
{
        infp_autoclose int fd = infp_store_open(output_fd, PINS, O_RDONLY | O_DIRECTORY);
        struct dirent **list = NULL;
        const int n = fd < 0 ? 0 : scandirat(fd, ".", &list, is_pin, alphasort);

        for (int i = 0; i < n; i++) {
                char found[37];

                if (infp_pin_find(output_fd, list[i]->d_name, found) >= 0 && !strcmp(found, uuid))
                        infp_str_printf(ret, "%s%s", ret->size ? ", " : "", list[i]->d_name);
                free(list[i]);
        }
        free(list);
        return ret->failed ? -ENOMEM : 0;
}
