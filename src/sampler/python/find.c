#include "sampler/python/find.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/procfile.h"
#include "base/rights.h"
#include "base/text.h"
#include "sampler/objects/open.h"
#include "sampler/spaces/space.h"

enum { MAPS_BYTES = 16 << 20, MOST_FILES = 8, PIECE = 64 * 1024, MOST_THREADS = 64, TRIES = 9 };
#define KNOWN "3.8 to 3.15"
static const uint64_t most_data = UINT64_C(8) << 20;

/* ---- memory ---- */

static int read_process(void *context, uint64_t address, void *ret, size_t size)
{
        const struct iovec local = { ret, size }, remote = { (void *) (uintptr_t) address, size };
        const int saved = errno;
        const ssize_t n = process_vm_readv((pid_t) (intptr_t) context, &local, 1, &remote, 1, 0);
        const int r = n < 0 ? -errno : (size_t) n == size ? 0 : -EFAULT;

        errno = saved;
        return r;
}

ssize_t infp_python_process_gather(void *context, const struct iovec *pieces, unsigned n, void *ret_bytes, size_t size)
{
        const struct iovec local = { ret_bytes, size };

        return process_vm_readv((pid_t) (intptr_t) context, &local, 1, pieces, n, 0);
}

struct infp_python_memory infp_python_process_memory(pid_t pid)
{
        return (struct infp_python_memory){ read_process, (void *) (intptr_t) pid };
}

/* ---- the files that may be an interpreter ---- */

struct candidate {
        struct infp_maps_line line; /* of its code */
        char *path;                 /* as the process sees it; borrowed */
        uint64_t bias;
        struct infp_image image; /* fd -1 and no bytes: not open */
        struct infp_python_file file;
};

struct search {
        int root_fd;
        pid_t pid, thread; /* the second: one that has not ended */
        char program[4096];
        char *maps;
        struct candidate files[MOST_FILES], *program_file; /* NULL: that one is not known */
        unsigned n_files;
        bool has_glibc;
        struct candidate asyncio; /* the module _asyncio, where it is a file of its own; path NULL: it is not there */
        int open_error;           /* of one that could not be opened; 0 */
        char unopened[4096];
};

static void drop_deleted(char *path)
{
        static const char deleted[] = " (deleted)";
        const size_t n = sizeof(deleted) - 1, size = strlen(path);

        if (size > n && strcmp(path + size - n, deleted) == 0)
                path[size - n] = 0;
}

static int read_maps(struct search *s, struct infp_err *err)
{
        char path[48];
        ssize_t n;

        snprintf(path, sizeof(path), "proc/%d/maps", (int) s->thread);
        n = infp_read_all_at(s->root_fd, path, MAPS_BYTES, &s->maps);
        if (n == -EACCES || n == -EPERM)
                return infp_fail(err, (int) n, "cannot read /%s: %s; %s", path, strerror((int) -n),
                                 infp_rights_fix(INFP_MAY_TRACE));
        if (n == -ENOENT || n == -ESRCH)
                return infp_fail(err, -ESRCH, "there is no process %d", (int) s->pid);
        if (n < 0)
                return infp_fail_errno(err, (int) n, "cannot read /%s", path);
        return 0;
}

static void read_program(struct search *s)
{
        char path[48];
        ssize_t n;

        snprintf(path, sizeof(path), "proc/%d/exe", (int) s->thread);
        n = readlinkat(s->root_fd, path, s->program, sizeof(s->program) - 1);
        s->program[n > 0 ? n : 0] = 0;
        drop_deleted(s->program);
}

static bool is_listed(const struct search *s, const struct infp_maps_line *line)
{
        for (unsigned i = 0; i < s->n_files; i++)
                if (s->files[i].line.inode == line->inode && s->files[i].line.major == line->major &&
                    s->files[i].line.minor == line->minor)
                        return true;
        return false;
}

/* A program may be run by a loader that it names itself: then that is /proc/PID/exe. */
static bool is_python_name(const char *path)
{
        const char *name = infp_base_name(path);

        return strncmp(name, "libpython", 9) == 0 || strncmp(name, "python", 6) == 0;
}

/* It is mapped before all else; up to glibc 2.33 its file had the version in its name. */
static bool is_glibcs_loader(const char *name)
{
        return strncmp(name, "ld-linux", 8) == 0 || strncmp(name, "ld-2.", 5) == 0;
}

/* The program, and all files of Python by their names. */
static void list_files(struct search *s)
{
        struct infp_maps_line line;
        char *at = s->maps;

        while (infp_maps_next(&at, &line)) {
                char *path = (char *) line.path; /* in the text of maps, which is ours */
                bool is_program;

                if (!line.is_executable || !line.inode || is_listed(s, &line))
                        continue;
                drop_deleted(path);
                is_program = strcmp(path, s->program) == 0;
                s->has_glibc |= is_glibcs_loader(infp_base_name(path));
                if (strncmp(infp_base_name(path), "_asyncio.", 9) == 0)
                        s->asyncio = (struct candidate){ .line = line, .path = path, .image.fd = -1 };
                if (s->n_files == MOST_FILES || (!is_program && !is_python_name(path)))
                        continue;
                if (is_program)
                        s->program_file = &s->files[s->n_files];
                s->files[s->n_files++] = (struct candidate){ .line = line, .path = path, .image.fd = -1 };
        }
}

/* Where its addresses lie in the process. False: the mapping is of no code of it. */
static bool find_bias(struct candidate *c)
{
        for (unsigned i = 0; c->image.segments && i < c->image.head.e_phnum; i++) {
                const Elf64_Phdr *load = &c->image.segments[i];

                if (load->p_type != PT_LOAD || !(load->p_flags & PF_X) || c->line.offset + 4096 <= load->p_offset ||
                    c->line.offset >= load->p_offset + load->p_filesz)
                        continue;
                c->bias = c->line.begin - c->line.offset + load->p_offset - load->p_vaddr;
                return true;
        }
        return false;
}

static int open_file(const struct search *s, const struct candidate *c)
{
        const struct infp_object_place place = { .pid = s->thread,
                                                 .begin = c->line.begin,
                                                 .end = c->line.end,
                                                 .major = c->line.major,
                                                 .minor = c->line.minor,
                                                 .inode = c->line.inode,
                                                 .path = c->path };
        struct infp_file_identity identity;
        int fd = -ENOENT, first = 0;

        for (int way = INFP_BY_OUR_ROOT; fd < 0 && way < INFP_OBJECT_WAYS; way++) {
                fd = infp_object_open(s->root_fd, &place, (enum infp_object_way) way, &identity);
                if (fd < 0 && (!first || fd == -EACCES || fd == -EPERM))
                        first = fd;
        }
        return fd < 0 ? first : fd;
}

static void read_file(struct search *s, struct candidate *c)
{
        const int fd = open_file(s, c);

        if (fd < 0) {
                s->open_error = fd;
                snprintf(s->unopened, sizeof(s->unopened), "%s", c->path);
                return;
        }
        if (infp_image_open(&c->image, fd, c->path, NULL) < 0)
                return;
        if (find_bias(c))
                infp_python_file_read(&c->image, &c->file);
}

/* A symbol's address, as the loader resolves it: data of a library may have been copied into the program. */
static uint64_t resolve(uint64_t in_program, const struct candidate *program, uint64_t in_file,
                        const struct candidate *file)
{
        if (in_program)
                return in_program + program->bias;
        return in_file ? in_file + file->bias : 0;
}

/* ---- its version ---- */

static bool digits_at(const char **at, const char *end, unsigned *ret)
{
        const char *from = *at;

        *ret = 0;
        while (*at < end && **at >= '0' && **at <= '9' && *at < from + 3)
                *ret = *ret * 10 + (unsigned) (*(*at)++ - '0');
        return *at > from;
}

/* "3.8.18 (default, ": Py_GetVersion keeps it. 0 when it is not found. */
static uint32_t version_in(const char *bytes, size_t size)
{
        const char *const end = bytes + size;

        for (const char *at = bytes; (at = memchr(at, '3', (size_t) (end - at))) != NULL; at++) {
                const char *next = at + 2;
                unsigned minor, micro;

                if (at + 2 >= end || at[1] != '.' || (at > bytes && at[-1] != 0) || !digits_at(&next, end, &minor) ||
                    next == end || *next++ != '.' || !digits_at(&next, end, &micro))
                        continue;
                next += next < end && *next == '+';
                if (minor < 100 && micro < 256 && end - next >= 2 && next[0] == ' ' && next[1] == '(')
                        return 3u << 24 | minor << 16 | micro << 8 | 0xf0;
        }
        return 0;
}

static uint32_t version_by_memory(const struct infp_python_memory *memory, const struct candidate *c)
{
        infp_autofree char *piece = malloc(PIECE);

        for (unsigned i = 0; piece && c->image.segments && i < c->image.head.e_phnum; i++) {
                const Elf64_Phdr *load = &c->image.segments[i];

                if (load->p_type != PT_LOAD || !(load->p_flags & PF_W) || load->p_memsz > most_data)
                        continue;
                /* Pieces overlap, so that no text lies in two. */
                for (uint64_t at = 0; at < load->p_memsz; at += PIECE - 64) {
                        const uint64_t left = load->p_memsz - at, size = left < PIECE ? left : PIECE;
                        uint32_t version;

                        if (memory->read(memory->context, load->p_vaddr + c->bias + at, piece, size) < 0)
                                break;
                        version = version_in(piece, size);
                        if (version)
                                return version;
                }
        }
        return 0;
}

/* "libpython3.8.so.1.0", "python3.8": 0x03080000. */
static uint32_t version_by_name(const char *path)
{
        const char *name = infp_base_name(path), *at = strstr(name, "python"), *end = name + strlen(name);
        unsigned major, minor;

        if (!at)
                return 0;
        at += 6;
        if (!digits_at(&at, end, &major) || at == end || *at++ != '.' || !digits_at(&at, end, &minor))
                return 0;
        return major << 24 | minor << 16;
}

static int refuse_version(const struct infp_python *python, struct infp_err *err)
{
        const uint32_t v = python->version;

        if (!v)
                return infp_fail(err, -ENOTSUP,
                                 "%s is a Python that does not say its version: frames are read of " KNOWN,
                                 python->object);
        return infp_fail(err, -ENOTSUP, "%s is Python %u.%u%s, and frames are read of " KNOWN, python->object, v >> 24,
                         v >> 16 & 0xff, v >> 16 > 0x30f ? ", which is newer than this infprof" : "");
}

static int read_error(pid_t pid, int r, struct infp_err *err)
{
        if (r == -ESRCH)
                return infp_fail(err, r, "process %d has ended", (int) pid);
        if (r == -EPERM || r == -EACCES)
                return infp_fail(err, -EPERM, "cannot read the memory of process %d: %s; %s", (int) pid,
                                 strerror(EPERM), infp_rights_fix(INFP_MAY_TRACE));
        return 0;
}

static int find_layout(const struct infp_python_memory *memory, const struct candidate *c, struct infp_python *ret,
                       struct infp_err *err)
{
        uint8_t bytes[INFP_PYTHON_DEBUG_OFFSETS] = { 0 };
        int r = memory->read(memory->context, ret->runtime, bytes, 8);

        INFP_TRY(read_error((pid_t) (intptr_t) memory->context, r, err));
        if (r < 0)
                return infp_fail_errno(err, r, "cannot read the memory of process %d where %s has _PyRuntime",
                                       (int) (intptr_t) memory->context, ret->object);
        if (memcmp(bytes, INFP_PYTHON_COOKIE, 8) == 0) {
                if (memory->read(memory->context, ret->runtime, bytes, sizeof(bytes)) == 0 &&
                    infp_python_layout_of_runtime(bytes, sizeof(bytes), &ret->layout, &ret->version))
                        return 0;
                return refuse_version(ret, err);
        }
        ret->version = c->file.version <= UINT32_MAX ? (uint32_t) c->file.version : 0;
        if (!ret->version)
                ret->version = version_by_memory(memory, c);
        if (!ret->version)
                ret->version = version_by_name(ret->object);
        if (!infp_python_layout_of((uint16_t) (ret->version >> 16), &ret->layout))
                return refuse_version(ret, err);
        return 0;
}

/* ---- whether what was found is true ---- */

struct verdict {
        unsigned n_good, n_bad;
};

/* Code objects of the thread's frames are of the type that they should be of. */
static void judge_thread(const struct infp_python *python, const struct infp_python_memory *memory, uint64_t thread,
                         struct verdict *v)
{
        struct infp_python_frame frames[4];
        enum infp_python_end end;
        const uint32_t n = infp_python_walk(&python->layout, memory, thread, frames, 4, &end);

        for (uint32_t i = 0; i < n; i++) {
                uint64_t type = 0;

                if (!frames[i].code)
                        continue;
                if (memory->read(memory->context, frames[i].code + python->layout.object_type, &type, sizeof(type)) ==
                            0 &&
                    type == python->code_type)
                        v->n_good++;
                else
                        v->n_bad++;
        }
        v->n_bad += !n && end != INFP_PYTHON_WHOLE;
}

static bool has_interpreter(const struct infp_python *python, const struct infp_python_memory *memory)
{
        uint64_t first = 0;

        return memory->read(memory->context, python->runtime + python->layout.runtime_interpreters, &first,
                            sizeof(first)) == 0 &&
               first;
}

/* The process runs: what is read of it at one moment may be torn, and it may be about to make its first thread. A verdict is for good, so
 * an interpreter that looks wrong is looked at again, for half a second in all: it may be starting, and wait for a CPU. */
static int check(const struct infp_python *python, const struct infp_python_memory *memory, struct infp_err *err)
{
        struct infp_python_thread threads[MOST_THREADS];

        for (unsigned i = 0; python->code_type && i < TRIES; i++) {
                struct verdict v = { 0 };
                bool is_whole;
                const uint32_t n =
                        infp_python_threads(&python->layout, memory, python->runtime, threads, MOST_THREADS, &is_whole);

                v.n_bad += !n && (!is_whole || has_interpreter(python, memory));
                for (uint32_t k = 0; k < n; k++)
                        judge_thread(python, memory, threads[k].state, &v);
                if (v.n_good || !v.n_bad)
                        return 0; /* right, or it has no frames yet */
                nanosleep(&(struct timespec){ 0, 1000000L << i }, NULL);
        }
        if (!python->code_type)
                return 0;
        return infp_fail(err, -ENOTSUP,
                         "%s is Python %u.%u.%u, and does not keep its frames where that version does: it was built "
                         "another way, and they are not read",
                         python->object, python->version >> 24, python->version >> 16 & 0xff,
                         python->version >> 8 & 0xff);
}

/* ---- the module _asyncio ---- */

static uint64_t debug_section(const struct candidate *c)
{
        const Elf64_Shdr *section = infp_image_section(&c->image, ".AsyncioDebug", 0);

        return section && section->sh_addr ? section->sh_addr + c->bias : 0;
}

/* It is a part of the interpreter, or a file of its own. */
static uint64_t find_asyncio(struct search *s, const struct candidate *interpreter)
{
        uint64_t found = debug_section(interpreter);
        struct candidate *c = &s->asyncio;
        int fd;

        if (found || !c->path)
                return found;
        fd = open_file(s, c);
        if (fd >= 0 && infp_image_open(&c->image, fd, c->path, NULL) == 0) {
                found = find_bias(c) ? debug_section(c) : 0;
                infp_image_close(&c->image);
        }
        return found;
}

/* ---- all ---- */

static void take_loop(struct candidate *c, struct infp_python *ret)
{
        infp_python_loop_find(&c->image, &c->file);
        for (ret->n_ranges = 0; ret->n_ranges < c->file.n_parts; ret->n_ranges++) {
                const struct infp_python_range *part = &c->file.parts[ret->n_ranges];

                ret->ranges[ret->n_ranges] =
                        (struct infp_python_range){ part->begin + c->bias, part->end + c->bias, part->is_handler };
        }
}

static int take(struct search *s, struct candidate *c, struct infp_python *ret, struct infp_err *err)
{
        const struct infp_python_memory memory = infp_python_process_memory(s->thread);

        const struct candidate *program = s->program_file ? s->program_file : c;

        *ret = (struct infp_python){
                .runtime = resolve(program->file.runtime, program, c->file.runtime, c),
                .code_type = resolve(program->file.code_type, program, c->file.code_type, c),
                .none = resolve(program->file.none, program, c->file.none, c),
                .has_glibc = s->has_glibc,
        };
        snprintf(ret->object, sizeof(ret->object), "%s", c->path);
        if (!ret->runtime) {
                ret->version = version_by_name(c->path);
                return refuse_version(ret, err);
        }
        INFP_TRY(find_layout(&memory, c, ret, err));
        INFP_TRY(check(ret, &memory, err));
        take_loop(c, ret);
        ret->asyncio_debug = find_asyncio(s, c);
        return 0;
}

static bool is_python(const struct candidate *c)
{
        return c->file.get_version || c->file.runtime || c->file.loop;
}

static int find(struct search *s, struct infp_python *ret, struct infp_err *err)
{
        const struct infp_python_memory memory = infp_python_process_memory(s->thread);
        int r = -ENOENT;

        for (unsigned i = 0; i < s->n_files; i++)
                read_file(s, &s->files[i]);
        for (unsigned i = 0; i < s->n_files; i++) {
                if (!is_python(&s->files[i]))
                        continue;
                r = take(s, &s->files[i], ret, err);
                /* A library may be there for another's sake: one that has an interpreter comes first. */
                if (r == -EPERM || r == -ESRCH || (r == 0 && has_interpreter(ret, &memory)))
                        return r;
        }
        if (r != -ENOENT)
                return r;
        if (s->open_error)
                return infp_fail_errno(err, s->open_error, "cannot open %s of process %d", s->unopened, (int) s->pid);
        return infp_fail(err, -ENOENT, "process %d runs no Python: neither its program %s nor a libpython says so",
                         (int) s->pid, s->program);
}

int infp_python_find(int root_fd, pid_t pid, struct infp_python *ret, struct infp_err *err)
{
        struct search *s = calloc(1, sizeof(*s)); /* too large for the stack of a thread of ours */
        int r;

        if (!s)
                return infp_fail_errno(err, -ENOMEM, "cannot look for Python in process %d", (int) pid);
        s->root_fd = root_fd;
        s->pid = pid;
        s->thread = infp_proc_thread(root_fd, "proc/", pid);
        r = read_maps(s, err);
        if (r == 0) {
                read_program(s);
                list_files(s);
                r = find(s, ret, err);
        }
        for (unsigned i = 0; i < s->n_files; i++)
                infp_image_close(&s->files[i].image);
        free(s->maps);
        free(s);
        return r;
}

const char *infp_python_gil_problem(const struct infp_python *python)
{
        if (!python->has_glibc)
                return "its C library is not glibc, whose condition variables show who waits for the GIL";
        return NULL;
}

const char *infp_python_tasks_problem(const struct infp_python *python, const struct infp_python_memory *memory,
                                      struct infp_python_task_layout *ret)
{
        uint8_t runtime[INFP_PYTHON_DEBUG_OFFSETS], asyncio[INFP_PYTHON_ASYNCIO_DEBUG];
        const bool has_runtime = memory->read(memory->context, python->runtime, runtime, sizeof(runtime)) == 0,
                   has_asyncio = python->asyncio_debug &&
                                 memory->read(memory->context, python->asyncio_debug, asyncio, sizeof(asyncio)) == 0;

        if (infp_python_task_layout_of(&python->layout, has_runtime ? runtime : NULL, has_asyncio ? asyncio : NULL,
                                       ret))
                return NULL;
        return "where this version keeps tasks is not known";
}
