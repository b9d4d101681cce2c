#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/sort.h"
#include "finish/symbolize_parts.h"
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

/* Makes room for one more of an array. */
static int room(void *array, uint32_t *cap, uint32_t n, size_t size)
{
        void **memory = array, *grown;

        if (n < *cap)
                return 0;
        if (n >= MOST_FRAMES)
                return -ENOMEM;
        grown = realloc(*memory, (*cap ? 2 * (size_t) *cap : 256) * size);
        if (!grown)
                return -ENOMEM;
        *memory = grown;
        *cap = *cap ? 2 * *cap : 256;
        return 0;
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
        if (room(&naming->objects, &naming->cap_objects, naming->n_objects, sizeof(*naming->objects)) < 0)
                return -ENOMEM;
        object = &naming->objects[naming->n_objects];
        *object = (struct infp_asked_object){ .path = is_kernel ? strdup("[kernel]") : strndup(path, size),
                                              .build_id = strndup(build_id, id_size),
                                              .is_kernel = is_kernel };
        naming->n_objects++;
        if (!object->path || !object->build_id || infp_map_put(&naming->by_object, hash, naming->n_objects - 1) < 0)
                return -ENOMEM;
        return naming->n_objects - 1;
}

enum { ID, KIND, OBJECT, BUILD_ID, ADDRESS };
static const char *const frame_columns[] = { "id", "fKind", "fObject", "fBuildId", "fAddress", NULL };

static bool is_in_file(uint8_t kind, const char *path, size_t size)
{
        const bool is_vdso = size == 6 && memcmp(path, "[vdso]", 6) == 0;

        /* Of an object that could not be read the address is an offset: it may be anything. */
        return kind != INFP_FRAME_JIT && kind != INFP_FRAME_PYTHON && kind != INFP_FRAME_UNKNOWN && size &&
               (*path == '/' || is_vdso);
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
                                          .object = UINT32_MAX,
                                          .kind = (uint8_t) (kind_number < 0 ? INFP_FRAME_UNKNOWN : kind_number) };

        if (!id || !has(c, ADDRESS, row) || frame.kind == INFP_FRAME_PYTHON || infp_map_get(&naming->by_id, id))
                return 0;
        if (frame.kind == INFP_FRAME_KERNEL || is_in_file(frame.kind, path, size)) {
                const int64_t object =
                        find_object(naming, path, size, build_id, id_size, frame.kind == INFP_FRAME_KERNEL);

                if (object < 0)
                        return -ENOMEM;
                frame.object = (uint32_t) object;
        }
        if (room(&naming->frames, &naming->cap_frames, naming->n_frames, sizeof(frame)) < 0)
                return -ENOMEM;
        naming->frames[naming->n_frames] = frame;
        return infp_map_put(&naming->by_id, id, naming->n_frames++);
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
        /* The recorder demangles nothing: names can be made to crash who does. */
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

static int order(struct infp_naming *naming, struct infp_err *err)
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

/* To look for the columns of a table costs 3 ms, to look for its files nothing. */
static bool has_stacks(const struct infp_run *run)
{
        infp_cleanup(infp_parts_done) struct infp_parts parts = { 0 };

        return infp_parts_list(run, infp_table_frames.name, &parts, NULL) < 0 || parts.n > 0;
}

int infp_naming_read(struct infp_naming *naming, struct infp_err *err)
{
        if (!has_stacks(naming->run))
                return 0;
        INFP_TRY(read_frames(naming, err));
        INFP_TRY(read_symbols(naming, err));
        return order(naming, err);
}
