/* Reads and writes of a container on each block device: io.stat (v2), blkio.throttle.* (v1).
 *
 * The same bytes pass a device-mapper or md device and the disk under it, and the kernel counts them at both: a device is
 * left out of the sum when a whole disk under it is in the list. Some kernels leave names without numbers before the next one
 * on a line: the last name owns the numbers. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/names.h"
#include "collectors/container/state.h"
#include "collectors/fields.h"

enum { READ_BYTES, WRITE_BYTES, READS, WRITES, N_FIGURES, MOST_LEVELS = 8 };

struct figure {
        uint32_t major, minor;
        uint64_t v[N_FIGURES];
        uint8_t has;
};

struct figures {
        struct figure list[CONTAINER_DEVICES];
        unsigned n;
        bool is_cut;
};

void container_devices_done(struct block_devices *devices)
{
        free(devices->list);
        *devices = (struct block_devices){ 0 };
}

/* "8:0" */
static bool parse_number(struct infp_span word, uint32_t *ret_major, uint32_t *ret_minor)
{
        struct infp_span rest = { "", 0 }, first = infp_span_cut(word, ':', &rest);
        uint64_t major, minor;

        if (infp_span_u64(first, &major) || infp_span_u64(rest, &minor) || major > UINT32_MAX || minor > UINT32_MAX)
                return false;
        *ret_major = (uint32_t) major;
        *ret_minor = (uint32_t) minor;
        return true;
}

static struct figure *figure_of(struct figures *f, uint32_t major, uint32_t minor)
{
        for (unsigned i = 0; i < f->n; i++)
                if (f->list[i].major == major && f->list[i].minor == minor)
                        return &f->list[i];
        if (f->n == CONTAINER_DEVICES) {
                f->is_cut = true; /* a sum without it would be wrong */
                return NULL;
        }
        f->list[f->n] = (struct figure){ .major = major, .minor = minor };
        return &f->list[f->n++];
}

static void put(struct figures *f, uint32_t major, uint32_t minor, unsigned what, struct infp_span value)
{
        struct figure *figure;
        uint64_t v;

        if (infp_span_u64(value, &v))
                return;
        figure = figure_of(f, major, minor);
        if (!figure)
                return;
        figure->v[what] += v;
        figure->has |= (uint8_t) (1u << what);
}

static void take_v2_line(struct figures *f, struct infp_span line)
{
        static const char *const names[N_FIGURES] = { "rbytes", "wbytes", "rios", "wios" };
        struct infp_span word;
        uint32_t major = 0, minor = 0;
        bool has_device = false;

        while ((word = infp_span_word(&line)).size) {
                struct infp_span value = { "", 0 }, name = infp_span_cut(word, '=', &value);

                if (parse_number(word, &major, &minor)) {
                        has_device = true;
                        continue;
                }
                if (name.size == word.size) { /* "(unknown)" */
                        has_device = false;
                        continue;
                }
                for (unsigned i = 0; has_device && i < N_FIGURES; i++)
                        if (infp_span_is(name, names[i]))
                                put(f, major, minor, i, value);
        }
}

/* "8:0 Read 4096"; "Total 4096" is the sum over everything, layers included. */
static void take_v1_line(struct figures *f, struct infp_span line, unsigned first)
{
        struct infp_span device = infp_span_word(&line), what = infp_span_word(&line);
        uint32_t major, minor;

        if (!parse_number(device, &major, &minor))
                return;
        if (infp_span_is(what, "Read"))
                put(f, major, minor, first, infp_span_word(&line));
        else if (infp_span_is(what, "Write"))
                put(f, major, minor, first + 1, infp_span_word(&line));
}

static void read_figures(struct containers *s, const struct infp_env *env, struct container *c,
                         enum container_file file, struct figures *f)
{
        struct infp_span text, whole, line;

        if (container_read_file(s, env, c, file, &text) < 0)
                return;
        whole = infp_whole_words(text);
        /* The kernel may end after a bare name; a cut number makes the sum fall, which must not be shown. */
        if (whole.size < text.size && memchr(text.at + whole.size, '=', text.size - whole.size))
                f->is_cut = true;
        if (whole.size < text.size && !c->is_v2[INFP_CG_IO])
                f->is_cut = true;
        while (infp_span_line(&whole, &line)) {
                if (c->is_v2[INFP_CG_IO])
                        take_v2_line(f, line);
                else
                        take_v1_line(f, line, file == FILE_IO_CALLS ? READS : READ_BYTES);
        }
}

/* The name at the end of the link sys/dev/block/8:0; trees without links have its text in a file. */
static bool name_of(const struct infp_env *env, uint32_t major, uint32_t minor, char *ret, size_t cap)
{
        char path[64], text[256];
        const char *slash;
        ssize_t n;

        snprintf(path, sizeof(path), "sys/dev/block/%u:%u", major, minor);
        n = readlinkat(env->root_fd, path, text, sizeof(text) - 1);
        if (n < 0 && errno == EINVAL)
                n = infp_read_at(env->root_fd, path, text, sizeof(text));
        if (n <= 0)
                return false;
        text[n] = 0;
        text[strcspn(text, "\n")] = 0;
        slash = strrchr(text, '/');
        snprintf(ret, cap, "%.31s", slash ? slash + 1 : text);
        return ret[0] != 0;
}

static bool number_of(const struct infp_env *env, const char *disk, uint32_t ret[2])
{
        char path[320], text[32];
        struct infp_span line;

        snprintf(path, sizeof(path), "sys/block/%s/dev", disk);
        if (infp_read_at(env->root_fd, path, text, sizeof(text)) <= 0)
                return false;
        line = (struct infp_span){ text, strcspn(text, "\n") };
        return parse_number(line, &ret[0], &ret[1]);
}

/* Calls back for each entry of a directory. */
static void each(const struct infp_env *env, const char *path, void (*entry)(void *context, const char *name),
                 void *context)
{
        infp_autoclose int fd = openat(env->root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct infp_names names;
        const char *name;

        infp_names_begin(&names, fd);
        while ((name = infp_names_next(&names)))
                if (name[0] != '.')
                        entry(context, name);
}

struct lower_walk {
        const struct infp_env *env;
        struct block_device *device;
        unsigned level;
        const char *part; /* the one whose disk is looked for */
        char disk[64];
};

static void try_disk(void *context, const char *disk)
{
        struct lower_walk *walk = context;
        char path[320];

        snprintf(path, sizeof(path), "sys/block/%s/%s", disk, walk->part);
        if (!walk->disk[0] && (!strcmp(disk, walk->part) || faccessat(walk->env->root_fd, path, F_OK, 0) == 0))
                snprintf(walk->disk, sizeof(walk->disk), "%.63s", disk);
}

/* One slave: a whole disk, a partition of one, or another layer. */
static void add_slave(void *context, const char *name)
{
        struct lower_walk *walk = context, below = { walk->env, walk->device, walk->level + 1, name, "" };
        struct block_device *d = walk->device;
        uint8_t before = d->n_lower;
        char path[320];

        if (walk->level == MOST_LEVELS)
                return;
        snprintf(path, sizeof(path), "sys/block/%s/slaves", name);
        each(walk->env, path, add_slave, &below);
        if (d->n_lower > before) /* what is under it counts */
                return;
        each(walk->env, "sys/block", try_disk, &below);
        if (below.disk[0] && d->n_lower < INFP_COUNT(d->lower) &&
            number_of(walk->env, below.disk, d->lower[d->n_lower]))
                d->n_lower++;
}

static void look_up(const struct infp_env *env, struct block_device *d)
{
        static const char *const virtual[] = { "loop", "zram", "ram" };
        struct lower_walk walk = { env, d, 0, NULL, "" };
        char path[64];

        if (!name_of(env, d->major, d->minor, d->name, sizeof(d->name)))
                return;
        for (size_t i = 0; i < INFP_COUNT(virtual); i++)
                d->is_virtual = d->is_virtual || strncmp(d->name, virtual[i], strlen(virtual[i])) == 0;
        snprintf(path, sizeof(path), "sys/block/%s/slaves", d->name);
        each(env, path, add_slave, &walk);
}

static const struct block_device *device_of(struct containers *s, const struct infp_env *env, uint32_t major,
                                            uint32_t minor)
{
        struct block_devices *devices = &s->devices;

        for (unsigned i = 0; i < devices->n; i++)
                if (devices->list[i].major == major && devices->list[i].minor == minor)
                        return &devices->list[i];
        if (!INFP_MAKE_ROOM(devices->list, devices->n, devices->cap, 16))
                return NULL;
        devices->list[devices->n] = (struct block_device){ .major = major, .minor = minor };
        look_up(env, &devices->list[devices->n]);
        return &devices->list[devices->n++];
}

static bool has_numbers(const struct figures *f, const uint32_t number[2])
{
        for (unsigned i = 0; i < f->n; i++)
                if (f->list[i].major == number[0] && f->list[i].minor == number[1] && f->list[i].has)
                        return true;
        return false;
}

static bool is_counted(const struct figures *f, const struct block_device *d)
{
        if (!d)
                return true;
        for (unsigned i = 0; i < d->n_lower; i++)
                if (has_numbers(f, d->lower[i]))
                        return false;
        return !d->is_virtual;
}

static void put_lower(struct containers *s, const struct infp_env *env, const struct block_device *d,
                      struct infp_row *row)
{
        char text[256] = "";
        size_t size = 0;

        for (unsigned i = 0; i < d->n_lower; i++) {
                char name[32];

                if (!name_of(env, d->lower[i][0], d->lower[i][1], name, sizeof(name)))
                        snprintf(name, sizeof(name), "%u:%u", d->lower[i][0], d->lower[i][1]);
                size += (size_t) snprintf(text + size, sizeof(text) - size, "%s%s", i ? "," : "", name);
                if (size >= sizeof(text))
                        break;
        }
        (void) s;
        infp_row_foreign(row, DEVICE_LOWER, text);
}

static void emit_device(struct containers *s, const struct infp_env *env, struct infp_emit *emit,
                        const struct container *c, const struct figure *figure, bool counted, uint64_t t_ns)
{
        struct infp_row *row = infp_emit_begin(emit, &infp_table_container_device, t_ns);
        const struct block_device *d = device_of(s, env, figure->major, figure->minor);
        char number[24];

        snprintf(number, sizeof(number), "%u:%u", figure->major, figure->minor);
        infp_row_id(row, DEVICE_OF, c->id);
        infp_row_str(row, DEVICE_NUMBER, number);
        if (d && d->name[0])
                infp_row_bytes(row, DEVICE_NAME, d->name, strlen(d->name));
        if (d)
                put_lower(s, env, d, row);
        infp_row_bool(row, DEVICE_COUNTED, counted);
        for (unsigned i = 0; i < N_FIGURES; i++)
                if (figure->has >> i & 1)
                        infp_row_raw(row, DEVICE_READ_BYTES + i, figure->v[i]);
        infp_emit_commit(emit);
}

void container_devices(struct containers *s, const struct infp_env *env, struct infp_emit *emit, struct container *c,
                       struct infp_row *sums)
{
        static const unsigned cells[N_FIGURES] = { C_READ_BYTES, C_WRITE_BYTES, C_READS, C_WRITES };
        uint64_t t_ns = env->now_ns(env), total[N_FIGURES] = { 0 };
        struct figures f = { .n = 0 };

        read_figures(s, env, c, FILE_IO, &f);
        if (!c->is_v2[INFP_CG_IO])
                read_figures(s, env, c, FILE_IO_CALLS, &f);
        for (unsigned i = 0; i < f.n; i++) {
                bool counted = is_counted(&f, device_of(s, env, f.list[i].major, f.list[i].minor));

                for (unsigned k = 0; k < N_FIGURES && counted; k++)
                        total[k] += f.list[i].v[k];
                emit_device(s, env, emit, c, &f.list[i], counted, t_ns);
        }
        /* An empty list in an existing file: it has not read or written yet. */
        for (unsigned k = 0; k < N_FIGURES && !f.is_cut; k++)
                if (!c->r[k >= READS && !c->is_v2[INFP_CG_IO] ? FILE_IO_CALLS : FILE_IO])
                        infp_row_raw(sums, cells[k], total[k]);
}
