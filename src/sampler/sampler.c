#include "sampler/sampler.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/debug.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"
#include "sampler/sampler_inner.h"

enum { RING_BYTES = 8 << 20 }; /* touched only as far as rows wait in it */
static const uint64_t patience_ns = 5 * INFP_NS_PER_S;

/* Which modes are asked for, and what they want of perf. 1: something; 0: nothing; -ENOMEM. */
static int choose_modes(struct infp_sampler *sampler, struct infp_perf_options *perf, struct infp_err *err)
{
        int needs_perf = 0;

        sampler->n_modes = 0;
        *perf = (struct infp_perf_options){ .stack_bytes = sampler->options.stack_bytes };
        for (const struct infp_sampler_mode *const *mode = infp_sampler_modes; *mode; mode++) {
                struct sampler_mode *own = &sampler->modes[sampler->n_modes];

                if (!(*mode)->is_wanted(&sampler->options))
                        continue;
                *own = (struct sampler_mode){ .mode = *mode, .state = calloc(1, (*mode)->state_size + 1) };
                if (!own->state)
                        return infp_fail(err, -ENOMEM, "no memory for the sampler");
                sampler->n_modes++;
                infp_debug("sampler: mode %s%s", infp_stack_mode_name((*mode)->mode),
                           (*mode)->ask ? ", by perf events" : "");
                if ((*mode)->ask) {
                        (*mode)->ask(&sampler->options, perf);
                        needs_perf = 1;
                }
        }
        return needs_perf;
}

/* Where perf events are refused, what can be read of threads without them. */
static void fall_back(struct infp_sampler *sampler)
{
        struct infp_sampler_options *options = &sampler->options;
        const bool is_next = options->cpu_hz > 0 && options->wall_hz <= 0;

        if (is_next)
                options->wall_hz =
                        options->cpu_hz < INFP_SAMPLER_DEFAULT_WALL_HZ ? options->cpu_hz : INFP_SAMPLER_DEFAULT_WALL_HZ;
        infp_sampler_say(sampler, "%s%s%s%s%s", sampler->perf_err.text, sampler->perf_fix ? " (" : "",
                         sampler->perf_fix ? sampler->perf_fix : "", sampler->perf_fix ? " would help)" : "",
                         is_next ? "; what threads wait for is sampled instead, as --wall does" : "");
}

static void free_modes(struct infp_sampler *sampler)
{
        for (unsigned i = 0; i < sampler->n_modes; i++)
                free(sampler->modes[i].state);
        sampler->n_modes = 0;
}

static int open_perf(struct infp_sampler *sampler, struct infp_err *err)
{
        struct infp_perf_options perf;
        int r = choose_modes(sampler, &perf, err);

        if (r <= 0 || infp_perf_open(&perf, &sampler->perf, &sampler->perf_fix, &sampler->perf_err) >= 0)
                return r;
        fall_back(sampler);
        free_modes(sampler);
        r = choose_modes(sampler, &perf, err);
        return r < 0 ? r : 0;
}

static void wake_reader(const struct infp_mode_context *context)
{
        const uint64_t one = 1;

        (void) !write(context->wake_fd, &one, sizeof(one));
}

static void make_context(struct infp_sampler *sampler)
{
        sampler->context.options = &sampler->options;
        sampler->context.stacks = sampler->stacks;
        sampler->context.emit = sampler->emit;
        sampler->context.perf = sampler->perf;
        sampler->context.perf_problem = sampler->perf_err.text;
        sampler->context.wake = wake_reader;
}

static int make_parts(struct infp_sampler *sampler, struct infp_err *err)
{
        const struct infp_stacks_options stacks = {
                .env = sampler->options.env,
                .max_depth = sampler->options.max_depth,
                .cache_directory = sampler->options.cache_directory,
                .put = infp_sampler_put,
                .put_context = sampler,
        };
        const struct infp_symbols_live_options live = {
                .root_fd = sampler->options.env->root_fd,
                .put = infp_sampler_put,
                .put_context = sampler,
        };
        unsigned n_rings;

        sampler->context.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (sampler->context.wake_fd < 0)
                return infp_fail_errno(err, -errno, "cannot make an eventfd");
        sampler->emit = malloc(sizeof(*sampler->emit));
        if (!sampler->emit || infp_rowring_new(RING_BYTES, &sampler->ring) < 0)
                return infp_fail(err, -ENOMEM, "no memory for the sampler");
        infp_emit_init(sampler->emit, infp_sampler_put, sampler);
        sampler->emit->collector = "sampler";
        INFP_TRY(open_perf(sampler, err));
        n_rings = sampler->perf ? infp_perf_rings(sampler->perf) : 0;
        sampler->fds = calloc(n_rings + 2, sizeof(*sampler->fds));
        if (!sampler->fds)
                return infp_fail(err, -ENOMEM, "no memory for the sampler");
        if (sampler->perf)
                sampler->n_fds = infp_perf_pollfds(sampler->perf, sampler->fds + 2, n_rings);
        INFP_TRY(infp_stacks_new(&stacks, &sampler->stacks, err));
        INFP_TRY(infp_symbols_live_new(&live, &sampler->live, err));
        sampler->stacks_handler = infp_stacks_handler(sampler->stacks);
        make_context(sampler);
        return 0;
}

int infp_sampler_start(const struct infp_sampler_options *options, struct infp_sampler **ret, struct infp_err *err)
{
        struct infp_sampler *sampler = calloc(1, sizeof(*sampler));
        struct infp_err own = { "" };
        int r;

        if (!sampler)
                return infp_fail(err, -ENOMEM, "no memory for the sampler");
        sampler->options = *options;
        sampler->context.wake_fd = -1;
        pthread_mutex_init(&sampler->lock, NULL);
        infp_cond_init(&sampler->done);
        r = make_parts(sampler, &own);
        if (r >= 0) {
                r = infp_thread_start(&sampler->thread, "infprof-sampler", 0, infp_sampler_main, sampler);
                sampler->is_started = r == 0;
                if (r < 0)
                        infp_fail_errno(&own, r, "cannot start the sampler's thread");
        }
        if (r < 0) {
                if (err)
                        *err = own;
                infp_sampler_free(sampler);
                return r;
        }
        *ret = sampler;
        return 0;
}

void infp_sampler_launch(struct infp_sampler *sampler, pid_t pid)
{
        const struct timespec until = infp_timespec(infp_clock_ns(CLOCK_MONOTONIC) + patience_ns);

        pthread_mutex_lock(&sampler->lock);
        sampler->launch_pid = pid;
        sampler->context.wake(&sampler->context);
        while (sampler->launch_pid && !sampler->is_ended &&
               pthread_cond_timedwait(&sampler->done, &sampler->lock, &until) != ETIMEDOUT)
                ;
        pthread_mutex_unlock(&sampler->lock);
}

void infp_sampler_follow(struct infp_sampler *sampler, const pid_t *roots, size_t n)
{
        pthread_mutex_lock(&sampler->lock);
        sampler->n_roots = n < SAMPLER_ROOTS ? n : SAMPLER_ROOTS;
        memcpy(sampler->roots, roots, sampler->n_roots * sizeof(*roots));
        sampler->has_roots = n > 0;
        pthread_mutex_unlock(&sampler->lock);
        sampler->context.wake(&sampler->context);
}

struct infp_rowring *infp_sampler_ring(struct infp_sampler *sampler, unsigned index)
{
        return index == 0 ? sampler->ring : NULL;
}

uint64_t infp_sampler_dropped(struct infp_sampler *sampler)
{
        return infp_rowring_dropped(sampler->ring);
}

void infp_sampler_stop_begin(struct infp_sampler *sampler)
{
        pthread_mutex_lock(&sampler->lock);
        sampler->is_stopping = true;
        sampler->stop_ns = infp_clock_ns(CLOCK_MONOTONIC);
        pthread_mutex_unlock(&sampler->lock);
        sampler->context.wake(&sampler->context);
}

bool infp_sampler_is_ended(struct infp_sampler *sampler)
{
        bool ret;

        pthread_mutex_lock(&sampler->lock);
        ret = !sampler->is_started || sampler->is_ended ||
              (sampler->is_stopping && infp_clock_ns(CLOCK_MONOTONIC) - sampler->stop_ns > patience_ns);
        pthread_mutex_unlock(&sampler->lock);
        return ret;
}

bool infp_sampler_free(struct infp_sampler *sampler)
{
        bool is_ended;

        if (!sampler)
                return true;
        pthread_mutex_lock(&sampler->lock);
        is_ended = sampler->is_ended;
        pthread_mutex_unlock(&sampler->lock);
        if (sampler->is_started && !is_ended) {
                pthread_detach(sampler->thread);
                return false;
        }
        if (sampler->is_started)
                pthread_join(sampler->thread, NULL);
        for (unsigned i = 0; i < sampler->n_modes; i++)
                if (sampler->is_started && sampler->modes[i].mode->close)
                        sampler->modes[i].mode->close(sampler->modes[i].state);
        free_modes(sampler);
        infp_symbols_live_free(sampler->live);
        infp_stacks_free(sampler->stacks);
        infp_perf_free(sampler->perf);
        infp_rowring_free(sampler->ring);
        infp_close(sampler->context.wake_fd);
        pthread_cond_destroy(&sampler->done);
        pthread_mutex_destroy(&sampler->lock);
        free(sampler->emit);
        free(sampler->fds);
        free(sampler);
        return true;
}
