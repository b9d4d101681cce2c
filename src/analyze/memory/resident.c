/* What of a heap was in RAM: the last account of memory that each program has in the range, of the kinds that blocks are in. */
#include "analyze/memory/heap.h"
#include "analyze/scan_some.h"
#include "model/memory_account.h"

enum { PROCESS, KIND, BYTES };
static const char *const columns[] = { "process", "kind", "bytes", NULL };

/* All rows of an account have its time. */
static int take(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        const uint64_t t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        struct infp_heap *heap = context;
        const struct infp_heap_process *found = infp_heap_program(heap, infp_heap_id(batch, at[PROCESS], row), t_ns);
        struct infp_heap_resident *resident;
        enum infp_memory_kind kind;
        size_t size;
        const char *name = infp_cell_str(batch, at[KIND], row, &size);

        kind = infp_memory_kind_by_name(name, size);
        if (!found || t_ns < found->begin_ns || t_ns > infp_heap_end_ns(found) ||
            (kind != INFP_MEMORY_HEAP && kind != INFP_MEMORY_ANONYMOUS) || !infp_cell_has(batch, at[BYTES], row))
                return 0;
        resident = &heap->processes[found - heap->processes].resident;
        if (t_ns != resident->t_ns)
                *resident = (struct infp_heap_resident){ .t_ns = t_ns };
        resident->bytes += infp_cell_number(batch, at[BYTES], row);
        return 0;
}

int infp_heap_read_resident(struct infp_run *run, struct infp_heap *heap, struct infp_err *err)
{
        return infp_scan_rows(run, infp_table_memory_account.name, columns, &(struct infp_scan_options){ 0 }, take,
                              heap, err);
}
