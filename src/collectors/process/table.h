/* The tables of the collector `processes`, and what its files share. */
#pragma once

#include "collect/target.h"
#include "model/schema.h"

/* Cells: the keys come first. */
enum process_entity_cell {
        ENTITY_ID,
        ENTITY_PID,
        ENTITY_PARENT,
        ENTITY_NAME,
        ENTITY_CMDLINE,
        ENTITY_START,
        ENTITY_UID,
        ENTITY_N,
};

enum process_cell {
        PROCESS_ID,
        PROCESS_STATE,
        PROCESS_IN_TREE,
        PROCESS_PARENT,
        PROCESS_THREADS,
        PROCESS_USER,
        PROCESS_KERNEL,
        PROCESS_CHILDREN_USER,
        PROCESS_CHILDREN_KERNEL,
        PROCESS_CPU_NS,
        PROCESS_VOLUNTARY,
        PROCESS_NONVOLUNTARY,
        PROCESS_BLOCK_DELAY,
        PROCESS_VMS,
        PROCESS_RSS,
        PROCESS_RSS_ANON,
        PROCESS_RSS_FILE,
        PROCESS_RSS_SHMEM,
        PROCESS_RSS_PEAK,
        PROCESS_PSS,
        PROCESS_SWAP,
        PROCESS_MINOR_FAULTS,
        PROCESS_MAJOR_FAULTS,
        PROCESS_CHILDREN_MINOR,
        PROCESS_CHILDREN_MAJOR,
        PROCESS_CPU,
        PROCESS_READ_CHARS,
        PROCESS_WRITE_CHARS,
        PROCESS_READ_CALLS,
        PROCESS_WRITE_CALLS,
        PROCESS_READ_BYTES,
        PROCESS_WRITE_BYTES,
        PROCESS_CANCELLED_BYTES,
        PROCESS_RUN_DELAY,
        PROCESS_N,
};

enum tree_cell {
        TREE_ALL,
        TREE_PROCESSES,
        TREE_THREADS,
        TREE_RSS,
        TREE_VMS,
        TREE_SWAP,
        TREE_CPU_NS,
        TREE_USER,
        TREE_SYSTEM,
        TREE_MINOR_FAULTS,
        TREE_MAJOR_FAULTS,
        TREE_VOLUNTARY,
        TREE_INVOLUNTARY,
        TREE_READ_CHARS,
        TREE_WRITE_CHARS,
        TREE_READ_BYTES,
        TREE_WRITE_BYTES,
        TREE_RSS_PEAK,
        TREE_RUN_DELAY,
        TREE_N,
};

extern const struct infp_table infp_table_process, infp_table_processes, infp_table_tree;
