#include "sampler/python/finder.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/thread.h"
#include "base/time.h"
#include "sampler/fifo.h"

enum { MOST_WAITING = 1024 };

struct infp_python_finder {
        int root_fd, wake_fd;
        pthread_mutex_t lock;
        pthread_cond_t news;
        struct asked {
                pid_t pid;
                uint64_t cookie;
        } asked[MOST_WAITING];
        unsigned first, n_asked;
        struct infp_fifo answers; /* of struct infp_python_found */
        uint64_t cpu_ns;
        bool has_thread, is_stopping;
};

static void destroy(struct infp_python_finder *finder)
{
        infp_fifo_done(&finder->answers);
        infp_close(finder->root_fd);
        infp_close(finder->wake_fd);
        pthread_cond_destroy(&finder->news);
        pthread_mutex_destroy(&finder->lock);
        free(finder);
}

static struct infp_python_found *look(const struct infp_python_finder *finder, const struct asked *asked)
{
        struct infp_python_found *found = calloc(1, sizeof(*found));

        if (found) {
                found->pid = asked->pid;
                found->cookie = asked->cookie;
                found->r = infp_python_find(finder->root_fd, asked->pid, &found->python, &found->err);
        }
        return found;
}

/* Under the lock, as when it is called. */
static void answer_one(struct infp_python_finder *finder)
{
        const struct asked asked = finder->asked[finder->first];
        const uint64_t one = 1;
        struct infp_python_found *found;

        finder->first = (finder->first + 1) % MOST_WAITING;
        finder->n_asked--;
        pthread_mutex_unlock(&finder->lock);
        found = look(finder, &asked);
        pthread_mutex_lock(&finder->lock);
        finder->cpu_ns = infp_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        if (!found)
                return;
        infp_fifo_put(&finder->answers, &found->item);
        if (!finder->is_stopping)
                (void) !write(finder->wake_fd, &one, sizeof(one));
}

static void *run(void *context)
{
        struct infp_python_finder *finder = context;

        pthread_mutex_lock(&finder->lock);
        while (!finder->is_stopping) {
                if (finder->n_asked)
                        answer_one(finder);
                else
                        pthread_cond_wait(&finder->news, &finder->lock);
        }
        pthread_mutex_unlock(&finder->lock);
        destroy(finder);
        return NULL;
}

int infp_python_finder_new(int root_fd, int wake_fd, struct infp_python_finder **ret)
{
        struct infp_python_finder *finder = calloc(1, sizeof(*finder));

        if (!finder)
                return -ENOMEM;
        finder->root_fd = fcntl(root_fd, F_DUPFD_CLOEXEC, 0);
        finder->wake_fd = fcntl(wake_fd, F_DUPFD_CLOEXEC, 0);
        pthread_mutex_init(&finder->lock, NULL);
        infp_cond_init(&finder->news);
        *ret = finder;
        return 0;
}

struct infp_python_finder *infp_python_finder_free(struct infp_python_finder *finder)
{
        bool has_thread;

        if (!finder)
                return NULL;
        pthread_mutex_lock(&finder->lock);
        finder->is_stopping = true;
        has_thread = finder->has_thread;
        pthread_cond_signal(&finder->news);
        pthread_mutex_unlock(&finder->lock);
        if (!has_thread)
                destroy(finder);
        return NULL;
}

int infp_python_finder_ask(struct infp_python_finder *finder, pid_t pid, uint64_t cookie)
{
        int r = 0;

        pthread_mutex_lock(&finder->lock);
        if (!finder->has_thread)
                r = infp_thread_start(NULL, "infprof-python", 0, run, finder);
        finder->has_thread |= r == 0;
        if (r == 0 && finder->n_asked == MOST_WAITING)
                r = -ENOSPC;
        if (r == 0) {
                finder->asked[(finder->first + finder->n_asked++) % MOST_WAITING] = (struct asked){ pid, cookie };
                pthread_cond_signal(&finder->news);
        }
        pthread_mutex_unlock(&finder->lock);
        return r;
}

struct infp_python_found *infp_python_finder_take(struct infp_python_finder *finder)
{
        struct infp_python_found *found;

        pthread_mutex_lock(&finder->lock);
        found = infp_fifo_take(&finder->answers);
        pthread_mutex_unlock(&finder->lock);
        return found;
}

uint64_t infp_python_finder_cpu_ns(struct infp_python_finder *finder)
{
        uint64_t ret;

        pthread_mutex_lock(&finder->lock);
        ret = finder->cpu_ns;
        pthread_mutex_unlock(&finder->lock);
        return ret;
}
