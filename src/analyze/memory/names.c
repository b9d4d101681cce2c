/* Names of programs: a process has another one after exec. */
#include <errno.h>

#include "analyze/memory/heap.h"
#include "analyze/scan_some.h"

enum { ID, NAME };
static const char *const columns[] = { "id", "pName", NULL };

/* Rows come in order of time: each program has the last name that was seen up to its end, and the last program the last one. */
static int take(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        const uint64_t t_ns = (uint64_t) infp_batch_i64(batch, 0, row), id = infp_heap_id(batch, at[ID], row);
        struct infp_heap *heap = context;
        const uint64_t *newest = infp_map_get(&heap->newest, id);
        uint32_t name = 0;
        size_t size;
        const char *text = infp_cell_str(batch, at[NAME], row, &size);

        if (!newest || !size || heap->processes[*newest].earlier == UINT32_MAX)
                return 0;
        if (infp_strings_add(&heap->profile.strings, text, size, &name) < 0)
                return -ENOMEM;
        for (uint32_t i = (uint32_t) *newest; i != UINT32_MAX; i = heap->processes[i].earlier)
                if (!heap->processes[i].is_replaced || t_ns <= infp_heap_end_ns(&heap->processes[i]))
                        heap->processes[i].name = infp_profile_str(&heap->profile, name);
        return 0;
}

int infp_heap_read_names(struct infp_run *run, struct infp_heap *heap, struct infp_err *err)
{
        for (uint32_t i = 0; i < heap->n_programs; i++)
                heap->processes[i].name = heap->processes[i].is_replaced ? NULL : heap->processes[i].name;
        return infp_scan_rows(run, "process", columns, &(struct infp_scan_options){ 0 }, take, heap, err);
}
