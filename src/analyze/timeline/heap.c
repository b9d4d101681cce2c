/* What the heap of the process with the highest peak had in use over time, by the stacks that allocated it: a stacked panel, with the peak as a
 * line. Each window of time (table heap_windows) has what was in use at its end. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/memory/heap.h"
#include "analyze/timeline/parts.h"
#include "base/human.h"
#include "base/mem.h"
#include "base/text.h"

/* Stacks, those that had the most at once, and a hundredth of the peak at least; of the others there is the sum. The page has eight colours. */
enum { SHOWN = 7 };
static const double least_share = 0.01;

struct drawing {
        const struct infp_heap *heap;
        const struct infp_heap_process *process;
        struct infp_timeline *timeline;
        struct infp_timeline_panel *panel;
        struct infp_heap_use *use, *others; /* by window */
        struct shown {
                uint32_t stack;
                double most;
        } shown[SHOWN]; /* the most first */
        unsigned n_shown;
        uint32_t n_others;
};

static void drawing_done(struct drawing *d)
{
        free(d->use);
        free(d->others);
}

static void read_use(const struct drawing *d, uint32_t stack)
{
        memset(d->use, 0, d->process->n_windows * sizeof(*d->use));
        infp_heap_over_time(d->heap, &d->heap->stacks[stack], d->use);
}

static void choose(struct drawing *d)
{
        for (uint32_t i = d->process->first_stack; i != UINT32_MAX; i = d->heap->stacks[i].next) {
                double most = 0;
                unsigned at = d->n_shown;

                read_use(d, i);
                for (uint32_t k = d->process->n_before; k < d->process->n_windows; k++)
                        most = fmax(most, d->use[k].bytes);
                while (at && d->shown[at - 1].most < most)
                        at--;
                if (most <= least_share * d->process->peak.bytes || at == SHOWN) { /* bound: it is one of the others */
                        d->n_others += most > 0;
                        continue;
                }
                if (d->n_shown == SHOWN)
                        d->n_others++;
                else
                        d->n_shown++;
                memmove(&d->shown[at + 1], &d->shown[at], (d->n_shown - 1 - at) * sizeof(*d->shown));
                d->shown[at] = (struct shown){ i, most };
        }
}

/* "grow serve.py:5: leak, 1.05 MiB/s" */
static void put_name(struct infp_str *out, const struct infp_heap *heap, const struct infp_heap_stack *stack)
{
        const struct infp_profile_place *place = &stack->place;
        const char *function = infp_profile_str(&heap->profile, place->function),
                   *file = infp_profile_str(&heap->profile, place->file);
        const enum infp_heap_verdict verdict = stack->growth.verdict;

        infp_str_puts(out, place->node == INFP_PROFILE_NONE ? "[no stack]" : function ? function : "[unknown]");
        if (file)
                infp_str_printf(out, " %s", infp_base_name(file));
        if (file && place->line)
                infp_str_printf(out, ":%lld", (long long) place->line);
        if (verdict != INFP_HEAP_LEAK && verdict != INFP_HEAP_GROWS)
                return;
        infp_str_printf(out, ": %s, ", infp_heap_verdict_words(verdict));
        infp_human_bytes(out, stack->growth.rate);
        infp_str_puts(out, "/s");
}

static int add_series(const struct drawing *d, const struct infp_heap_use *use, const char *name)
{
        const struct infp_grid *grid = &d->timeline->grid;
        struct infp_timeline_series *series = infp_timeline_add_series(d->panel);
        const struct infp_heap_process *process = d->process;

        if (!series)
                return -ENOMEM;
        *series = (struct infp_timeline_series){
                .name = strdup(name),
                .metric = strdup("live"),
                .table = strdup(infp_table_heap_windows.name),
                .help = strdup(""),
                .quality = INFP_ESTIMATED,
                .buckets = calloc(grid->n, sizeof(*series->buckets)),
        };
        if (!series->name || !series->metric || !series->table || !series->help || !series->buckets)
                return -ENOMEM;
        for (uint32_t i = process->n_before; i < process->n_windows; i++) {
                const uint64_t from = i ? process->window_ns[i - 1] : process->first_ns;

                infp_buckets_hold(grid, series->buckets, from > grid->t0 ? from : grid->t0, process->window_ns[i],
                                  use[i].bytes);
        }
        return 0;
}

static int add_stacks(struct drawing *d)
{
        char words[64];

        for (unsigned i = 0; i < d->n_shown; i++) {
                infp_autostr struct infp_str name = { 0 };

                put_name(&name, d->heap, &d->heap->stacks[d->shown[i].stack]);
                if (name.failed)
                        return -ENOMEM;
                read_use(d, d->shown[i].stack);
                INFP_TRY(add_series(d, d->use, name.data));
                for (uint32_t k = 0; k < d->process->n_windows; k++)
                        d->others[k].bytes = fmax(d->others[k].bytes - d->use[k].bytes, 0);
        }
        snprintf(words, sizeof(words), "%s other stacks", infp_count(d->n_others).text);
        return d->n_others ? add_series(d, d->others, words) : 0;
}

static int add_frame(const struct drawing *d)
{
        const struct infp_heap_process *process = d->process;
        const double margin = 1.95996 * sqrt(fmax(process->peak.variance, 0));
        infp_autostr struct infp_str note = { 0 }, title = { 0 };

        infp_str_puts(&note, "By the function that allocated it, estimated by samples. The peak was ");
        infp_human_bytes(&note, process->peak.bytes);
        infp_str_puts(&note, " (95 % interval ");
        infp_human_bytes(&note, fmax(process->peak.bytes - margin, 0));
        infp_str_puts(&note, " to ");
        infp_human_bytes(&note, process->peak.bytes + margin);
        infp_str_puts(&note, "), ");
        infp_human_seconds(&note, infp_heap_seconds(d->heap->range.start, process->peak_ns));
        infp_str_puts(
                &note,
                " after the start: infprof flamegraph --mode heap-peak has its stacks, infprof heap leaks what grows");
        infp_str_printf(&title, "Heap of %s by stack", process->name ? process->name : "the largest process");
        if (note.failed || title.failed)
                return -ENOMEM;
        *d->panel = (struct infp_timeline_panel){
                .id = strdup("heap-stacks"),
                .title = strdup(title.data),
                .note = strdup(note.data),
                .group = "tree",
                .unit = "bytes",
                .kind = "stack",
                .max = NAN,
        };
        if (!d->panel->id || !d->panel->title || !d->panel->note)
                return -ENOMEM;
        return infp_timeline_add_limit(d->panel, "peak", process->peak.bytes);
}

static int draw(struct infp_timeline *timeline, const struct infp_heap *heap)
{
        infp_cleanup(
                drawing_done) struct drawing d = { .heap = heap, .process = &heap->processes[0], .timeline = timeline };

        d.use = calloc(d.process->n_windows, sizeof(*d.use));
        d.others = calloc(d.process->n_windows, sizeof(*d.others));
        if (!d.use || !d.others)
                return -ENOMEM;
        choose(&d);
        if (!d.n_shown && !d.n_others)
                return 0;
        for (uint32_t i = d.process->first_stack; i != UINT32_MAX; i = heap->stacks[i].next)
                infp_heap_over_time(heap, &heap->stacks[i], d.others);
        d.panel = infp_timeline_add_panel(timeline);
        if (!d.panel)
                return -ENOMEM;
        INFP_TRY(add_frame(&d));
        return add_stacks(&d);
}

int infp_timeline_heap(struct infp_timeline_reading *reading, struct infp_err *err)
{
        const struct infp_heap_options options = { .range = &reading->report->range };
        infp_cleanup(infp_heap_done) struct infp_heap heap = { 0 };
        int r;

        reading->table = infp_table_heap_windows.name;
        r = infp_heap_read(reading->run, &options, &heap, err);
        if (r == -ENODATA) { /* the heap was not recorded, or not then */
                if (err)
                        *err->text = 0;
                return 0;
        }
        INFP_TRY(r);
        r = draw(reading->timeline, &heap);
        return r < 0 ? infp_fail(err, r, "no memory for the page of the report") : 0;
}
