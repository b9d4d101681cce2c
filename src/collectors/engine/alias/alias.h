/* Only for engine_alias*.c: how the lines of a make are written. */
#pragma once

#include "base/mem.h"
#include "collectors/engine/engine.h"
#include "collectors/engine/vllm.h"

struct infp_engine_alias_table {
        const struct infp_engine_alias *at;
        size_t n;
};
extern const struct infp_engine_alias_table infp_engine_alias_vllm, infp_engine_alias_sglang, infp_engine_alias_tgi,
        infp_engine_alias_llamacpp, infp_engine_alias_triton, infp_engine_alias_tensorrt_llm,
        infp_engine_alias_lmdeploy, infp_engine_alias_ray_serve, infp_engine_alias_mlserver;

// clang-format off
#define CELL(cell_) .cell = INFP_VLLM_##cell_
#define MAX .join = INFP_ENGINE_MAX
#define RANK(rank_) .rank = (rank_)
#define OF(share_) .share = INFP_ENGINE_##share_
#define FACTOR(factor_) .factor = (factor_)
#define WHERE(label_, value_) .label = (label_), .value = (value_)
#define ALIAS(series_, ...) { .series = (series_), .size = sizeof(series_) - 1, __VA_ARGS__ }
/* A histogram or summary: buckets or quantiles, sum, count. */
#define HISTOGRAM(series_, cell_, stem_, ...)                                                              \
        ALIAS(series_ "_bucket", .cell = -1, .stem = (stem_), __VA_ARGS__),                                \
        ALIAS(series_ "_sum", .cell = INFP_VLLM_##cell_##_SUM, .stem = (stem_), __VA_ARGS__),              \
        ALIAS(series_ "_count", .cell = INFP_VLLM_##cell_##_COUNT, .stem = (stem_), __VA_ARGS__)
/* Of times in milliseconds: the sum becomes seconds, the count stays what it is. */
#define HISTOGRAM_MS(series_, cell_, stem_, ...)                                                           \
        ALIAS(series_ "_bucket", .cell = -1, .stem = (stem_), __VA_ARGS__),                                \
        ALIAS(series_ "_sum", .cell = INFP_VLLM_##cell_##_SUM, .stem = (stem_), FACTOR(1e-3), __VA_ARGS__),\
        ALIAS(series_ "_count", .cell = INFP_VLLM_##cell_##_COUNT, .stem = (stem_), __VA_ARGS__)
/* Ray gives counters twice, with and without _total: the latter counts where the former is not on the page. */
enum { WITHOUT_TOTAL = 1 };
#define COUNTER(series_, cell_, rank_, ...)                                                                \
        ALIAS(series_ "_total", CELL(cell_), RANK(2 * (rank_)), __VA_ARGS__),                              \
        ALIAS(series_, CELL(cell_), RANK(2 * (rank_) + WITHOUT_TOTAL), __VA_ARGS__)
// clang-format on
