#include "analyze/profile/profile.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/profile/parts.h"
#include "analyze/scan_some.h"
#include "base/mem.h"

void infp_profile_done(struct infp_profile *profile)
{
        infp_strings_done(&profile->strings);
        free(profile->levels);
        free(profile->frames);
        free(profile->nodes);
        free(profile->processes);
        free(profile->threads);
        free(profile->sums);
        free(profile->times);
        free(profile->moments);
        *profile = (struct infp_profile){ 0 };
}

const char *infp_profile_str(const struct infp_profile *profile, uint32_t string)
{
        return infp_strings_get(&profile->strings, string);
}

const char *infp_profile_unit(const char *mode)
{
        const char *slash = strrchr(mode, '/');
        const enum infp_stack_mode own = infp_stack_mode_of(mode);

        if (slash && slash[1])
                return slash + 1;
        return own < INFP_STACK_MODES ? infp_stack_modes[own].unit : "samples";
}

static void label(const struct infp_profile *profile, uint32_t name, const char *otherwise, int64_t number, char *ret,
                  size_t size)
{
        const char *text = infp_profile_str(profile, name);

        if (number)
                snprintf(ret, size, "%.256s (%lld)", text ? text : otherwise, (long long) number);
        else
                snprintf(ret, size, "%.256s", text ? text : otherwise);
}

void infp_profile_process_label(const struct infp_profile *profile, uint32_t process, bool with_number, char *ret,
                                size_t size)
{
        const struct infp_profile_process *is = &profile->processes[process];

        label(profile, is->name, "[process]", with_number ? is->pid : 0, ret, size);
}

void infp_profile_thread_label(const struct infp_profile *profile, uint32_t thread, bool with_number, char *ret,
                               size_t size)
{
        const struct infp_profile_thread *is = &profile->threads[thread];

        label(profile, is->name, "[thread]", with_number ? is->tid : 0, ret, size);
}

void infp_profile_task_label(const struct infp_profile *profile, const struct infp_profile_sum *sum, char *ret,
                             size_t size)
{
        const char *name = infp_profile_str(profile, sum->task), *coroutine = NULL;
        uint32_t node = sum->node;

        if (name && !strcmp(name, INFP_PROFILE_NO_TASK_NAME) && !infp_profile_is_truncated(profile, sum)) {
                while (profile->nodes[node].parent != INFP_PROFILE_NONE)
                        node = profile->nodes[node].parent;
                coroutine = infp_profile_str(
                        profile, profile->levels[profile->frames[profile->nodes[node].frame].first_level].name);
        }
        if (coroutine)
                snprintf(ret, size, "%.256s()", coroutine);
        else
                snprintf(ret, size, "%.256s", name ? name : "[no task]");
}

int infp_profile_no_memory(struct infp_err *err)
{
        return infp_fail(err, -ENOMEM, "no memory for the stacks of the run; --from and --to take a part of it");
}

int infp_profile_room(void *array, uint32_t *cap, uint32_t n, size_t size, struct infp_err *err)
{
        const uint32_t more = *cap ? 2 * *cap : 64;
        void *old, *room;

        if (n < *cap)
                return 0;
        if (n >= INFP_PROFILE_MOST)
                return infp_fail(
                        err, -E2BIG,
                        "the run has more than %d different stacks or samples, which is too much at once; --from "
                        "and --to take a part of it",
                        INFP_PROFILE_MOST);
        memcpy(&old, array, sizeof(old));
        room = reallocarray(old, more, size);
        if (!room)
                return infp_profile_no_memory(err);
        memcpy(array, &room, sizeof(room));
        *cap = more;
        return 0;
}

/* Types that lie in memory alike. */
static bool is_alike(enum infp_type a, enum infp_type b)
{
        return a == b || ((a == INFP_U64 || a == INFP_ID64) && (b == INFP_U64 || b == INFP_ID64));
}

int infp_profile_scan_open(struct infp_profile_reader *reader, const char *table,
                           const struct infp_profile_column *columns, unsigned n, bool in_range,
                           struct infp_profile_scan *ret, struct infp_err *err)
{
        const struct infp_scan_options options = { .t0 = in_range ? reader->options->t0 : 0,
                                                   .t1 = in_range ? reader->options->t1 : 0,
                                                   .catalog = &reader->catalog };
        const char *names[INFP_PROFILE_COLUMNS + 1] = { NULL };
        int r;

        *ret = (struct infp_profile_scan){ 0 };
        for (unsigned i = 0; i < n; i++)
                names[i] = columns[i].name;
        r = infp_scan_some(reader->run, table, names, &options, &ret->scan, err);
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

int infp_profile_scan_next(struct infp_profile_scan *scan, struct infp_err *err)
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

void infp_profile_scan_close(struct infp_profile_scan *scan)
{
        scan->scan = infp_scan_close(scan->scan);
}

bool infp_profile_has(const struct infp_profile_scan *scan, unsigned column)
{
        return scan->at[column] >= 0 && infp_batch_has(&scan->batch, (unsigned) scan->at[column], scan->row);
}

uint64_t infp_profile_id(const struct infp_profile_scan *scan, unsigned column)
{
        return infp_profile_has(scan, column) ? infp_batch_u64(&scan->batch, (unsigned) scan->at[column], scan->row)
                                              : 0;
}

int64_t infp_profile_i64(const struct infp_profile_scan *scan, unsigned column)
{
        return infp_profile_has(scan, column) ? infp_batch_i64(&scan->batch, (unsigned) scan->at[column], scan->row)
                                              : 0;
}

bool infp_profile_bool(const struct infp_profile_scan *scan, unsigned column)
{
        return infp_profile_has(scan, column) && infp_batch_bool(&scan->batch, (unsigned) scan->at[column], scan->row);
}

double infp_profile_number(const struct infp_profile_scan *scan, unsigned column)
{
        const double v = infp_profile_has(scan, column)
                                 ? infp_batch_f64(&scan->batch, (unsigned) scan->at[column], scan->row)
                                 : 0;

        return isfinite(v) ? v : 0;
}

int infp_profile_read_table(struct infp_profile_reader *reader, const char *table,
                            const struct infp_profile_column *columns, unsigned n, bool in_range,
                            infp_profile_read_fn *read, struct infp_err *err)
{
        struct infp_profile_scan scan;
        int r;

        INFP_TRY(infp_profile_scan_open(reader, table, columns, n, in_range, &scan, err));
        r = read(reader, &scan, err);
        infp_profile_scan_close(&scan);
        return r;
}

int infp_profile_text(struct infp_profile_reader *reader, const struct infp_profile_scan *scan, unsigned column,
                      uint32_t *ret, struct infp_err *err)
{
        const char *text;
        size_t size;

        *ret = 0;
        if (!infp_profile_has(scan, column))
                return 0;
        text = infp_batch_str(&scan->batch, (unsigned) scan->at[column], scan->row, &size);
        return infp_strings_add(&reader->profile->strings, text, size, ret) < 0 ? infp_profile_no_memory(err) : 0;
}

static void reader_done(struct infp_profile_reader *reader)
{
        infp_catalog_done(&reader->catalog);
        infp_map_done(&reader->processes);
        infp_map_done(&reader->threads);
        infp_map_done(&reader->sums);
        infp_map_done(&reader->moments);
        infp_map_done(&reader->frames);
        infp_map_done(&reader->replaced);
        free(reader->replaced_list);
}

int infp_profile_read(struct infp_run *run, const struct infp_profile_options *options, struct infp_profile *ret,
                      struct infp_err *err)
{
        infp_cleanup(
                reader_done) struct infp_profile_reader reader = { .run = run, .options = options, .profile = ret };
        int r;

        *ret = (struct infp_profile){ .n_buckets = options->n_buckets };
        r = infp_catalog_read(run, &reader.catalog, err);
        if (r >= 0)
                r = infp_profile_read_modes(&reader, err);
        if (r >= 0)
                r = infp_profile_read_samples(&reader, err);
        if (r >= 0)
                r = infp_profile_read_nodes(&reader, err);
        if (r >= 0)
                r = infp_profile_read_frames(&reader, err);
        ret->all_samples = ret->samples;
        if (r >= 0)
                r = infp_profile_take_part(ret, options->part, err);
        if (r >= 0 && options->filter)
                r = infp_profile_filter(ret, options->filter, err);
        if (r < 0)
                infp_profile_done(ret);
        return r;
}
