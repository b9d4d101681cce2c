/* The makes of engines, and what a sample of one feeds. The names themselves are in engine_alias_<make>.c. */
#include "collectors/engine/alias/alias.h"

#include <string.h>

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define NO_WORDS ((const char *const[]){ NULL })

// clang-format off
const struct infp_engine_make_info infp_engine_makes[INFP_ENGINE_N] = {
        [INFP_ENGINE_UNKNOWN] = { .name = "", .prefixes = NO_WORDS, .commands = NO_WORDS, .port_flags = NO_WORDS, .path = "/metrics" },
        [INFP_ENGINE_VLLM] = {
                .name = "vllm",
                .prefixes = WORDS("vllm:", "vllm_", "ray_vllm_", "kserve_vllm:", "kserve_vllm_"),
                .commands = WORDS("vllm.entrypoints", "vllm serve"),
                .port_flags = WORDS("--port"), .port = 8000, .path = "/metrics",
        },
        [INFP_ENGINE_SGLANG] = {
                .name = "sglang", .prefixes = WORDS("sglang:", "sglang_"),
                .commands = WORDS("sglang.launch_server", "sglang serve"),
                .port_flags = WORDS("--port"), .port = 30000, .path = "/metrics", .metrics_flag = "--enable-metrics",
        },
        [INFP_ENGINE_TGI] = {
                .name = "tgi", .prefixes = WORDS("tgi_"),
                .commands = WORDS("text-generation-launcher", "text-generation-router"),
                .port_flags = WORDS("--port", "-p"), .port = 3000, .path = "/metrics",
        },
        [INFP_ENGINE_LLAMACPP] = {
                .name = "llamacpp", .prefixes = WORDS("llamacpp:"),
                .commands = WORDS("llama-server", "llama-server-vulkan"),
                .port_flags = WORDS("--port"), .port = 8080, .path = "/metrics", .metrics_flag = "--metrics",
                .prefix_flag = "--api-prefix", .sleep_flag = "--sleep-idle-seconds", .sleep_page = "/props",
        },
        [INFP_ENGINE_TRITON] = {
                .name = "triton", .prefixes = WORDS("nv_inference_", "nv_trt_llm_", "nv_cache_"),
                .commands = WORDS("tritonserver"),
                .port_flags = WORDS("--metrics-port"), .port = 8002, .path = "/metrics",
        },
        [INFP_ENGINE_TENSORRT_LLM] = {
                .name = "tensorrt_llm", .prefixes = WORDS("trtllm_", "trtllm:"),
                .commands = WORDS("trtllm-serve"),
                .port_flags = WORDS("--port"), .port = 8000, .path = "/prometheus/metrics",
        },
        [INFP_ENGINE_LMDEPLOY] = {
                .name = "lmdeploy", .prefixes = WORDS("lmdeploy:", "lmdeploy_"),
                .commands = WORDS("lmdeploy serve api_server"),
                .port_flags = WORDS("--server-port"), .port = 23333, .path = "/metrics", .metrics_flag = "--enable-metrics",
        },
        /* Its port is Ray's to choose and on no command line of the server. */
        [INFP_ENGINE_RAY_SERVE] = { .name = "ray_serve", .prefixes = WORDS("ray_serve_"), .commands = NO_WORDS, .port_flags = NO_WORDS, .path = "/metrics" },
        [INFP_ENGINE_MLSERVER] = {
                .name = "mlserver", .prefixes = WORDS("model_infer_request_", "rest_server_request"),
                .commands = WORDS("mlserver start"),
                .port_flags = NO_WORDS, .port = 8082, .path = "/metrics",
        },
        /* No release has a metrics page: OLLAMA_METRICS is a proposal. */
        [INFP_ENGINE_OLLAMA] = {
                .name = "ollama", .prefixes = WORDS("ollama_"), .commands = WORDS("ollama serve"),
                .port_flags = NO_WORDS, .port = 11434, .path = "/metrics",
        },
};
// clang-format on

static const struct infp_engine_alias_table *const tables[INFP_ENGINE_N] = {
        [INFP_ENGINE_VLLM] = &infp_engine_alias_vllm,
        [INFP_ENGINE_SGLANG] = &infp_engine_alias_sglang,
        [INFP_ENGINE_TGI] = &infp_engine_alias_tgi,
        [INFP_ENGINE_LLAMACPP] = &infp_engine_alias_llamacpp,
        [INFP_ENGINE_TRITON] = &infp_engine_alias_triton,
        [INFP_ENGINE_TENSORRT_LLM] = &infp_engine_alias_tensorrt_llm,
        [INFP_ENGINE_LMDEPLOY] = &infp_engine_alias_lmdeploy,
        [INFP_ENGINE_RAY_SERVE] = &infp_engine_alias_ray_serve,
        [INFP_ENGINE_MLSERVER] = &infp_engine_alias_mlserver,
};

const struct infp_engine_alias *infp_engine_aliases(enum infp_engine_make make, size_t *ret_n)
{
        const struct infp_engine_alias_table *table = tables[make];

        *ret_n = table ? table->n : 0;
        return table ? table->at : NULL;
}

static bool begins(const char *s, size_t size, const char *prefix)
{
        size_t n = strlen(prefix);

        return size >= n && memcmp(s, prefix, n) == 0;
}

enum infp_engine_make infp_engine_make_of(const char *series, size_t size)
{
        for (enum infp_engine_make make = INFP_ENGINE_VLLM; make < INFP_ENGINE_N; make++) {
                for (const char *const *prefix = infp_engine_makes[make].prefixes; *prefix; prefix++) {
                        if (begins(series, size, *prefix))
                                return make;
                }
        }
        return INFP_ENGINE_UNKNOWN;
}

/* What other programs put before a name: Ray before those of its guests, llm-d and KServe before vLLM's. */
static void skip_wrapping(const char **name, size_t *size)
{
        static const char *const wrapping[] = { "ray_vllm", "kserve_vllm" };

        for (size_t i = 0; i < INFP_COUNT(wrapping); i++) {
                size_t n = strlen(wrapping[i]) - strlen("vllm");

                if (begins(*name, *size, wrapping[i])) {
                        *name += n;
                        *size -= n;
                }
        }
}

/* Systems that allow no colon in names write '_' after the make; Dynamo once wrote a colon there. */
static bool is_name(const struct infp_engine_alias *alias, const char *name, size_t size)
{
        size_t make = strcspn(alias->series, ":_");

        if (alias->size != size || memcmp(alias->series, name, make) != 0)
                return false;
        return make == size || ((name[make] == ':' || name[make] == '_') &&
                                memcmp(alias->series + make + 1, name + make + 1, size - make - 1) == 0);
}

static const struct infp_prom_label *label_of(const struct infp_prom_sample *sample, const char *name)
{
        size_t n = strlen(name);

        for (unsigned i = 0; i < sample->n_labels; i++) {
                const struct infp_prom_text *t = &sample->labels[i].name;

                if (t->size == n && memcmp(t->at, name, n) == 0)
                        return &sample->labels[i];
        }
        return NULL;
}

static bool label_is(const struct infp_prom_sample *sample, const char *name, const char *value)
{
        const struct infp_prom_label *l = label_of(sample, name);

        return l && l->value.size == strlen(value) && memcmp(l->value.at, value, l->value.size) == 0;
}

/* With --enable-metrics-for-all-schedulers each tensor parallel rank of SGLang reports the same requests. Where ranks have
 * requests of their own (data parallel attention) there is a label dp_rank. */
static bool is_repeated(enum infp_engine_make make, const struct infp_prom_sample *sample)
{
        if (make != INFP_ENGINE_SGLANG || label_of(sample, "dp_rank"))
                return false;
        return (label_of(sample, "tp_rank") && !label_is(sample, "tp_rank", "0")) ||
               (label_of(sample, "pp_rank") && !label_is(sample, "pp_rank", "0"));
}

static size_t find(const struct infp_engine_alias_table *table, const struct infp_prom_sample *sample,
                   const struct infp_engine_alias *ret[INFP_ENGINE_FEEDS])
{
        const char *name = sample->name.at;
        size_t size = sample->name.size, n = 0;

        skip_wrapping(&name, &size);
        /* bound: a unit test counts the lines of each series */
        for (size_t i = 0; i < table->n && n < INFP_ENGINE_FEEDS; i++) {
                const struct infp_engine_alias *alias = &table->at[i];

                if (is_name(alias, name, size) && (!alias->label || label_is(sample, alias->label, alias->value)))
                        ret[n++] = alias;
        }
        return n;
}

size_t infp_engine_alias_find(enum infp_engine_make make, const struct infp_prom_sample *sample,
                              const struct infp_engine_alias *ret[INFP_ENGINE_FEEDS])
{
        enum infp_engine_make other;
        size_t n;

        if (sample->part == INFP_PROM_CREATED || !tables[make] || is_repeated(make, sample))
                return 0;
        n = find(tables[make], sample, ret);
        if (n || !begins(sample->name.at, sample->name.size, "ray_"))
                return n;
        /* A page of Ray holds the metrics of all that runs on the node: of Serve and of a vLLM that it hosts. */
        other = infp_engine_make_of(sample->name.at, sample->name.size);
        return tables[other] ? find(tables[other], sample, ret) : 0;
}

bool infp_engine_alias_is_of(const struct infp_engine_alias *alias, enum infp_engine_share share)
{
        return alias->share == INFP_ENGINE_ALL || share == INFP_ENGINE_ALL || alias->share == share;
}

const char *infp_engine_alias_metric(const struct infp_engine_alias *const *feeds, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                if (feeds[i]->stem)
                        return feeds[i]->stem;
        }
        if (!n || feeds[0]->cell < 0)
                return NULL;
        return infp_table_column(&infp_table_vllm, INFP_FIXED_COLUMNS + (unsigned) feeds[0]->cell)->name;
}
