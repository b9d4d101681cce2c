#include "sampler/python/bpf.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/debug.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/rights.h"
#include "sampler/python/btf.h"
#include "sampler/python/deep_piece.h"

/* ---- libbpf, of which so much is used: stable since its version 1.0 ---- */

struct bpf_object;
struct bpf_map;
struct bpf_program;
struct bpf_link;
struct ring_buffer;
struct bpf_object_open_opts { /* the first of its members */
        size_t size;
        const char *name;
        bool is_relaxed;
        const char *pin_path;
        uint32_t unused;
        const char *kconfig, *btf_path;
};
typedef int print_fn(int level, const char *format, va_list ap);
typedef int sample_fn(void *context, void *data, size_t size);

#define FUNCTIONS(X)                                                                                               \
        X(print_fn *, libbpf_set_print, (print_fn *) )                                                             \
        X(struct bpf_object *, bpf_object__open_mem, (const void *, size_t, const struct bpf_object_open_opts *) ) \
        X(int, bpf_object__load, (struct bpf_object *) )                                                           \
        X(void, bpf_object__close, (struct bpf_object *) )                                                         \
        X(struct bpf_map *, bpf_object__find_map_by_name, (const struct bpf_object *, const char *) )              \
        X(struct bpf_program *, bpf_object__find_program_by_name, (const struct bpf_object *, const char *) )      \
        X(int, bpf_map__fd, (const struct bpf_map *) )                                                             \
        X(int, bpf_map__set_max_entries, (struct bpf_map *, uint32_t))                                             \
        X(int, bpf_map__set_initial_value, (struct bpf_map *, const void *, size_t))                               \
        X(int, bpf_program__fd, (const struct bpf_program *) )                                                     \
        X(int, bpf_map_update_elem, (int, const void *, const void *, uint64_t))                                   \
        X(int, bpf_map_lookup_elem, (int, const void *, void *) )                                                  \
        X(int, bpf_map_delete_elem, (int, const void *) )                                                          \
        X(int, bpf_map_get_next_key, (int, const void *, void *) )                                                 \
        X(int, bpf_program__set_autoload, (struct bpf_program *, bool) )                                           \
        X(struct bpf_link *, bpf_program__attach, (const struct bpf_program *) )                                   \
        X(int, bpf_link__destroy, (struct bpf_link *) )                                                            \
        X(struct ring_buffer *, ring_buffer__new, (int, sample_fn *, void *, const void *) )                       \
        X(int, ring_buffer__consume, (struct ring_buffer *) )                                                      \
        X(void, ring_buffer__free, (struct ring_buffer *) )

static struct {
#define X(type, name, arguments) type(*name) arguments;
        FUNCTIONS(X)
#undef X
} lib;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int load_r;
static struct infp_err load_err;
static char refusal[256]; /* the last line of the kernel's log; one thread loads */

static void note_line(const char *line, size_t n)
{
        infp_debug("libbpf: %.*s", (int) n, line);
        if (n && strncmp(line, "processed ", 10) != 0 && strncmp(line, "-- ", 3) != 0)
                snprintf(refusal, sizeof(refusal), "%.*s", (int) n, line);
}

/* libbpf's warnings, and within one of them the verifier's log: its end says why. */
static int note(int level, const char *format, va_list ap)
{
        infp_autofree char *text = NULL;
        const char *at, *end;

        if (level > 0 || vasprintf(&text, format, ap) < 0)
                return 0;
        at = strlen(text) > 8192 ? text + strlen(text) - 8192 : text;
        while (*at) {
                end = strchrnul(at, '\n');
                /* What libbpf says after the log is about itself. */
                if (strncmp(at, "libbpf: ", 8) != 0)
                        note_line(at, (size_t) (end - at));
                else
                        infp_debug("%.*s", (int) (end - at), at);
                at = *end ? end + 1 : end;
        }
        return 0;
}

static int load_library(struct infp_err *err)
{
        void *library = dlopen("libbpf.so.1", RTLD_NOW | RTLD_LOCAL); /* stays */

        if (!library)
                return infp_fail(err, -ENOPKG, "Python frames by BPF need libbpf.so.1: %s", dlerror());
#define X(type, name, arguments)                      \
        *(void **) &lib.name = dlsym(library, #name); \
        if (!lib.name)                                \
                return infp_fail(err, -ENOPKG, "libbpf.so.1 has no " #name);
        FUNCTIONS(X)
#undef X
        lib.libbpf_set_print(note);
        return 0;
}

static void load_once(void)
{
        load_r = load_library(&load_err);
}

/* ---- the program and its maps ---- */

struct infp_bpf {
        struct bpf_object *object;
        struct ring_buffer *ring;
        int program, processes, counts, deep_pieces, deep_state, deep_wanted;
        struct bpf_link *link;                                               /* of the filter of switches */
        int switch_program, switches, events, shallow_events, switch_counts; /* -1: there is none */
        infp_bpf_take_fn *take;
        void *context;
};

static int take_record(void *context, void *data, size_t size)
{
        const struct infp_bpf *bpf = context;
        const struct infp_frames_record *record = data;
        const size_t head = offsetof(struct infp_frames_record, frames);

        if (size >= head && record->n <= INFP_FRAMES_MOST && size >= head + record->n * sizeof(record->frames[0]))
                bpf->take(bpf->context, record);
        return 0;
}

/* 0: the first pid namespace, whose numbers the kernel has at hand. */
static uint32_t own_pid_namespace(void)
{
        static const uint32_t first = 0xeffffffc; /* PROC_PID_INIT_INO */
        struct stat st;

        return stat("/proc/self/ns/pid", &st) < 0 || (uint32_t) st.st_ino == first ? 0 : (uint32_t) st.st_ino;
}

static int set_up(const struct infp_bpf *bpf, uint32_t ring_bytes, uint32_t deep_bytes, struct infp_err *err)
{
        struct bpf_map *ring = lib.bpf_object__find_map_by_name(bpf->object, "records"),
                       *pieces = lib.bpf_object__find_map_by_name(bpf->object, "deep_pieces"),
                       *constants = lib.bpf_object__find_map_by_name(bpf->object, ".rodata");
        const uint32_t namespace = own_pid_namespace();

        if (!ring || !pieces || !constants || lib.bpf_map__set_max_entries(ring, ring_bytes) < 0 ||
            lib.bpf_map__set_max_entries(pieces, deep_bytes) < 0 ||
            lib.bpf_map__set_initial_value(constants, &namespace, sizeof(namespace)) < 0)
                return infp_fail(err, -EBADMSG, "libbpf cannot prepare the program that reads Python frames");
        return 0;
}

/* What of the kernel's structures frames.bpf.c has, and the part of it that others have within. -1: libbpf is to read all types. */
static int open_types(void)
{
        static const char *const names[] = { "ns_common",    "pid_namespace", "upid",      "pid",
                                             "sched_entity", "thread_struct", "mm_struct", "task_struct" };
        const int fd = infp_btf_open(names, INFP_COUNT(names));

        if (fd < 0)
                infp_debug("bpf: all of the kernel's types are read: %s", strerror(-fd));
        return fd < 0 ? -1 : fd;
}

/* types: a descriptor, as of open_types. */
static struct bpf_object *open_program(int types)
{
        char path[64];
        const struct bpf_object_open_opts options = { .size = sizeof(options), .btf_path = types < 0 ? NULL : path };

        snprintf(path, sizeof(path), "/proc/self/fd/%d", types);
        return lib.bpf_object__open_mem(infp_frames_object, infp_frames_object_size, &options);
}

/* The programs of the filter of switches, which needs more of the kernel than the rest does. */
static const char filter_out[] = "infp_switched_out", filter_tracepoint[] = "infp_switched_in",
                  filter_function[] = "infp_switched_in_perf";

/* in: the program that sees threads get a CPU; NULL: there is no filter. */
static int choose_filter(const struct infp_bpf *bpf, const char *in, uint64_t least_wait_ns, struct infp_err *err)
{
        static const char *const all[] = { filter_out, filter_tracepoint, filter_function };
        struct bpf_map *threads = lib.bpf_object__find_map_by_name(bpf->object, "switches"),
                       *constants = lib.bpf_object__find_map_by_name(bpf->object, ".rodata.waits");
        bool is_there = threads && constants;

        for (size_t i = 0; i < INFP_COUNT(all) && is_there; i++) {
                struct bpf_program *program = lib.bpf_object__find_program_by_name(bpf->object, all[i]);

                is_there = program &&
                           lib.bpf_program__set_autoload(program, in && (all[i] == filter_out || all[i] == in)) == 0;
        }
        if (!is_there || lib.bpf_map__set_max_entries(threads, in ? INFP_SWITCHES_THREADS : 1) < 0 ||
            lib.bpf_map__set_initial_value(constants, &least_wait_ns, sizeof(least_wait_ns)) < 0)
                return infp_fail(err, -EBADMSG, "libbpf cannot prepare the programs that time waits");
        return 0;
}

static int map_fd(const struct infp_bpf *bpf, const char *name)
{
        const struct bpf_map *map = lib.bpf_object__find_map_by_name(bpf->object, name);

        return map ? lib.bpf_map__fd(map) : -1;
}

static int begin_filter(struct infp_bpf *bpf, const char *in)
{
        const struct bpf_program *out = lib.bpf_object__find_program_by_name(bpf->object, filter_out);

        bpf->switches = map_fd(bpf, "switches");
        bpf->events = map_fd(bpf, "switch_events");
        bpf->shallow_events = map_fd(bpf, "shallow_events");
        bpf->switch_counts = map_fd(bpf, "switches_counts");
        bpf->link = lib.bpf_program__attach(lib.bpf_object__find_program_by_name(bpf->object, in));
        if (!bpf->link || bpf->switches < 0 || bpf->events < 0 || bpf->shallow_events < 0 || bpf->switch_counts < 0)
                return -ENOTSUP;
        bpf->switch_program = lib.bpf_program__fd(out);
        return bpf->switch_program < 0 ? -ENOTSUP : 0;
}

static int refused(int r, const char **ret_fix, struct infp_err *err)
{
        if ((r == -EPERM || r == -EACCES) && !infp_rights_has(INFP_MAY_BPF)) {
                *ret_fix = infp_rights_fix(INFP_MAY_BPF);
                return infp_fail(err, r, "the kernel lets only CAP_BPF and CAP_PERFMON read Python frames");
        }
        if (refusal[0])
                return infp_fail_errno(err, r, "the kernel refuses the BPF program that reads Python frames (%s)",
                                       refusal);
        return infp_fail_errno(err, r, "the BPF program that reads Python frames cannot be loaded");
}

static int find_parts(struct infp_bpf *bpf, struct infp_err *err)
{
        static const char *const names[] = { "processes",   "counts",     "records",
                                             "deep_pieces", "deep_state", "deep_wanted" };
        const struct bpf_program *program = lib.bpf_object__find_program_by_name(bpf->object, "infp_frames");
        int fds[INFP_COUNT(names)];

        for (size_t i = 0; i < INFP_COUNT(names); i++) {
                const struct bpf_map *map = lib.bpf_object__find_map_by_name(bpf->object, names[i]);

                fds[i] = map ? lib.bpf_map__fd(map) : -1;
        }
        bpf->processes = fds[0];
        bpf->counts = fds[1];
        bpf->deep_pieces = fds[3];
        bpf->deep_state = fds[4];
        bpf->deep_wanted = fds[5];
        bpf->program = program ? lib.bpf_program__fd(program) : -1;
        bpf->ring = lib.ring_buffer__new(fds[2], take_record, bpf, NULL);
        if (bpf->program < 0 || bpf->processes < 0 || bpf->counts < 0 || bpf->deep_pieces < 0 || bpf->deep_state < 0 ||
            bpf->deep_wanted < 0 || !bpf->ring)
                return infp_fail(err, -EBADMSG, "libbpf cannot map the buffer of Python frames");
        return 0;
}

static int open_object(struct infp_bpf *bpf, uint32_t ring_bytes, uint32_t deep_bytes, int types, const char *filter,
                       uint64_t least_wait_ns, const char **ret_fix, struct infp_err *err)
{
        int r;

        refusal[0] = 0;
        bpf->switch_program = -1;
        bpf->object = open_program(types);
        if (!bpf->object)
                return infp_fail_errno(err, -errno, "libbpf cannot read the program that reads Python frames");
        INFP_TRY(set_up(bpf, ring_bytes, deep_bytes, err));
        INFP_TRY(choose_filter(bpf, filter, least_wait_ns, err));
        r = lib.bpf_object__load(bpf->object);
        if (r < 0)
                return refused(r, ret_fix, err);
        if (filter && begin_filter(bpf, filter) < 0)
                return infp_fail(err, -ENOTSUP, "the kernel has no place for the program %s", filter);
        return find_parts(bpf, err);
}

static void close_object(struct infp_bpf *bpf)
{
        if (bpf->ring)
                lib.ring_buffer__free(bpf->ring);
        if (bpf->link)
                lib.bpf_link__destroy(bpf->link);
        if (bpf->object)
                lib.bpf_object__close(bpf->object);
        *bpf = (struct infp_bpf){ .switch_program = -1 };
}

int infp_bpf_is_here(const char **ret_fix, struct infp_err *err)
{
        if (!infp_frames_object_size)
                return infp_fail(err, -ENOTSUP,
                                 "this infprof was built without clang, so it has no BPF program for "
                                 "Python frames");
        pthread_once(&once, load_once);
        if (load_r == 0)
                return 0;
        if (ret_fix)
                *ret_fix = "apt-get install libbpf1";
        return infp_fail(err, load_r, "%s", load_err.text);
}

int infp_bpf_open(uint32_t ring_bytes, uint32_t deep_bytes, uint64_t least_wait_ns, struct infp_bpf **ret,
                  const char **ret_fix, struct infp_err *err)
{
        static const char *const ways[] = { filter_tracepoint, filter_function, NULL };
        infp_autoclose int types = -1;
        struct infp_bpf *bpf;
        int r;

        *ret_fix = NULL;
        INFP_TRY(infp_bpf_is_here(ret_fix, err));
        bpf = calloc(1, sizeof(*bpf));
        if (!bpf)
                return infp_fail(err, -ENOMEM, "no memory for Python frames");
        types = open_types();
        for (const char *const *filter = least_wait_ns ? ways : ways + INFP_COUNT(ways) - 1;; filter++) {
                struct infp_err why = { "" };

                r = open_object(bpf, ring_bytes, deep_bytes, types, *filter, least_wait_ns, ret_fix, &why);
                if (r >= 0)
                        break;
                if (!*filter) {
                        infp_fail(err, r, "%s", why.text);
                        break;
                }
                infp_debug("bpf: %s: %s", *filter, why.text);
                close_object(bpf);
        }
        if (r < 0) {
                infp_bpf_free(bpf);
                return r;
        }
        *ret = bpf;
        return 0;
}

struct infp_bpf *infp_bpf_free(struct infp_bpf *bpf)
{
        if (bpf)
                close_object(bpf);
        free(bpf);
        return NULL;
}

int infp_bpf_program(const struct infp_bpf *bpf)
{
        return bpf->program;
}

struct infp_frames_process infp_bpf_process(const struct infp_python *python)
{
        struct infp_frames_process ret = { .runtime = python->runtime, .layout = python->layout };

        infp_python_check_of(&python->layout, &ret.check);
        return ret;
}

int infp_bpf_put(struct infp_bpf *bpf, pid_t pid, const struct infp_frames_process *process)
{
        const int key = pid;

        return lib.bpf_map_update_elem(bpf->processes, &key, process, 0);
}

void infp_bpf_drop(struct infp_bpf *bpf, pid_t pid)
{
        const int key = pid;

        lib.bpf_map_delete_elem(bpf->processes, &key);
}

void infp_bpf_drain(struct infp_bpf *bpf, infp_bpf_take_fn *take, void *context)
{
        bpf->take = take;
        bpf->context = context;
        lib.ring_buffer__consume(bpf->ring);
}

int infp_bpf_begin_deep(struct infp_bpf *bpf, uint32_t copied, uint32_t copied_of_waits)
{
        const struct infp_deep_state state = { .copied = { copied, copied_of_waits } };
        const uint32_t zero = 0;
        const int r = lib.bpf_map_update_elem(bpf->deep_state, &zero, &state, 0);

        return r < 0 ? r : bpf->deep_pieces;
}

void infp_bpf_want(struct infp_bpf *bpf, int32_t tid, const struct infp_deep_wanted *wanted)
{
        const int key = tid;

        lib.bpf_map_update_elem(bpf->deep_wanted, &key, wanted, 0);
}

struct infp_frames_counts infp_bpf_counts(struct infp_bpf *bpf)
{
        struct infp_frames_counts ret = { 0 };
        const uint32_t zero = 0;

        lib.bpf_map_lookup_elem(bpf->counts, &zero, &ret);
        return ret;
}

/* ---- the filter of switches ---- */

int infp_bpf_switch_program(const struct infp_bpf *bpf)
{
        return bpf->switch_program;
}

int infp_bpf_put_switch_event(struct infp_bpf *bpf, int cpu, int fd, bool is_shallow)
{
        return lib.bpf_map_update_elem(is_shallow ? bpf->shallow_events : bpf->events, &cpu, &fd, 0);
}

void infp_bpf_switch_threads(struct infp_bpf *bpf, infp_bpf_switch_thread_fn *take, void *context)
{
        struct infp_switch_thread thread;
        int key, next;

        for (int *before = NULL; lib.bpf_map_get_next_key(bpf->switches, before, &next) == 0; before = &key) {
                key = next;
                if (lib.bpf_map_lookup_elem(bpf->switches, &key, &thread) == 0)
                        take(context, key, &thread);
        }
}

bool infp_bpf_switch_thread(struct infp_bpf *bpf, int key, struct infp_switch_thread *ret)
{
        return lib.bpf_map_lookup_elem(bpf->switches, &key, ret) == 0;
}

void infp_bpf_forget_switches(struct infp_bpf *bpf, int key)
{
        lib.bpf_map_delete_elem(bpf->switches, &key);
}

uint64_t infp_bpf_switches_full(struct infp_bpf *bpf)
{
        struct infp_switches_counts counts = { 0 };
        const uint32_t zero = 0;

        lib.bpf_map_lookup_elem(bpf->switch_counts, &zero, &counts);
        return counts.full;
}
