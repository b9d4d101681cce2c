#include "analyze/stacks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/report_scan.h"
#include "analyze/stacks_parts.h"
#include "base/mem.h"

void infp_stacks_done(struct infp_stacks *stacks)
{
        infp_strings_done(&stacks->strings);
        free(stacks->levels);
        free(stacks->frames);
        free(stacks->nodes);
        free(stacks->processes);
        free(stacks->threads);
        free(stacks->sums);
        free(stacks->times);
        free(stacks->moments);
        *stacks = (struct infp_stacks){ 0 };
}

const char *infp_stacks_str(const struct infp_stacks *stacks, uint32_t string)
{
        return infp_strings_get(&stacks->strings, string);
}

const char *infp_stacks_unit(const char *mode)
{
        const char *slash = strrchr(mode, '/');

        if (slash && slash[1])
                return slash + 1;
        if (!strcmp(mode, "cpu") || !strcmp(mode, "wall") || !strcmp(mode, "off-cpu"))
                return "seconds";
        return strcmp(mode, "heap") == 0 ? "bytes" : "samples";
}

static void label(const struct infp_stacks *stacks, uint32_t name, const char *otherwise, int64_t number, char *ret,
                  size_t size)
{
        const char *text = infp_stacks_str(stacks, name);

        if (number)
                snprintf(ret, size, "%.256s (%lld)", text ? text : otherwise, (long long) number);
        else
                snprintf(ret, size, "%.256s", text ? text : otherwise);
}

void infp_stacks_process_label(const struct infp_stacks *stacks, uint32_t process, bool with_number, char *ret,
                               size_t size)
{
        const struct infp_stack_process *is = &stacks->processes[process];

        label(stacks, is->name, "[process]", with_number ? is->pid : 0, ret, size);
}

void infp_stacks_thread_label(const struct infp_stacks *stacks, uint32_t thread, bool with_number, char *ret,
                              size_t size)
{
        const struct infp_stack_thread *is = &stacks->threads[thread];

        label(stacks, is->name, "[thread]", with_number ? is->tid : 0, ret, size);
}

int infp_stacks_no_memory(struct infp_err *err)
{
        return infp_fail(err, -ENOMEM, "no memory for the stacks of the run; --from and --to take a part of it");
}

int infp_stacks_room(void *array, uint32_t *cap, uint32_t n, size_t size, struct infp_err *err)
{
        const uint32_t more = *cap ? 2 * *cap : 64;
        void *old, *room;

        if (n < *cap)
                return 0;
        if (n >= INFP_STACKS_MOST)
                return infp_fail(
                        err, -E2BIG,
                        "the run has more than %d different stacks or samples, which is too much at once; --from "
                        "and --to take a part of it",
                        INFP_STACKS_MOST);
        memcpy(&old, array, sizeof(old));
        room = reallocarray(old, more, size);
        if (!room)
                return infp_stacks_no_memory(err);
        memcpy(array, &room, sizeof(room));
        *cap = more;
        return 0;
}

/* Types that lie in memory alike. */
static bool is_alike(enum infp_type a, enum infp_type b)
{
        return a == b || ((a == INFP_U64 || a == INFP_ID64) && (b == INFP_U64 || b == INFP_ID64));
}

int infp_stacks_scan_open(struct infp_stacks_reader *reader, const char *table,
                          const struct infp_stacks_column *columns, unsigned n, bool in_range,
                          struct infp_stacks_scan *ret, struct infp_err *err)
{
        const struct infp_scan_options options = { .t0 = in_range ? reader->options->t0 : 0,
                                                   .t1 = in_range ? reader->options->t1 : 0,
                                                   .catalog = &reader->catalog };
        const char *names[INFP_STACKS_COLUMNS + 1] = { NULL };
        int r;

        *ret = (struct infp_stacks_scan){ 0 };
        for (unsigned i = 0; i < n; i++)
                names[i] = columns[i].name;
        r = infp_report_scan(reader->run, table, names, &options, &ret->scan, err);
        if (r == -ENOENT) {
                ret->scan = NULL;
                return 0;
        }
        INFP_TRY(r);
        for (unsigned i = 0; i < n; i++) {
                const struct infp_table *is = infp_scan_table(ret->scan);

                ret->at[i] = infp_table_find(is, columns[i].name);
                if (ret->at[i] >= 0 && !is_alike(infp_table_column(is, (unsigned) ret->at[i])->type, columns[i].type))
                        ret->at[i] = -1;
        }
        return 0;
}

int infp_stacks_scan_next(struct infp_stacks_scan *scan, struct infp_err *err)
{
        if (!scan->scan)
                return 0;
        if (scan->batch.n_rows && ++scan->row < scan->batch.n_rows)
                return 1;
        scan->row = 0;
        do {
                const int r = infp_scan_next(scan->scan, &scan->batch, err);

                if (r <= 0)
                        return r;
        } while (!scan->batch.n_rows);
        return 1;
}

void infp_stacks_scan_close(struct infp_stacks_scan *scan)
{
        scan->scan = infp_scan_close(scan->scan);
}

bool infp_stacks_has(const struct infp_stacks_scan *scan, unsigned column)
{
        return scan->at[column] >= 0 && infp_batch_has(&scan->batch, (unsigned) scan->at[column], scan->row);
}

uint64_t infp_stacks_id(const struct infp_stacks_scan *scan, unsigned column)
{
        return infp_stacks_has(scan, column) ? infp_batch_u64(&scan->batch, (unsigned) scan->at[column], scan->row) : 0;
}

int64_t infp_stacks_i64(const struct infp_stacks_scan *scan, unsigned column)
{
        return infp_stacks_has(scan, column) ? infp_batch_i64(&scan->batch, (unsigned) scan->at[column], scan->row) : 0;
}

bool infp_stacks_bool(const struct infp_stacks_scan *scan, unsigned column)
{
        return infp_stacks_has(scan, column) && infp_batch_bool(&scan->batch, (unsigned) scan->at[column], scan->row);
}

int infp_stacks_text(struct infp_stacks_reader *reader, const struct infp_stacks_scan *scan, unsigned column,
                     uint32_t *ret, struct infp_err *err)
{
        const char *text;
        size_t size;

        *ret = 0;
        if (!infp_stacks_has(scan, column))
                return 0;
        text = infp_batch_str(&scan->batch, (unsigned) scan->at[column], scan->row, &size);
        return infp_strings_add(&reader->stacks->strings, text, size, ret) < 0 ? infp_stacks_no_memory(err) : 0;
}

static void reader_done(struct infp_stacks_reader *reader)
{
        infp_catalog_done(&reader->catalog);
        infp_map_done(&reader->processes);
        infp_map_done(&reader->threads);
        infp_map_done(&reader->sums);
        infp_map_done(&reader->moments);
        infp_map_done(&reader->frames);
        free(reader->sum_stacks);
}

int infp_stacks_read(struct infp_run *run, const struct infp_stacks_options *options, struct infp_stacks *ret,
                     struct infp_err *err)
{
        infp_cleanup(reader_done) struct infp_stacks_reader reader = { .run = run, .options = options, .stacks = ret };
        int r;

        *ret = (struct infp_stacks){ .n_buckets = options->n_buckets };
        r = infp_catalog_read(run, &reader.catalog, err);
        if (r >= 0)
                r = infp_stacks_read_modes(&reader, err);
        if (r >= 0)
                r = infp_stacks_read_samples(&reader, err);
        if (r >= 0)
                r = infp_stacks_read_nodes(&reader, err);
        if (r >= 0)
                r = infp_stacks_read_frames(&reader, err);
        ret->all_samples = ret->samples;
        if (r >= 0 && options->filter)
                r = infp_stacks_filter(ret, options->filter, err);
        if (r < 0)
                infp_stacks_done(ret);
        return r;
}
