/* What lies in an output directory and in a run, and finding the run that -r means. */
#include "store/run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/sort.h"
#include "base/str.h"
#include "store/live_registry.h"
#include "store/path.h"
#include "store/pin.h"
#include "store/run_json.h"

struct run_entry {
        char uuid[37];
        int64_t started_unix_ns;
};

static DIR *open_dir(int dir_fd, const char *name)
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
        const struct run_entry *x = a, *y = b;

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

/* Oldest first; free the array. Their number or a negative errno. */
static int read_entries(int output_fd, struct run_entry **ret)
{
        DIR *dir = open_dir(output_fd, ".");
        struct run_entry *entries = NULL, *grown;
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

/* A descriptor, or the sentence why no run can be found there. */
static int open_output(const char *output, struct infp_err *err)
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
        infp_autoclose int fd = open_output(output ? output : INFP_DEFAULT_OUTPUT, err);
        infp_autofree struct run_entry *entries = NULL;
        int n, r = 0;

        if (fd < 0)
                return fd;
        n = read_entries(fd, &entries);
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
        DIR *dir = open_dir(run->fd, table);
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
        DIR *dir = open_dir(run->fd, ".");
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
        dir = open_dir(run->fd, table);
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

static int keep_problem(struct infp_run *run, const char *uuid, const char *why)
{
        const struct infp_run_info empty = { .exit_code = -1, .started_unix_ns = infp_uuid_unix_ms(uuid) * 1000000 };

        if (infp_run_info_copy(&empty, &run->info) < 0 ||
            asprintf(&run->problem, "%s/%s.infprof/run.json %s", run->output, uuid, why) < 0)
                return -ENOMEM;
        return 0;
}

/* Without a valid run.json a run can still be read and recovered. */
static int read_info(struct infp_run *run, const char *uuid, bool *ret_finished)
{
        infp_autofree char *text = NULL;
        struct infp_err why = { "" };
        char sentence[600];
        ssize_t n = infp_read_all_at(run->fd, "run.json", INFP_RUN_JSON_MAX, &text);
        int r = n < 0 ? (int) n : infp_run_json_read(text, (size_t) n, &run->info, ret_finished, &why);

        if (n < 0)
                snprintf(sentence, sizeof(sentence), "cannot be read: %s", strerror((int) -n));
        else
                snprintf(sentence, sizeof(sentence), "is broken: %s", why.text);
        if (r < 0)
                r = keep_problem(run, uuid, sentence);
        memcpy(run->info.uuid, uuid, sizeof(run->info.uuid)); /* paths are built from the directory's name */
        return r;
}

static enum infp_run_state find_state(const struct infp_run *run, bool is_finished)
{
        if (is_finished)
                return INFP_RUN_FINISHED;
        if (run->info.ended_unix_ns != 0)
                return INFP_RUN_ENDED;
        return infp_run_is_recording(run) ? INFP_RUN_RECORDING : INFP_RUN_INTERRUPTED;
}

static int fail_to_open(const struct infp_run *run, const char *name, struct infp_err *err)
{
        struct stat st;

        if (run->fd == -EACCES && fstatat(run->output_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
                return infp_fail(err, run->fd,
                                 "cannot open %s/%s: Permission denied; uid %u alone and root may read it: `record "
                                 "--share` makes runs that others can read",
                                 run->output, name, (unsigned) st.st_uid);
        return infp_fail_errno(err, run->fd, "cannot open %s/%s", run->output, name);
}

int infp_run_reload(struct infp_run *run, struct infp_err *err)
{
        char uuid[sizeof(run->info.uuid)];
        bool is_finished = false;

        memcpy(uuid, run->info.uuid, sizeof(uuid));
        infp_run_info_done(&run->info);
        free(run->problem);
        run->problem = NULL;
        if (read_info(run, uuid, &is_finished) < 0)
                return infp_fail(err, -ENOMEM, "not enough memory");
        run->state = find_state(run, is_finished);
        return 0;
}

/* Takes output_fd, also on failure. */
static int open_run(const char *output, int output_fd, const char *uuid, struct infp_run **ret, struct infp_err *err)
{
        struct infp_run *run = calloc(1, sizeof(*run));
        bool is_finished = false;
        char name[64];
        int r = 0;

        if (!run) {
                infp_close(output_fd);
                return infp_fail(err, -ENOMEM, "not enough memory");
        }
        run->output_fd = output_fd;
        run->lock_fd = -1;
        run->output = strdup(output);
        snprintf(name, sizeof(name), "%s.infprof", uuid);
        run->fd = infp_store_open(output_fd, name, O_RDONLY | O_DIRECTORY);
        if (run->fd < 0)
                r = run->output ? fail_to_open(run, name, err) : infp_fail(err, -ENOMEM, "not enough memory");
        else if (!run->output || read_info(run, uuid, &is_finished) < 0)
                r = infp_fail(err, -ENOMEM, "not enough memory");
        if (r < 0) {
                infp_run_close(run);
                return r;
        }
        run->state = find_state(run, is_finished);
        *ret = run;
        return 0;
}

static int open_newest(const char *output, struct infp_run **ret, struct infp_err *err)
{
        infp_autofree struct run_entry *entries = NULL;
        int fd = open_output(output, err);
        int n;

        if (fd < 0)
                return fd;
        n = read_entries(fd, &entries);
        if (n > 0)
                return open_run(output, fd, entries[n - 1].uuid, ret, err);
        infp_close(fd);
        if (n < 0)
                return infp_fail_errno(err, n, "cannot read %s", output);
        return infp_fail(err, -ENOENT,
                         "no run in %s: record one with `infprof record -- CMD`, or name a directory with -r", output);
}

/* The directory is <uuid>.infprof itself: its real name counts, not the path that led there. */
static int open_itself(const char *path, const char *real, struct infp_run **ret, struct infp_err *err)
{
        infp_autofree char *parent = strdup(real);
        const char *name = strrchr(real, '/') + 1;
        char uuid[37];
        int fd;

        if (!parent)
                return infp_fail(err, -ENOMEM, "not enough memory");
        snprintf(uuid, sizeof(uuid), "%.36s", name);
        if (strlen(name) != 36 + strlen(".infprof") || !infp_uuid_check(uuid))
                return infp_fail(err, -EINVAL, "%s is not a run: its name must be <uuid>.infprof", path);
        fd = open_output(dirname(parent), err);
        return fd < 0 ? fd : open_run(parent, fd, uuid, ret, err);
}

static int open_directory(const char *path, struct infp_run **ret, struct infp_err *err)
{
        infp_autofree char *real = realpath(path, NULL);
        size_t size = real ? strlen(real) : 0;

        if (size > 8 && strcmp(real + size - 8, ".infprof") == 0)
                return open_itself(path, real, ret, err);
        return open_newest(path, ret, err);
}

struct candidates {
        const char *prefix;
        struct candidate {
                char uuid[37];
                char *output;
        } * list;
        size_t n;
        bool failed;
};

static void candidates_done(struct candidates *c)
{
        for (size_t i = 0; i < c->n; i++)
                free(c->list[i].output);
        free(c->list);
}

static void consider(struct candidates *c, const char *uuid, const char *output)
{
        struct candidate *grown;

        if (strncmp(uuid, c->prefix, strlen(c->prefix)) != 0)
                return;
        for (size_t i = 0; i < c->n; i++)
                if (strcmp(c->list[i].uuid, uuid) == 0)
                        return;
        grown = realloc(c->list, (c->n + 1) * sizeof(*grown));
        c->failed |= !grown;
        if (!grown)
                return;
        c->list = grown;
        snprintf(c->list[c->n].uuid, sizeof(c->list[c->n].uuid), "%s", uuid);
        c->list[c->n].output = strdup(output);
        c->failed |= !c->list[c->n++].output;
}

static int consider_live(void *context, const char *uuid, const char *output)
{
        consider(context, uuid, output);
        return 0;
}

/* "three runs begin with '0199': 0199..., 0199..., 0199...; give more of it" */
static int fail_ambiguous(const struct candidates *c, struct infp_err *err)
{
        infp_autostr struct infp_str names = { 0 };
        size_t shown = c->n < 6 ? c->n : 6;

        for (size_t i = 0; i < shown; i++)
                infp_str_printf(&names, "%s%s", i ? ", " : "", c->list[i].uuid);
        if (shown < c->n)
                infp_str_printf(&names, " and %zu more", c->n - shown);
        return infp_fail(err, -ENOTUNIQ,
                         "%zu runs begin with '%s': %s; give more of its uuid (`infprof runs` lists them)", c->n,
                         c->prefix, names.data ? names.data : "");
}

static int open_candidate(const struct candidates *c, const char *spec, const char *output, struct infp_run **ret,
                          struct infp_err *err)
{
        int fd;

        if (c->failed)
                return infp_fail(err, -ENOMEM, "not enough memory");
        if (c->n == 0)
                return infp_fail(err, -ENOENT,
                                 "there is no directory '%s', and no run in %s and no live run of yours has a uuid "
                                 "that begins so",
                                 spec, output);
        if (c->n > 1)
                return fail_ambiguous(c, err);
        fd = open_output(c->list[0].output, err);
        return fd < 0 ? fd : open_run(c->list[0].output, fd, c->list[0].uuid, ret, err);
}

static int open_prefix(const char *spec, const char *output, struct infp_run **ret, struct infp_err *err)
{
        infp_autofree struct run_entry *entries = NULL;
        char prefix[37], live[PATH_MAX];
        infp_autoclose int fd = open(output, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                           live_fd = infp_live_open_directory(live, sizeof(live), NULL);
        struct candidates c = { 0 };
        int n, r;

        for (n = 0; n < 36 && spec[n]; n++)
                prefix[n] = (char) (spec[n] >= 'A' && spec[n] <= 'F' ? spec[n] - 'A' + 'a' : spec[n]);
        prefix[n] = 0;
        c.prefix = prefix;
        n = fd < 0 ? 0 : read_entries(fd, &entries);
        for (int i = 0; i < n; i++)
                consider(&c, entries[i].uuid, output);
        if (live_fd >= 0)
                infp_live_each(live_fd, consider_live, &c, NULL);
        r = open_candidate(&c, spec, output, ret, err);
        candidates_done(&c);
        return r;
}

static bool looks_like_uuid(const char *spec)
{
        size_t size = strspn(spec, "0123456789abcdefABCDEF-");

        return size > 0 && size <= 36 && spec[size] == 0;
}

/* A pinned name: of `output`, or DIR/NAME. -ENOENT without a text: no run has it. */
static int open_pinned(const char *spec, const char *output, struct infp_run **ret, struct infp_err *err)
{
        infp_autofree char *copy = strdup(spec);
        char *slash = copy ? strrchr(copy, '/') : NULL;
        const char *directory = slash ? copy : output, *name = slash ? slash + 1 : spec;
        char uuid[37];
        int fd, r;

        if (!copy)
                return infp_fail(err, -ENOMEM, "not enough memory");
        if (slash)
                *slash = 0;
        fd = open(*directory ? directory : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r = fd < 0 ? -ENOENT : infp_pin_find(fd, name, uuid);
        if (r >= 0)
                return open_run(directory, fd, uuid, ret, err); /* consumes fd */
        infp_close(fd);
        return r == -EBADMSG ? infp_fail(err, r, "%s/pins/%s does not hold the uuid of a run", directory, name)
                             : -ENOENT;
}

static int fail_file(const char *spec, struct infp_err *err)
{
        infp_autofree char *copy = strdup(spec);

        return infp_fail(err, -ENOTDIR, "%s is a file: name the directory of the run with -r, here %s", spec,
                         copy ? dirname(copy) : "its own");
}

int infp_run_open(const char *spec, const char *output, struct infp_run **ret, struct infp_err *err)
{
        struct stat status;
        int r;

        if (!output)
                output = INFP_DEFAULT_OUTPUT;
        if (!spec)
                return open_newest(output, ret, err);
        if (!*spec)
                return infp_fail(err, -EINVAL, "-r needs a directory or the beginning of a run's uuid");
        r = stat(spec, &status) < 0 ? -errno : 0;
        if (r == 0 && S_ISDIR(status.st_mode))
                return open_directory(spec, ret, err);
        if (r == 0)
                return fail_file(spec, err);
        if (r == -EACCES)
                return infp_fail(err, r, "cannot read %s: Permission denied; become its owner or ask for read access",
                                 spec);
        if (looks_like_uuid(spec))
                return open_prefix(spec, output, ret, err);
        if (r == -ENOENT) {
                r = open_pinned(spec, output, ret, err);
                if (r != -ENOENT || (err && *err->text))
                        return r;
                return infp_fail(err, r, "there is no directory %s, and '%s' is not the beginning of a run's uuid",
                                 spec, spec);
        }
        return infp_fail_errno(err, r, "cannot read %s", spec);
}
