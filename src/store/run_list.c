/* What lies in an output directory and in a run. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/sort.h"
#include "store/path.h"
#include "store/run_json.h"
#include "store/run_list.h"

static DIR *open_directory(int dir_fd, const char *name)
{
        int fd = infp_store_open(dir_fd, name, O_RDONLY | O_DIRECTORY);
        int r;
        DIR *dir;

        if (fd < 0) {
                errno = -fd;
                return NULL;
        }
        dir = fdopendir(fd);
        r = errno;
        if (!dir)
                infp_close(fd);
        errno = r;
        return dir;
}

/* run.json decides; where it cannot be read, the uuid's own time. */
static int64_t started_unix_ns(int output_fd, const char *uuid)
{
        infp_autofree char *text = NULL;
        struct infp_run_info info;
        bool finished;
        int64_t ret = infp_uuid_unix_ms(uuid) * 1000000;
        char path[64];
        ssize_t n;

        snprintf(path, sizeof(path), "%s.infprof/run.json", uuid);
        n = infp_read_all_at(output_fd, path, INFP_RUN_JSON_MAX, &text);
        if (n < 0 || infp_run_json_read(text, (size_t) n, &info, &finished, NULL) < 0)
                return ret;
        if (info.started_unix_ns > 0)
                ret = info.started_unix_ns;
        infp_run_info_done(&info);
        return ret;
}

static int by_age(const void *a, const void *b)
{
        const struct infp_run_entry *x = a, *y = b;

        if (x->started_unix_ns != y->started_unix_ns)
                return x->started_unix_ns < y->started_unix_ns ? -1 : 1;
        return strcmp(x->uuid, y->uuid);
}

static bool parse_name(const char *name, char ret[37])
{
        if (strlen(name) != 36 + strlen(".infprof") || strcmp(name + 36, ".infprof") != 0)
                return false;
        memcpy(ret, name, 36);
        ret[36] = 0;
        return infp_uuid_check(ret);
}

int infp_run_entries(int output_fd, struct infp_run_entry **ret)
{
        DIR *dir = open_directory(output_fd, ".");
        struct infp_run_entry *entries = NULL, *grown;
        struct dirent *entry;
        int n = 0;

        if (!dir)
                return -errno;
        while ((entry = readdir(dir))) {
                char uuid[37];

                if (!parse_name(entry->d_name, uuid))
                        continue;
                grown = realloc(entries, ((size_t) n + 1) * sizeof(*entries));
                if (!grown) {
                        free(entries);
                        closedir(dir);
                        return -ENOMEM;
                }
                entries = grown;
                memcpy(entries[n].uuid, uuid, sizeof(uuid));
                entries[n++].started_unix_ns = started_unix_ns(output_fd, uuid);
        }
        closedir(dir);
        infp_sort(entries, (size_t) n, sizeof(*entries), by_age);
        *ret = entries;
        return n;
}

int infp_run_open_output(const char *output, struct infp_err *err)
{
        int fd = open(output, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd >= 0)
                return fd;
        if (errno == ENOENT)
                return infp_fail(err, -ENOENT,
                                 "no run in %s: record one with `infprof record -- CMD`, or name a directory with -r",
                                 output);
        if (errno == ENOTDIR)
                return infp_fail(err, -ENOTDIR, "%s is not a directory: name the directory that holds the run with -r",
                                 output);
        if (errno == EACCES)
                return infp_fail(err, -EACCES,
                                 "cannot read %s: Permission denied; become its owner or ask for read access", output);
        return infp_fail_errno(err, -errno, "cannot read %s", output);
}

int infp_run_each(const char *output, int (*each)(void *context, const char *uuid), void *context, struct infp_err *err)
{
        infp_autoclose int fd = infp_run_open_output(output ? output : INFP_DEFAULT_OUTPUT, err);
        infp_autofree struct infp_run_entry *entries = NULL;
        int n, r = 0;

        if (fd < 0)
                return fd;
        n = infp_run_entries(fd, &entries);
        if (n < 0)
                return infp_fail_errno(err, n, "cannot read %s", output ? output : INFP_DEFAULT_OUTPUT);
        for (int i = 0; i < n && r == 0; i++)
                r = each(context, entries[i].uuid);
        return r;
}

struct list {
        char **names;
        size_t n;
        bool failed;
};

static void list_add(struct list *list, const char *name)
{
        char **grown = realloc(list->names, (list->n + 1) * sizeof(*grown));
        char *copy = strdup(name);

        list->names = grown ? grown : list->names;
        if (grown && copy)
                list->names[list->n++] = copy;
        else
                free(copy);
        list->failed |= !grown || !copy;
}

static int by_name(const void *a, const void *b)
{
        return strcmp(*(char *const *) a, *(char *const *) b);
}

static int list_take(struct list *list, char ***ret, struct infp_err *err)
{
        if (list->failed) {
                for (size_t i = 0; i < list->n; i++)
                        free(list->names[i]);
                free(list->names);
                return infp_fail(err, -ENOMEM, "not enough memory");
        }
        infp_sort(list->names, list->n, sizeof(*list->names), by_name);
        *ret = list->names;
        return (int) list->n;
}

static bool has_segment(const struct infp_run *run, const char *table)
{
        DIR *dir = open_directory(run->fd, table);
        struct dirent *entry;
        bool is_parquet, has = false;
        unsigned seq;

        while (dir && !has && (entry = readdir(dir)))
                has = infp_store_parse_segment(entry->d_name, &seq, &is_parquet);
        if (dir)
                closedir(dir);
        return has;
}

int infp_run_tables(const struct infp_run *run, char ***ret, struct infp_err *err)
{
        DIR *dir = open_directory(run->fd, ".");
        struct list list = { 0 };
        struct dirent *entry;

        if (!dir)
                return infp_fail_errno(err, -errno, "cannot read %s/%s.infprof", run->output, run->info.uuid);
        while ((entry = readdir(dir)))
                if (infp_store_is_table_name(entry->d_name) && has_segment(run, entry->d_name))
                        list_add(&list, entry->d_name);
        closedir(dir);
        return list_take(&list, ret, err);
}

/* Sorted: "000001.arrows" < "000001.parquet" < "000002.arrows". */
static void drop_doubles(struct list *list)
{
        size_t kept = 0;

        for (size_t i = 0; i < list->n; i++) {
                size_t stem = strcspn(list->names[i], ".");

                if (i + 1 < list->n && strncmp(list->names[i], list->names[i + 1], stem + 1) == 0)
                        free(list->names[i]);
                else
                        list->names[kept++] = list->names[i];
        }
        list->n = kept;
}

int infp_run_segments(const struct infp_run *run, const char *table, char ***ret, struct infp_err *err)
{
        struct list list = { 0 };
        struct dirent *entry;
        DIR *dir;

        *ret = NULL;
        if (!infp_store_is_table_name(table))
                return 0;
        dir = open_directory(run->fd, table);
        if (!dir && errno == ENOENT)
                return 0;
        if (!dir)
                return infp_fail_errno(err, -errno, "cannot read %s/%s.infprof/%s", run->output, run->info.uuid, table);
        while ((entry = readdir(dir))) {
                bool is_parquet;
                unsigned seq;
                char path[384];

                snprintf(path, sizeof(path), "%s/%s", table, entry->d_name);
                if (infp_store_parse_segment(entry->d_name, &seq, &is_parquet))
                        list_add(&list, path);
        }
        closedir(dir);
        if (!list.failed && list.n > 0) {
                infp_sort(list.names, list.n, sizeof(*list.names), by_name);
                drop_doubles(&list);
        }
        return list_take(&list, ret, err);
}
