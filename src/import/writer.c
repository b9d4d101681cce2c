#include "import/writer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/ids.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "import/rows.h"
#include "model/id.h"
#include "model/tables.h"

struct infp_import_writer {
        struct infp_import_rows rows;
        const char *path;
        const char *wanted; /* mode, NULL: as the file says */
        const struct infp_table *process;
        int process_pid, process_name; /* cells */
        struct infp_imported *found;
        char uuid[37];
        bool has_begun;
        uint64_t begin_t_ns;
        struct infp_ids frames;   /* of the run: a symbol is written once */
        struct infp_ids entities; /* of this segment: nodes, threads, processes */
        uint64_t truncated;       /* frame that stands for outer ones that are missing; 0: not seen */
        uint64_t *nodes;          /* of the stack in hand */
        size_t cap_nodes;
        struct infp_str text; /* of the name in hand */
};

enum { MAX_FRAMES = 3000000, MAX_ENTITIES = 3000000 };

/* Entities before the facts that name them. */
static const struct infp_table *const tables[] = {
        &infp_table_clock,   &infp_table_columns,  &infp_table_frames,        &infp_table_symbols, &infp_table_stacks,
        &infp_table_threads, &infp_table_mappings, &infp_table_stack_samples, &infp_table_sampler,
};

static int cell_of(const struct infp_table *table, const char *column)
{
        return infp_table_find(table, column) - INFP_FIXED_COLUMNS;
}

static int init(struct infp_import_writer *w, struct infp_run *run, struct infp_sink *sink, struct infp_err *err)
{
        const struct infp_table *all[INFP_IMPORT_TABLES];
        unsigned n = 0;

        infp_ids_init(&w->frames, MAX_FRAMES);
        infp_ids_init(&w->entities, MAX_ENTITIES);
        memcpy(w->uuid, run->info.uuid, sizeof(w->uuid));
        if (w->process) {
                w->process_pid = cell_of(w->process, "pId");
                w->process_name = cell_of(w->process, "pName");
                all[n++] = w->process;
        }
        for (unsigned i = 0; i < INFP_COUNT(tables); i++)
                all[n++] = tables[i];
        return infp_import_rows_init(&w->rows, run, sink, all, n, err);
}

int infp_import_writer_new(struct infp_run *run, const struct infp_import_options *options, struct infp_imported *found,
                           struct infp_import_writer **ret, struct infp_err *err)
{
        struct infp_import_writer *w = calloc(1, sizeof(*w));
        int r;

        if (!w)
                return infp_fail(err, -ENOMEM, "not enough memory to import");
        w->path = options->path;
        w->wanted = options->mode;
        w->process = options->process;
        w->found = found;
        r = init(w, run, options->sink, err);
        if (r < 0)
                infp_import_writer_free(w);
        else
                *ret = w;
        return r;
}

struct infp_import_writer *infp_import_writer_free(struct infp_import_writer *w)
{
        if (!w)
                return NULL;
        infp_import_rows_done(&w->rows);
        infp_ids_done(&w->frames);
        infp_ids_done(&w->entities);
        free(w->nodes);
        infp_str_done(&w->text);
        free(w);
        return NULL;
}

static int put_columns(struct infp_import_writer *w, const struct infp_table *table, struct infp_err *err)
{
        for (unsigned i = 0; i < infp_table_width(table); i++) {
                infp_columns_row(&w->rows.row, table, i, w->begin_t_ns);
                INFP_TRY(infp_import_put(&w->rows, err));
        }
        return 0;
}

static int put_anchor(struct infp_import_writer *w, uint64_t t_ns, const char *reason, struct infp_err *err)
{
        struct infp_row *row = infp_import_row(&w->rows, &infp_table_clock, t_ns);

        infp_row_ts(row, INFP_CLOCK_REALTIME, (int64_t) (t_ns + (uint64_t) w->rows.unix_offset_ns));
        infp_row_str(row, INFP_CLOCK_REASON, reason);
        return infp_import_put(&w->rows, err);
}

int infp_import_begin(struct infp_import_writer *w, uint64_t t_ns, int64_t unix_ns, struct infp_err *err)
{
        w->has_begun = true;
        w->begin_t_ns = t_ns;
        w->rows.unix_offset_ns = (int64_t) ((uint64_t) unix_ns - t_ns);
        INFP_TRY(put_anchor(w, t_ns, "start", err));
        if (!w->rows.store) /* a caller's sink got the columns by table_begin */
                return 0;
        if (w->process)
                INFP_TRY(put_columns(w, w->process, err));
        for (unsigned i = 0; i < INFP_COUNT(tables); i++)
                INFP_TRY(put_columns(w, tables[i], err));
        return 0;
}

int infp_import_begin_now(struct infp_import_writer *w, struct infp_err *err)
{
        if (w->has_begun)
                return 0;
        return infp_import_begin(w, infp_clock_ns(CLOCK_MONOTONIC), (int64_t) infp_clock_ns(CLOCK_REALTIME), err);
}

uint64_t infp_import_begin_t_ns(const struct infp_import_writer *w)
{
        return w->begin_t_ns;
}

struct infp_imported *infp_import_found(struct infp_import_writer *w)
{
        return w->found;
}

void infp_import_skip(struct infp_import_writer *w, const char *what, uint64_t n, uint64_t where)
{
        struct infp_imported *found = w->found;

        if (!n)
                return;
        for (unsigned i = 0; i < found->n_skips; i++)
                if (found->skips[i].what == what) {
                        found->skips[i].n += n;
                        return;
                }
        if (found->n_skips < INFP_IMPORT_SKIPS) /* bound: kinds are literals of the importers; fewer than these */
                found->skips[found->n_skips++] = (struct infp_imported_skip){ what, n, where };
}

/* As a C string that lasts until the next one: no NUL in it, not longer than the bound. */
static const char *plain(struct infp_import_writer *w, struct infp_import_text text)
{
        if (text.size > INFP_IMPORT_MAX_TEXT) {
                infp_import_skip(w, "names longer than 16 KiB, which were cut", 1, 0);
                text.size = INFP_IMPORT_MAX_TEXT;
        }
        infp_str_clear(&w->text);
        infp_str_reserve(&w->text, text.size);
        while (text.size) {
                const size_t n = strnlen(text.data, text.size);

                infp_str_put(&w->text, text.data, n);
                if (n == text.size)
                        break;
                infp_str_puts(&w->text, "\\x00");
                text = (struct infp_import_text){ text.data + n + 1, text.size - n - 1 };
        }
        w->rows.failed |= w->text.failed;
        return w->text.failed ? "" : w->text.data;
}

/* Texts of a cell; none stays absent. */
static void put_text(struct infp_import_writer *w, struct infp_row *row, unsigned cell, struct infp_import_text text)
{
        if (!text.data || !text.size)
                return;
        plain(w, text);
        infp_import_reserve(&w->rows, 4 * w->text.size); /* a byte that is not UTF-8 becomes four */
        infp_row_str(row, cell, w->text.failed ? "" : w->text.data);
}

/* As model/stack_tables.h has it for one function; what was inlined makes it another place. */
static uint64_t place_id(struct infp_import_writer *w, const struct infp_import_place *place)
{
        uint64_t id = 0;

        for (unsigned i = 0; i < place->n_levels; i++) {
                const struct infp_import_level *level = &place->levels[i];
                infp_autofree char *object = strdup(plain(w, place->object)), *name = strdup(plain(w, level->name));
                const uint64_t own = object && name ? infp_named_frame_id(place->kind, object, name,
                                                                          plain(w, level->file), level->line)
                                                    : 0;

                if (!own)
                        return 0;
                id = i ? infp_stack_id(id, own) : own;
        }
        return id;
}

static int put_levels(struct infp_import_writer *w, const struct infp_import_place *place, uint64_t id,
                      struct infp_err *err)
{
        for (unsigned i = 0; i < place->n_levels; i++) {
                const struct infp_import_level *level = &place->levels[i];
                struct infp_row *row = infp_import_row(&w->rows, &infp_table_symbols, w->begin_t_ns);

                infp_row_id(row, INFP_SYMBOLS_FRAME, id);
                infp_row_i64(row, INFP_SYMBOLS_LEVEL, i);
                put_text(w, row, INFP_SYMBOLS_NAME, level->name);
                put_text(w, row, INFP_SYMBOLS_MANGLED, level->mangled);
                put_text(w, row, INFP_SYMBOLS_FILE, level->file);
                if (level->line > 0)
                        infp_row_i64(row, INFP_SYMBOLS_LINE, level->line);
                if (level->function_line > 0)
                        infp_row_i64(row, INFP_SYMBOLS_FUNCTION_LINE, level->function_line);
                infp_row_str(row, INFP_SYMBOLS_FROM, place->is_unnamed ? "range" : "import");
                INFP_TRY(infp_import_put(&w->rows, err));
        }
        return 0;
}

/* Our own and other writers put this above a stack whose outer frames are missing. */
static bool is_truncated(const struct infp_import_place *place)
{
        const struct infp_import_text name = place->levels[0].name;

        return place->n_levels == 1 && name.size == 11 && !memcmp(name.data, "[truncated]", 11);
}

static int add_frame(struct infp_import_writer *w, const struct infp_import_place *place, uint64_t *ret,
                     struct infp_err *err)
{
        struct infp_row *row;
        int r;

        INFP_TRY(infp_import_begin_now(w, err));
        *ret = place_id(w, place);
        r = *ret ? infp_ids_add(&w->frames, *ret) : -ENOMEM;
        if (r == -ENOSPC)
                return infp_fail(err, -E2BIG, "%s has more than %u different functions: too many for a profile",
                                 w->path, MAX_FRAMES);
        if (r <= 0)
                return r ? infp_fail(err, r, "not enough memory to import") : 0;
        w->found->frames++;
        row = infp_import_row(&w->rows, &infp_table_frames, w->begin_t_ns);
        infp_row_id(row, INFP_FRAMES_ID, *ret);
        infp_row_str(row, INFP_FRAMES_KIND, infp_frame_kind_name(place->kind));
        put_text(w, row, INFP_FRAMES_OBJECT, place->object);
        put_text(w, row, INFP_FRAMES_BUILD_ID, place->build_id);
        if (place->has_address)
                infp_row_u64(row, INFP_FRAMES_ADDRESS, place->address);
        INFP_TRY(infp_import_put(&w->rows, err));
        return put_levels(w, place, *ret, err);
}

int infp_import_frame(struct infp_import_writer *w, const struct infp_import_place *place, uint64_t *ret,
                      struct infp_err *err)
{
        static const struct infp_import_place truncated = { .kind = INFP_FRAME_UNKNOWN,
                                                            .is_unnamed = true,
                                                            .n_levels = 1,
                                                            .levels = { { .name = { "[truncated]", 11 } } } };

        if (!is_truncated(place))
                return add_frame(w, place, ret, err);
        INFP_TRY(add_frame(w, &truncated, ret, err));
        w->truncated = *ret;
        return 0;
}

/* 1: the entity must be written now. A full set is emptied: writing an entity twice is harmless. */
static int is_new(struct infp_import_writer *w, uint64_t id, struct infp_err *err)
{
        int r = infp_ids_add(&w->entities, id);

        if (r == -ENOSPC) {
                infp_ids_clear(&w->entities);
                r = infp_ids_add(&w->entities, id);
        }
        return r < 0 ? infp_fail(err, r, "not enough memory to import") : r;
}

static int put_node(struct infp_import_writer *w, size_t depth, uint64_t frame, struct infp_err *err)
{
        struct infp_row *row = infp_import_row(&w->rows, &infp_table_stacks, w->begin_t_ns);

        infp_row_id(row, INFP_STACKS_ID, w->nodes[depth]);
        if (depth)
                infp_row_id(row, INFP_STACKS_PARENT, w->nodes[depth - 1]);
        infp_row_id(row, INFP_STACKS_FRAME, frame);
        infp_row_i64(row, INFP_STACKS_DEPTH, (int64_t) depth);
        w->found->stacks++;
        return infp_import_put(&w->rows, err);
}

static int reserve_nodes(struct infp_import_writer *w, size_t n, struct infp_err *err)
{
        uint64_t *nodes = n > w->cap_nodes ? realloc(w->nodes, 2 * n * sizeof(*nodes)) : w->nodes;

        if (!nodes && n)
                return infp_fail(err, -ENOMEM, "not enough memory to import");
        if (n > w->cap_nodes)
                w->cap_nodes = 2 * n;
        w->nodes = nodes;
        return 0;
}

int infp_import_stack(struct infp_import_writer *w, const uint64_t *frames, size_t n, bool is_leaf_first, uint64_t *ret,
                      bool *ret_truncated, struct infp_err *err)
{
        const size_t left_out = n > INFP_IMPORT_MAX_DEPTH ? n - INFP_IMPORT_MAX_DEPTH : 0;
        uint64_t parent = 0;

        *ret = 0;
        *ret_truncated = left_out > 0;
        n -= left_out;
        INFP_TRY(reserve_nodes(w, n, err));
        if (!is_leaf_first)
                frames += left_out;
        if (n && w->truncated && frames[is_leaf_first ? n - 1 : 0] == w->truncated) {
                *ret_truncated = true;
                n--;
                frames += !is_leaf_first;
        }
        for (size_t i = 0; i < n; i++) {
                const uint64_t frame = frames[is_leaf_first ? n - 1 - i : i];

                w->nodes[i] = parent = infp_stack_id(parent, frame);
        }
        for (size_t i = n; i-- > 0;) { /* the callers of a known node are known */
                int r = is_new(w, w->nodes[i], err);

                if (r < 0)
                        return r;
                if (r == 0)
                        break;
                INFP_TRY(put_node(w, i, frames[is_leaf_first ? n - 1 - i : i], err));
        }
        *ret = parent;
        return 0;
}

uint64_t infp_import_last_t_ns(const struct infp_imported *found, uint64_t begin_t_ns)
{
        const uint64_t end = begin_t_ns + found->duration_ns;

        return found->rows && found->last_t_ns > end ? found->last_t_ns : end;
}

int infp_import_writer_end(struct infp_import_writer *w, struct infp_err *err)
{
        INFP_TRY(infp_import_begin_now(w, err));
        INFP_TRY(put_anchor(w, infp_import_last_t_ns(w->found, w->begin_t_ns), "end", err));
        return infp_import_rows_end(&w->rows, err);
}

static uint64_t text_hash(struct infp_import_text text)
{
        return infp_hash64(text.data ? text.data : "", text.size, 0);
}

static int put_process(struct infp_import_writer *w, uint64_t id, int32_t pid, struct infp_import_text name,
                       struct infp_err *err)
{
        struct infp_row *row = infp_import_row(&w->rows, w->process, w->begin_t_ns);

        infp_row_id(row, 0, id);
        infp_row_i64(row, (unsigned) w->process_pid, pid);
        put_text(w, row, (unsigned) w->process_name, name);
        return infp_import_put(&w->rows, err);
}

/* A pid identifies a process only within this run: its start time is unknown. */
static uint64_t process_id(const struct infp_import_writer *w, int32_t pid)
{
        return pid > 0 ? infp_process_id(w->uuid, pid, 0) : 0;
}

/* Its name is the main thread's, once that shows up. */
static int describe_process(struct infp_import_writer *w, uint64_t id, const struct infp_import_sample *sample,
                            struct infp_err *err)
{
        int first, again = 0;

        if (!id || !w->process)
                return 0;
        first = is_new(w, id, err);
        if (first < 0)
                return first;
        if (!sample->process.size && sample->tid == sample->pid && sample->thread.size)
                again = is_new(w, infp_stack_id(id, text_hash(sample->thread)), err);
        if (again < 0)
                return again;
        if (!first && !again)
                return 0;
        return put_process(w, id, sample->pid, sample->process.size ? sample->process : sample->thread, err);
}

static int describe_thread(struct infp_import_writer *w, const struct infp_import_sample *sample, uint64_t process,
                           uint64_t *ret, struct infp_err *err)
{
        struct infp_row *row;
        int r;

        *ret = 0;
        if (sample->tid <= 0 && !sample->thread.size)
                return 0;
        *ret = infp_thread_id(process, sample->tid, plain(w, sample->thread));
        r = is_new(w, *ret, err);
        if (r <= 0)
                return r;
        row = infp_import_row(&w->rows, &infp_table_threads, w->begin_t_ns);
        infp_row_id(row, INFP_THREADS_ID, *ret);
        if (process)
                infp_row_id(row, INFP_THREADS_PROCESS, process);
        if (sample->tid > 0)
                infp_row_i64(row, INFP_THREADS_TID, sample->tid);
        put_text(w, row, INFP_THREADS_NAME, sample->thread);
        if (sample->pid > 0)
                infp_row_i64(row, INFP_THREADS_PID, sample->pid);
        return infp_import_put(&w->rows, err);
}

static struct infp_imported_mode *mode_of(struct infp_imported *found, const char *mode)
{
        unsigned i = 0;

        while (i < found->n_modes && strcmp(found->modes[i].mode, mode))
                i++;
        if (i == INFP_IMPORT_MODES)
                return NULL; /* too many to list */
        if (i == found->n_modes) {
                found->n_modes++;
                strncpy(found->modes[i].mode, mode, INFP_IMPORT_MODE_TEXT - 1);
        }
        return &found->modes[i];
}

static int count(struct infp_import_writer *w, const struct infp_import_sample *sample, struct infp_err *err)
{
        struct infp_imported *found = w->found;
        struct infp_imported_mode *mode = mode_of(found, sample->mode);
        const uint64_t samples = found->samples + (uint64_t) sample->samples;

        if (sample->samples < 0 || samples > INT64_MAX)
                return infp_fail(err, -ERANGE, "%s is refused: its counts add up to more than 2^63", w->path);
        if (!(sample->weight >= 0) || !isfinite(sample->weight + (mode ? mode->weight : 0)))
                return infp_fail(err, -ERANGE, "%s is refused: its weights are not numbers, or their sum is too large",
                                 w->path);
        if (!found->rows || sample->t_ns < found->first_t_ns)
                found->first_t_ns = sample->t_ns;
        if (sample->t_ns > found->last_t_ns)
                found->last_t_ns = sample->t_ns;
        found->rows++;
        found->samples = samples;
        found->truncated += sample->is_truncated;
        if (mode) {
                mode->rows++;
                mode->samples += (uint64_t) sample->samples;
                mode->weight += sample->weight;
        }
        return 0;
}

static int put_sample(struct infp_import_writer *w, const struct infp_import_sample *sample, uint64_t process,
                      uint64_t thread, struct infp_err *err)
{
        struct infp_row *row = infp_import_row(&w->rows, &infp_table_stack_samples, sample->t_ns);

        if (process)
                infp_row_id(row, INFP_STACK_SAMPLES_PROCESS, process);
        if (sample->tid > 0)
                infp_row_i64(row, INFP_STACK_SAMPLES_TID, sample->tid);
        if (thread)
                infp_row_id(row, INFP_STACK_SAMPLES_THREAD, thread);
        if (sample->cpu >= 0)
                infp_row_i64(row, INFP_STACK_SAMPLES_CPU, sample->cpu);
        if (sample->stack)
                infp_row_id(row, INFP_STACK_SAMPLES_STACK, sample->stack);
        infp_row_f64(row, INFP_STACK_SAMPLES_WEIGHT, sample->weight);
        infp_row_i64(row, INFP_STACK_SAMPLES_SAMPLES, sample->samples);
        if (sample->objects > 0)
                infp_row_f64(row, INFP_STACK_SAMPLES_OBJECTS, sample->objects);
        put_text(w, row, INFP_STACK_SAMPLES_STATE, sample->state);
        infp_row_str(row, INFP_STACK_SAMPLES_MODE, sample->mode);
        infp_row_bool(row, INFP_STACK_SAMPLES_IS_TRUNCATED, sample->is_truncated);
        return infp_import_put(&w->rows, err);
}

int infp_import_sample(struct infp_import_writer *w, const struct infp_import_sample *sample, struct infp_err *err)
{
        const uint64_t process = process_id(w, sample->pid);
        uint64_t thread;
        bool has_rotated;

        INFP_TRY(count(w, sample, err));
        INFP_TRY(infp_import_begin_now(w, err));
        INFP_TRY(describe_process(w, process, sample, err));
        INFP_TRY(describe_thread(w, sample, process, &thread, err));
        INFP_TRY(put_sample(w, sample, process, thread, err));
        INFP_TRY(infp_import_rotate(&w->rows, &has_rotated, err));
        if (has_rotated)
                infp_ids_clear(&w->entities);
        return 0;
}

const char *infp_import_wanted(const struct infp_import_writer *w, const char *otherwise)
{
        return w->wanted ? w->wanted : otherwise;
}

int infp_import_heap_method(struct infp_import_writer *w, const char *who, uint64_t mean_bytes, const char *otherwise,
                            struct infp_err *err)
{
        const struct infp_imported *found = w->found;
        char method[256];

        if (mean_bytes > 1)
                snprintf(method, sizeof(method), "%s, one each %llu bytes on average: bytes are estimated from them",
                         who, (unsigned long long) mean_bytes);
        else
                snprintf(method, sizeof(method), "%s, %s", who, otherwise);
        for (unsigned i = 0; i < found->n_modes; i++) {
                const enum infp_stack_mode mode = infp_stack_mode_of(found->modes[i].mode);
                struct infp_row *row;

                if (mode == INFP_STACK_MODES || !infp_stack_modes[mode].space)
                        continue;
                row = infp_import_row(&w->rows, &infp_table_sampler, infp_import_last_t_ns(found, w->begin_t_ns));
                infp_row_str(row, INFP_SAMPLER_MODE, infp_stack_modes[mode].name);
                infp_row_str(row, INFP_SAMPLER_METHOD, method);
                infp_row_i64(row, INFP_SAMPLER_TAKEN, (int64_t) found->modes[i].samples);
                INFP_TRY(infp_import_put(&w->rows, err));
        }
        return 0;
}

int infp_import_mapping(struct infp_import_writer *w, const struct infp_import_mapping *mapping, struct infp_err *err)
{
        const uint64_t parts[] = { text_hash(mapping->path), text_hash(mapping->build_id),
                                   mapping->start,           mapping->end,
                                   mapping->offset,          (uint64_t) mapping->pid,
                                   mapping->is_deleted };
        const uint64_t process = process_id(w, mapping->pid), id = infp_hash64(parts, sizeof(parts), 0) | 1;
        struct infp_row *row;
        int r;

        INFP_TRY(infp_import_begin_now(w, err));
        r = is_new(w, id, err);
        if (r <= 0)
                return r;
        row = infp_import_row(&w->rows, &infp_table_mappings, w->begin_t_ns);
        infp_row_id(row, INFP_MAPPINGS_ID, id);
        if (process)
                infp_row_id(row, INFP_MAPPINGS_PROCESS, process);
        if (mapping->has_range) {
                infp_row_u64(row, INFP_MAPPINGS_START, mapping->start);
                infp_row_u64(row, INFP_MAPPINGS_END, mapping->end);
                infp_row_u64(row, INFP_MAPPINGS_OFFSET, mapping->offset);
        }
        put_text(w, row, INFP_MAPPINGS_PATH, mapping->path);
        put_text(w, row, INFP_MAPPINGS_BUILD_ID, mapping->build_id);
        infp_row_bool(row, INFP_MAPPINGS_IS_DELETED, mapping->is_deleted);
        return infp_import_put(&w->rows, err);
}
