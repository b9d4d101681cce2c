#include "analyze/memory/heap.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/scan_some.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/sort.h"
#include "base/time.h"

enum { MOST_ROWS = 1 << 25, NONE = UINT32_MAX, MOST_CUT = 2 };
static const uint64_t slack_ns = 1000; /* begins of windows are computed from seconds */

enum {
        PROCESS,
        STACK,
        SECONDS,
        ALLOCATED,
        ALLOCATED_VARIANCE,
        ALLOCATIONS,
        SAMPLES,
        FREED,
        TEMPORARY,
        LIVE,
        VARIANCE,
        LOW,
        OLD,
        BLOCKS,
        OLDEST,
        MEAN,
        IS_LAST,
};
static const char *const columns[] = {
        [PROCESS] = "process",
        [STACK] = "stack",
        [SECONDS] = "seconds",
        [ALLOCATED] = "allocated",
        [ALLOCATED_VARIANCE] = "allocated_variance",
        [ALLOCATIONS] = "allocations",
        [SAMPLES] = "samples",
        [FREED] = "freed",
        [TEMPORARY] = "temporary",
        [LIVE] = "live",
        [VARIANCE] = "variance",
        [LOW] = "low",
        [OLD] = "old",
        [BLOCKS] = "blocks",
        [OLDEST] = "oldest_ns",
        [MEAN] = "mean_bytes",
        [IS_LAST] = "is_last",
        NULL,
};

struct infp_heap_part {
        uint32_t stack, first_row, last_row, next; /* next: of the stack */
};

/* A window of a part. */
struct infp_heap_row {
        uint32_t next, window; /* row of the same part; of the process */
        struct infp_heap_use live;
        double low, old, gone; /* gone: freed, and allocated in an earlier window */
        uint64_t oldest_ns;
};

void infp_heap_done(struct infp_heap *heap)
{
        infp_profile_done(&heap->profile);
        for (uint32_t i = 0; i < heap->n_programs; i++)
                free(heap->processes[i].window_ns);
        free(heap->processes);
        free(heap->stacks);
        free(heap->parts);
        free(heap->rows);
        infp_map_done(&heap->newest);
        infp_map_done(&heap->by_key);
        infp_map_done(&heap->by_place);
        infp_map_done(&heap->nodes);
        infp_map_done(&heap->names);
        *heap = (struct infp_heap){ 0 };
}

uint64_t infp_heap_id(const struct infp_batch *batch, int at, uint32_t row)
{
        return infp_cell_has(batch, at, row) && infp_table_column(batch->table, (unsigned) at)->type == INFP_ID64
                       ? infp_batch_u64(batch, (unsigned) at, row)
                       : 0;
}

/* 0 of what is absent, or no number that a heap has. */
static double number_of(const struct infp_batch *batch, int at, uint32_t row)
{
        const double v = infp_cell_number(batch, at, row);

        return v > 0 && v < 1e30 ? v : 0;
}

static uint64_t count_of(const struct infp_batch *batch, int at, uint32_t row)
{
        const double v = number_of(batch, at, row);

        return v < 0x1p63 ? (uint64_t) v : 0;
}

/* ---- rows ---- */

static int add_window(struct infp_heap_process *process, uint64_t end_ns)
{
        if (!INFP_MAKE_ROOM(process->window_ns, process->n_windows, process->cap_windows, 64))
                return -ENOMEM;
        process->window_ns[process->n_windows++] = end_ns;
        return 0;
}

static uint64_t begin_of(uint64_t t_ns, double seconds)
{
        const uint64_t ns = (uint64_t) fmin(seconds * 1e9, 1e19);

        return ns < t_ns ? t_ns - ns : 0;
}

/* The newest program of the process: after the last window of one another begins. */
static int process_of(struct infp_heap *heap, uint64_t id, uint64_t t_ns, double seconds, uint32_t *ret)
{
        const uint64_t *at = infp_map_get(&heap->newest, id), *name = infp_map_get(&heap->names, id);
        const struct infp_profile_process *is = name ? &heap->profile.processes[*name] : NULL;
        const uint32_t earlier = at ? (uint32_t) *at : NONE;

        if (at && (!heap->processes[*at].has_ended || infp_heap_end_ns(&heap->processes[*at]) >= t_ns)) {
                *ret = (uint32_t) *at;
                return 0;
        }
        if (!INFP_MAKE_ROOM(heap->processes, heap->n_programs, heap->cap_processes, 16) ||
            infp_map_put(&heap->newest, id, heap->n_programs) < 0)
                return -ENOMEM;
        if (earlier != NONE)
                heap->processes[earlier].is_replaced = true;
        *ret = heap->n_programs++;
        heap->processes[*ret] = (struct infp_heap_process){
                .id = id,
                .pid = is ? is->pid : 0,
                .name = is ? infp_profile_str(&heap->profile, is->name) : NULL,
                .first_ns = begin_of(t_ns, seconds),
                .first_stack = NONE,
                .earlier = earlier,
        };
        return 0;
}

const struct infp_heap_process *infp_heap_program(const struct infp_heap *heap, uint64_t process, uint64_t t_ns)
{
        const uint64_t *newest = infp_map_get(&heap->newest, process);

        for (uint32_t at = newest ? (uint32_t) *newest : NONE; at != NONE; at = heap->processes[at].earlier)
                if (t_ns + slack_ns >= heap->processes[at].first_ns || heap->processes[at].earlier == NONE)
                        return &heap->processes[at];
        return NULL;
}

/* Windows in which nothing changed have no rows. */
static int fill_windows(struct infp_heap_process *process, uint64_t last_ns, uint64_t until_ns)
{
        while (until_ns > last_ns + INFP_NS_PER_MS) {
                const uint64_t length_ns = infp_heap_window_ns(last_ns - process->first_ns);

                last_ns = until_ns - last_ns > length_ns + length_ns / 2 ? last_ns + length_ns : until_ns;
                INFP_TRY(add_window(process, last_ns));
        }
        return 0;
}

static uint64_t middle(uint64_t begin_ns, uint64_t end_ns)
{
        return begin_ns + (end_ns - begin_ns) / 2;
}

/* A window is of the range that has its middle. */
static uint64_t middle_of(const struct infp_heap_process *process, uint32_t window)
{
        return middle(window ? process->window_ns[window - 1] : process->first_ns, process->window_ns[window]);
}

/* Nothing changed until then: with windows, as far as they are of the range. */
static int fill_range(const struct infp_heap *heap, struct infp_heap_process *process, uint64_t until_ns)
{
        const uint32_t n = process->n_windows;

        INFP_TRY(fill_windows(process, infp_heap_end_ns(process), until_ns));
        while (process->n_windows > n && middle_of(process, process->n_windows - 1) >= heap->range.t1)
                process->n_windows--;
        return 0;
}

/* A window after the range. */
static int go_on(struct infp_heap *heap, uint64_t id, uint64_t t_ns, double seconds, bool is_last)
{
        const uint64_t *at = infp_map_get(&heap->newest, id);
        struct infp_heap_process *process = at ? &heap->processes[*at] : NULL;

        if (!process || process->has_ended)
                return 0;
        process->is_whole |= is_last;
        if (process->goes_on)
                return 0;
        process->goes_on = true;
        return fill_range(heap, process, begin_of(t_ns, seconds));
}

static int find_window(struct infp_heap_process *process, uint64_t t_ns, double seconds)
{
        const uint64_t last_ns = process->n_windows ? process->window_ns[process->n_windows - 1] : process->first_ns,
                       begin_ns = begin_of(t_ns, seconds);

        if (process->n_windows && t_ns <= last_ns)
                return 0;
        if (process->n_windows)
                INFP_TRY(fill_windows(process, last_ns, begin_ns));
        return add_window(process, t_ns);
}

uint64_t infp_heap_place(const struct infp_heap *heap, uint64_t process, uint64_t stack, struct infp_profile_place *ret)
{
        const uint64_t *node = infp_map_get(&heap->nodes, stack);
        uint64_t words[] = { process, 0, stack };

        *ret = infp_profile_place_of(&heap->profile, node ? (uint32_t) *node : INFP_PROFILE_NONE, true);
        if (ret->node != INFP_PROFILE_NONE) {
                words[1] = 1;
                words[2] = ret->node;
        }
        return infp_hash64(words, sizeof(words), 0);
}

static int stack_of(struct infp_heap *heap, uint32_t process, uint64_t id, uint32_t *ret)
{
        struct infp_profile_place place;
        const uint64_t key = infp_heap_place(heap, process, id, &place), *at = infp_map_get(&heap->by_place, key);

        if (at) {
                *ret = (uint32_t) *at;
                return 0;
        }
        if (!INFP_MAKE_ROOM(heap->stacks, heap->n_stacks, heap->cap_stacks, 256) ||
            infp_map_put(&heap->by_place, key, heap->n_stacks) < 0)
                return -ENOMEM;
        *ret = heap->n_stacks++;
        heap->stacks[*ret] = (struct infp_heap_stack){ .id = id,
                                                       .process = process,
                                                       .place = place,
                                                       .first_part = NONE,
                                                       .next = heap->processes[process].first_stack };
        heap->processes[process].first_stack = *ret;
        return 0;
}

static int part_of(struct infp_heap *heap, uint32_t process, uint64_t id, uint32_t *ret)
{
        const uint64_t words[] = { process, id }, key = infp_hash64(words, sizeof(words), 0);
        const uint64_t *at = infp_map_get(&heap->by_key, key);
        uint32_t stack;

        if (at) {
                *ret = (uint32_t) *at;
                return 0;
        }
        INFP_TRY(stack_of(heap, process, id, &stack));
        if (!INFP_MAKE_ROOM(heap->parts, heap->n_parts, heap->cap_parts, 256) ||
            infp_map_put(&heap->by_key, key, heap->n_parts) < 0)
                return -ENOMEM;
        *ret = heap->n_parts++;
        heap->parts[*ret] = (struct infp_heap_part){ stack, NONE, NONE, heap->stacks[stack].first_part };
        heap->stacks[stack].first_part = *ret;
        return 0;
}

static void add_sum(struct infp_heap_sum *sum, const struct infp_heap_sum *more)
{
        sum->bytes += more->bytes;
        sum->variance += more->variance;
        sum->blocks += more->blocks;
        sum->samples += more->samples;
}

static void add_use(struct infp_heap_use *sum, const struct infp_heap_use *more)
{
        sum->bytes += more->bytes;
        sum->variance += more->variance;
        sum->blocks += more->blocks;
}

static int add_row(struct infp_heap *heap, struct infp_heap_part *part, const struct infp_heap_row *row)
{
        if (!INFP_MAKE_ROOM(heap->rows, heap->n_rows, heap->cap_rows, 4096))
                return -ENOMEM;
        heap->rows[heap->n_rows] = *row;
        *(part->first_row == NONE ? &part->first_row : &heap->rows[part->last_row].next) = heap->n_rows;
        part->last_row = heap->n_rows++;
        return 0;
}

struct reading {
        struct infp_heap *heap;
        struct infp_err *err;
};

static int take(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        const struct reading *reading = context;
        struct infp_heap *heap = reading->heap;
        const uint64_t id = infp_heap_id(batch, at[PROCESS], row), t_ns = (uint64_t) infp_batch_i64(batch, 0, row),
                       *name = infp_map_get(&heap->names, id);
        const double seconds = number_of(batch, at[SECONDS], row);
        const bool is_last = infp_cell_bool(batch, at[IS_LAST], row);
        const struct infp_heap_sum allocated = { number_of(batch, at[ALLOCATED], row),
                                                 number_of(batch, at[ALLOCATED_VARIANCE], row),
                                                 number_of(batch, at[ALLOCATIONS], row),
                                                 count_of(batch, at[SAMPLES], row) };
        struct infp_heap_row is = { NONE,
                                    0,
                                    { number_of(batch, at[LIVE], row), number_of(batch, at[VARIANCE], row),
                                      count_of(batch, at[BLOCKS], row) },
                                    number_of(batch, at[LOW], row),
                                    number_of(batch, at[OLD], row),
                                    fmax(number_of(batch, at[FREED], row) - number_of(batch, at[TEMPORARY], row), 0),
                                    count_of(batch, at[OLDEST], row) };
        struct infp_heap_process *process;
        uint32_t n, part, stack;

        if (heap->pid && (!name || heap->profile.processes[*name].pid != heap->pid))
                return 0;
        if (heap->n_rows >= MOST_ROWS)
                return infp_fail(reading->err, -E2BIG,
                                 "the run has more than %d windows of stacks of the heap, which is too much at once; "
                                 "--pid takes one process",
                                 MOST_ROWS);
        if (middle(begin_of(t_ns, seconds), t_ns) >= heap->range.t1)
                return go_on(heap, id, t_ns, seconds, is_last);
        INFP_TRY(process_of(heap, id, t_ns, seconds, &n));
        process = &heap->processes[n];
        INFP_TRY(find_window(process, t_ns, seconds));
        process->has_ended |= is_last;
        process->is_whole |= is_last;
        process->mean_bytes = count_of(batch, at[MEAN], row);
        heap->is_sampled |= process->mean_bytes > 0;
        INFP_TRY(part_of(heap, n, infp_heap_id(batch, at[STACK], row), &part));
        stack = heap->parts[part].stack;
        is.window = process->n_windows - 1;
        if (middle_of(process, is.window) >= heap->range.t0) {
                add_sum(&process->allocated, &allocated);
                add_sum(&heap->stacks[stack].allocated, &allocated);
                heap->stacks[stack].temporary += number_of(batch, at[TEMPORARY], row);
        }
        return add_row(heap, &heap->parts[part], &is);
}

/* ---- names ---- */

static int index_profile(struct infp_heap *heap)
{
        const struct infp_profile *profile = &heap->profile;

        for (uint32_t i = 0; i < profile->n_processes; i++)
                if (infp_map_put(&heap->names, profile->processes[i].id, i) < 0)
                        return -ENOMEM;
        for (uint32_t i = 0; i < profile->n_sums; i++)
                if (profile->sums[i].node != INFP_PROFILE_NONE &&
                    infp_map_put(&heap->nodes, profile->sums[i].stack, profile->sums[i].node) < 0)
                        return -ENOMEM;
        return 0;
}

static int read_profile(struct infp_run *run, struct infp_heap *heap, struct infp_err *err)
{
        const struct infp_profile_options options = { .all_modes = true,
                                                      .unit = infp_stack_modes[INFP_STACK_HEAP_ALLOCATED].unit };
        int r = infp_profile_read(run, &options, &heap->profile, err);

        if (r == -ENODATA || r == -EINVAL)
                return 0;
        INFP_TRY(r);
        return index_profile(heap) < 0 ? infp_fail(err, -ENOMEM, "no memory for the heap of the run") : 0;
}

/* ---- peaks ---- */

enum { PEAK_PROCESS, PEAK_MODE, PEAK_WEIGHT };
static const char *const peak_columns[] = { "process", "mode", "weight", NULL };

/* Peaks between the ends of windows; all rows of a program's have the time of its peak. */
static int take_peak(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        const struct reading *reading = context;
        const uint64_t t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        const struct infp_heap_process *program;

        if (!infp_cell_is(batch, at[PEAK_MODE], row, infp_stack_modes[INFP_STACK_HEAP_PEAK].name))
                return 0;
        program = infp_heap_program(reading->heap, infp_heap_id(batch, at[PEAK_PROCESS], row), t_ns);
        /* The end of a program is when its successor was seen, which had blocks by then. */
        if (program && program->earlier != NONE &&
            t_ns <= infp_heap_end_ns(&reading->heap->processes[program->earlier]))
                program = &reading->heap->processes[program->earlier];
        if (program && t_ns + slack_ns >= program->begin_ns && t_ns < reading->heap->range.t1) {
                struct infp_heap_process *process = &reading->heap->processes[program - reading->heap->processes];

                process->peak_bytes += number_of(batch, at[PEAK_WEIGHT], row);
                process->peak_ns = t_ns;
        }
        return 0;
}

/* ---- sums and verdicts ---- */

static void add_part(const struct infp_heap *heap, const struct infp_heap_part *part, uint32_t n_windows,
                     struct infp_heap_use *to)
{
        for (uint32_t at = part->first_row; at != NONE; at = heap->rows[at].next) {
                const uint32_t next = heap->rows[at].next, until = next == NONE ? n_windows : heap->rows[next].window;

                for (uint32_t k = heap->rows[at].window; k < until; k++)
                        add_use(&to[k], &heap->rows[at].live);
        }
}

void infp_heap_over_time(const struct infp_heap *heap, const struct infp_heap_stack *stack, struct infp_heap_use *to)
{
        const uint32_t n = heap->processes[stack->process].n_windows;

        for (uint32_t k = stack->first_part; k != NONE; k = heap->parts[k].next)
                add_part(heap, &heap->parts[k], n, to);
}

/* What was in use at the ends of the windows. */
static struct infp_heap_use *total_of(const struct infp_heap *heap, const struct infp_heap_process *process)
{
        struct infp_heap_use *ret = calloc(process->n_windows, sizeof(*ret));

        for (uint32_t i = process->first_stack; i != NONE && ret; i = heap->stacks[i].next)
                infp_heap_over_time(heap, &heap->stacks[i], ret);
        return ret;
}

/* A process that ends frees what it holds, in the last window or the last two: these say nothing about growth. */
static uint32_t judged_of(const struct infp_heap_process *process, const struct infp_heap_use *total)
{
        uint32_t n = process->n_windows;

        for (unsigned i = 0; process->has_ended && i < MOST_CUT && n > 1 && n > process->n_before; i++)
                n -= total[n - 1].bytes < total[n - 2].bytes / 2;
        return n;
}

/* The window that ends nearest to t. */
static uint32_t nearest(const struct infp_heap_process *process, uint64_t t_ns)
{
        uint32_t i = 0;

        while (i + 1 < process->n_windows && process->window_ns[i + 1] <= t_ns)
                i++;
        return i + 1 < process->n_windows && middle(process->window_ns[i], process->window_ns[i + 1]) < t_ns ? i + 1
                                                                                                             : i;
}

static int sum_up(const struct infp_heap *heap, struct infp_heap_process *process)
{
        infp_autofree struct infp_heap_use *total = total_of(heap, process);
        uint64_t fullest_ns = 0;

        if (!total)
                return -ENOMEM;
        process->n_judged = judged_of(process, total);
        process->end = total[process->n_windows - 1];
        process->held = total[process->n_judged - 1];
        for (uint32_t i = process->n_before ? process->n_before - 1 : 0; i < process->n_windows; i++)
                if (total[i].bytes > process->peak.bytes) {
                        process->peak = total[i];
                        fullest_ns = process->window_ns[i];
                }
        process->peak.blocks = 0;
        if (process->peak_bytes > process->peak.bytes && process->peak.bytes > 0) { /* as sure as the fullest window */
                process->peak.variance *= process->peak_bytes / process->peak.bytes;
                process->peak.bytes = process->peak_bytes;
        } else {
                process->peak_ns = fullest_ns;
        }
        if (process->resident.t_ns)
                process->resident.in_use = total[nearest(process, process->resident.t_ns)];
        return 0;
}

/* Of a recording that was killed, or still goes on: nothing has changed since. Not by a window that is not yet over, or not yet written. */
static int add_quiet(const struct infp_heap *heap, struct infp_heap_process *process)
{
        const uint64_t last_ns = infp_heap_end_ns(process),
                       quiet_ns = (last_ns - process->first_ns) / 8 + 5 * INFP_NS_PER_S;

        return !process->has_ended && !process->goes_on && heap->range.end > last_ns + quiet_ns
                       ? fill_range(heap, process, heap->range.end)
                       : 0;
}

static int bound(const struct infp_heap *heap, struct infp_heap_process *process)
{
        uint32_t n = 0;

        INFP_TRY(add_quiet(heap, process));
        while (n < process->n_windows && middle_of(process, n) < heap->range.t0)
                n++;
        process->n_before = n;
        process->begin_ns = n ? process->window_ns[n - 1] : process->first_ns;
        return 0;
}

/* Nothing of a program that ended before the range is in it. */
static bool is_in_range(const struct infp_heap_process *process)
{
        return !process->has_ended || process->n_before < process->n_windows;
}

struct scratch {
        double *end_s, *low, *live;
};

static void scratch_done(struct scratch *scratch)
{
        free(scratch->end_s);
        free(scratch->low);
        free(scratch->live);
}

/* The floor of several stacks is at least the sum of theirs. */
static void add_series(const struct infp_heap *heap, const struct infp_heap_part *part, struct infp_heap_stack *stack,
                       const struct scratch *scratch, struct infp_heap_series *series)
{
        const struct infp_heap_process *process = &heap->processes[stack->process];
        const double half_s = series->n ? scratch->end_s[series->n - 1] / 2 : 0;
        struct infp_heap_use use = { 0 };
        uint64_t oldest_ns = 0;
        uint32_t at = part->first_row;
        double old = 0, at_half = 0, gone = 0;

        for (; at != NONE; at = heap->rows[at].next) {
                if (heap->rows[at].window >= process->n_before)
                        break;
                use = heap->rows[at].live;
                old = heap->rows[at].old;
                oldest_ns = heap->rows[at].oldest_ns;
                at_half = use.bytes;
        }
        for (uint32_t i = 0; i < series->n; i++) {
                double low = use.bytes;

                for (; at != NONE && heap->rows[at].window == process->n_before + i; at = heap->rows[at].next) {
                        use = heap->rows[at].live;
                        low = fmin(heap->rows[at].low, low);
                        if (scratch->end_s[i] <= half_s)
                                at_half = use.bytes;
                        else
                                gone += heap->rows[at].gone;
                        old = heap->rows[at].old;
                        oldest_ns = heap->rows[at].oldest_ns;
                }
                scratch->low[i] += low;
                scratch->live[i] += use.bytes;
        }
        /* A row has what was older than half of the program's life when its window ended, which is less than what is older than half of a range
         * that begins later. Of what was there at half of the range at most `gone` has been freed since. */
        series->old += fmax(old, at_half - gone);
        add_use(&stack->held, &use);
        add_use(&stack->end, &heap->rows[part->last_row].live);
        if (oldest_ns && (!stack->oldest_ns || oldest_ns < stack->oldest_ns))
                stack->oldest_ns = oldest_ns;
}

static bool has_any(const struct infp_heap_series *series)
{
        bool ret = series->allocated > 0 || series->blocks;

        for (uint32_t i = 0; i < series->n; i++)
                ret |= series->live[i] > 0;
        return ret;
}

static void judge(const struct infp_heap *heap, struct infp_heap_stack *stack, const struct scratch *scratch)
{
        struct infp_heap_process *process = &heap->processes[stack->process];
        const uint32_t n = process->n_judged - process->n_before;
        struct infp_heap_series series = {
                .end_s = scratch->end_s,
                .low = scratch->low,
                .live = scratch->live,
                .n = n,
                .allocated = stack->allocated.bytes,
                .temporary = stack->temporary,
        };

        for (uint32_t i = 0; i < n; i++) {
                scratch->end_s[i] = infp_heap_seconds(process->begin_ns, process->window_ns[process->n_before + i]);
                scratch->low[i] = scratch->live[i] = 0;
        }
        for (uint32_t i = stack->first_part; i != NONE; i = heap->parts[i].next)
                add_series(heap, &heap->parts[i], stack, scratch, &series);
        series.blocks = stack->held.blocks;
        stack->growth = infp_heap_judge(&series);
        if (!has_any(&series)) /* it had something before the range alone */
                return;
        process->n_stacks++;
        process->verdicts[stack->growth.verdict]++;
        process->leaked_bytes += stack->growth.verdict == INFP_HEAP_LEAK ? stack->held.bytes : 0;
}

static int judge_all(struct infp_heap *heap)
{
        infp_cleanup(scratch_done) struct scratch scratch = { NULL };
        uint32_t most = 1;

        for (uint32_t i = 0; i < heap->n_programs; i++) {
                INFP_TRY(sum_up(heap, &heap->processes[i]));
                most = heap->processes[i].n_windows > most ? heap->processes[i].n_windows : most;
        }
        scratch.end_s = calloc(most, sizeof(*scratch.end_s));
        scratch.low = calloc(most, sizeof(*scratch.low));
        scratch.live = calloc(most, sizeof(*scratch.live));
        if (!scratch.end_s || !scratch.low || !scratch.live)
                return -ENOMEM;
        for (uint32_t i = 0; i < heap->n_stacks; i++)
                judge(heap, &heap->stacks[i], &scratch);
        return 0;
}

static int by_peak(const void *a, const void *b, void *context)
{
        const struct infp_heap *heap = context;
        const uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;
        const double p = heap->processes[x].peak.bytes, q = heap->processes[y].peak.bytes;
        const bool has_x = is_in_range(&heap->processes[x]), has_y = is_in_range(&heap->processes[y]);

        if (has_x != has_y)
                return has_x ? -1 : 1;
        return p != q ? (p > q ? -1 : 1) : (x > y) - (x < y);
}

static int order(struct infp_heap *heap)
{
        infp_autofree uint32_t *old = calloc(heap->n_programs, sizeof(*old));
        infp_autofree uint32_t *new = calloc(heap->n_programs, sizeof(*new));
        struct infp_heap_process *sorted = calloc(heap->n_programs, sizeof(*sorted));

        if (!old || !new || !sorted) {
                free(sorted);
                return -ENOMEM;
        }
        for (uint32_t i = 0; i < heap->n_programs; i++)
                old[i] = i;
        infp_sort_r(old, heap->n_programs, sizeof(*old), by_peak, heap);
        for (uint32_t i = 0; i < heap->n_programs; i++) {
                sorted[i] = heap->processes[old[i]];
                new[old[i]] = i;
                heap->n_processes += is_in_range(&sorted[i]);
        }
        free(heap->processes);
        heap->processes = sorted;
        heap->cap_processes = heap->n_programs;
        for (uint32_t i = 0; i < heap->n_stacks; i++)
                heap->stacks[i].process = new[heap->stacks[i].process];
        for (uint32_t i = 0; i < heap->n_programs; i++) {
                sorted[i].earlier = sorted[i].earlier == NONE ? NONE : new[sorted[i].earlier];
                if (!sorted[i].is_replaced && infp_map_put(&heap->newest, sorted[i].id, i) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* ---- the range ---- */

struct widest {
        const struct infp_range *range;
        uint64_t ns;
};

static int take_length(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        const uint64_t t_ns = (uint64_t) infp_batch_i64(batch, 0, row),
                       begin_ns = begin_of(t_ns, number_of(batch, at[0], row));
        struct widest *widest = context;

        if (begin_ns < widest->range->t1 && t_ns > widest->range->t0 && t_ns - begin_ns > widest->ns)
                widest->ns = t_ns - begin_ns;
        return 0;
}

/* Windows are the finest that is known of a heap: a range that is shorter than one of those in it is made as long. */
static int find_range(struct infp_run *run, const struct infp_heap_options *options, struct infp_heap *heap,
                      struct infp_err *err)
{
        static const char *const seconds[] = { "seconds", NULL };
        struct infp_range *range = &heap->range;
        struct widest widest = { range, 0 };

        if (options->range)
                *range = *options->range;
        else
                INFP_TRY(infp_range_find(run, options->from, options->to, 0, range, err));
        heap->is_part = options->from || options->to ||
                        (options->range && (range->t0 > range->start || range->t1 < range->end));
        if (heap->is_part)
                INFP_TRY(infp_scan_rows(run, infp_table_heap_windows.name, seconds, &(struct infp_scan_options){ 0 },
                                        take_length, &widest, err));
        if (widest.ns > range->t1 - range->t0) {
                const uint64_t at_ns = middle(range->t0, range->t1);

                range->t0 = at_ns - range->start > widest.ns / 2 ? at_ns - widest.ns / 2 : range->start;
                range->t1 = range->t0 + widest.ns;
        }
        /* The first and the last window may lie beside the ends of the run. */
        range->t0 = range->t0 <= range->start ? 0 : range->t0;
        range->t1 = range->t1 >= range->end ? UINT64_MAX : range->t1;
        return 0;
}

static int fail_without(const struct infp_run *run, const struct infp_heap *heap, struct infp_err *err)
{
        if (heap->n_rows)
                return infp_fail(err, -ENODATA, "run %s has samples of the heap, and none in that range",
                                 run->info.uuid);
        if (heap->pid)
                return infp_fail(err, -ENODATA, "run %s has no samples of the heap of process %lld%s", run->info.uuid,
                                 (long long) heap->pid, heap->is_part ? " until the end of that range" : "");
        if (heap->is_part)
                return infp_fail(err, -ENODATA, "run %s has no samples of the heap until the end of that range",
                                 run->info.uuid);
        return infp_fail(err, -ENODATA,
                         "run %s has no samples of the heap: record it with `infprof record --heap -- COMMAND` "
                         "(`infprof report absent` says why they are missing if that was done)",
                         run->info.uuid);
}

static int read_all(struct infp_run *run, const struct infp_heap_options *options, struct infp_heap *heap,
                    struct infp_err *err)
{
        const struct infp_scan_options whole = { 0 };
        struct reading reading = { heap, err };
        int r = 0;

        INFP_TRY(find_range(run, options, heap, err));
        INFP_TRY(read_profile(run, heap, err));
        INFP_TRY(infp_scan_rows(run, infp_table_heap_windows.name, columns, &whole, take, &reading, err));
        if (!heap->n_rows)
                return fail_without(run, heap, err);
        for (uint32_t i = 0; i < heap->n_programs && r >= 0; i++)
                r = bound(heap, &heap->processes[i]);
        if (r >= 0) {
                INFP_TRY(infp_scan_rows(run, infp_table_stack_samples.name, peak_columns, &whole, take_peak, &reading,
                                        err));
                INFP_TRY(infp_heap_read_names(run, heap, err));
                INFP_TRY(infp_heap_read_resident(run, heap, err));
        }
        if (r >= 0)
                r = judge_all(heap);
        if (r >= 0)
                r = order(heap);
        if (r < 0)
                return infp_fail(err, r, "no memory for the heap of the run");
        return heap->n_processes ? 0 : fail_without(run, heap, err);
}

int infp_heap_read(struct infp_run *run, const struct infp_heap_options *options, struct infp_heap *ret,
                   struct infp_err *err)
{
        int r;

        *ret = (struct infp_heap){ .pid = options->pid };
        r = read_all(run, options, ret, err);
        if (r < 0)
                infp_heap_done(ret);
        return r;
}
