#include "analyze/gil.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/scan_some.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/sort.h"

enum { MOST_THREADS = 65536 };
enum { PROCESS, TID, THREAD, WEIGHT, SAMPLES, MODE, GIL };
static const char *const sample_columns[] = { "process", "tid", "thread", "weight", "samples", "mode", "gil", NULL };
enum { ENTITY_ID, ENTITY_NAME, ENTITY_PID, ENTITY_PYTHON_NAME = ENTITY_PID };
static const char *const thread_columns[] = { "id", "tName", "tPythonName", NULL };
static const char *const process_columns[] = { "id", "pName", "pId", NULL };

struct reading {
        struct infp_gil_report *ret;
        struct infp_map by_thread; /* process and number: index */
};

static uint64_t id_of(const struct infp_batch *batch, int column, uint32_t row)
{
        return infp_cell_has(batch, column, row) ? infp_batch_u64(batch, (unsigned) column, row) : 0;
}

/* NULL: no memory, or too many. */
static struct infp_gil_thread *thread_of(struct reading *reading, uint64_t process, int64_t tid)
{
        const uint64_t parts[] = { process, (uint64_t) tid }, key = infp_hash64(parts, sizeof(parts), 0);
        const uint64_t *at = infp_map_get(&reading->by_thread, key);
        struct infp_gil_report *ret = reading->ret;

        if (at)
                return &ret->list[*at];
        if (ret->n == MOST_THREADS || !INFP_MAKE_ROOM(ret->list, ret->n, ret->cap, 64) ||
            infp_map_put(&reading->by_thread, key, ret->n) < 0)
                return NULL;
        ret->list[ret->n] = (struct infp_gil_thread){ .process_id = process, .tid = tid };
        return &ret->list[ret->n++];
}

static int take_sample(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct reading *reading = context;
        size_t size;
        const char *text = infp_cell_str(batch, at[GIL], row, &size);
        const enum infp_gil gil = size ? infp_gil_by_name(text, size) : INFP_GIL_UNKNOWN;
        const bool is_wall = infp_cell_is(batch, at[MODE], row, infp_stack_modes[INFP_STACK_WALL].name);
        struct infp_gil_thread *thread;

        reading->ret->has_wall |= is_wall;
        if (!is_wall || gil == INFP_GIL_UNKNOWN || !infp_cell_has(batch, at[TID], row) ||
            !infp_cell_has(batch, at[WEIGHT], row))
                return 0;
        thread = thread_of(reading, id_of(batch, at[PROCESS], row), infp_batch_i64(batch, (unsigned) at[TID], row));
        if (!thread)
                return reading->ret->n == MOST_THREADS ? 0 : -ENOMEM;
        thread->id = id_of(batch, at[THREAD], row);
        thread->seconds[gil] += infp_batch_f64(batch, (unsigned) at[WEIGHT], row);
        thread->known_s += infp_batch_f64(batch, (unsigned) at[WEIGHT], row);
        thread->samples += infp_cell_has(batch, at[SAMPLES], row)
                                   ? (uint64_t) infp_batch_i64(batch, (unsigned) at[SAMPLES], row)
                                   : 1;
        return 0;
}

static int by_id(const void *a, const void *b)
{
        const struct infp_gil_thread *x = a, *y = b;

        return x->id < y->id ? -1 : x->id > y->id;
}

static int take_thread(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct infp_gil_report *gil = context;
        const struct infp_gil_thread key = { .id = id_of(batch, at[ENTITY_ID], row) };
        struct infp_gil_thread *thread =
                key.id ? bsearch(&key, gil->list, gil->n, sizeof(key), by_id) : NULL; /* sorted meanwhile */
        const int column = infp_cell_has(batch, at[ENTITY_PYTHON_NAME], row) ? at[ENTITY_PYTHON_NAME] : at[ENTITY_NAME];

        return thread ? infp_cell_keep(&thread->name, batch, column, row) : 0;
}

static int take_process(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct infp_gil_report *gil = context;
        const uint64_t id = id_of(batch, at[ENTITY_ID], row);

        for (uint32_t i = 0; id && i < gil->n; i++) {
                if (gil->list[i].process_id != id)
                        continue;
                INFP_TRY(infp_cell_keep(&gil->list[i].process, batch, at[ENTITY_NAME], row));
                if (infp_cell_has(batch, at[ENTITY_PID], row))
                        gil->list[i].pid = infp_batch_i64(batch, (unsigned) at[ENTITY_PID], row);
        }
        return 0;
}

static int by_waited(const void *a, const void *b)
{
        const struct infp_gil_thread *x = a, *y = b;

        for (int i = INFP_GIL_WAITED; i > INFP_GIL_NONE; i--)
                if (x->seconds[i] > y->seconds[i] || x->seconds[i] < y->seconds[i])
                        return x->seconds[i] > y->seconds[i] ? -1 : 1;
        return x->tid < y->tid ? -1 : x->tid > y->tid;
}

int infp_gil_read(struct infp_run *run, const struct infp_scan_options *options, struct infp_gil_report *ret,
                  struct infp_err *err)
{
        const struct infp_scan_options whole = { .catalog = options->catalog };
        struct reading reading = { .ret = ret };
        int r;

        *ret = (struct infp_gil_report){ 0 };
        r = infp_scan_rows(run, infp_table_stack_samples.name, sample_columns, options, take_sample, &reading, err);
        infp_map_done(&reading.by_thread);
        infp_sort(ret->list, ret->n, sizeof(*ret->list), by_id);
        if (r >= 0 && ret->n)
                r = infp_scan_rows(run, infp_table_threads.name, thread_columns, &whole, take_thread, ret, err);
        if (r >= 0 && ret->n)
                r = infp_scan_rows(run, "process", process_columns, &whole, take_process, ret, err);
        infp_sort(ret->list, ret->n, sizeof(*ret->list), by_waited);
        return r;
}

void infp_gil_done(struct infp_gil_report *gil)
{
        for (uint32_t i = 0; i < gil->n; i++) {
                free(gil->list[i].name);
                free(gil->list[i].process);
        }
        free(gil->list);
        *gil = (struct infp_gil_report){ 0 };
}
