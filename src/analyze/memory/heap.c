#include "analyze/memory/heap.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/range.h"
#include "analyze/scan_some.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/sort.h"
#include "base/time.h"

enum { MOST_ROWS = 1 << 25, NONE = UINT32_MAX, MOST_CUT = 2 };

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
        double low, old, freed;
        uint64_t oldest_ns;
};

void infp_heap_done(struct infp_heap *heap)
{
        infp_profile_done(&heap->profile);
        for (uint32_t i = 0; i < heap->n_processes; i++)
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

        if (at && (!heap->processes[*at].has_ended ||
                   heap->processes[*at].window_ns[heap->processes[*at].n_windows - 1] >= t_ns)) {
                *ret = (uint32_t) *at;
                return 0;
        }
        if (!INFP_MAKE_ROOM(heap->processes, heap->n_processes, heap->cap_processes, 16) ||
            infp_map_put(&heap->newest, id, heap->n_processes) < 0)
                return -ENOMEM;
        *ret = heap->n_processes++;
        heap->processes[*ret] = (struct infp_heap_process){
                .id = id,
                .pid = is ? is->pid : 0,
                .name = is ? infp_profile_str(&heap->profile, is->name) : NULL,
                .first_ns = begin_of(t_ns, seconds),
                .first_stack = NONE,
        };
        return 0;
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
                                    number_of(batch, at[FREED], row),
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
        INFP_TRY(process_of(heap, id, t_ns, seconds, &n));
        process = &heap->processes[n];
        INFP_TRY(find_window(process, t_ns, seconds));
        process->has_ended |= infp_cell_bool(batch, at[IS_LAST], row);
        process->mean_bytes = count_of(batch, at[MEAN], row);
        add_sum(&process->allocated, &allocated);
        INFP_TRY(part_of(heap, n, infp_heap_id(batch, at[STACK], row), &part));
        stack = heap->parts[part].stack;
        add_sum(&heap->stacks[stack].allocated, &allocated);
        heap->stacks[stack].temporary += number_of(batch, at[TEMPORARY], row);
        is.window = process->n_windows - 1;
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

/* Peaks between the ends of windows. */
static void read_peaks(struct infp_heap *heap)
{
        for (uint32_t i = 0; i < heap->profile.n_sums; i++) {
                const struct infp_profile_sum *sum = &heap->profile.sums[i];
                const uint64_t *at = infp_map_get(&heap->newest, heap->profile.processes[sum->process].id);

                if (at && infp_stack_mode_of(infp_profile_str(&heap->profile, sum->mode)) == INFP_STACK_HEAP_PEAK)
                        heap->processes[*at].peak_bytes += sum->weight;
        }
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

/* What was in use at the ends of the windows. */
static struct infp_heap_use *total_of(const struct infp_heap *heap, const struct infp_heap_process *process)
{
        struct infp_heap_use *ret = calloc(process->n_windows, sizeof(*ret));

        for (uint32_t i = process->first_stack; i != NONE && ret; i = heap->stacks[i].next)
                for (uint32_t k = heap->stacks[i].first_part; k != NONE; k = heap->parts[k].next)
                        add_part(heap, &heap->parts[k], process->n_windows, ret);
        return ret;
}

/* A process that ends frees what it holds, in the last window or the last two: these say nothing about growth. */
static uint32_t judged_of(const struct infp_heap_process *process, const struct infp_heap_use *total)
{
        uint32_t n = process->n_windows;

        for (unsigned i = 0; process->has_ended && i < MOST_CUT && n > 1; i++)
                n -= total[n - 1].bytes < total[n - 2].bytes / 2;
        return n;
}

static int sum_up(const struct infp_heap *heap, struct infp_heap_process *process)
{
        infp_autofree struct infp_heap_use *total = total_of(heap, process);

        if (!total)
                return -ENOMEM;
        process->n_judged = judged_of(process, total);
        process->end = total[process->n_windows - 1];
        process->held = total[process->n_judged - 1];
        for (uint32_t i = 0; i < process->n_windows; i++)
                process->peak = total[i].bytes > process->peak.bytes ? total[i] : process->peak;
        process->peak.blocks = 0;
        if (process->peak_bytes > process->peak.bytes && process->peak.bytes > 0) { /* as sure as the fullest window */
                process->peak.variance *= process->peak_bytes / process->peak.bytes;
                process->peak.bytes = process->peak_bytes;
        }
        return 0;
}

/* Of a recording that was killed, or still goes on: nothing has changed since. Not by a window that is not yet over, or not yet written. */
static int add_quiet(struct infp_heap_process *process, uint64_t end_ns)
{
        const uint64_t last_ns = process->window_ns[process->n_windows - 1],
                       quiet_ns = (last_ns - process->first_ns) / 8 + 5 * INFP_NS_PER_S;

        return !process->has_ended && end_ns > last_ns + quiet_ns ? fill_windows(process, last_ns, end_ns) : 0;
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
        const double half_s = scratch->end_s[series->n - 1] / 2;
        struct infp_heap_use use = { 0 };
        uint64_t oldest_ns = 0;
        uint32_t at = part->first_row;
        double old = 0, at_half = 0, freed = 0;

        for (uint32_t i = 0; i < series->n; i++) {
                double low = use.bytes;

                for (; at != NONE && heap->rows[at].window == i; at = heap->rows[at].next) {
                        use = heap->rows[at].live;
                        low = fmin(heap->rows[at].low, low);
                        if (scratch->end_s[i] <= half_s)
                                at_half = use.bytes;
                        else
                                freed += heap->rows[at].freed;
                        old = heap->rows[at].old;
                        oldest_ns = heap->rows[at].oldest_ns;
                }
                scratch->low[i] += low;
                scratch->live[i] += use.bytes;
        }
        /* A row has what was old when its window ended. Where nothing was freed since the middle, what was there then still is. */
        series->old += freed > 0 ? old : at_half;
        add_use(&stack->held, &use);
        add_use(&stack->end, &heap->rows[part->last_row].live);
        if (oldest_ns && (!stack->oldest_ns || oldest_ns < stack->oldest_ns))
                stack->oldest_ns = oldest_ns;
}

static void judge(const struct infp_heap *heap, struct infp_heap_stack *stack, const struct scratch *scratch)
{
        struct infp_heap_process *process = &heap->processes[stack->process];
        const uint32_t n = process->n_judged;
        struct infp_heap_series series = {
                .end_s = scratch->end_s,
                .low = scratch->low,
                .live = scratch->live,
                .n = n,
                .allocated = stack->allocated.bytes,
                .temporary = stack->temporary,
        };

        for (uint32_t i = 0; i < n; i++) {
                scratch->end_s[i] = infp_heap_seconds(process->first_ns, process->window_ns[i]);
                scratch->low[i] = scratch->live[i] = 0;
        }
        for (uint32_t i = stack->first_part; i != NONE; i = heap->parts[i].next)
                add_series(heap, &heap->parts[i], stack, scratch, &series);
        series.blocks = stack->held.blocks;
        stack->growth = infp_heap_judge(&series);
        process->n_stacks++;
        process->verdicts[stack->growth.verdict]++;
        process->leaked_bytes += stack->growth.verdict == INFP_HEAP_LEAK ? stack->held.bytes : 0;
}

static int judge_all(struct infp_heap *heap)
{
        infp_cleanup(scratch_done) struct scratch scratch = { NULL };
        uint32_t most = 1;

        read_peaks(heap);
        for (uint32_t i = 0; i < heap->n_processes; i++) {
                INFP_TRY(add_quiet(&heap->processes[i], heap->end_ns));
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

        return p != q ? (p > q ? -1 : 1) : (x > y) - (x < y);
}

static int order(struct infp_heap *heap)
{
        infp_autofree uint32_t *old = calloc(heap->n_processes, sizeof(*old));
        infp_autofree uint32_t *new = calloc(heap->n_processes, sizeof(*new));
        struct infp_heap_process *sorted = calloc(heap->n_processes, sizeof(*sorted));

        if (!old || !new || !sorted) {
                free(sorted);
                return -ENOMEM;
        }
        for (uint32_t i = 0; i < heap->n_processes; i++)
                old[i] = i;
        infp_sort_r(old, heap->n_processes, sizeof(*old), by_peak, heap);
        for (uint32_t i = 0; i < heap->n_processes; i++) {
                sorted[i] = heap->processes[old[i]];
                new[old[i]] = i;
        }
        free(heap->processes);
        heap->processes = sorted;
        heap->cap_processes = heap->n_processes;
        for (uint32_t i = 0; i < heap->n_stacks; i++)
                heap->stacks[i].process = new[heap->stacks[i].process];
        return 0;
}

static int read_all(struct infp_run *run, struct infp_heap *heap, struct infp_err *err)
{
        struct reading reading = { heap, err };
        struct infp_range range;
        int r;

        INFP_TRY(read_profile(run, heap, err));
        INFP_TRY(infp_scan_rows(run, infp_table_heap_windows.name, columns, &(struct infp_scan_options){ 0 }, take,
                                &reading, err));
        if (!heap->n_rows && heap->pid)
                return infp_fail(err, -ENODATA, "run %s has no samples of the heap of process %lld", run->info.uuid,
                                 (long long) heap->pid);
        if (!heap->n_rows)
                return infp_fail(err, -ENODATA,
                                 "run %s has no samples of the heap: record it with `infprof record --heap -- COMMAND` "
                                 "(`infprof report absent` says why they are missing if that was done)",
                                 run->info.uuid);
        INFP_TRY(infp_range_find(run, NULL, NULL, 0, &range, err));
        heap->end_ns = range.end;
        r = judge_all(heap);
        if (r >= 0)
                r = order(heap);
        return r < 0 ? infp_fail(err, r, "no memory for the heap of the run") : 0;
}

int infp_heap_read(struct infp_run *run, int64_t pid, struct infp_heap *ret, struct infp_err *err)
{
        int r;

        *ret = (struct infp_heap){ .pid = pid };
        r = read_all(run, ret, err);
        if (r < 0)
                infp_heap_done(ret);
        return r;
}

struct ordering {
        const struct infp_heap *heap;
        double (*by)(const struct infp_heap_stack *stack);
};

static int by_order(const void *a, const void *b, void *context)
{
        const struct ordering *ordering = context;
        const uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;
        const double p = ordering->by(&ordering->heap->stacks[x]), q = ordering->by(&ordering->heap->stacks[y]);

        return p != q ? (p > q ? -1 : 1) : (x > y) - (x < y);
}

static void add_wanted(const struct infp_heap *heap, uint32_t stack, double (*by)(const struct infp_heap_stack *stack),
                       uint32_t *list, uint32_t *n)
{
        if (by(&heap->stacks[stack]) > 0)
                list[(*n)++] = stack;
}

uint32_t *infp_heap_top(const struct infp_heap *heap, uint32_t process,
                        double (*by)(const struct infp_heap_stack *stack), uint32_t *ret_n)
{
        struct ordering ordering = { heap, by };
        const uint32_t most = process == UINT32_MAX ? heap->n_stacks : heap->processes[process].n_stacks;
        uint32_t *ret = calloc((size_t) most + 1, sizeof(*ret));

        *ret_n = 0;
        if (process == UINT32_MAX)
                for (uint32_t i = 0; ret && i < heap->n_stacks; i++)
                        add_wanted(heap, i, by, ret, ret_n);
        else
                for (uint32_t i = heap->processes[process].first_stack; ret && i != NONE; i = heap->stacks[i].next)
                        add_wanted(heap, i, by, ret, ret_n);
        if (ret)
                infp_sort_r(ret, *ret_n, sizeof(*ret), by_order, &ordering);
        return ret;
}

double infp_heap_held(const struct infp_heap_stack *stack)
{
        return stack->held.bytes;
}

double infp_heap_leaking(const struct infp_heap_stack *stack)
{
        const enum infp_heap_verdict verdict = stack->growth.verdict;

        return (verdict == INFP_HEAP_LEAK || verdict == INFP_HEAP_GROWS ? stack->growth.rate : 0) +
               (verdict == INFP_HEAP_LEAK ? 1e15 : 0);
}
