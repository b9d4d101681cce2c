/* Ids of entities: 64-bit content hashes, equal in all segments, runs and hosts. */
#pragma once

#include <stdint.h>

/* boot_id as the kernel writes it (36 characters); start_ticks: field 22 of /proc/PID/stat. Never 0. */
uint64_t infp_process_id(const char *boot_id, int32_t pid, uint64_t start_ticks);
