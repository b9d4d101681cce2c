/* Finding the run that -r means. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/live_registry.h"
#include "store/path.h"
#include "store/run_json.h"
#include "store/run_list.h"

static int keep_problem(struct infp_run *run, const char *uuid, const char *why)
{
        const struct infp_run_info empty = { .exit_code = -1, .started_unix_ns = infp_uuid_unix_ms(uuid) * 1000000 };

        if (infp_run_info_copy(&empty, &run->info) < 0 ||
            asprintf(&run->problem, "%s/%s.infprof/run.json %s", run->output, uuid, why) < 0)
                return -ENOMEM;
        return 0;
}

/* A run whose run.json is missing or broken is still a run: its tables can be read and it can be recovered. */
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
        memcpy(run->info.uuid, uuid, sizeof(run->info.uuid)); /* the directory's name is what paths are made of */
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
        infp_autofree struct infp_run_entry *entries = NULL;
        int fd = infp_run_open_output(output, err);
        int n;

        if (fd < 0)
                return fd;
        n = infp_run_entries(fd, &entries);
        if (n > 0)
                return open_run(output, fd, entries[n - 1].uuid, ret, err);
        infp_close(fd);
        if (n < 0)
                return infp_fail_errno(err, n, "cannot read %s", output);
        return infp_fail(err, -ENOENT,
                         "no run in %s: record one with `infprof record -- CMD`, or name a directory with -r", output);
}

/* The directory is <uuid>.infprof itself: whatever way led there, its real name counts. */
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
        fd = infp_run_open_output(dirname(parent), err);
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
        fd = infp_run_open_output(c->list[0].output, err);
        return fd < 0 ? fd : open_run(c->list[0].output, fd, c->list[0].uuid, ret, err);
}

static int open_prefix(const char *spec, const char *output, struct infp_run **ret, struct infp_err *err)
{
        infp_autofree struct infp_run_entry *entries = NULL;
        infp_autoclose int fd = open(output, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct candidates c = { 0 };
        char prefix[37];
        int n, r;

        for (n = 0; n < 36 && spec[n]; n++)
                prefix[n] = (char) (spec[n] >= 'A' && spec[n] <= 'F' ? spec[n] - 'A' + 'a' : spec[n]);
        prefix[n] = 0;
        c.prefix = prefix;
        n = fd < 0 ? 0 : infp_run_entries(fd, &entries);
        for (int i = 0; i < n; i++)
                consider(&c, entries[i].uuid, output);
        infp_live_each(consider_live, &c, NULL);
        r = open_candidate(&c, spec, output, ret, err);
        candidates_done(&c);
        return r;
}

static bool looks_like_uuid(const char *spec)
{
        size_t size = strspn(spec, "0123456789abcdefABCDEF-");

        return size > 0 && size <= 36 && spec[size] == 0;
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
        if (r == -ENOENT)
                return infp_fail(err, r, "there is no directory %s, and '%s' is not the beginning of a run's uuid",
                                 spec, spec);
        return infp_fail_errno(err, r, "cannot read %s", spec);
}
