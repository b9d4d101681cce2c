#include <math.h>

#include "base/mem.h"
#include "view/heap/heap.h"

enum { MOST_FRAMES = 256, MOST_HOTSPOTS = 50 };
static const double z = 1.95996, mib = 1 << 20;

static void put_interval(struct infp_json *json, const char *key, double value, double variance)
{
        const double margin = z * sqrt(fmax(variance, 0));

        infp_json_key(json, key);
        infp_json_object(json);
        infp_json_member_f64(json, "estimate", value);
        infp_json_member_f64(json, "low", fmax(value - margin, 0));
        infp_json_member_f64(json, "high", value + margin);
        infp_json_object_end(json);
}

static void put_pid(struct infp_json *json, const char *name, int64_t pid)
{
        infp_json_member_str(json, "process", name);
        infp_json_key(json, "pid");
        if (pid)
                infp_json_i64(json, pid);
        else
                infp_json_null(json);
}

/* Members of the object that is open. */
static void put_level(struct infp_json *json, const struct infp_profile *profile, uint32_t function, uint32_t file,
                      int64_t line)
{
        infp_json_member_str(json, "function", infp_profile_str(profile, function));
        infp_json_member_str(json, "file", infp_profile_str(profile, file));
        infp_json_key(json, "line");
        if (line)
                infp_json_i64(json, line);
        else
                infp_json_null(json);
}

static void put_place(struct infp_json *json, const struct infp_heap *heap, const struct infp_profile_place *place)
{
        put_level(json, &heap->profile, place->function, place->file, place->line);
}

/* From the place outward, inlined functions too. */
static void put_stack(struct infp_json *json, const struct infp_heap *heap, const struct infp_profile_place *place)
{
        const struct infp_profile *profile = &heap->profile;
        uint32_t node = place->node, n = 0;

        infp_json_key(json, "stack");
        infp_json_array(json);
        /* bound: outer frames of a deeper stack are left out, of which flamegraph has all */
        for (; node != INFP_PROFILE_NONE && n < MOST_FRAMES; node = profile->nodes[node].parent, n++) {
                const struct infp_profile_frame *frame = &profile->frames[profile->nodes[node].frame];

                for (unsigned i = frame->n_levels; i-- > 0;) {
                        const struct infp_profile_level *level = &profile->levels[frame->first_level + i];

                        infp_json_object(json);
                        put_level(json, profile, level->name, level->file, level->line);
                        infp_json_object_end(json);
                }
        }
        infp_json_array_end(json);
}

static double since_start_s(const struct infp_heap *heap, uint64_t t_ns)
{
        return infp_heap_seconds(heap->range.start, t_ns);
}

/* Seconds since the start of the recording: what was asked for, or a window more where that is shorter. */
static void begin(struct infp_json *json, const struct infp_heap_view *view)
{
        const struct infp_range *range = &view->heap->range;

        infp_json_member_str(json, "run", view->run);
        infp_json_key(json, "range");
        if (view->heap->is_part) {
                infp_json_object(json);
                infp_json_member_f64(json, "from_s", since_start_s(view->heap, range->t0));
                infp_json_member_f64(json, "to_s",
                                     since_start_s(view->heap, range->t1 < range->end ? range->t1 : range->end));
                infp_json_object_end(json);
        } else {
                infp_json_null(json);
        }
        infp_json_member_str(json, "quality", view->heap->is_sampled ? "estimated" : "measured");
        infp_json_member_bool(json, "estimated", view->heap->is_sampled);
        infp_json_member_str(json, "method", view->heap->is_sampled ? "sampled" : "exact");
}

/* ---- report ---- */

static void put_hotspots(struct infp_json *json, const struct infp_heap *heap, uint32_t index)
{
        uint32_t n;
        infp_autofree uint32_t *list = infp_heap_top(heap, index, infp_heap_held, &n);

        infp_json_key(json, "hotspots");
        infp_json_array(json);
        for (uint32_t i = 0; list && i < n && i < MOST_HOTSPOTS; i++) { /* bound: hotspots_left_out counts the rest */
                const struct infp_heap_stack *stack = &heap->stacks[list[i]];

                infp_json_object(json);
                put_place(json, heap, &stack->place);
                put_interval(json, "bytes", stack->held.bytes, stack->held.variance);
                infp_json_member_u64(json, "samples", stack->held.blocks);
                infp_json_member_f64(json, "percent",
                                     100 * stack->held.bytes / fmax(heap->processes[index].held.bytes, 1));
                infp_json_member_str(json, "verdict", infp_heap_verdict_name(stack->growth.verdict));
                put_stack(json, heap, &stack->place);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
        infp_json_member_u64(json, "hotspots_left_out", n > MOST_HOTSPOTS ? n - MOST_HOTSPOTS : 0);
}

static void put_resident(struct infp_json *json, const struct infp_heap *heap,
                         const struct infp_heap_resident *resident)
{
        const double rest = resident->bytes - resident->in_use.bytes;

        infp_json_key(json, "resident");
        if (!resident->t_ns) {
                infp_json_null(json);
                return;
        }
        infp_json_object(json);
        infp_json_member_f64(json, "at_s", since_start_s(heap, resident->t_ns));
        infp_json_member_f64(json, "bytes", resident->bytes);
        put_interval(json, "in_use_bytes", resident->in_use.bytes, resident->in_use.variance);
        infp_json_member_f64(json, "rest_bytes", rest >= 0 ? rest : NAN);
        infp_json_member_f64(json, "rest_percent",
                             rest >= 0 && resident->bytes > 0 ? 100 * rest / resident->bytes : NAN);
        infp_json_object_end(json);
}

static void put_process(struct infp_json *json, const struct infp_heap *heap, uint32_t index)
{
        const struct infp_heap_process *process = &heap->processes[index];

        infp_json_object(json);
        put_pid(json, process->name, process->pid);
        infp_json_member_f64(json, "peak_mb", process->peak.bytes / mib);
        infp_json_member_u64(json, "allocations", (uint64_t) llrint(fmin(process->allocated.blocks, 1e18)));
        infp_json_member_f64(json, "leaked_mb", process->leaked_bytes / mib);
        put_interval(json, "peak_bytes", process->peak.bytes, process->peak.variance);
        infp_json_member_f64(json, "peak_s", since_start_s(heap, process->peak_ns));
        put_interval(json, "allocated_bytes", process->allocated.bytes, process->allocated.variance);
        put_interval(json, "end_bytes", process->end.bytes, process->end.variance);
        put_interval(json, "held_bytes", process->held.bytes, process->held.variance);
        infp_json_member_bool(json, "has_ended", process->has_ended);
        infp_json_member_bool(json, "is_replaced", process->is_replaced);
        infp_json_member_f64(json, "from_s", since_start_s(heap, process->begin_ns));
        infp_json_member_f64(json, "to_s", since_start_s(heap, infp_heap_end_ns(process)));
        infp_json_member_f64(json, "seconds", infp_heap_observed_s(process));
        infp_json_member_u64(json, "samples", process->allocated.samples);
        infp_json_member_f64(json, "sample_bytes", process->mean_bytes ? (double) process->mean_bytes : NAN);
        put_resident(json, heap, &process->resident);
        infp_json_key(json, "stacks");
        infp_json_object(json);
        for (unsigned i = 0; i < INFP_HEAP_VERDICTS; i++)
                infp_json_member_u64(json, infp_heap_verdict_name((enum infp_heap_verdict) i), process->verdicts[i]);
        infp_json_object_end(json);
        put_hotspots(json, heap, index);
        infp_json_object_end(json);
}

/* memory: of the process with the highest peak, in the words of the mission. */
void infp_heap_report_json(struct infp_json *json, const struct infp_heap_view *view)
{
        const struct infp_sampling_mode *mode = infp_sampling_find(view->sampling, INFP_STACK_HEAP_ALLOCATED);

        infp_json_member_str(json, "profile_id", view->run);
        infp_json_member_f64(json, "duration_seconds", infp_heap_range_s(view->heap));
        begin(json, view);
        infp_json_member_f64(json, "lost_samples", mode ? mode->lost : NAN);
        infp_json_key(json, "memory");
        put_process(json, view->heap, 0);
        infp_json_key(json, "processes");
        infp_json_array(json);
        for (uint32_t i = 0; i < view->heap->n_processes; i++)
                put_process(json, view->heap, i);
        infp_json_array_end(json);
}

/* ---- leaks ---- */

static void put_leak(struct infp_json *json, const struct infp_heap *heap, const struct infp_heap_stack *stack)
{
        const struct infp_heap_process *process = &heap->processes[stack->process];
        const uint64_t end_ns = infp_heap_judged_ns(process);

        infp_json_object(json);
        infp_json_member_str(json, "verdict", infp_heap_verdict_name(stack->growth.verdict));
        put_pid(json, process->name, process->pid);
        put_place(json, heap, &stack->place);
        infp_json_key(json, "bytes_per_s");
        infp_json_object(json);
        infp_json_member_f64(json, "estimate", stack->growth.rate);
        infp_json_member_f64(json, "low", stack->growth.low);
        infp_json_member_f64(json, "high", stack->growth.high);
        infp_json_object_end(json);
        put_interval(json, "bytes", stack->held.bytes, stack->held.variance);
        infp_json_member_u64(json, "samples", stack->held.blocks);
        infp_json_member_f64(json, "oldest_s", stack->oldest_ns ? infp_heap_seconds(stack->oldest_ns, end_ns) : NAN);
        put_stack(json, heap, &stack->place);
        infp_json_object_end(json);
}

void infp_heap_leaks_json(struct infp_json *json, const struct infp_heap_view *view)
{
        const struct infp_heap *heap = view->heap;
        uint32_t n, all = 0, judged = 0;
        infp_autofree uint32_t *list = infp_heap_top(heap, UINT32_MAX, infp_heap_leaking, &n);

        for (uint32_t i = 0; i < heap->n_processes; i++) {
                all += heap->processes[i].n_stacks;
                judged += heap->processes[i].n_stacks - heap->processes[i].verdicts[INFP_HEAP_FEW] -
                          heap->processes[i].verdicts[INFP_HEAP_SHORT];
        }
        begin(json, view);
        infp_json_member_f64(json, "false_alarm_rate", INFP_HEAP_FALSE_ALARMS);
        infp_json_member_u64(json, "stacks", all);
        infp_json_member_u64(json, "judged", judged);
        infp_json_key(json, "leaks");
        infp_json_array(json);
        for (uint32_t i = 0; list && i < n; i++)
                put_leak(json, heap, &heap->stacks[list[i]]);
        infp_json_array_end(json);
}

/* ---- single blocks ---- */

void infp_heap_temporary_json(struct infp_json *json, const struct infp_heap_view *view)
{
        const struct infp_heap_blocks *blocks = view->blocks;
        const struct infp_profile *profile = &view->heap->profile;

        begin(json, view);
        infp_json_member_f64(json, "freed_within_s", INFP_HEAP_SOON_S);
        infp_json_member_f64(json, "seconds", infp_heap_seconds(blocks->first_ns, blocks->last_ns));
        infp_json_member_f64(json, "median_life_s", blocks->median_s);
        infp_json_key(json, "temporary");
        infp_json_array(json);
        for (uint32_t i = 0; i < blocks->n_stacks; i++) {
                const struct infp_heap_soon *stack = &blocks->stacks[i];
                const struct infp_profile_process *process =
                        stack->process == INFP_PROFILE_NONE ? NULL : &profile->processes[stack->process];

                if (!stack->soon.samples)
                        continue;
                infp_json_object(json);
                put_pid(json, process ? infp_profile_str(profile, process->name) : NULL, process ? process->pid : 0);
                put_place(json, view->heap, &stack->place);
                put_interval(json, "bytes", stack->soon.bytes, stack->soon.variance);
                put_interval(json, "blocks", stack->soon.blocks, stack->soon_spread);
                infp_json_member_f64(json, "allocated_bytes", stack->allocated.bytes);
                infp_json_member_u64(json, "samples", stack->soon.samples);
                infp_json_member_f64(json, "median_life_s", stack->median_s);
                put_stack(json, view->heap, &stack->place);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
}

void infp_heap_sizes_json(struct infp_json *json, const struct infp_heap_view *view)
{
        begin(json, view);
        infp_json_key(json, "sizes");
        infp_json_array(json);
        for (unsigned i = 0; i < INFP_HEAP_SIZES; i++) {
                const struct infp_heap_size *size = &view->blocks->sizes[i];

                if (!size->allocated.samples && !size->end.samples)
                        continue;
                infp_json_object(json);
                infp_json_member_f64(json, "more_than", i ? ldexp(1, (int) i - 1) : 0);
                infp_json_member_f64(json, "up_to", i + 1 < INFP_HEAP_SIZES ? ldexp(1, (int) i) : NAN);
                infp_json_member_u64(json, "samples", size->allocated.samples);
                put_interval(json, "blocks", size->allocated.blocks, size->allocated_spread);
                put_interval(json, "bytes", size->allocated.bytes, size->allocated.variance);
                put_interval(json, "blocks_in_use", size->end.blocks, size->end_spread);
                put_interval(json, "bytes_in_use", size->end.bytes, size->end.variance);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
}
