#include "store/sync.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"
#include "store/path.h"

struct job {
        char path[96];
};

struct jobs {
        struct job *all;
        size_t n, cap;
};

/* Shared by the syncer and its thread: the last one frees it. The lock protects n_done, is_ended and is_orphan; until the end the
 * thread owns the rest. */
struct pass {
        pthread_mutex_t lock;
        pthread_cond_t end; /* on CLOCK_MONOTONIC */
        pthread_t thread;
        int dir_fd;
        struct jobs jobs; /* at the end: files for which there was no descriptor */
        size_t n, n_done;
        int r; /* first error */
        struct job failed;
        bool is_ended, is_orphan;
};

struct infp_syncer {
        int dir_fd;
        char shown[256];
        struct jobs waiting;
        struct pass *pass; /* NULL: none is under way */
};

int infp_syncer_new(int dir_fd, const char *shown, struct infp_syncer **ret, struct infp_err *err)
{
        struct infp_syncer *syncer = calloc(1, sizeof(*syncer));

        if (!syncer)
                return infp_fail(err, -ENOMEM, "not enough memory for the store");
        syncer->dir_fd = dir_fd;
        snprintf(syncer->shown, sizeof(syncer->shown), "%s", shown);
        *ret = syncer;
        return 0;
}

static void free_pass(struct pass *pass)
{
        pthread_cond_destroy(&pass->end);
        pthread_mutex_destroy(&pass->lock);
        infp_close(pass->dir_fd);
        free(pass->jobs.all);
        free(pass);
}

struct infp_syncer *infp_syncer_free(struct infp_syncer *syncer)
{
        struct pass *pass = syncer ? syncer->pass : NULL;
        bool is_ended;

        if (!syncer)
                return NULL;
        if (pass) {
                pthread_t thread = pass->thread;

                pthread_mutex_lock(&pass->lock);
                is_ended = pass->is_ended;
                pass->is_orphan = !is_ended;
                pthread_mutex_unlock(&pass->lock);
                if (is_ended) {
                        pthread_join(thread, NULL);
                        free_pass(pass);
                } else {
                        pthread_detach(thread);
                }
        }
        free(syncer->waiting.all);
        free(syncer);
        return NULL;
}

static int add(struct jobs *jobs, const struct job *job)
{
        if (!INFP_MAKE_ROOM(jobs->all, jobs->n, jobs->cap, 32))
                return -ENOMEM;
        jobs->all[jobs->n++] = *job;
        return 0;
}

int infp_syncer_add(struct infp_syncer *syncer, const char *path, struct infp_err *err)
{
        struct job job;

        snprintf(job.path, sizeof(job.path), "%s", path);
        for (size_t i = 0; i < syncer->waiting.n; i++)
                if (strcmp(syncer->waiting.all[i].path, job.path) == 0)
                        return 0;
        if (add(&syncer->waiting, &job) < 0)
                return infp_fail(err, -ENOMEM, "not enough memory to bring %s/%s to the disk", syncer->shown, path);
        return 0;
}

/* EINVAL, EROFS: the file system does not support it. */
static int sync_one(const struct pass *pass, const struct job *job)
{
        infp_autoclose int fd = infp_store_open(pass->dir_fd, job->path, O_WRONLY);

        if (fd < 0)
                return fd == -ENOENT ? 0 : fd;
        return fdatasync(fd) < 0 && errno != EINVAL && errno != EROFS ? -errno : 0;
}

static void *run(void *p)
{
        struct pass *pass = p;
        size_t n_back = 0;
        bool is_orphan;

        for (size_t i = 0; i < pass->n; i++) {
                int r = sync_one(pass, &pass->jobs.all[i]);

                if (r == -EMFILE || r == -ENFILE) {
                        pass->jobs.all[n_back++] = pass->jobs.all[i];
                } else if (r < 0 && pass->r == 0) {
                        pass->r = r;
                        pass->failed = pass->jobs.all[i];
                }
                pthread_mutex_lock(&pass->lock);
                pass->n_done++;
                pthread_mutex_unlock(&pass->lock);
        }
        pass->jobs.n = n_back;
        pthread_mutex_lock(&pass->lock);
        pass->is_ended = true;
        is_orphan = pass->is_orphan;
        pthread_cond_signal(&pass->end);
        pthread_mutex_unlock(&pass->lock);
        if (is_orphan)
                free_pass(pass);
        return NULL;
}

static struct pass *make_pass(void)
{
        struct pass *pass = calloc(1, sizeof(*pass));

        if (!pass)
                return NULL;
        pass->dir_fd = -1;
        pthread_mutex_init(&pass->lock, NULL);
        infp_cond_init(&pass->end);
        return pass;
}

int infp_syncer_start(struct infp_syncer *syncer, struct infp_err *err)
{
        struct pass *pass;
        int r = 0;

        if (syncer->pass || syncer->waiting.n == 0)
                return 0;
        pass = make_pass();
        if (!pass)
                return infp_fail(err, -ENOMEM, "not enough memory to bring %s to the disk", syncer->shown);
        /* Reopened: a duplicate would hold the run's lock past its end. */
        pass->dir_fd = openat(syncer->dir_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (pass->dir_fd < 0)
                r = -errno;
        pass->jobs = syncer->waiting;
        pass->n = pass->jobs.n;
        r = r == 0 ? infp_thread_start(&pass->thread, "infprof-sync", 0, run, pass) : r;
        if (r < 0) {
                pass->jobs = (struct jobs){ 0 };
                free_pass(pass);
                /* Nothing is lost: the next start tries it again. */
                if (r == -EMFILE || r == -ENFILE || r == -ENOENT)
                        return 0;
                return infp_fail_errno(err, r, "cannot start a thread that flushes %s to disk", syncer->shown);
        }
        syncer->waiting = (struct jobs){ 0 };
        syncer->pass = pass;
        return 0;
}

/* The pass has ended. */
static int collect(struct infp_syncer *syncer, struct infp_err *err)
{
        struct pass *pass = syncer->pass;
        int r = pass->r;

        pthread_join(pass->thread, NULL);
        if (r < 0)
                infp_fail_errno(err, r, "cannot flush %s/%s to disk", syncer->shown, pass->failed.path);
        for (size_t i = 0; i < pass->jobs.n; i++)
                if (add(&syncer->waiting, &pass->jobs.all[i]) < 0)
                        break;
        free_pass(pass);
        syncer->pass = NULL;
        return r;
}

bool infp_syncer_is_busy(struct infp_syncer *syncer, int *ret_r, struct infp_err *err)
{
        struct pass *pass = syncer->pass;
        bool is_ended;

        if (!pass)
                return false;
        pthread_mutex_lock(&pass->lock);
        is_ended = pass->is_ended;
        pthread_mutex_unlock(&pass->lock);
        if (!is_ended)
                return true;
        *ret_r = collect(syncer, err);
        return false;
}

/* True when the pass ended in time. *ret_left: files that it has yet to bring to the disk. */
static bool wait_for_pass(struct pass *pass, uint64_t until, size_t *ret_left)
{
        struct timespec t = infp_timespec(until);
        bool is_ended;

        pthread_mutex_lock(&pass->lock);
        while (!pass->is_ended && pthread_cond_timedwait(&pass->end, &pass->lock, &t) != ETIMEDOUT)
                ;
        is_ended = pass->is_ended;
        *ret_left = pass->n - pass->n_done;
        pthread_mutex_unlock(&pass->lock);
        return is_ended;
}

int infp_syncer_wait(struct infp_syncer *syncer, uint64_t patience_ns, struct infp_err *err)
{
        uint64_t until = infp_clock_ns(CLOCK_MONOTONIC) + patience_ns;
        int first = 0;

        /* Two passes: the current one, then one over all the rest. */
        for (unsigned i = 0; i < 2; i++) {
                struct infp_err *own = first == 0 ? err : NULL;
                size_t n_left;
                int r = infp_syncer_start(syncer, own);

                first = first ? first : r;
                if (!syncer->pass)
                        continue;
                if (!wait_for_pass(syncer->pass, until, &n_left)) {
                        n_left += syncer->waiting.n;
                        return infp_fail(own, first ? first : -ETIMEDOUT,
                                         "the disk is slow: %zu files in %s are not flushed yet, which matters only if "
                                         "the machine crashes within the next minute",
                                         n_left, syncer->shown);
                }
                r = collect(syncer, own);
                first = first ? first : r;
        }
        return first;
}
