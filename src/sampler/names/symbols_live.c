#include "sampler/names/symbols_live.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/sort.h"
#include "base/thread.h"
#include "base/time.h"
#include "sampler/names/jit_files.h"
#include "symbols/symbols.h"

enum { MAX_FRAMES = 65536, MAX_PROCESSES = 32 };

/* A frame to be named. */
struct frame {
        uint64_t frame, address, t_ns;
        int32_t pid;
        uint32_t object; /* of objects; UINT32_MAX: code made at run time */
};

/* A file that is not where its path says, or may be removed; its descriptor is ours. */
struct object {
        char *path, *build_id; /* build_id NULL: none */
        int fd;
        bool is_reachable; /* it was where its path says: `finish` names it while it is */
};

struct name {
        uint64_t frame;
        char *name, *file; /* file NULL: none */
        int64_t line, function_line;
        const char *from; /* constant */
};

/* Of the reading thread alone. */
struct process {
        int32_t pid;
        struct infp_jit_files files;
        struct infp_jit_symbols *symbols;
};
struct reader {
        int root_fd;
        struct infp_symbols *symbols;
        struct process processes[MAX_PROCESSES];
        unsigned n_processes;
        struct frame *waiting; /* code made at run time that has no name yet */
        size_t n_waiting, cap_waiting;
        struct frame *in_files; /* of objects, until they are read next */
        size_t n_in_files, cap_in_files;
};

struct shared {
        pthread_mutex_t lock;
        pthread_cond_t news, done; /* on CLOCK_MONOTONIC */
        unsigned n_refs;           /* the owner, and the thread */
        bool is_ending, is_ended;
        struct frame *frames; /* that were handed over, and not yet taken by the thread */
        size_t n_frames, cap_frames;
        struct object *objects; /* only added to */
        size_t n_objects, cap_objects;
        struct {
                int32_t pid;
                char *path;
        } jitdumps[MAX_PROCESSES];
        unsigned n_jitdumps;
        struct name *names; /* that were found, and not yet put */
        size_t n_names, cap_names;
        int root_fd;
};

/* ---- the thread that reads files which name code ---- */

enum { NICE = 10 };
/* Of the recorder's memory, for all that is read of a file: what is larger is left without names. */
static const uint64_t most_bytes = UINT64_C(32) << 20;
/* A program goes on writing its map: names that are not there yet come with a later reading. */
static const uint64_t again_ns = 10 * INFP_NS_PER_S;
/* The table of symbols of a large library takes tens of milliseconds to read, whatever it is read for. */
static const uint64_t files_again_ns = 60 * INFP_NS_PER_S;

/* Gives a reference back; the last one frees all. */
static void unref(struct shared *shared)
{
        bool is_last;

        pthread_mutex_lock(&shared->lock);
        is_last = --shared->n_refs == 0;
        pthread_mutex_unlock(&shared->lock);
        if (!is_last)
                return;
        for (size_t i = 0; i < shared->n_objects; i++) {
                free(shared->objects[i].path);
                free(shared->objects[i].build_id);
                infp_close(shared->objects[i].fd);
        }
        for (size_t i = 0; i < shared->n_names; i++) {
                free(shared->names[i].name);
                free(shared->names[i].file);
        }
        for (unsigned i = 0; i < shared->n_jitdumps; i++)
                free(shared->jitdumps[i].path);
        free(shared->frames);
        free(shared->objects);
        free(shared->names);
        infp_close(shared->root_fd);
        pthread_cond_destroy(&shared->news);
        pthread_cond_destroy(&shared->done);
        pthread_mutex_destroy(&shared->lock);
        free(shared);
}

static void put_name(struct shared *shared, uint64_t frame, const struct infp_symbol *symbol)
{
        struct name name = { .frame = frame,
                             .name = strdup(symbol->name),
                             .file = symbol->file ? strdup(symbol->file) : NULL,
                             .line = symbol->line,
                             .function_line = symbol->function_line,
                             .from = symbol->from };

        pthread_mutex_lock(&shared->lock);
        if (name.name && INFP_MAKE_ROOM(shared->names, shared->n_names, shared->cap_names, 64)) {
                shared->names[shared->n_names++] = name;
                name = (struct name){ 0 };
        }
        pthread_mutex_unlock(&shared->lock);
        free(name.name);
        free(name.file);
}

static void close_process(struct process *process)
{
        infp_jit_files_close(&process->files);
        infp_jit_symbols_free(process->symbols);
}

/* The process, made when it is new. Those that came first give way. */
static struct process *find_process(struct reader *reader, int32_t pid)
{
        struct process *process;

        for (unsigned i = 0; i < reader->n_processes; i++)
                if (reader->processes[i].pid == pid)
                        return &reader->processes[i];
        if (reader->n_processes == MAX_PROCESSES) {
                close_process(&reader->processes[0]);
                memmove(reader->processes, reader->processes + 1, (MAX_PROCESSES - 1) * sizeof(*reader->processes));
                reader->n_processes--;
        }
        process = &reader->processes[reader->n_processes];
        *process = (struct process){ .pid = pid, .files = INFP_JIT_FILES_NONE };
        if (infp_jit_symbols_new(&process->symbols) < 0)
                return NULL;
        reader->n_processes++;
        return process;
}

/* Copies the path: the list is changed by the other thread. */
static char *jitdump_of(struct shared *shared, int32_t pid)
{
        char *ret = NULL;

        pthread_mutex_lock(&shared->lock);
        for (unsigned i = 0; i < shared->n_jitdumps; i++)
                if (shared->jitdumps[i].pid == pid)
                        ret = strdup(shared->jitdumps[i].path);
        pthread_mutex_unlock(&shared->lock);
        return ret;
}

static void wait_for_name(struct shared *shared, struct reader *reader, const struct frame *frame)
{
        struct process *process = find_process(reader, frame->pid);
        infp_autofree char *jitdump = jitdump_of(shared, frame->pid);

        if (!process)
                return;
        infp_jit_files_open(shared->root_fd, process->pid, jitdump, &process->files);
        if (INFP_MAKE_ROOM(reader->waiting, reader->n_waiting, reader->cap_waiting, 64))
                reader->waiting[reader->n_waiting++] = *frame;
}

struct naming {
        struct shared *shared;
        const struct frame *frames;
};

static void take_name(void *context, size_t index, const struct infp_symbol *symbol)
{
        const struct naming *naming = context;

        put_name(naming->shared, naming->frames[index].frame, symbol);
}

/* n frames of one object, by address. */
static void name_in_file(struct shared *shared, struct reader *reader, const struct object *object,
                         const struct frame *frames, size_t n)
{
        infp_autofree uint64_t *addresses = malloc(n * sizeof(*addresses));
        struct naming naming = { shared, frames };

        if (!addresses)
                return;
        for (size_t i = 0; i < n; i++)
                addresses[i] = frames[i].address;
        infp_symbols_all(reader->symbols, object->path, object->fd, object->build_id, addresses, n, take_name, &naming,
                         NULL);
}

static int by_object(const void *left, const void *right)
{
        const struct frame *a = left, *b = right;

        if (a->object != b->object)
                return a->object < b->object ? -1 : 1;
        return a->address < b->address ? -1 : a->address > b->address;
}

static bool was_removed(int fd)
{
        struct stat status;

        return fstat(fd, &status) == 0 && status.st_nlink == 0;
}

/* One object after the other, so that the memory for it is that of one. What lies under its path is left to `finish`. */
static void name_in_files(struct shared *shared, struct reader *reader)
{
        const size_t n = reader->n_in_files;
        struct frame *all = reader->in_files;
        size_t end, kept = 0;

        infp_sort(all, n, sizeof(*all), by_object);
        for (size_t i = 0; i < n; i = end) {
                struct object object;

                for (end = i + 1; end < n && all[end].object == all[i].object;)
                        end++;
                pthread_mutex_lock(&shared->lock);
                object = shared->objects[all[i].object]; /* its texts stay */
                pthread_mutex_unlock(&shared->lock);
                if (!object.is_reachable || was_removed(object.fd)) {
                        name_in_file(shared, reader, &object, all + i, end - i);
                        continue;
                }
                memmove(all + kept, all + i, (end - i) * sizeof(*all));
                kept += end - i;
        }
        reader->n_in_files = kept;
}

/* Reads on in all files, and names what waits; what has no name waits on. */
static void name_waiting(struct shared *shared, struct reader *reader)
{
        size_t kept = 0;

        for (unsigned i = 0; i < reader->n_processes && reader->n_waiting; i++) {
                struct process *process = &reader->processes[i];

                infp_jit_files_open(shared->root_fd, process->pid, NULL, &process->files);
                if (process->files.perf_map >= 0)
                        infp_jit_symbols_read_perf_map(process->symbols, process->files.perf_map, NULL);
                if (process->files.jitdump >= 0)
                        infp_jit_symbols_read_jitdump(process->symbols, process->files.jitdump, NULL);
        }
        for (size_t i = 0; i < reader->n_waiting; i++) {
                const struct frame *frame = &reader->waiting[i];
                struct infp_symbol symbol;
                bool is_named = false;

                for (unsigned j = 0; j < reader->n_processes && !is_named; j++)
                        is_named =
                                reader->processes[j].pid == frame->pid &&
                                infp_jit_symbols_at(reader->processes[j].symbols, frame->address, frame->t_ns, &symbol);
                if (is_named)
                        put_name(shared, frame->frame, &symbol);
                else
                        reader->waiting[kept++] = *frame;
        }
        reader->n_waiting = kept;
}

/* What was handed over, or nothing when it is time. True: the end was asked for. */
static bool take_frames(struct shared *shared, uint64_t due_ns, struct frame **ret, size_t *ret_n)
{
        const struct timespec due = infp_timespec(due_ns);
        bool is_ending;

        pthread_mutex_lock(&shared->lock);
        while (!shared->n_frames && !shared->is_ending)
                if (pthread_cond_timedwait(&shared->news, &shared->lock, &due) == ETIMEDOUT)
                        break;
        *ret = INFP_TAKE(shared->frames);
        *ret_n = shared->n_frames;
        shared->n_frames = shared->cap_frames = 0;
        is_ending = shared->is_ending;
        pthread_mutex_unlock(&shared->lock);
        return is_ending;
}

static void read_all(struct shared *shared, struct reader *reader)
{
        uint64_t due = infp_clock_ns(CLOCK_MONOTONIC) + again_ns, files_due = due + files_again_ns;
        bool is_ending = false;

        while (!is_ending) {
                struct frame *frames;
                size_t n;

                is_ending = take_frames(shared, due, &frames, &n);
                for (size_t i = 0; i < n; i++)
                        if (frames[i].object == UINT32_MAX)
                                wait_for_name(shared, reader, &frames[i]);
                        else if (INFP_MAKE_ROOM(reader->in_files, reader->n_in_files, reader->cap_in_files, 64))
                                reader->in_files[reader->n_in_files++] = frames[i];
                free(frames);
                if (!is_ending && infp_clock_ns(CLOCK_MONOTONIC) < due)
                        continue;
                name_waiting(shared, reader);
                if (is_ending || infp_clock_ns(CLOCK_MONOTONIC) >= files_due) {
                        name_in_files(shared, reader);
                        files_due = infp_clock_ns(CLOCK_MONOTONIC) + files_again_ns;
                }
                due = infp_clock_ns(CLOCK_MONOTONIC) + again_ns;
        }
}

static void *read_names(void *context)
{
        struct shared *shared = context;
        struct reader reader = { .root_fd = shared->root_fd };
        const struct infp_symbols_options options = {
                .root_fd = shared->root_fd, .most_bytes = most_bytes, .no_lines = true, .no_demangling = true
        };

        setpriority(PRIO_PROCESS, 0, NICE); /* of this thread alone */
        if (infp_symbols_new(&options, &reader.symbols, NULL) == 0)
                read_all(shared, &reader);
        for (unsigned i = 0; i < reader.n_processes; i++)
                close_process(&reader.processes[i]);
        free(reader.waiting);
        free(reader.in_files);
        infp_symbols_free(reader.symbols);
        pthread_mutex_lock(&shared->lock);
        shared->is_ended = true;
        pthread_cond_broadcast(&shared->done);
        pthread_mutex_unlock(&shared->lock);
        unref(shared);
        return NULL;
}

/* ---- its owner, in the sampler's thread ---- */

static const uint64_t look_ns = INFP_NS_PER_S;

struct infp_symbols_live {
        struct shared *shared;
        int (*put)(void *context, const struct infp_row *row);
        void *put_context;
        bool is_started, has_failed;
        size_t next; /* of the stacks' list */
        uint64_t due_ns;
        struct infp_map objects; /* by hash of path and build id */
        struct infp_row row;
        char text[16384];
};

static struct shared *new_shared(int root_fd)
{
        struct shared *shared = calloc(1, sizeof(*shared));

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
        live->is_started = infp_thread_start(NULL, "infprof-names", 0, read_names, live->shared) == 0;
        if (!live->is_started) {
                live->shared->n_refs--;
                live->has_failed = true;
        }
}

static void note_jitdump(struct shared *shared, const struct infp_stack_nameless *nameless)
{
        for (unsigned i = 0; i < shared->n_jitdumps; i++)
                if (shared->jitdumps[i].pid == nameless->pid)
                        return;
        if (shared->n_jitdumps == MAX_PROCESSES)
                return;
        shared->jitdumps[shared->n_jitdumps].pid = nameless->pid;
        shared->jitdumps[shared->n_jitdumps].path = strdup(nameless->jitdump);
        shared->n_jitdumps += shared->jitdumps[shared->n_jitdumps].path != NULL;
}

/* The number of the object, UINT32_MAX - 1 without room. */
static uint32_t note_object(struct infp_symbols_live *live, const struct infp_stack_nameless *nameless)
{
        struct shared *shared = live->shared;
        const char *build_id = nameless->build_id ? nameless->build_id : "";
        const uint64_t hash =
                infp_hash64(nameless->object, strlen(nameless->object), infp_hash64(build_id, strlen(build_id), 3));
        const uint64_t *found = infp_map_get(&live->objects, hash);
        struct object object = { .fd = -1 };

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
        struct shared *shared = live->shared;
        struct frame frame = { nameless->frame, nameless->address, nameless->t_ns, nameless->pid, UINT32_MAX };

        if (shared->n_frames >= MAX_FRAMES || !INFP_MAKE_ROOM(shared->frames, shared->n_frames, shared->cap_frames, 64))
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

static bool put_row(struct infp_symbols_live *live, const struct name *name, uint64_t t_ns)
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
        struct shared *shared = live->shared;
        struct name *names;
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
        struct shared *shared = live->shared;

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
        unref(live->shared);
        infp_map_done(&live->objects);
        free(live);
        return NULL;
}
