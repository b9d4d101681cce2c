#include "model/memory_account.h"

#include <string.h>

#include "base/mem.h"

// clang-format off
static const struct infp_column columns[] = {
        [INFP_MEMORY_ACCOUNT_PROCESS] = INFP_COLUMN(process, ID64, LABEL, none, DERIVED, NO, "process", 0, NULL, "Process."),
        [INFP_MEMORY_ACCOUNT_OF] = INFP_COLUMN(of, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Total that the bytes are part of: rss (memory in RAM of the process), swap (what is swapped out of it, each page of shared memory in each process that has it) or gpu (memory of GPUs)."),
        [INFP_MEMORY_ACCOUNT_KIND] = INFP_COLUMN(kind, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "What it is: mapped file, shared memory, heap, anonymous, stack, code, data, device, vdso, unexplained, swap, gpu."),
        [INFP_MEMORY_ACCOUNT_NAME] = INFP_COLUMN(name, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Which one: a file, a name that the program gave, others (all that are not among the largest), a GPU; null = all of the kind."),
        [INFP_MEMORY_ACCOUNT_BYTES] = INFP_COLUMN(bytes, I64, GAUGE, bytes, MEASURED, NO, NULL, 0, NULL, "How much; of unexplained it may be negative: more was found in mappings than RSS says."),
        [INFP_MEMORY_ACCOUNT_QUALITY] = INFP_COLUMN(quality, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Of this row: measured, derived (unexplained), or estimated (stacks of threads that are known by their guard pages)."),
};
// clang-format on

const struct infp_table infp_table_memory_account = {
        .name = "memory_account",
        .bulk = true,
        .help = "What the memory of processes holds (record --memory, --heap): rows of one process and one time whose "
                "of is rss add up to its RSS.",
        .columns = columns,
        .n_columns = INFP_MEMORY_ACCOUNT_N,
};
_Static_assert(INFP_COUNT(columns) == INFP_MEMORY_ACCOUNT_N, "a column for each cell");

static const char *const names[INFP_MEMORY_KINDS] = {
        [INFP_MEMORY_FILE] = "mapped file", [INFP_MEMORY_SHARED] = "shared memory",
        [INFP_MEMORY_HEAP] = "heap",        [INFP_MEMORY_ANONYMOUS] = "anonymous",
        [INFP_MEMORY_STACK] = "stack",      [INFP_MEMORY_CODE] = "code",
        [INFP_MEMORY_DATA] = "data",        [INFP_MEMORY_DEVICE] = "device",
        [INFP_MEMORY_VDSO] = "vdso",        [INFP_MEMORY_UNEXPLAINED] = "unexplained",
        [INFP_MEMORY_SWAP] = "swap",        [INFP_MEMORY_GPU] = "gpu",
};

const char *infp_memory_kind_name(enum infp_memory_kind kind)
{
        return names[kind];
}

const char *infp_memory_kind_of(enum infp_memory_kind kind)
{
        return infp_memory_kind_is_rss(kind) ? "rss" : names[kind];
}

enum infp_memory_kind infp_memory_kind_by_name(const char *name, size_t size)
{
        unsigned i = 0;

        while (i < INFP_MEMORY_KINDS && (strlen(names[i]) != size || memcmp(names[i], name, size) != 0))
                i++;
        return (enum infp_memory_kind) i;
}
