#include "store/run.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/new_file.h"
#include "base/number.h"
#include "base/procfile.h"
#include "store/path.h"
#include "store/run_json.h"

enum { MOST_NOTES = 16 };

/* Of notes: DuckDB's threads read tables side by side. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_noted(const struct infp_run_notes *notes, const char *text)
{
        for (unsigned i = 0; i < notes->n; i++)
                if (!strcmp(notes->list[i], text))
                        return true;
        return false;
}

static void add(struct infp_run_notes *notes, const char *text)
{
        char **more = notes->n < MOST_NOTES ? reallocarray(notes->list, notes->n + 1, sizeof(*more)) : NULL;

        if (more)
                notes->list = more;
        if (!more || !(more[notes->n] = strdup(text)))
                notes->n_more++;
        else
                notes->n++;
}

void infp_run_note(struct infp_run *run, const char *format, ...)
{
        char text[1024];
        va_list ap;

        va_start(ap, format);
        vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        pthread_mutex_lock(&lock);
        if (!is_noted(&run->notes, text))
                add(&run->notes, text);
        pthread_mutex_unlock(&lock);
}

static void notes_done(struct infp_run_notes *notes)
{
        for (unsigned i = 0; i < notes->n; i++)
                free(notes->list[i]);
        free(notes->list);
        *notes = (struct infp_run_notes){ 0 };
}

#define LOCK_NAME "run.lock"

struct infp_run *infp_run_close(struct infp_run *run)
{
        if (!run)
                return NULL;
        infp_close(run->lock_fd);
        infp_close(run->fd);
        infp_close(run->output_fd);
        infp_run_info_done(&run->info);
        free(run->output);
        free(run->problem);
        notes_done(&run->notes);
        free(run);
        return NULL;
}

static int fail_to_make(struct infp_err *err, int r, const char *path)
{
        if (r == -EEXIST || r == -ENOTDIR)
                return infp_fail(err, -ENOTDIR,
                                 "cannot record into %s: it, or a part of it, is not a directory; name another with -o",
                                 path);
        if (r == -EACCES || r == -EPERM || r == -EROFS)
                return infp_fail(err, r, "cannot write in %s: %s; name a directory that you can write with -o", path,
                                 strerror(-r));
        return infp_fail_errno(err, r, "cannot make directory %s", path);
}

/* mkdir -p. A parent that could not be made matters only if the directory does not exist in the end. */
static int make_directories(const char *path, struct infp_err *err)
{
        infp_autofree char *copy = strdup(path);
        int r, parent = 0;

        if (!copy)
                return infp_fail(err, -ENOMEM, "not enough memory");
        for (char *at = copy + 1; *at; at++) {
                if (*at != '/')
                        continue;
                *at = 0;
                if (mkdir(copy, 0777) < 0 && errno != EEXIST && parent == 0)
                        parent = -errno;
                *at = '/';
        }
        r = mkdir(copy, 0777) < 0 ? -errno : 0;
        if (r == 0 || r == -EEXIST)
                return 0;
        return fail_to_make(err, r == -ENOENT && parent ? parent : r, path);
}

int infp_run_make_output(const char *output, int *ret, struct infp_err *err)
{
        INFP_TRY(make_directories(output, err));
        *ret = open(output, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return *ret < 0 ? fail_to_make(err, errno == ENOTDIR ? -ENOTDIR : -errno, output) : 0;
}

/* Any process that can open a file can lock it, even for reading: hence a file that only its owner can open. A reader tests the lock
 * briefly, hence the wait. Without locks in the file system, or a descriptor to spare, the pid must do. */
static int make_lock(struct infp_run *run)
{
        unsigned limit;

        run->lock_fd = infp_make_file_at(run->fd, LOCK_NAME, O_RDWR, 0600);
        if (run->lock_fd < 0)
                return run->lock_fd;
        infp_lock(run->lock_fd, LOCK_EX, 20);
        if (infp_fds_are_few(&limit))
                run->lock_fd = infp_close(run->lock_fd);
        return 0;
}

static int make_run(struct infp_run *run, const struct infp_run_info *info, struct infp_err *err)
{
        char name[64];
        int r;

        run->state = INFP_RUN_RECORDING;
        if (infp_run_info_copy(info, &run->info) < 0)
                return infp_fail(err, -ENOMEM, "not enough memory");
        INFP_TRY(infp_run_make_output(run->output, &run->output_fd, err));
        snprintf(name, sizeof(name), "%s.infprof", info->uuid);
        if (mkdirat(run->output_fd, name, info->is_shared ? 0777 : 0700) < 0) {
                r = -errno;
                if (r == -EEXIST)
                        return infp_fail(err, r, "%s/%s already exists", run->output, name);
                return fail_to_make(err, r, run->output);
        }
        run->fd = infp_store_open(run->output_fd, name, O_RDONLY | O_DIRECTORY);
        if (run->fd < 0)
                return infp_fail_errno(err, run->fd, "cannot open %s/%s", run->output, name);
        r = make_lock(run);
        if (r < 0)
                infp_fail_errno(err, r, "cannot write %s/%s/" LOCK_NAME, run->output, name);
        else
                r = infp_run_save(run, err);
        if (r < 0)
                unlinkat(run->fd, LOCK_NAME, 0);
        if (r < 0)
                unlinkat(run->output_fd, name, AT_REMOVEDIR); /* nothing was recorded: leave nothing behind */
        return r;
}

int infp_run_create(const char *output, const struct infp_run_info *info, struct infp_run **ret, struct infp_err *err)
{
        struct infp_run *run;
        int r;

        if (!infp_uuid_check(info->uuid))
                return infp_fail(err, -EINVAL, "'%s' is not a uuid", info->uuid);
        run = calloc(1, sizeof(*run));
        if (!run)
                return infp_fail(err, -ENOMEM, "not enough memory");
        run->fd = run->output_fd = run->lock_fd = -1;
        run->output = strdup(output && *output ? output : INFP_DEFAULT_OUTPUT);
        r = run->output ? make_run(run, info, err) : infp_fail(err, -ENOMEM, "not enough memory");
        if (r < 0) {
                infp_run_close(run);
                return r;
        }
        *ret = run;
        return 0;
}

int infp_run_save(struct infp_run *run, struct infp_err *err)
{
        infp_autostr struct infp_str text = { 0 };
        int r;

        infp_run_json_write(&text, &run->info, run->state == INFP_RUN_FINISHED);
        if (text.failed)
                return infp_fail(err, -ENOMEM, "not enough memory");
        r = infp_replace_file_at(run->fd, "run.json", text.data, text.size, 0666,
                                 run->info.ended_unix_ns != 0); /* the recorder does not wait for the disk */
        if (r < 0)
                return infp_fail_errno(err, r, "cannot write %s/%s.infprof/run.json", run->output, run->info.uuid);
        return 0;
}

/* Field 22 of stat; the name before it may hold anything, a ')' too. */
static bool process_is(int32_t pid, uint64_t start_ticks)
{
        char path[32], text[1024];
        struct infp_span rest, words[20];
        const char *end;
        uint64_t ticks;
        ssize_t n;

        snprintf(path, sizeof(path), "proc/%d/stat", (int) pid);
        infp_autoclose int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        n = root < 0 ? -errno : infp_read_at(root, path, text, sizeof(text));
        if (n <= 0)
                return false;
        end = memrchr(text, ')', (size_t) n);
        if (!end)
                return false;
        rest = (struct infp_span){ .at = end + 1, .size = (size_t) (text + n - end - 1) };
        if (infp_span_words(rest, words, 20) < 20 || infp_span_u64(words[19], &ticks) < 0)
                return false;
        return ticks == start_ticks && !infp_span_is(words[0], "Z"); /* a zombie no longer writes */
}

static bool is_this_boot(const char *boot_id)
{
        char text[64];
        infp_autoclose int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        ssize_t n = root < 0 ? -1 : infp_read_at(root, "proc/sys/kernel/random/boot_id", text, sizeof(text));

        return n > 0 && boot_id[0] && strlen(boot_id) == strcspn(text, "\n") &&
               strncmp(text, boot_id, strlen(boot_id)) == 0;
}

bool infp_run_is_recording(const struct infp_run *run)
{
        infp_autoclose int probe = infp_store_open(run->fd, LOCK_NAME, O_RDONLY);

        if (probe >= 0 && infp_lock(probe, LOCK_SH, 0) == -EWOULDBLOCK)
                return true;
        if (run->problem || run->info.ended_unix_ns != 0 || run->info.recorder_pid <= 0)
                return false;
        return is_this_boot(run->info.boot_id) && process_is(run->info.recorder_pid, run->info.recorder_start_ticks);
}

mode_t infp_run_file_mode(const struct infp_run *run)
{
        struct stat st;

        return fstat(run->fd, &st) == 0 && st.st_mode & 077 ? 0666 : 0600;
}

int infp_run_remove(struct infp_run *run)
{
        char name[64];

        snprintf(name, sizeof(name), "%s.infprof", run->info.uuid);
        unlinkat(run->fd, "run.json", 0);
        unlinkat(run->fd, LOCK_NAME, 0);
        return unlinkat(run->output_fd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}
