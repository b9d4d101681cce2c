#include "finish/symbolize.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/human.h"
#include "base/mem.h"
#include "base/notice.h"
#include "base/sort.h"
#include "base/text.h"
#include "finish/lock.h"
#include "finish/symbolize_parts.h"
#include "finish/tables.h"
#include "query/parts.h"
#include "query/scan.h"

enum { MOST_FRAMES = 16 << 20 };

static const char *const names_from[] = { "", "range", "code", "dynsym", "debugdata", "gopclntab", "symtab", "dwarf" };
_Static_assert(INFP_COUNT(names_from) == INFP_NAME_FIXED, "a rank has no word");

enum infp_name_rank infp_name_rank(const char *from, size_t size)
{
        for (unsigned i = 0; i < INFP_COUNT(names_from); i++)
                if (strlen(names_from[i]) == size && memcmp(names_from[i], from, size) == 0)
                        return (enum infp_name_rank) i;
        return INFP_NAME_FIXED;
}

const char *infp_name_from(enum infp_name_rank rank)
{
        return rank < INFP_COUNT(names_from) ? names_from[rank] : "";
}

struct columns {
        struct infp_scan *scan;
        struct infp_batch batch;
        int at[8];
};

static int open_scan(struct infp_run *run, const char *table, const char *const *names, struct columns *ret,
                     struct infp_err *err)
{
        INFP_TRY(infp_scan_open(run, table, &(struct infp_scan_options){ .columns = names }, &ret->scan, err));
        for (unsigned i = 0; names[i]; i++)
                ret->at[i] = infp_table_find(infp_scan_table(ret->scan), names[i]);
        return 0;
}

static const char *text(const struct columns *c, unsigned column, uint32_t row, size_t *ret_size)
{
        *ret_size = 0;
        return c->at[column] < 0 ? "" : infp_batch_str(&c->batch, (unsigned) c->at[column], row, ret_size);
}

static uint64_t number(const struct columns *c, unsigned column, uint32_t row)
{
        return c->at[column] < 0 ? 0 : infp_batch_u64(&c->batch, (unsigned) c->at[column], row);
}

static bool has(const struct columns *c, unsigned column, uint32_t row)
{
        return c->at[column] >= 0 && infp_batch_has(&c->batch, (unsigned) c->at[column], row);
}

/* The object of a frame, made at its first. -ENOMEM. */
static int64_t find_object(struct infp_naming *naming, const char *path, size_t size, const char *build_id,
                           size_t id_size, bool is_kernel)
{
        const uint64_t hash = is_kernel ? 1 : infp_hash64(path, size, infp_hash64(build_id, id_size, 2));
        const uint64_t *found = infp_map_get(&naming->by_object, hash);
        struct infp_asked_object *object;

        if (found)
                return (int64_t) *found;
        if (naming->n_objects >= MOST_FRAMES ||
            !INFP_MAKE_ROOM(naming->objects, naming->n_objects, naming->cap_objects, 256))
                return -ENOMEM;
        object = &naming->objects[naming->n_objects];
        *object = (struct infp_asked_object){ .path = is_kernel ? strdup("[kernel]") : strndup(path, size),
                                              .build_id = strndup(build_id, id_size),
                                              .fd = -1,
                                              .is_kernel = is_kernel };
        naming->n_objects++;
        if (!object->path || !object->build_id || infp_map_put(&naming->by_object, hash, naming->n_objects - 1) < 0)
                return -ENOMEM;
        return naming->n_objects - 1;
}

enum { ID, KIND, OBJECT, BUILD_ID, ADDRESS };
static const char *const frame_columns[] = { "id", "fKind", "fObject", "fBuildId", "fAddress", NULL };

int infp_naming_add(struct infp_naming *naming, const struct infp_asked_frame *frame, const char *path, size_t size,
                    const char *build_id, size_t id_size)
{
        struct infp_asked_frame is = *frame;

        is.object = UINT32_MAX;
        if (infp_frame_is_in_file(is.kind, path, size)) {
                const int64_t object = find_object(naming, path, size, build_id, id_size, is.kind == INFP_FRAME_KERNEL);

                if (object < 0)
                        return -ENOMEM;
                is.object = (uint32_t) object;
        }
        if (naming->n_frames >= MOST_FRAMES ||
            !INFP_MAKE_ROOM(naming->frames, naming->n_frames, naming->cap_frames, 256))
                return -ENOMEM;
        naming->frames[naming->n_frames] = is;
        return infp_map_put(&naming->by_id, is.id, naming->n_frames++);
}

static int take_frame(struct infp_naming *naming, const struct columns *c, uint32_t row)
{
        const uint64_t id = number(c, ID, row);
        size_t kind_size, size, id_size;
        const char *kind = text(c, KIND, row, &kind_size), *path = text(c, OBJECT, row, &size),
                   *build_id = text(c, BUILD_ID, row, &id_size);
        const int kind_number = infp_frame_kind_by_name(kind, kind_size);
        struct infp_asked_frame frame = { .id = id,
                                          .address = number(c, ADDRESS, row),
                                          .kind = (uint8_t) (kind_number < 0 ? INFP_FRAME_UNKNOWN : kind_number) };

        if (!id || !has(c, ADDRESS, row) || frame.kind == INFP_FRAME_PYTHON || infp_map_get(&naming->by_id, id))
                return 0;
        return infp_naming_add(naming, &frame, path, size, build_id, id_size);
}

static int read_frames(struct infp_naming *naming, struct infp_err *err)
{
        struct columns c = { 0 };
        int r = open_scan(naming->run, infp_table_frames.name, frame_columns, &c, err);

        while (r >= 0 && (r = infp_scan_next(c.scan, &c.batch, err)) > 0)
                for (uint32_t i = 0; i < c.batch.n_rows && r > 0; i++)
                        if (take_frame(naming, &c, i) < 0)
                                r = infp_fail(err, -ENOMEM, "no memory for the frames of the run");
        infp_scan_close(c.scan);
        return r == -ENOENT ? 0 : r;
}

enum { FRAME, LEVEL, NAME, MANGLED, FILE_, FROM };
static const char *const symbol_columns[] = { "frame", "sLevel", "sName", "sMangled", "sFile", "sFrom", NULL };

static int take_symbol(struct infp_naming *naming, const struct columns *c, uint32_t row)
{
        const uint64_t *at = infp_map_get(&naming->by_id, number(c, FRAME, row));
        struct infp_asked_frame *frame = at ? &naming->frames[*at] : NULL;
        const uint64_t t_ns = (uint64_t) infp_batch_i64(&c->batch, 0, row);
        size_t size, name_size;
        const char *from = text(c, FROM, row, &size), *name;

        if (t_ns > naming->last_t_ns)
                naming->last_t_ns = t_ns;
        if (!frame)
                return 0;
        if (c->at[LEVEL] >= 0 && infp_batch_i64(&c->batch, (unsigned) c->at[LEVEL], row)) {
                frame->has_line |= has(c, FILE_, row);
                return 0;
        }
        frame->rank = (uint8_t) infp_name_rank(from, size);
        frame->has_line = has(c, FILE_, row);
        frame->is_live = t_ns < naming->run->info.ended_t_ns;
        free(frame->raw);
        frame->raw = NULL;
        name = text(c, NAME, row, &name_size);
        /* The recorder demangles nothing: crafted names can crash a demangler. */
        if (has(c, MANGLED, row) || frame->rank == INFP_NAME_FIXED || name_size < 3 ||
            (memcmp(name, "_Z", 2) != 0 && memcmp(name, "_R", 2) != 0))
                return 0;
        frame->raw = strndup(name, name_size);
        frame->raw_rank = frame->rank;
        return frame->raw ? 0 : -ENOMEM;
}

static int read_symbols(struct infp_naming *naming, struct infp_err *err)
{
        struct columns c = { 0 };
        int r = open_scan(naming->run, infp_table_symbols.name, symbol_columns, &c, err);

        while (r >= 0 && (r = infp_scan_next(c.scan, &c.batch, err)) > 0)
                for (uint32_t i = 0; i < c.batch.n_rows && r > 0; i++)
                        if (take_symbol(naming, &c, i) < 0)
                                r = infp_fail(err, -ENOMEM, "no memory for the symbols of the run");
        infp_scan_close(c.scan);
        return r == -ENOENT ? 0 : r;
}

static bool is_asked(const struct infp_naming *naming, const struct infp_asked_frame *frame)
{
        if (frame->object == UINT32_MAX)
                return frame->raw != NULL;
        if (frame->rank == INFP_NAME_NONE || frame->raw || (frame->is_live && frame->rank != INFP_NAME_FIXED))
                return true;
        return naming->options->again && frame->rank != INFP_NAME_FIXED &&
               (frame->rank < INFP_NAME_SYMTAB || !frame->has_line);
}

static int by_place(const void *left, const void *right, void *context)
{
        const struct infp_naming *naming = context;
        const struct infp_asked_frame *a = &naming->frames[*(const uint32_t *) left],
                                      *b = &naming->frames[*(const uint32_t *) right];

        if (a->object != b->object)
                return a->object < b->object ? -1 : 1;
        return a->address < b->address ? -1 : a->address > b->address;
}

int infp_naming_sort(struct infp_naming *naming, struct infp_err *err)
{
        naming->order = malloc((naming->n_frames + 1) * sizeof(*naming->order));
        if (!naming->order)
                return infp_fail(err, -ENOMEM, "no memory for the frames of the run");
        for (uint32_t i = 0; i < naming->n_frames; i++) {
                naming->frames[i].is_asked = is_asked(naming, &naming->frames[i]);
                if (naming->frames[i].is_asked)
                        naming->order[naming->n_asked++] = i;
        }
        infp_sort_r(naming->order, naming->n_asked, sizeof(*naming->order), by_place, naming);
        for (uint32_t i = naming->n_asked; i-- > 0;) {
                const uint32_t object = naming->frames[naming->order[i]].object;

                if (object == UINT32_MAX)
                        continue;
                naming->objects[object].first = i;
                naming->objects[object].n++;
        }
        return 0;
}

/* Looking up the columns of a table takes 3 ms of CPU; listing its files is free. */
static bool has_stacks(const struct infp_run *run)
{
        infp_cleanup(infp_parts_done) struct infp_parts parts = { 0 };

        return infp_parts_list(run, infp_table_frames.name, &parts, NULL) < 0 || parts.n > 0;
}

static int read_run(struct infp_naming *naming, struct infp_err *err)
{
        if (!has_stacks(naming->run))
                return 0;
        INFP_TRY(read_frames(naming, err));
        INFP_TRY(read_symbols(naming, err));
        return infp_naming_sort(naming, err);
}

/* What has no name, and why: one notice for each reason, and rows of `sources`. */
enum { MOST_LISTED = 3, MOST_SOURCES = 20 };

static void add(struct infp_str *list, unsigned n, const char *path, uint64_t n_frames)
{
        if (n < MOST_LISTED)
                infp_str_printf(list, "%s%s (%s)", n ? ", " : "", infp_base_name(path), infp_count(n_frames).text);
        else if (n == MOST_LISTED)
                infp_str_puts(list, " ...");
}

/* Frames of a file that was read but does not name them. */
static uint64_t count_nameless(const struct infp_asked_object *object)
{
        return object->problem || object->is_kernel ? object->n_ranges : object->n - object->n_named;
}

/* All frames without a name are Go's, whose table cannot be read. */
static bool is_go_alone(const struct infp_naming *naming)
{
        bool is_any = false;

        for (uint32_t i = 0; i < naming->n_frames; i++) {
                const struct infp_asked_frame *frame = &naming->frames[i];

                if (frame->object == UINT32_MAX || frame->kind == INFP_FRAME_KERNEL || frame->rank > INFP_NAME_RANGE)
                        continue;
                if (frame->kind != INFP_FRAME_GO)
                        return false;
                is_any = true;
        }
        return is_any;
}

/* Functions of which at most the extent is known. */
static int say_ranges(struct infp_naming *naming, uint32_t *const by_need, struct infp_err *err)
{
        infp_autostr struct infp_str list = { 0 }, text = { 0 }, fix = { 0 };
        uint64_t n_frames = 0, n_ranges = 0;
        unsigned n = 0;

        for (uint32_t i = 0; i < naming->n_objects; i++) {
                const struct infp_asked_object *object = &naming->objects[by_need[i]];

                if (!count_nameless(object))
                        continue;
                add(&list, n++, object->path, count_nameless(object));
                n_frames += count_nameless(object);
                n_ranges += object->n_ranges;
        }
        if (!n)
                return 0;
        infp_str_printf(&text,
                        "%s of %s code addresses have no symbol name (shown as %s): %u file%s stripped or without "
                        "symbols there: %s",
                        infp_count(n_frames).text, infp_count(naming->n_frames).text,
                        n_ranges == n_frames ? "[lib+offset]"
                        : n_ranges           ? "[lib+offset] or [lib]"
                                             : "their file",
                        n, n == 1 ? " is" : "s are", list.data);
        if (is_go_alone(naming))
                infp_str_puts(&fix, "Go has no packages of debug symbols: build it without -ldflags=-s");
        else
                infp_str_printf(&fix,
                                "install their debug symbols (Debian: packages that end in -dbgsym or -dbg), or put "
                                "them in a directory, and run `infprof symbolize -r %s --debug-dir DIR`",
                                naming->run->info.uuid);
        if (text.failed || fix.failed)
                return 0;
        infp_notice(naming->notices, "%s; %s", text.data, fix.data);
        return infp_naming_put_source(naming, NULL, "absent", text.data, fix.data, err);
}

static const char *state_of(int why)
{
        return why == -EACCES || why == -EPERM ? "denied" : why == -ENOENT ? "absent" : "broken";
}

/* A file that is gone by now, but whose code the recorder has named. */
static bool is_named_beside(const struct infp_asked_object *object)
{
        return object->why && !object->tries && object->n == object->n_named + object->n_ranges;
}

/* Files that are gone, have changed, or crashed their reader; the kernel when it hides its addresses. */
static int say_problems(struct infp_naming *naming, uint32_t *const by_need, struct infp_err *err)
{
        unsigned n_said = 0, n_more = 0;
        const char *said = NULL; /* that libdw is missing is true of many */

        for (uint32_t i = 0; i < naming->n_objects; i++) {
                const struct infp_asked_object *object = &naming->objects[by_need[i]];

                if (!object->problem || is_named_beside(object) || (said && strcmp(said, object->problem) == 0))
                        continue;
                said = object->problem;
                if (n_said < MOST_LISTED || object->is_kernel)
                        infp_notice(naming->notices, "%s", object->problem);
                else
                        n_more++;
                if (n_said++ < MOST_SOURCES)
                        INFP_TRY(infp_naming_put_source(naming, object->path, state_of(object->why), object->problem,
                                                        NULL, err));
        }
        if (n_more)
                infp_notice(naming->notices, "%u more files have no names for similar reasons: see table sources",
                            n_more);
        return 0;
}

/* Programs that generate code at run time, by their sampled objects, and how to make them name it. */
static const struct {
        const char *begins[3];
        const char *fix;
} makers[] = {
        { { "libdnnl", "libtorch_cpu", "libopenvino_intel_cpu" }, "oneDNN: ONEDNN_JIT_PROFILE=2" },
        { { "node", "libnode" }, "Node.js: --perf-basic-prof" },
        { { "libcoreclr" }, ".NET: DOTNET_PerfMapEnabled=1" },
        { { "libjvm" },
          "Java: perf-map-agent, or -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit of JDK 17 and later" },
        { { "libjulia" }, "Julia: ENABLE_JITPROFILING=1" },
};
enum { BY_JIT_NAMES = 3 }; /* the first ones, which record --jit-names sets */

static bool is_object_of(const struct infp_asked_object *object, unsigned maker)
{
        const char *base = infp_base_name(object->path);

        for (unsigned i = 0; i < INFP_COUNT(makers[maker].begins) && makers[maker].begins[i]; i++)
                if (strcmp(makers[maker].begins[i], "node") == 0
                            ? strcmp(base, "node") == 0
                            : strncmp(base, makers[maker].begins[i], strlen(makers[maker].begins[i])) == 0)
                        return true;
        return false;
}

/* The fixes for those that were sampled, else for all. */
static void put_makers(const struct infp_naming *naming, struct infp_str *fix)
{
        bool is_there[INFP_COUNT(makers)] = { false }, is_known = false, can_set = false;
        const char *between = "";

        for (uint32_t i = 0; i < naming->n_objects; i++)
                for (unsigned k = 0; k < INFP_COUNT(makers); k++) {
                        is_there[k] |= is_object_of(&naming->objects[i], k);
                        is_known |= is_there[k];
                }
        for (unsigned k = 0; k < INFP_COUNT(makers); k++)
                if (is_there[k] || !is_known) {
                        infp_str_printf(fix, "%s%s", between, makers[k].fix);
                        between = "; ";
                        can_set |= k < BY_JIT_NAMES;
                }
        if (!is_known)
                infp_str_puts(fix, "; Python functions of 3.12 and later: -X perf");
        if (can_set)
                infp_str_puts(fix, "; `record --jit-names` sets these");
}

/* Code generated at run time that no file names. */
static int say_made(struct infp_naming *naming, struct infp_err *err)
{
        infp_autostr struct infp_str fix = { 0 };
        char text[160];
        uint64_t n = 0;

        for (uint32_t i = 0; i < naming->n_frames; i++)
                n += naming->frames[i].kind == INFP_FRAME_JIT && naming->frames[i].rank == INFP_NAME_NONE;
        if (!n)
                return 0;
        snprintf(text, sizeof(text), "%s of %s code addresses were generated at run time and have no name",
                 infp_count(n).text, infp_count(naming->n_frames).text);
        infp_str_puts(&fix, "have the program write a perf map (");
        put_makers(naming, &fix);
        infp_str_puts(&fix, ") or a jitdump; infprof reads them while it records");
        if (fix.failed)
                return 0;
        infp_notice(naming->notices, "%s; %s", text, fix.data);
        return infp_naming_put_source(naming, "jit", "absent", text, fix.data, err);
}

static int objects_by_need(const void *left, const void *right, void *context)
{
        const struct infp_naming *naming = context;
        const struct infp_asked_object *a = &naming->objects[*(const uint32_t *) left],
                                       *b = &naming->objects[*(const uint32_t *) right];
        const uint64_t a_n = a->n - a->n_named, b_n = b->n - b->n_named;

        return a_n != b_n ? (a_n > b_n ? -1 : 1) : strcmp(a->path, b->path);
}

static int say_nameless(struct infp_naming *naming, struct infp_err *err)
{
        uint32_t *order = malloc((naming->n_objects + 1) * sizeof(*order));
        int r;

        if (!order)
                return infp_fail(err, -ENOMEM, "no memory for the files of the run");
        for (uint32_t i = 0; i < naming->n_objects; i++)
                order[i] = i;
        infp_sort_r(order, naming->n_objects, sizeof(*order), objects_by_need, naming);
        r = say_ranges(naming, order, err);
        if (r == 0)
                r = say_problems(naming, order, err);
        if (r == 0)
                r = say_made(naming, err);
        free(order);
        return r;
}

void infp_symbolized_done(struct infp_symbolized *symbolized)
{
        for (unsigned i = 0; i < symbolized->n_objects; i++) {
                free(symbolized->objects[i].path);
                free(symbolized->objects[i].build_id);
                free(symbolized->objects[i].names);
                free(symbolized->objects[i].debug_file);
                free(symbolized->objects[i].problem);
        }
        free(symbolized->objects);
        *symbolized = (struct infp_symbolized){ 0 };
}

void infp_naming_done(struct infp_naming *naming)
{
        for (uint32_t i = 0; i < naming->n_objects; i++) {
                free(naming->objects[i].path);
                free(naming->objects[i].build_id);
                free(naming->objects[i].names);
                free(naming->objects[i].debug_file);
                free(naming->objects[i].problem);
        }
        for (uint32_t i = 0; i < naming->n_frames; i++)
                free(naming->frames[i].raw);
        free(naming->objects);
        free(naming->frames);
        free(naming->order);
        infp_map_done(&naming->by_id);
        infp_map_done(&naming->by_object);
        infp_naming_free_writer(naming);
}

static void leave_out(struct infp_asked_object *object, const char *format, const char *path)
{
        object->is_left_out = true;
        object->why = -ESTALE;
        if (asprintf(&object->problem, format, path) < 0)
                object->problem = NULL;
}

/* The kernel is at another address after each boot, so its addresses are valid only within one boot. Files of other machines can
 * be identified only by build id. */
static bool is_named(const char *host, const char *recorded)
{
        char escaped[1024] = "";

        escaped[infp_text_escape(host, strlen(host), escaped, sizeof(escaped) - 1)] = 0;
        return strcmp(escaped, recorded) == 0;
}

static void leave_what_is_not_here(struct infp_naming *naming)
{
        const struct infp_run_info *info = &naming->run->info;
        char boot_id[40] = "", host[256] = "";
        bool is_this_boot, is_this_host;

        if (infp_read_at(naming->options->root_fd, "/proc/sys/kernel/random/boot_id", boot_id, 37) < 36)
                return;
        is_this_boot = strcmp(boot_id, info->boot_id) == 0;
        is_this_host = is_this_boot || (gethostname(host, sizeof(host) - 1) == 0 && is_named(host, info->hostname));
        for (uint32_t i = 0; i < naming->n_objects; i++) {
                struct infp_asked_object *object = &naming->objects[i];

                if (object->n && object->is_kernel && !is_this_boot)
                        leave_out(object,
                                  "%s: kernel frames have no names: they are from another boot or machine, and were "
                                  "not named there",
                                  object->path);
                else if (object->n && !object->is_kernel && !*object->build_id && !is_this_host)
                        leave_out(object,
                                  "%s has no build id and was recorded on another machine: a file of that name here "
                                  "may differ",
                                  object->path);
        }
}

/* Counts the results by frame. Guessed frames and those that were not asked for count as they are. */
static void count(struct infp_naming *naming, struct infp_symbolized *ret)
{
        for (uint32_t i = 0; i < naming->n_frames; i++) {
                const struct infp_asked_frame *frame = &naming->frames[i];
                struct infp_asked_object *object =
                        frame->object < naming->n_objects && frame->is_asked ? &naming->objects[frame->object] : NULL;

                ret->n_named += frame->rank > INFP_NAME_RANGE;
                ret->n_ranges += frame->rank == INFP_NAME_RANGE;
                ret->n_unnamed += frame->rank == INFP_NAME_NONE;
                ret->n_lines += frame->has_line;
                if (object) {
                        object->n_named += frame->rank > INFP_NAME_RANGE;
                        object->n_ranges += frame->rank == INFP_NAME_RANGE;
                }
        }
        ret->n_frames = naming->n_frames;
        ret->n_asked = naming->n_asked;
        ret->n_written = naming->n_written;
}

static int by_need(const void *left, const void *right)
{
        const struct infp_symbolized_object *a = left, *b = right;
        const uint64_t a_n = a->n_frames - a->n_named, b_n = b->n_frames - b->n_named;

        return a_n != b_n ? (a_n > b_n ? -1 : 1) : strcmp(a->path, b->path);
}

/* Hands the texts over. */
static void tell(struct infp_naming *naming, struct infp_symbolized *ret)
{
        ret->objects = calloc(naming->n_objects + 1, sizeof(*ret->objects));
        for (uint32_t i = 0; ret->objects && i < naming->n_objects; i++) {
                struct infp_asked_object *o = &naming->objects[i];

                if (o->n)
                        ret->objects[ret->n_objects++] = (struct infp_symbolized_object){ INFP_TAKE(o->path),
                                                                                          INFP_TAKE(o->build_id),
                                                                                          o->n,
                                                                                          o->n_named,
                                                                                          o->n_ranges,
                                                                                          INFP_TAKE(o->names),
                                                                                          INFP_TAKE(o->debug_file),
                                                                                          INFP_TAKE(o->problem),
                                                                                          o->has_lines };
        }
        infp_sort(ret->objects, ret->n_objects, sizeof(*ret->objects), by_need);
}

static int name_all(struct infp_naming *naming, struct infp_symbolized *ret, struct infp_err *err)
{
        infp_progress(naming->notices, "names of code: reading the stacks");
        INFP_TRY(read_run(naming, err));
        if (naming->n_asked) {
                leave_what_is_not_here(naming);
                INFP_TRY(infp_naming_ask(naming, err));
        }
        count(naming, ret);
        INFP_TRY(say_nameless(naming, err));
        return infp_naming_end(naming, err);
}

int infp_symbolize_frames(struct infp_run *run, const struct infp_symbolize_options *options,
                          const struct infp_notices *notices, struct infp_symbolized *ret, struct infp_err *err)
{
        struct infp_symbolize_options own = *options;
        struct infp_naming naming = { .run = run, .options = &own, .notices = notices };
        struct infp_symbolized symbolized = { 0 };
        infp_autoclose int root = -1;
        int r;

        if (own.root_fd < 0) {
                root = own.root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
                if (root < 0)
                        return infp_fail_errno(err, -errno, "cannot open / for files with symbols");
        }
        r = name_all(&naming, &symbolized, err);
        if (r == 0 && ret)
                tell(&naming, &symbolized);
        if (ret)
                *ret = symbolized;
        infp_naming_done(&naming);
        return r;
}

static void free_duck(struct infp_duck **duck)
{
        infp_duck_close(*duck);
}

int infp_symbolize(struct infp_run *run, const struct infp_symbolize_options *options,
                   const struct infp_notices *notices, struct infp_symbolized *ret, struct infp_err *err)
{
        infp_cleanup(free_duck) struct infp_duck *duck = NULL;
        infp_autoclose int fd = -1;
        struct infp_finished finished = { 0 };
        struct infp_err why = { "" };
        int r;

        if (run->state == INFP_RUN_RECORDING)
                return infp_fail(err, -EBUSY, "run %s is still being recorded by process %d", run->info.uuid,
                                 run->info.recorder_pid);
        if (run->state == INFP_RUN_INTERRUPTED)
                return infp_fail(err, -ENOTRECOVERABLE,
                                 "the recording of run %s was interrupted; `infprof recover %s/%s.infprof` repairs it "
                                 "and names its code",
                                 run->info.uuid, run->output, run->info.uuid);
        fd = infp_finish_lock(run, INFP_FINISH_PATIENCE_MS, notices, err);
        if (fd < 0)
                return fd;
        INFP_TRY(infp_symbolize_frames(run, options, notices, ret, err));
        r = run->state == INFP_RUN_FINISHED ? infp_duck_open_writer(&duck, &why)
                                            : -ENOPKG; /* otherwise `finish` does it */
        if (r < 0 && r != -ENOPKG)
                return infp_fail(err, r, "%s", why.text);
        if (r == 0) /* without DuckDB it stays Arrow, which can be read as well */
                INFP_TRY(infp_finish_tables(run, duck, notices, &finished, err));
        return infp_run_save(run, err);
}
