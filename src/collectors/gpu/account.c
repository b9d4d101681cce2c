#include "collectors/gpu/account.h"

#include "base/time.h"

/* At first the target's processes may not be known. */
static const uint64_t first_step_ns = INFP_NS_PER_S, step_ns = INFP_MEMORY_ACCOUNT_PERIOD_S * INFP_NS_PER_S;

bool infp_gpu_account_is_due(const struct infp_env *env, uint64_t now_ns, uint64_t *next_ns)
{
        if (!infp_env_flag(env, "memory") || now_ns < *next_ns)
                return false;
        *next_ns = now_ns + (*next_ns ? step_ns : first_step_ns);
        return true;
}

void infp_gpu_account_put(struct infp_emit *emit, uint64_t t_ns, uint64_t process, const char *gpu, uint64_t bytes)
{
        struct infp_row *row = infp_emit_begin(emit, &infp_table_memory_account, t_ns);

        infp_row_id(row, INFP_MEMORY_ACCOUNT_PROCESS, process);
        infp_row_str(row, INFP_MEMORY_ACCOUNT_OF, infp_memory_kind_of(INFP_MEMORY_GPU));
        infp_row_str(row, INFP_MEMORY_ACCOUNT_KIND, infp_memory_kind_name(INFP_MEMORY_GPU));
        infp_row_foreign(row, INFP_MEMORY_ACCOUNT_NAME, gpu);
        infp_row_raw(row, INFP_MEMORY_ACCOUNT_BYTES, bytes);
        infp_row_str(row, INFP_MEMORY_ACCOUNT_QUALITY, infp_quality_name(INFP_MEASURED));
        infp_emit_commit(emit);
}
