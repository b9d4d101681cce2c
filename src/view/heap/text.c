#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "view/heap/heap.h"
#include "view/report/parts.h"

enum {
        MOST_PROCESSES = 8,
        MOST_STACKS = 10,
        MOST_LEAKS = 20,
        MOST_CALLERS = 6,
        BYTES_WIDTH = 11,
        FIGURES_WIDTH = 51,
        BAR_WIDTH = 24,
};
static const double z = 1.95996;

/* ---- words ---- */

static double low_of(double value, double variance)
{
        return fmax(value - z * sqrt(fmax(variance, 0)), 0);
}

static double high_of(double value, double variance)
{
        return value + z * sqrt(fmax(variance, 0));
}

/* "12.3 MiB (11.2 to 13.4 MiB)", "12.3 MiB" */
static void put_bytes(struct infp_str *out, const struct infp_heap *heap, double bytes, double variance)
{
        if (!heap->is_sampled) {
                infp_str_puts(out, infp_report_bytes(bytes).text);
                return;
        }
        infp_str_printf(out, "%s (%s to %s)", infp_report_bytes(bytes).text,
                        infp_report_bytes(low_of(bytes, variance)).text,
                        infp_report_bytes(high_of(bytes, variance)).text);
}

/* "python (4711)" */
static void put_process(struct infp_str *out, const char *name, int64_t pid)
{
        infp_str_puts(out, name ? name : "[process]");
        if (pid)
                infp_str_printf(out, " (%lld)", (long long) pid);
}

/* "grow  leak.py:5" */
static void put_place(struct infp_str *out, const struct infp_heap *heap, const struct infp_profile_place *place)
{
        if (place->node == INFP_PROFILE_NONE)
                infp_str_puts(out, "[no stack]");
        else
                infp_report_place(out, &heap->profile.strings, place);
}

/* Who called it: "main  leak.py:9, <module>  leak.py:12". */
static void put_callers(struct infp_str *out, const struct infp_heap *heap, const struct infp_profile_place *place)
{
        const struct infp_profile *profile = &heap->profile;
        uint32_t node = place->node, n = 0;

        if (node == INFP_PROFILE_NONE)
                return;
        for (node = profile->nodes[node].parent; node != INFP_PROFILE_NONE && n < MOST_CALLERS;
             node = profile->nodes[node].parent, n++) {
                const struct infp_profile_level *level =
                        &profile->levels[profile->frames[profile->nodes[node].frame].first_level];

                infp_str_puts(out, n ? ", " : "");
                infp_report_place(out, &profile->strings,
                                  &(struct infp_profile_place){ level->name, level->file, level->line, 0, node });
        }
        infp_str_puts(out, node != INFP_PROFILE_NONE ? ", ..." : "");
}

/* For a place, after the figures; a file has room for all of it. */
static unsigned room_of(const struct infp_out *out)
{
        const unsigned width = infp_report_width(out);

        return !out->width ? UINT_MAX : width > FIGURES_WIDTH + 20 ? width - FIGURES_WIDTH : 20;
}

static void put_row(struct infp_out *out, const struct infp_heap *heap, double bytes, double variance, double all,
                    const char *words)
{
        infp_report_put(out, "  %*s", BYTES_WIDTH, infp_report_bytes(bytes).text);
        if (heap->is_sampled)
                infp_report_put(out, "  %*s to %*s", BYTES_WIDTH, infp_report_bytes(low_of(bytes, variance)).text,
                                BYTES_WIDTH, infp_report_bytes(high_of(bytes, variance)).text);
        infp_report_put(out, "  %6s %%  ", infp_fixed(all > 0 ? 100 * bytes / all : NAN, 1).text);
        infp_report_put_padded(out, words, room_of(out), true);
        infp_report_end(out);
}

static void put_rest(struct infp_out *out, uint32_t n, uint32_t shown, const char *what)
{
        if (n > shown)
                infp_report_line(out, "", "and %s more %s", infp_count(n - shown).text, what);
}

/* ---- report ---- */

static int put_held(struct infp_out *out, const struct infp_heap *heap, uint32_t index)
{
        const struct infp_heap_process *process = &heap->processes[index];
        const bool is_cut = process->n_judged < process->n_windows;
        uint32_t n;
        infp_autofree uint32_t *list = infp_heap_top(heap, index, infp_heap_held, &n);

        if (!list)
                return -ENOMEM;
        infp_report_end(out);
        infp_report_put(out, "  %*s", BYTES_WIDTH, "in use");
        if (heap->is_sampled)
                infp_report_put(out, "  %*s", 2 * BYTES_WIDTH + 4, "95 % interval");
        infp_report_put(out, "     share  ");
        infp_report_put(out, is_cut ? "by %s s, before the process freed what it held" : "at the end, %s s",
                        infp_fixed(infp_heap_seconds(process->first_ns, infp_heap_judged_ns(process)), 1).text);
        infp_report_end(out);
        for (uint32_t i = 0; i < n && i < MOST_STACKS; i++) { /* bound: the rest is counted below */
                const struct infp_heap_stack *stack = &heap->stacks[list[i]];
                infp_autostr struct infp_str words = { 0 };

                put_place(&words, heap, &stack->place);
                put_row(out, heap, stack->held.bytes, stack->held.variance, process->held.bytes,
                        words.data ? words.data : "");
        }
        put_rest(out, n, MOST_STACKS, "stacks");
        return 0;
}

static void put_verdicts(struct infp_out *out, const struct infp_heap_process *process)
{
        const uint32_t *n = process->verdicts;

        infp_report_line(out, "stacks",
                         "%s that leak, %s that grow, %s that grew, then stopped, %s steady or temporary, %s with too "
                         "few samples or too little time for a verdict: `infprof heap leaks`",
                         infp_count(n[INFP_HEAP_LEAK]).text, infp_count(n[INFP_HEAP_GROWS]).text,
                         infp_count(n[INFP_HEAP_CACHE]).text,
                         infp_count(n[INFP_HEAP_STEADY] + n[INFP_HEAP_TEMPORARY]).text,
                         infp_count(n[INFP_HEAP_FEW] + n[INFP_HEAP_SHORT]).text);
}

/* When `end` was. */
static const char *end_words(const struct infp_heap *heap, const struct infp_heap_process *process)
{
        if (process->is_replaced && process->has_ended)
                return "as it became another program";
        if (process->has_ended)
                return "at the end";
        return heap->range.t1 < heap->range.end ? "at the end of the range" : "when it was seen last";
}

static double since_start_s(const struct infp_heap *heap, uint64_t t_ns)
{
        return infp_heap_seconds(heap->range.start, t_ns);
}

/* What was looked at of it: whole windows. */
static void put_range(struct infp_out *out, const struct infp_heap *heap, const struct infp_heap_process *process)
{
        if (heap->is_part)
                infp_report_line(out, "range",
                                 "from %s s to %s s after the start of the recording, by the %s windows of time that "
                                 "are nearest to it",
                                 infp_fixed(since_start_s(heap, process->begin_ns), 2).text,
                                 infp_fixed(since_start_s(heap, infp_heap_end_ns(process)), 2).text,
                                 infp_count(process->n_windows - process->n_before).text);
}

/* RSS against what is in use: the allocator's malloc_info would say more, and nobody outside can ask it. */
static void put_resident(struct infp_out *out, const struct infp_heap *heap, const struct infp_heap_process *process)
{
        const struct infp_heap_resident *resident = &process->resident;
        const double rest = resident->bytes - resident->in_use.bytes;
        infp_autostr struct infp_str in_use = { 0 };

        if (!resident->t_ns)
                return;
        put_bytes(&in_use, heap, resident->in_use.bytes, resident->in_use.variance);
        if (rest < 0)
                infp_report_line(out, "in RAM",
                                 "%s of heap and anonymous memory, by the account at %s s; blocks in use then: %s. The "
                                 "program has not touched all of them, or they are swapped out",
                                 infp_report_bytes(resident->bytes).text,
                                 infp_fixed(since_start_s(heap, resident->t_ns), 1).text,
                                 in_use.data ? in_use.data : "");
        else
                infp_report_line(
                        out, "in RAM",
                        "%s of heap and anonymous memory, by the account at %s s; blocks in use then: %s. The "
                        "other %s (%s %%) at least are free blocks that the allocator keeps (fragmentation), what "
                        "it and infprof's agent need, and mappings that are not counted: how much of each is not known",
                        infp_report_bytes(resident->bytes).text,
                        infp_fixed(since_start_s(heap, resident->t_ns), 1).text, in_use.data ? in_use.data : "",
                        infp_report_bytes(rest).text,
                        infp_fixed(resident->bytes > 0 ? 100 * rest / resident->bytes : NAN, 1).text);
}

static int put_process_report(struct infp_out *out, const struct infp_heap *heap, uint32_t index)
{
        const struct infp_heap_process *process = &heap->processes[index];
        const double seconds = infp_heap_observed_s(process);
        infp_autostr struct infp_str title = { 0 }, end = { 0 }, peak = { 0 }, allocated = { 0 };

        infp_str_puts(&title, "Heap of ");
        put_process(&title, process->name, process->pid);
        infp_report_title(out, title.data ? title.data : "");
        put_range(out, heap, process);
        put_bytes(&end, heap, process->end.bytes, process->end.variance);
        put_bytes(&peak, heap, process->peak.bytes, process->peak.variance);
        put_bytes(&allocated, heap, process->allocated.bytes, process->allocated.variance);
        infp_report_line(out, "in use", "%s %s, in %s%s blocks", end.data ? end.data : "", end_words(heap, process),
                         heap->is_sampled ? "sampled " : "", infp_count(process->end.blocks).text);
        infp_report_line(out, "peak", "%s at %s s; %s", peak.data ? peak.data : "",
                         infp_fixed(since_start_s(heap, process->peak_ns), 1).text,
                         heap->is_sampled
                                 ? "the highest of many estimates, taken when they have grown by 5 % and at each window"
                                 : "looked at when it had grown by a 64th, or a 32nd where stacks are many: for a "
                                   "moment it may have been up to 5 % more");
        infp_report_line(out, "allocated", "%s in %s blocks; in %s: %s/s", allocated.data ? allocated.data : "",
                         infp_count((uint64_t) fmin(process->allocated.blocks, 1e18)).text,
                         infp_report_seconds(seconds).text,
                         infp_report_bytes(seconds > 0 ? process->allocated.bytes / seconds : NAN).text);
        if (heap->is_sampled)
                infp_report_line(
                        out, "sampled", "%s blocks, one each %s on average",
                        infp_count(process->allocated.samples).text,
                        infp_report_bytes(process->allocated.samples
                                                  ? process->allocated.bytes / (double) process->allocated.samples
                                                  : NAN)
                                .text);
        put_resident(out, heap, process);
        put_verdicts(out, process);
        return put_held(out, heap, index);
}

/* Where every block was counted. */
static void put_trust(struct infp_out *out, double lost)
{
        if (isnan(lost))
                infp_report_line(out, "trust", "exact; how many blocks are missing is not known");
        else if (lost > 0)
                infp_report_line(out, "trust", "exact, but for %s blocks that are in no sum (`infprof report absent`)",
                                 infp_count((uint64_t) lost).text);
        else
                infp_report_line(out, "trust", "exact: every block since before main was counted");
}

int infp_heap_report_text(struct infp_out *out, const struct infp_heap_view *view)
{
        const struct infp_heap *heap = view->heap;
        const struct infp_sampling_mode *mode = infp_sampling_find(view->sampling, INFP_STACK_HEAP_ALLOCATED);

        for (uint32_t i = 0; i < heap->n_processes && i < MOST_PROCESSES; i++) /* bound: the rest is counted below */
                INFP_TRY(put_process_report(out, heap, i));
        infp_report_end(out);
        put_rest(out, heap->n_processes, MOST_PROCESSES, "processes with smaller peaks: --pid shows one, --json all");
        if (!heap->is_sampled)
                put_trust(out, mode ? mode->lost : NAN);
        else if (!mode || isnan(mode->lost))
                infp_report_line(out, "trust",
                                 "estimates from samples, with 95 %% intervals; how many were lost is not known");
        else if (mode->lost > 0) /* which no interval has in it */
                infp_report_line(out, "trust",
                                 "estimates from samples, with 95 %% intervals; %s samples were lost for want of room, "
                                 "so all bytes are too low by about %s %%",
                                 infp_count((uint64_t) mode->lost).text,
                                 infp_fixed(100 * mode->lost / (mode->lost + mode->taken), 1).text);
        else
                infp_report_line(out, "trust", "estimates from samples, with 95 %% intervals; no sample was lost");
        return 0;
}

/* ---- leaks ---- */

static void put_judged(struct infp_out *out, const struct infp_heap *heap, uint32_t index)
{
        const struct infp_heap_process *process = &heap->processes[index];
        const uint32_t few = process->verdicts[INFP_HEAP_FEW], brief = process->verdicts[INFP_HEAP_SHORT];
        infp_autostr struct infp_str name = { 0 };

        put_process(&name, process->name, process->pid);
        put_range(out, heap, process);
        if (brief)
                infp_report_line(out, "too short", "%s was seen for %s: a verdict needs 3 s at least",
                                 name.data ? name.data : "", infp_report_seconds(infp_heap_observed_s(process)).text);
        else
                infp_report_line(out, "judged",
                                 "%s of %s stacks of %s, by %s in %u windows; of the others fewer than %d sampled "
                                 "blocks are in use",
                                 infp_count(process->n_stacks - few).text, infp_count(process->n_stacks).text,
                                 name.data ? name.data : "", infp_report_seconds(infp_heap_observed_s(process)).text,
                                 process->n_judged - process->n_before, INFP_HEAP_LEAST_SAMPLES);
}

/* "1.02 MiB/s (0.98 to 1.06 MiB/s); holds 20 MiB (19 to 21 MiB) in 310 samples, the oldest 19.8 s old" */
static void put_leak(struct infp_out *out, const struct infp_heap *heap, const struct infp_heap_stack *stack)
{
        const struct infp_heap_process *process = &heap->processes[stack->process];
        const struct infp_heap_growth *growth = &stack->growth;
        infp_autostr struct infp_str place = { 0 }, held = { 0 }, callers = { 0 };

        put_place(&place, heap, &stack->place);
        put_bytes(&held, heap, stack->held.bytes, stack->held.variance);
        put_callers(&callers, heap, &stack->place);
        infp_report_line(out, infp_heap_verdict_words(growth->verdict), "%s", place.data ? place.data : "");
        infp_report_line(out, "", "%s/s (%s to %s); holds %s in %s %s, the oldest for %s",
                         infp_report_bytes(growth->rate).text, infp_report_bytes(growth->low).text,
                         infp_report_bytes(growth->high).text, held.data ? held.data : "",
                         infp_count(stack->held.blocks).text, heap->is_sampled ? "samples" : "blocks",
                         infp_report_seconds(infp_heap_seconds(stack->oldest_ns, infp_heap_judged_ns(process))).text);
        if (callers.size)
                infp_report_line(out, "", "called by %s", callers.data);
}

int infp_heap_leaks_text(struct infp_out *out, const struct infp_heap_view *view)
{
        const struct infp_heap *heap = view->heap;
        uint32_t n;
        infp_autofree uint32_t *list = infp_heap_top(heap, UINT32_MAX, infp_heap_leaking, &n);

        if (!list)
                return -ENOMEM;
        infp_report_title(out, "Leaks of the heap");
        for (uint32_t i = 0; i < heap->n_processes && i < MOST_PROCESSES; i++) /* bound: the rest is counted below */
                put_judged(out, heap, i);
        put_rest(out, heap->n_processes, MOST_PROCESSES, "processes");
        infp_report_end(out);
        if (!n)
                infp_report_line(out, "none", "no stack leaks or grows, as far as was recorded");
        for (uint32_t i = 0; i < n && i < MOST_LEAKS; i++) /* bound: the rest is counted below */
                put_leak(out, heap, &heap->stacks[list[i]]);
        put_rest(out, n, MOST_LEAKS, "stacks: --json has all");
        infp_report_end(out);
        infp_report_line(out, "trust",
                         "of stacks that do not leak at most 1 in %s is called a leak; what is freed after more time "
                         "than %s looks like one. A stack that grows has not all the signs of a leak yet",
                         infp_count((uint64_t) lrint(1 / INFP_HEAP_FALSE_ALARMS)).text,
                         heap->is_part ? "the range has" : "was recorded");
        return 0;
}

/* ---- single blocks ---- */

static void put_missing(struct infp_out *out, const struct infp_heap *heap)
{
        bool is_missing = false;

        for (uint32_t i = 0; i < heap->n_processes; i++)
                is_missing |= !heap->processes[i].is_whole;
        if (is_missing)
                infp_report_line(out, "missing", "blocks that are in use: the recording was killed, or goes on");
}

static void put_blocks_range(struct infp_out *out, const struct infp_heap *heap)
{
        const struct infp_range *range = &heap->range;

        if (heap->is_part)
                infp_report_line(
                        out, "range", "blocks allocated from %s s to %s s after the start of the recording",
                        infp_fixed(since_start_s(heap, range->t0), 2).text,
                        infp_fixed(since_start_s(heap, range->t1 < range->end ? range->t1 : range->end), 2).text);
}

int infp_heap_temporary_text(struct infp_out *out, const struct infp_heap_view *view)
{
        const struct infp_heap_blocks *blocks = view->blocks;
        const double seconds = infp_heap_seconds(blocks->first_ns, blocks->last_ns);
        struct infp_heap_sum all = { 0 }, soon = { 0 };
        uint32_t n = 0;

        for (uint32_t i = 0; i < blocks->n_stacks; i++) {
                all.bytes += blocks->stacks[i].allocated.bytes;
                soon.bytes += blocks->stacks[i].soon.bytes;
                soon.blocks += blocks->stacks[i].soon.blocks;
                n += blocks->stacks[i].soon.samples > 0;
        }
        infp_report_title(out, "Blocks that were freed within a second");
        infp_report_line(out, "all",
                         "%s in %s blocks, %s %% of what was allocated; half of all bytes lived for less than %s",
                         infp_report_bytes(soon.bytes).text, infp_count((uint64_t) fmin(soon.blocks, 1e18)).text,
                         infp_fixed(all.bytes > 0 ? 100 * soon.bytes / all.bytes : NAN, 1).text,
                         infp_report_seconds(blocks->median_s).text);
        put_blocks_range(out, view->heap);
        put_missing(out, view->heap);
        infp_report_end(out);
        infp_report_put(out, "  %*s/s  %12s  %11s  %7s  allocated by", BYTES_WIDTH - 2, "bytes", "blocks",
                        "median life", "share");
        infp_report_end(out);
        for (uint32_t i = 0; i < n && i < MOST_LEAKS; i++) { /* bound: the rest is counted below */
                const struct infp_heap_soon *stack = &blocks->stacks[i];
                infp_autostr struct infp_str words = { 0 };

                put_place(&words, view->heap, &stack->place);
                infp_report_put(out, "  %*s  %12s  %11s  %5s %%  ", BYTES_WIDTH,
                                infp_report_bytes(seconds > 0 ? stack->soon.bytes / seconds : NAN).text,
                                infp_count((uint64_t) fmin(stack->soon.blocks, 1e18)).text,
                                infp_report_seconds(stack->median_s).text,
                                infp_fixed(100 * stack->soon.bytes / soon.bytes, 1).text);
                infp_report_put_padded(out, words.data ? words.data : "", room_of(out), true);
                infp_report_end(out);
        }
        put_rest(out, n, MOST_LEAKS, "stacks: --json has all");
        infp_report_end(out);
        infp_report_line(out, "trust", "estimates from %s samples", infp_count(blocks->n_lives).text);
        return 0;
}

static void put_size(struct infp_out *out, const struct infp_heap_size *size, unsigned power, double most)
{
        const unsigned bar = most > 0 ? (unsigned) lrint(BAR_WIDTH * size->allocated.bytes / most) : 0;

        infp_report_put(out, "  %10s  %13s  %11s  %11s to %11s  %11s  %.*s",
                        infp_report_bytes(ldexp(1, (int) power)).text,
                        infp_count((uint64_t) llrint(fmin(size->allocated.blocks, 1e18))).text,
                        infp_report_bytes(size->allocated.bytes).text,
                        infp_report_bytes(low_of(size->allocated.bytes, size->allocated.variance)).text,
                        infp_report_bytes(high_of(size->allocated.bytes, size->allocated.variance)).text,
                        infp_report_bytes(size->end.bytes).text, (int) bar, "########################");
        infp_report_end(out);
}

int infp_heap_sizes_text(struct infp_out *out, const struct infp_heap_view *view)
{
        const struct infp_heap_size *sizes = view->blocks->sizes;
        unsigned first = INFP_HEAP_SIZES, last = 0;
        double most = 0;

        for (unsigned i = 0; i < INFP_HEAP_SIZES; i++)
                if (sizes[i].allocated.samples || sizes[i].end.samples) {
                        first = i < first ? i : first;
                        last = i;
                        most = fmax(most, sizes[i].allocated.bytes);
                }
        infp_report_title(out, "Blocks by size");
        put_blocks_range(out, view->heap);
        put_missing(out, view->heap);
        infp_report_put(out, "  %10s  %13s  %11s  %26s  %11s", "up to", "blocks", "bytes", "95 % interval", "in use");
        infp_report_end(out);
        for (unsigned i = first; i <= last; i++)
                put_size(out, &sizes[i], i, most);
        infp_report_end(out);
        infp_report_line(out, "trust", "estimates from samples; small blocks are sampled rarely. In use: at the end%s",
                         view->heap->is_part ? " of the range, whenever they were allocated" : "");
        return 0;
}
