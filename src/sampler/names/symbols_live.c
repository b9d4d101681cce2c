#include "sampler/names/symbols_live.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"
#include "sampler/names/symbols_live_parts.h"

static const uint64_t look_ns = INFP_NS_PER_S;

struct infp_symbols_live {
        struct infp_live_shared *shared;
        int (*put)(void *context, const struct infp_row *row);
        void *put_context;
        bool is_started, has_failed;
        size_t next; /* of the stacks' list */
        uint64_t due_ns;
        struct infp_map objects; /* by hash of path and build id */
        struct infp_row row;
        char text[16384];
};

static struct infp_live_shared *new_shared(int root_fd)
{
        struct infp_live_shared *shared = calloc(1, sizeof(*shared));

        if (!shared)
                return NULL;
        shared->n_refs = 1;
        shared->root_fd = fcntl(root_fd, F_DUPFD_CLOEXEC, 0);
        pthread_mutex_init(&shared->lock, NULL);
        infp_cond_init(&shared->news);
        infp_cond_init(&shared->done);
        return shared;
}

int infp_symbols_live_new(const struct infp_symbols_live_options *options, struct infp_symbols_live **ret,
                          struct infp_err *err)
{
        struct infp_symbols_live *live = calloc(1, sizeof(*live));

        if (live)
                live->shared = new_shared(options->root_fd);
        if (!live || !live->shared) {
                free(live);
                return infp_fail(err, -ENOMEM, "no memory to name code beside the recording");
        }
        live->put = options->put;
        live->put_context = options->put_context;
        *ret = live;
        return 0;
}

/* With the first frame: most recordings have none. */
static void start(struct infp_symbols_live *live)
{
        live->shared->n_refs++;
        live->is_started = infp_thread_start(NULL, "infprof-names", 0, infp_live_main, live->shared) == 0;
        if (!live->is_started) {
                live->shared->n_refs--;
                live->has_failed = true;
        }
}

static void note_jitdump(struct infp_live_shared *shared, const struct infp_stack_nameless *nameless)
{
        for (unsigned i = 0; i < shared->n_jitdumps; i++)
                if (shared->jitdumps[i].pid == nameless->pid)
                        return;
        if (shared->n_jitdumps == INFP_LIVE_MAX_PROCESSES)
                return;
        shared->jitdumps[shared->n_jitdumps].pid = nameless->pid;
        shared->jitdumps[shared->n_jitdumps].path = strdup(nameless->jitdump);
        shared->n_jitdumps += shared->jitdumps[shared->n_jitdumps].path != NULL;
}

/* The number of the object, UINT32_MAX - 1 without room. */
static uint32_t note_object(struct infp_symbols_live *live, const struct infp_stack_nameless *nameless)
{
        struct infp_live_shared *shared = live->shared;
        const char *build_id = nameless->build_id ? nameless->build_id : "";
        const uint64_t hash =
                infp_hash64(nameless->object, strlen(nameless->object), infp_hash64(build_id, strlen(build_id), 3));
        const uint64_t *found = infp_map_get(&live->objects, hash);
        struct infp_live_object object = { .fd = -1 };

        if (found)
                return (uint32_t) *found;
        if (!INFP_MAKE_ROOM(shared->objects, shared->n_objects, shared->cap_objects, 64) ||
            infp_map_put(&live->objects, hash, shared->n_objects) < 0)
                return UINT32_MAX - 1;
        object.fd = fcntl(nameless->fd, F_DUPFD_CLOEXEC, 0);
        if (infp_fd_is_scarce(object.fd))
                object.fd = infp_close(object.fd);
        object.path = strdup(nameless->object);
        object.is_reachable = nameless->is_reachable;
        object.build_id = *build_id ? strdup(build_id) : NULL;
        shared->objects[shared->n_objects++] = object;
        return (uint32_t) (shared->n_objects - 1);
}

/* What finds no room, or no descriptor, is left without a name; finish counts those. */
static void hand_over(struct infp_symbols_live *live, const struct infp_stack_nameless *nameless)
{
        struct infp_live_shared *shared = live->shared;
        struct infp_live_frame frame = { nameless->frame, nameless->address, nameless->t_ns, nameless->pid,
                                         UINT32_MAX };

        if (shared->n_frames >= INFP_LIVE_MAX_FRAMES ||
            !INFP_MAKE_ROOM(shared->frames, shared->n_frames, shared->cap_frames, 64))
                return;
        if (nameless->kind == INFP_FRAME_JIT) {
                if (nameless->jitdump)
                        note_jitdump(shared, nameless);
        } else if (nameless->fd < 0) {
                return; /* nothing can name it */
        } else {
                frame.object = note_object(live, nameless);
                if (frame.object == UINT32_MAX - 1 || !shared->objects[frame.object].path ||
                    shared->objects[frame.object].fd < 0)
                        return;
        }
        shared->frames[shared->n_frames++] = frame;
}

static void take_new(struct infp_symbols_live *live, const struct infp_stacks *stacks)
{
        struct infp_stack_nameless nameless;

        if (!infp_stacks_nameless(stacks, live->next, &nameless))
                return;
        if (!live->is_started && !live->has_failed)
                start(live);
        pthread_mutex_lock(&live->shared->lock);
        while (infp_stacks_nameless(stacks, live->next, &nameless)) {
                live->next++;
                if (live->is_started)
                        hand_over(live, &nameless);
        }
        pthread_cond_signal(&live->shared->news);
        pthread_mutex_unlock(&live->shared->lock);
}

static bool put_row(struct infp_symbols_live *live, const struct infp_live_name *name, uint64_t t_ns)
{
        struct infp_row *row = &live->row;

        row->text = live->text;
        row->text_cap = sizeof(live->text);
        infp_row_begin(row, &infp_table_symbols, t_ns);
        infp_row_id(row, INFP_SYMBOLS_FRAME, name->frame);
        infp_row_i64(row, INFP_SYMBOLS_LEVEL, 0);
        infp_row_str(row, INFP_SYMBOLS_NAME, name->name);
        if (name->file)
                infp_row_str(row, INFP_SYMBOLS_FILE, name->file);
        if (name->line)
                infp_row_i64(row, INFP_SYMBOLS_LINE, name->line);
        if (name->function_line)
                infp_row_i64(row, INFP_SYMBOLS_FUNCTION_LINE, name->function_line);
        infp_row_str(row, INFP_SYMBOLS_FROM, name->from);
        return live->put(live->put_context, row) == 0;
}

/* Those that find no room now are put by the next turn. */
static void put_names(struct infp_symbols_live *live, uint64_t t_ns)
{
        struct infp_live_shared *shared = live->shared;
        struct infp_live_name *names;
        size_t n, done = 0;

        pthread_mutex_lock(&shared->lock);
        names = INFP_TAKE(shared->names);
        n = shared->n_names;
        shared->n_names = shared->cap_names = 0;
        pthread_mutex_unlock(&shared->lock);
        while (done < n && put_row(live, &names[done], t_ns)) {
                free(names[done].name);
                free(names[done].file);
                done++;
        }
        pthread_mutex_lock(&shared->lock);
        for (size_t i = done; i < n; i++)
                if (INFP_MAKE_ROOM(shared->names, shared->n_names, shared->cap_names, 64))
                        shared->names[shared->n_names++] = names[i];
        pthread_mutex_unlock(&shared->lock);
        free(names);
}

void infp_symbols_live_turn(struct infp_symbols_live *live, const struct infp_stacks *stacks, uint64_t now_ns)
{
        if (now_ns < live->due_ns)
                return;
        live->due_ns = now_ns + look_ns;
        take_new(live, stacks);
        if (live->is_started)
                put_names(live, now_ns);
}

void infp_symbols_live_end(struct infp_symbols_live *live, const struct infp_stacks *stacks, uint64_t deadline_ns)
{
        const struct timespec deadline = infp_timespec(deadline_ns);
        struct infp_live_shared *shared = live->shared;

        take_new(live, stacks);
        if (!live->is_started)
                return;
        pthread_mutex_lock(&shared->lock);
        shared->is_ending = true;
        pthread_cond_signal(&shared->news);
        while (!shared->is_ended && pthread_cond_timedwait(&shared->done, &shared->lock, &deadline) != ETIMEDOUT)
                ;
        pthread_mutex_unlock(&shared->lock);
        put_names(live, infp_clock_ns(CLOCK_MONOTONIC));
}

struct infp_symbols_live *infp_symbols_live_free(struct infp_symbols_live *live)
{
        if (!live)
                return NULL;
        pthread_mutex_lock(&live->shared->lock);
        live->shared->is_ending = true;
        pthread_cond_signal(&live->shared->news);
        pthread_mutex_unlock(&live->shared->lock);
        infp_live_unref(live->shared);
        infp_map_done(&live->objects);
        free(live);
        return NULL;
}
