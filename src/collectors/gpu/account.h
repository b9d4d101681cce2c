/* Memory of GPUs in the accounts of processes (table memory_account, record --memory): of the target's processes, rarely, as the rest of
 * an account. */
#pragma once

#include "collect/emit.h"
#include "collect/env.h"
#include "model/memory_account.h"

/* *next_ns: kept by the caller, 0 at first. */
bool infp_gpu_account_is_due(const struct infp_env *env, uint64_t now_ns, uint64_t *next_ns);
/* gpu: as gUuid in the tables of GPUs. */
void infp_gpu_account_put(struct infp_emit *emit, uint64_t t_ns, uint64_t process, const char *gpu, uint64_t bytes);
