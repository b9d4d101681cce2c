/* Who descends from whom, by one look at the process table. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The processes that descend from the roots, these too; n at most cap. */
size_t infp_sampler_tree(const pid_t *roots, size_t n_roots, int32_t *ret, size_t cap);
