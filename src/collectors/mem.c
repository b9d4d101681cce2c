/* Memory and swap: /proc/meminfo, and the event counters of /proc/vmstat. */
#include <errno.h>

#include "base/mem.h"
#include "collect/collector.h"
#include "collectors/fields.h"

/* Cells that code names, in the order of the table. The columns after them need no name: their keys suffice. */
enum mem_cell {
        MEM_TOTAL,
        MEM_AVAILABLE,
        MEM_USED,
        MEM_BUFFERS,
        MEM_CACHED,
        MEM_PERCENT,
        SWAP_TOTAL,
        SWAP_FREE,
        SWAP_USED,
        PG_FAULT,
        PG_MAJFAULT,
        MEM_UNUSED,
        MEM_SLAB_RECLAIMABLE,
};

// clang-format off
static const struct infp_column mem_columns[] = {
        [MEM_TOTAL] = INFP_COLUMN(vMemoryTotal, I64, GAUGE, bytes, MEASURED, NO, "meminfo:MemTotal", 1024, "infprof_host_memory_total_bytes", "Memory that the kernel manages."),
        [MEM_AVAILABLE] = INFP_COLUMN(vMemoryFree, I64, GAUGE, bytes, MEASURED, NO, "meminfo:MemAvailable", 1024, "infprof_host_memory_available_bytes", "Memory that programs can have without swapping (MemAvailable, since Linux 3.14), not MemFree."),
        [MEM_USED] = INFP_COLUMN(vMemoryUsed, I64, GAUGE, bytes, DERIVED, NO, NULL, 0, "infprof_host_memory_used_bytes", "MemTotal less MemFree, Buffers, Cached and SReclaimable."),
        [MEM_BUFFERS] = INFP_COLUMN(vMemoryBuffers, I64, GAUGE, bytes, MEASURED, NO, "meminfo:Buffers", 1024, "infprof_host_memory_buffers_bytes", "Kernel buffers of block devices."),
        [MEM_CACHED] = INFP_COLUMN(vMemoryCached, I64, GAUGE, bytes, MEASURED, NO, "meminfo:Cached", 1024, "infprof_host_memory_cached_bytes", "Page cache, shared memory and tmpfs included."),
        [MEM_PERCENT] = INFP_COLUMN(vMemoryPercent, F64, GAUGE, percent, DERIVED, NO, NULL, 0, "infprof_host_memory_used_ratio", "Share of MemTotal that is not available: (MemTotal - MemAvailable) / MemTotal."),
        [SWAP_TOTAL] = INFP_COLUMN(vSwapTotal, I64, GAUGE, bytes, MEASURED, NO, "meminfo:SwapTotal", 1024, "infprof_host_swap_total_bytes", "Swap space."),
        [SWAP_FREE] = INFP_COLUMN(vSwapFree, I64, GAUGE, bytes, MEASURED, NO, "meminfo:SwapFree", 1024, "infprof_host_swap_free_bytes", "Swap space that is free."),
        [SWAP_USED] = INFP_COLUMN(vSwapUsed, I64, GAUGE, bytes, DERIVED, NO, NULL, 0, "infprof_host_swap_used_bytes", "Swap space in use."),
        [PG_FAULT] = INFP_COLUMN(vPgFault, I64, COUNTER, count, DERIVED, ZERO, "vmstat:pgfault", 0, "infprof_host_minor_page_faults_total", "Minor page faults: pgfault less pgmajfault of vmstat."),
        [PG_MAJFAULT] = INFP_COLUMN(vMajorPageFault, I64, COUNTER, count, MEASURED, ZERO, "vmstat:pgmajfault", 0, "infprof_host_major_page_faults_total", "Page faults that waited for a disk."),
        [MEM_UNUSED] = INFP_COLUMN(vMemoryUnused, I64, GAUGE, bytes, MEASURED, NO, "meminfo:MemFree", 1024, "infprof_host_memory_unused_bytes", "Memory that nothing uses, not even a cache (MemFree)."),
        [MEM_SLAB_RECLAIMABLE] = INFP_COLUMN(vMemorySlabReclaimable, I64, GAUGE, bytes, MEASURED, NO, "meminfo:SReclaimable", 1024, "infprof_host_memory_slab_reclaimable_bytes", "Kernel objects that can be dropped, such as inodes."),
        INFP_COLUMN(vMemorySlabUnreclaimable, I64, GAUGE, bytes, MEASURED, NO, "meminfo:SUnreclaim", 1024, "infprof_host_memory_slab_unreclaimable_bytes", "Kernel objects that must stay."),
        INFP_COLUMN(vMemoryDirty, I64, GAUGE, bytes, MEASURED, NO, "meminfo:Dirty", 1024, "infprof_host_memory_dirty_bytes", "Pages that wait to be written to disk."),
        INFP_COLUMN(vMemoryWriteback, I64, GAUGE, bytes, MEASURED, NO, "meminfo:Writeback", 1024, "infprof_host_memory_writeback_bytes", "Pages that are being written to disk."),
        INFP_COLUMN(vMemoryAnon, I64, GAUGE, bytes, MEASURED, NO, "meminfo:AnonPages", 1024, "infprof_host_memory_anonymous_bytes", "Memory of programs that no file backs."),
        INFP_COLUMN(vMemoryMapped, I64, GAUGE, bytes, MEASURED, NO, "meminfo:Mapped", 1024, "infprof_host_memory_mapped_bytes", "Files mapped into programs, such as model weights."),
        INFP_COLUMN(vMemoryShmem, I64, GAUGE, bytes, MEASURED, NO, "meminfo:Shmem", 1024, "infprof_host_memory_shared_bytes", "Shared memory and tmpfs, also in vMemoryCached."),
        INFP_COLUMN(vMemoryKernelStack, I64, GAUGE, bytes, MEASURED, NO, "meminfo:KernelStack", 1024, "infprof_host_memory_kernel_stack_bytes", "Kernel stacks of threads."),
        INFP_COLUMN(vMemoryPageTables, I64, GAUGE, bytes, MEASURED, NO, "meminfo:PageTables", 1024, "infprof_host_memory_page_tables_bytes", "Page tables."),
        INFP_COLUMN(vMemoryUnevictable, I64, GAUGE, bytes, MEASURED, NO, "meminfo:Unevictable", 1024, "infprof_host_memory_unevictable_bytes", "Memory that cannot be reclaimed."),
        INFP_COLUMN(vMemoryLocked, I64, GAUGE, bytes, MEASURED, NO, "meminfo:Mlocked", 1024, "infprof_host_memory_locked_bytes", "Memory that programs locked."),
        INFP_COLUMN(vMemoryCommitted, I64, GAUGE, bytes, MEASURED, NO, "meminfo:Committed_AS", 1024, "infprof_host_memory_committed_bytes", "Memory that programs were promised."),
        INFP_COLUMN(vMemoryCommitLimit, I64, GAUGE, bytes, MEASURED, NO, "meminfo:CommitLimit", 1024, "infprof_host_memory_commit_limit_bytes", "How much may be promised where overcommit is off."),
        INFP_COLUMN(vSwapCached, I64, GAUGE, bytes, MEASURED, NO, "meminfo:SwapCached", 1024, "infprof_host_swap_cached_bytes", "Swapped pages that are in memory as well."),
        INFP_COLUMN(vAnonHugePages, I64, GAUGE, bytes, MEASURED, NO, "meminfo:AnonHugePages", 1024, "infprof_host_memory_anonymous_huge_bytes", "Program memory in transparent huge pages."),
        INFP_COLUMN(vShmemHugePages, I64, GAUGE, bytes, MEASURED, NO, "meminfo:ShmemHugePages", 1024, "infprof_host_memory_shared_huge_bytes", "Shared memory in transparent huge pages."),
        INFP_COLUMN(vFileHugePages, I64, GAUGE, bytes, MEASURED, NO, "meminfo:FileHugePages", 1024, "infprof_host_memory_file_huge_bytes", "Page cache in transparent huge pages."),
        INFP_COLUMN(vHugePagesTotal, I64, GAUGE, count, MEASURED, NO, "meminfo:HugePages_Total", 0, "infprof_host_huge_pages", "Huge pages in the pool of the default size."),
        INFP_COLUMN(vHugePagesFree, I64, GAUGE, count, MEASURED, NO, "meminfo:HugePages_Free", 0, "infprof_host_huge_pages_free", "Huge pages not in use."),
        INFP_COLUMN(vHugePagesReserved, I64, GAUGE, count, MEASURED, NO, "meminfo:HugePages_Rsvd", 0, "infprof_host_huge_pages_reserved", "Huge pages that are free but promised."),
        INFP_COLUMN(vHugePagesSurplus, I64, GAUGE, count, MEASURED, NO, "meminfo:HugePages_Surp", 0, "infprof_host_huge_pages_surplus", "Huge pages above the configured number."),
        INFP_COLUMN(vHugePageSize, I64, GAUGE, bytes, MEASURED, NO, "meminfo:Hugepagesize", 1024, "infprof_host_huge_page_size_bytes", "Default size of a huge page."),
        INFP_COLUMN(vHugetlb, I64, GAUGE, bytes, MEASURED, NO, "meminfo:Hugetlb", 1024, "infprof_host_huge_pages_bytes", "Memory in huge page pools of all sizes."),
        INFP_COLUMN(vPagedInBytes, I64, COUNTER, bytes, MEASURED, ZERO, "vmstat:pgpgin", 1024, "infprof_host_paged_in_bytes_total", "Read from block devices."),
        INFP_COLUMN(vPagedOutBytes, I64, COUNTER, bytes, MEASURED, ZERO, "vmstat:pgpgout", 1024, "infprof_host_paged_out_bytes_total", "Written to block devices."),
        INFP_COLUMN(vSwapInPages, I64, COUNTER, pages, MEASURED, ZERO, "vmstat:pswpin", 0, "infprof_host_swap_in_pages_total", "Pages read from swap."),
        INFP_COLUMN(vSwapOutPages, I64, COUNTER, pages, MEASURED, ZERO, "vmstat:pswpout", 0, "infprof_host_swap_out_pages_total", "Pages written to swap."),
        INFP_COLUMN(vPgScanKswapd, I64, COUNTER, pages, MEASURED, ZERO, "vmstat:pgscan_kswapd", 0, "infprof_host_scan_kswapd_pages_total", "Pages that kswapd scanned to free memory."),
        INFP_COLUMN(vPgScanDirect, I64, COUNTER, pages, MEASURED, ZERO, "vmstat:pgscan_direct", 0, "infprof_host_scan_direct_pages_total", "Pages that programs scanned themselves to get memory: they waited."),
        INFP_COLUMN(vPgStealKswapd, I64, COUNTER, pages, MEASURED, ZERO, "vmstat:pgsteal_kswapd", 0, "infprof_host_steal_kswapd_pages_total", "Pages that kswapd freed."),
        INFP_COLUMN(vPgStealDirect, I64, COUNTER, pages, MEASURED, ZERO, "vmstat:pgsteal_direct", 0, "infprof_host_steal_direct_pages_total", "Pages that waiting programs freed."),
        INFP_COLUMN(vRefaultAnon, I64, COUNTER, pages, MEASURED, ZERO, "vmstat:workingset_refault_anon", 0, "infprof_host_refault_anonymous_pages_total", "Pages of programs that were needed again soon after they were swapped out."),
        INFP_COLUMN(vRefaultFile, I64, COUNTER, pages, MEASURED, ZERO, "vmstat:workingset_refault_file", 0, "infprof_host_refault_file_pages_total", "Pages of files that were needed again soon after they were dropped."),
        INFP_COLUMN(vOomKill, I64, COUNTER, count, MEASURED, ZERO, "vmstat:oom_kill", 0, "infprof_host_oom_kills_total", "Processes killed because memory ran out."),
        INFP_COLUMN(vCompactStall, I64, COUNTER, count, MEASURED, ZERO, "vmstat:compact_stall", 0, "infprof_host_compact_stalls_total", "Times that a program waited for memory to be made contiguous."),
        INFP_COLUMN(vCompactFail, I64, COUNTER, count, MEASURED, ZERO, "vmstat:compact_fail", 0, "infprof_host_compact_fails_total", "Such waits that failed."),
        INFP_COLUMN(vThpFaultAlloc, I64, COUNTER, count, MEASURED, ZERO, "vmstat:thp_fault_alloc", 0, "infprof_host_thp_fault_allocs_total", "Page faults that got a transparent huge page."),
        INFP_COLUMN(vThpFaultFallback, I64, COUNTER, count, MEASURED, ZERO, "vmstat:thp_fault_fallback", 0, "infprof_host_thp_fault_fallbacks_total", "Page faults that found none and took small pages."),
        INFP_COLUMN(vThpCollapseAlloc, I64, COUNTER, count, MEASURED, ZERO, "vmstat:thp_collapse_alloc", 0, "infprof_host_thp_collapses_total", "Small pages that were joined to a huge one."),
        INFP_COLUMN(vThpSplitPage, I64, COUNTER, count, MEASURED, ZERO, "vmstat:thp_split_page", 0, "infprof_host_thp_splits_total", "Huge pages that were split."),
        INFP_COLUMN(vNumaHit, I64, COUNTER, pages, MEASURED, ZERO, "vmstat:numa_hit", 0, "infprof_host_numa_hit_pages_total", "Pages allocated on the node that was wanted."),
        INFP_COLUMN(vNumaMiss, I64, COUNTER, pages, MEASURED, ZERO, "vmstat:numa_miss", 0, "infprof_host_numa_miss_pages_total", "Pages allocated here though another node was wanted."),
        INFP_COLUMN(vNumaLocal, I64, COUNTER, pages, MEASURED, ZERO, "vmstat:numa_local", 0, "infprof_host_numa_local_pages_total", "Pages allocated on the node of the running thread."),
        INFP_COLUMN(vNumaOther, I64, COUNTER, pages, MEASURED, ZERO, "vmstat:numa_other", 0, "infprof_host_numa_other_pages_total", "Pages allocated on another node than the running thread's."),
        INFP_COLUMN(vNumaHintFaults, I64, COUNTER, count, MEASURED, ZERO, "vmstat:numa_hint_faults", 0, "infprof_host_numa_hint_faults_total", "Faults made by NUMA balancing to learn who uses a page."),
        INFP_COLUMN(vNumaPagesMigrated, I64, COUNTER, pages, MEASURED, ZERO, "vmstat:numa_pages_migrated", 0, "infprof_host_numa_migrated_pages_total", "Pages that NUMA balancing moved."),
};
// clang-format on

static const struct infp_table mem_table = {
        .name = "mem",
        .help = "Memory, swap, huge pages and paging of the machine.",
        .columns = mem_columns,
        .n_columns = INFP_COUNT(mem_columns),
        .section = "mem",
        .series = "",
};

struct mem {
        struct infp_procfile meminfo, vmstat;
        struct infp_fields mem_fields, vm_fields;
};

static int mem_open(void *state, const struct infp_env *env, struct infp_err *err)
{
        struct mem *mem = state;
        int r, s;

        mem->meminfo = mem->vmstat = (struct infp_procfile) INFP_PROCFILE_INIT;
        infp_fields_init(&mem->mem_fields, &mem_table, "meminfo", "/proc/meminfo", 0);
        infp_fields_init(&mem->vm_fields, &mem_table, "vmstat", "/proc/vmstat", 0);
        r = infp_procfile_open(&mem->meminfo, env->root_fd, "proc/meminfo", !env->is_live);
        s = infp_procfile_open(&mem->vmstat, env->root_fd, "proc/vmstat", !env->is_live);
        if (r < 0 && s < 0)
                return infp_fail_errno(err, r == -ENOENT ? -ENODEV : r,
                                       "/proc/meminfo cannot be opened (is /proc mounted?)");
        return 0;
}

static void fill(const struct infp_fields *fields, const struct infp_procfile *file, struct infp_row *row)
{
        struct infp_span text = infp_whole_words(infp_procfile_text(file)), line;

        while (infp_span_line(&text, &line))
                infp_fields_named(fields, row, line);
}

/* The total less the others, when all are there and nothing becomes negative. */
static bool less(const struct infp_row *row, unsigned total, const unsigned *others, size_t n, int64_t *ret)
{
        if (!infp_row_has(row, total))
                return false;
        *ret = row->cell[total].i64;
        for (size_t i = 0; i < n; i++) {
                if (!infp_row_has(row, others[i]) || row->cell[others[i]].i64 > *ret)
                        return false;
                *ret -= row->cell[others[i]].i64;
        }
        return true;
}

static void derive(struct infp_row *row)
{
        static const unsigned not_used[] = { MEM_UNUSED, MEM_BUFFERS, MEM_CACHED, MEM_SLAB_RECLAIMABLE };
        static const unsigned available[] = { MEM_AVAILABLE }, swap_free[] = { SWAP_FREE };
        int64_t v;

        if (less(row, MEM_TOTAL, not_used, INFP_COUNT(not_used), &v))
                infp_row_i64(row, MEM_USED, v);
        if (less(row, SWAP_TOTAL, swap_free, 1, &v))
                infp_row_i64(row, SWAP_USED, v);
        if (less(row, MEM_TOTAL, available, 1, &v) && row->cell[MEM_TOTAL].i64)
                infp_row_f64(row, MEM_PERCENT, 100.0 * (double) v / (double) row->cell[MEM_TOTAL].i64);
}

/* vmstat's pgfault includes the major ones: the cell holds both until here, and nothing when they cannot be separated. */
static void derive_faults(struct infp_row *row)
{
        static const unsigned major[] = { PG_MAJFAULT };
        int64_t v;

        if (less(row, PG_FAULT, major, 1, &v))
                infp_row_i64(row, PG_FAULT, v);
        else
                row->valid[PG_FAULT / 64] &= ~(UINT64_C(1) << PG_FAULT % 64);
}

static int mem_sample(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        struct mem *mem = state;
        uint64_t t_ns = env->now_ns(env);
        int r = infp_procfile_read(&mem->meminfo, env->root_fd, "proc/meminfo");
        int s = infp_procfile_read(&mem->vmstat, env->root_fd, "proc/vmstat");
        struct infp_row *row;

        if (r < 0 && s < 0)
                return infp_fail_errno(err, r, "/proc/meminfo cannot be read");
        row = infp_emit_begin(emit, &mem_table, t_ns);
        fill(&mem->mem_fields, &mem->meminfo, row);
        fill(&mem->vm_fields, &mem->vmstat, row);
        derive(row);
        derive_faults(row);
        infp_fields_explain(&mem->mem_fields, emit, r);
        infp_fields_explain(&mem->vm_fields, emit, s);
        infp_fields_explain_derived(&mem->mem_fields, emit, MEM_USED, r);
        infp_fields_explain_derived(&mem->mem_fields, emit, MEM_PERCENT, r);
        infp_fields_explain_derived(&mem->mem_fields, emit, SWAP_USED, r);
        infp_emit_commit(emit);
        return 0;
}

static void mem_close(void *state)
{
        struct mem *mem = state;

        infp_procfile_done(&mem->meminfo);
        infp_procfile_done(&mem->vmstat);
}

static const struct infp_table *const mem_tables[] = { &mem_table, NULL };

const struct infp_collector infp_collector_mem = {
        .name = "mem",
        .help = "Memory, swap, huge pages and paging.",
        .tables = mem_tables,
        .state_size = sizeof(struct mem),
        .open = mem_open,
        .sample = mem_sample,
        .close = mem_close,
};
