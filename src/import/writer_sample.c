/* Samples of an import, and whose they are: processes, threads, mappings. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "import/writer_state.h"
#include "model/id.h"

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
        infp_import_put_text(w, row, (unsigned) w->process_name, name);
        return infp_import_put(&w->rows, err);
}

/* A pid is a process of this run alone: nobody knows when it was started. */
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
        first = infp_import_is_new(w, id, err);
        if (first < 0)
                return first;
        if (!sample->process.size && sample->tid == sample->pid && sample->thread.size)
                again = infp_import_is_new(w, infp_stack_id(id, text_hash(sample->thread)), err);
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
        *ret = infp_thread_id(process, sample->tid, infp_import_plain(w, sample->thread));
        r = infp_import_is_new(w, *ret, err);
        if (r <= 0)
                return r;
        row = infp_import_row(&w->rows, &infp_table_threads, w->begin_t_ns);
        infp_row_id(row, INFP_THREADS_ID, *ret);
        if (process)
                infp_row_id(row, INFP_THREADS_PROCESS, process);
        if (sample->tid > 0)
                infp_row_i64(row, INFP_THREADS_TID, sample->tid);
        infp_import_put_text(w, row, INFP_THREADS_NAME, sample->thread);
        return infp_import_put(&w->rows, err);
}

static struct infp_imported_mode *mode_of(struct infp_imported *found, const char *mode)
{
        unsigned i = 0;

        while (i < found->n_modes && strcmp(found->modes[i].mode, mode))
                i++;
        if (i == INFP_IMPORT_MODES)
                return NULL; /* too many to tell them one by one */
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
        infp_import_put_text(w, row, INFP_STACK_SAMPLES_STATE, sample->state);
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
        r = infp_import_is_new(w, id, err);
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
        infp_import_put_text(w, row, INFP_MAPPINGS_PATH, mapping->path);
        infp_import_put_text(w, row, INFP_MAPPINGS_BUILD_ID, mapping->build_id);
        infp_row_bool(row, INFP_MAPPINGS_IS_DELETED, mapping->is_deleted);
        return infp_import_put(&w->rows, err);
}
