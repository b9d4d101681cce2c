#include "sampler/sampler_row.h"

#include "base/time.h"

/* How Python frames are read. */
struct pythons {
        const char *method;  /* as in sampler.python_method; NULL: they are not */
        uint64_t own_cpu_ns; /* of all that reads them, for whatever mode */
        struct infp_pythons_counts counts;
        bool is_inside;
        uint64_t replaced, handler_ns; /* of samplers inside processes */
};

static const char *method_of(const struct infp_pythons *outside, enum infp_stack_mode mode)
{
        const bool has_program = infp_pythons_have_program(outside);

        if (mode == INFP_STACK_CPU)
                return has_program ? "a BPF program in the interrupt of the sample" : NULL;
        if (has_program)
                return mode == INFP_STACK_WALL
                               ? "reading the memory of threads that wait, and a BPF program for those that run"
                               : "a BPF program at the context switch, and reading the memory of threads that wait";
        return mode == INFP_STACK_WALL ? "reading the memory of threads" : "reading the memory of threads that wait";
}

static void count_pythons(struct infp_pythons *outside, struct infp_inside *inside, enum infp_stack_mode mode,
                          struct pythons *ret)
{
        struct infp_inside_counts counts = { 0 };

        *ret = (struct pythons){ .method = outside ? method_of(outside, mode) : NULL };
        if (outside)
                ret->counts = infp_pythons_counts(outside);
        if (inside)
                counts = infp_inside_counts(inside);
        ret->own_cpu_ns = ret->counts.own_cpu_ns + counts.pythons.own_cpu_ns;
        if (!counts.has_samplers || mode != INFP_STACK_CPU)
                return;
        ret->method = "a sampler inside each process";
        ret->is_inside = true;
        ret->replaced = counts.replaced;
        ret->handler_ns = counts.handler_ns;
        ret->counts = counts.pythons;
}

/* Of a mode whose samples are perf's. */
static void count_perf(const struct infp_perf_counts *perf, struct infp_mode_counts *ret)
{
        ret->method = infp_perf_method_name(perf->method);
        ret->lost = perf->n_lost;
        ret->throttled = perf->n_throttled;
        ret->skipped_threads = perf->n_skipped;
        ret->has_wanted = perf->has_clock && ret->rate_hz > 0;
        ret->wanted = (uint64_t) ((double) perf->clock_ns * ret->rate_hz / (double) INFP_NS_PER_S);
}

static void fill_python(const struct infp_stack_counts *stacks, const struct infp_mode_counts *counts,
                        const struct pythons *all, struct infp_row *row)
{
        const struct infp_pythons_counts *pythons = &all->counts;

        infp_row_str(row, INFP_SAMPLER_PYTHON_METHOD, all->method);
        infp_row_i64(row, INFP_SAMPLER_PYTHON_MERGED, (int64_t) stacks->python_merged);
        infp_row_i64(row, INFP_SAMPLER_PYTHON_UNMERGED, (int64_t) stacks->python_unmerged);
        infp_row_i64(row, INFP_SAMPLER_PYTHON_TORN, (int64_t) (stacks->python_torn + counts->python_torn));
        if (counts->python_method)
                infp_row_i64(row, INFP_SAMPLER_PYTHON_REJECTED, (int64_t) counts->python_rejected);
        infp_row_i64(row, INFP_SAMPLER_PYTHON_MISSED, (int64_t) stacks->python_missed);
        infp_row_i64(row, INFP_SAMPLER_PYTHON_ALONE, (int64_t) stacks->python_alone);
        infp_row_i64(row, INFP_SAMPLER_PYTHON_UNNAMED, (int64_t) pythons->unread);
        infp_row_i64(row, INFP_SAMPLER_PYTHON_PROCESSES, (int64_t) pythons->processes);
        infp_row_i64(row, INFP_SAMPLER_PYTHON_UNKNOWN, (int64_t) pythons->unknown);
        if (!all->is_inside)
                return;
        infp_row_i64(row, INFP_SAMPLER_REPLACED, (int64_t) all->replaced);
        infp_row_i64(row, INFP_SAMPLER_HANDLER_NS, (int64_t) all->handler_ns);
}

/* pythons NULL: the mode has no Python frames. */
static void put_row(struct infp_emit *emit, enum infp_stack_mode mode, const struct infp_stack_counts *stacks,
                    const struct infp_mode_counts *counts, const struct pythons *pythons, uint64_t now_ns)
{
        struct infp_row *row = infp_emit_begin(emit, &infp_table_sampler, now_ns);

        infp_row_str(row, INFP_SAMPLER_MODE, infp_stack_modes[mode].name);
        infp_row_str(row, INFP_SAMPLER_METHOD, counts->method);
        if (counts->rate_hz > 0)
                infp_row_f64(row, INFP_SAMPLER_RATE, counts->rate_hz);
        if (counts->has_wanted)
                infp_row_i64(row, INFP_SAMPLER_WANTED, (int64_t) counts->wanted);
        infp_row_i64(row, INFP_SAMPLER_TAKEN, (int64_t) stacks->taken);
        infp_row_i64(row, INFP_SAMPLER_LOST, (int64_t) counts->lost);
        infp_row_i64(row, INFP_SAMPLER_THROTTLED, (int64_t) counts->throttled);
        infp_row_i64(row, INFP_SAMPLER_DROPPED, (int64_t) stacks->dropped);
        infp_row_i64(row, INFP_SAMPLER_TRUNCATED, (int64_t) stacks->truncated);
        infp_row_i64(row, INFP_SAMPLER_INCOMPLETE, (int64_t) stacks->incomplete);
        infp_row_i64(row, INFP_SAMPLER_FRAMES, (int64_t) stacks->frames);
        infp_row_i64(row, INFP_SAMPLER_GUESSED_FRAMES, (int64_t) stacks->guessed_frames);
        infp_row_i64(row, INFP_SAMPLER_SKIPPED_THREADS, (int64_t) counts->skipped_threads);
        infp_row_i64(row, INFP_SAMPLER_OWN_CPU_NS, (int64_t) counts->own_cpu_ns);
        infp_row_i64(row, INFP_SAMPLER_DEEP, (int64_t) stacks->deep);
        infp_row_i64(row, INFP_SAMPLER_COMPLETED, (int64_t) stacks->completed);
        infp_row_i64(row, INFP_SAMPLER_MOVED, (int64_t) stacks->moved);
        if (counts->handler_ns)
                infp_row_i64(row, INFP_SAMPLER_HANDLER_NS, (int64_t) counts->handler_ns);
        if (counts->has_torn)
                infp_row_i64(row, INFP_SAMPLER_TORN, (int64_t) counts->torn);
        if (pythons)
                fill_python(stacks, counts, pythons, row);
        emit->put(emit->context, row); /* no commit: cells without a value are explained by the method */
}

void infp_sampler_put_mode(const struct infp_sampler_rows *rows, enum infp_stack_mode mode,
                           struct infp_mode_counts *counts, bool is_first)
{
        struct pythons pythons;

        count_pythons(rows->pythons, rows->inside, mode, &pythons);
        if (!counts->method)
                count_perf(rows->perf, counts);
        if (is_first)
                counts->own_cpu_ns +=
                        infp_clock_ns(CLOCK_THREAD_CPUTIME_ID) + rows->stacks->helper_cpu_ns + pythons.own_cpu_ns;
        if (counts->python_method)
                pythons.method = counts->python_method;
        put_row(rows->emit, mode, &rows->stacks->modes[mode], counts, pythons.method ? &pythons : NULL, rows->now_ns);
}
