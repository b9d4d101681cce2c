#include "analyze/compare/numbers.h"

#include <string.h>

#include "base/mem.h"

const char infp_compare_gpu_joules[] = "gEnergyJoules";

/* Two runs of one program may differ by so much where neither varies within: where memory lies, and who the neighbours are, is chance of
 * each run. */
#define LEAST 0.1
#define LEAST_MEMORY 0.05

#define WHOLE(name_, base_, least_, what_, help_)                                                         \
        {                                                                                                 \
                .name = name_, .help = help_, .base = base_, .better = INFP_BETTER_LESS, .least = least_, \
                .from = INFP_NUMBER_OF_RUN, .what = what_                                                 \
        }
#define SERIES(name_, column_, base_, better_, least_, help_, ...)                                             \
        {                                                                                                      \
                .name = name_, .help = help_, .base = base_, .better = INFP_BETTER_##better_, .least = least_, \
                .from = INFP_NUMBER_OF_SERIES, .column = column_, __VA_ARGS__                                  \
        }
#define MEAN(name_, column_, help_)                                                                          \
        {                                                                                                    \
                .name = name_, .help = help_, .base = "seconds", .better = INFP_BETTER_LESS, .least = LEAST, \
                .from = INFP_NUMBER_OF_MEAN, .column = column_                                               \
        }
#define PER_TOKEN(name_, column_, base_, least_, help_)                                                   \
        {                                                                                                 \
                .name = name_, .help = help_, .base = base_, .better = INFP_BETTER_LESS, .least = least_, \
                .from = INFP_NUMBER_PER_TOKEN, .column = column_                                          \
        }
#define REQUEST(name_, what_, q_, help_)                                                                     \
        {                                                                                                    \
                .name = name_, .help = help_, .base = "seconds", .better = INFP_BETTER_LESS, .least = LEAST, \
                .from = INFP_NUMBER_OF_REQUEST, .what = INFP_REQUEST_##what_, .q = q_                        \
        }
#define REQUEST_TIMES(name_, what_, help_)                                                                     \
        REQUEST(name_ "_mean", what_, 0, help_ " mean."), REQUEST(name_ "_p50", what_, 0.5, help_ " median."), \
                REQUEST(name_ "_p95", what_, 0.95, help_ " 95th percentile."),                                 \
                REQUEST(name_ "_p99", what_, 0.99, help_ " 99th percentile.")

// clang-format off
const struct infp_compare_number infp_compare_numbers[] = {
        WHOLE("cpu_s", "seconds", LEAST, INFP_WHOLE_CPU, "CPU time of the target's tree in the range."),
        WHOLE("wall_s", "seconds", LEAST, INFP_WHOLE_WALL, "Length of the range: of a whole run that of its command."),
        WHOLE("joules", "joules", LEAST, INFP_WHOLE_JOULES, "Energy of the machine in the range."),
        WHOLE("rss_peak_bytes", "bytes", LEAST_MEMORY, INFP_WHOLE_RSS, "Largest sample of the tree's memory in RAM."),
        SERIES("cpu_s_per_s", "tree_cpu_ns", "seconds", LESS, LEAST, "CPU time of the tree by second.", .is_rate = true, .is_of_load = true),
        PER_TOKEN("cpu_s_per_token", "tree_cpu_ns", "seconds", LEAST, "CPU time of the tree by generated token."),
        SERIES("joules_per_s", "eMachineJoules", "joules", LESS, LEAST, "Power of the machine.", .is_rate = true, .is_of_load = true),
        PER_TOKEN("joules_per_token", "eMachineJoules", "joules", LEAST, "Energy of the machine by generated token."),
        SERIES("gpu_joules_per_s", infp_compare_gpu_joules, "joules", LESS, LEAST, "Power of all GPUs.", .is_rate = true, .is_of_load = true),
        PER_TOKEN("gpu_joules_per_token", infp_compare_gpu_joules, "joules", LEAST, "Energy of all GPUs by generated token."),
        { .name = "output_tokens_per_s", .help = "Generated tokens by second.", .base = "tokens", .is_rate = true, .better = INFP_BETTER_MORE,
          .least = LEAST, .from = INFP_NUMBER_OF_TOKENS },
        SERIES("rss_bytes", "tree_rss_bytes", "bytes", LESS, LEAST_MEMORY, "Memory of the tree in RAM."),
        MEAN("engine_ttft_mean", "latency_ttft_s_sum", "Time to the first token as the engine counts it, mean."),
        MEAN("engine_itl_mean", "latency_inter_token_s_sum", "Time between tokens as the engine counts it, mean."),
        MEAN("engine_e2e_mean", "latency_e2e_s_sum", "Time of a request as the engine counts it, mean."),
        MEAN("engine_queue_mean", "latency_queue_s_sum", "Time that requests waited in the engine, mean."),
        REQUEST_TIMES("ttft", TTFT, "Time to the first token as clients saw it,"),
        REQUEST_TIMES("itl", ITL, "Time between pieces of text as clients saw it,"),
        REQUEST_TIMES("tpot", TPOT, "Time per output token of a request as clients saw it,"),
        REQUEST_TIMES("e2e", E2E, "Whole request as clients saw it,"),
        { .name = "step_mean", .help = "Time of a step of PyTorch, for each phase, mean.", .base = "seconds", .better = INFP_BETTER_LESS,
          .least = LEAST, .from = INFP_NUMBER_OF_STEP },
        { .name = "step_p95", .help = "Time of a step of PyTorch, for each phase, 95th percentile.", .base = "seconds",
          .better = INFP_BETTER_LESS, .least = LEAST, .from = INFP_NUMBER_OF_STEP, .q = 0.95 },
};
// clang-format on
const unsigned infp_compare_numbers_n = INFP_COUNT(infp_compare_numbers);

const struct infp_compare_number *infp_compare_number_find(const char *name, size_t size)
{
        for (unsigned i = 0; i < infp_compare_numbers_n; i++) {
                const struct infp_compare_number *number = &infp_compare_numbers[i];
                const size_t n = strlen(number->name);

                if (size >= n && !memcmp(number->name, name, n) &&
                    (size == n || (number->from == INFP_NUMBER_OF_STEP && name[n] == ':')))
                        return number;
        }
        return NULL;
}
