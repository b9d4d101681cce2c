/* What the page of an engine says of itself: labels that name the model, information series (value 1, facts as labels), gauges of
 * limits. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "collectors/engine/about_parts.h"

/* Labels of information series, whatever the make. */
static enum infp_about_fact fact_of_label(const struct infp_prom_text *name)
{
        static const struct {
                const char *name;
                enum infp_about_fact fact;
        } facts[] = {
                { "block_size", INFP_FACT_BLOCK_SIZE },
                { "page_size", INFP_FACT_BLOCK_SIZE },
                { "tokens_per_block", INFP_FACT_BLOCK_SIZE },
                { "num_gpu_blocks", INFP_FACT_BLOCKS },
                { "num_pages", INFP_FACT_BLOCKS },
                { "max_model_len", INFP_FACT_CONTEXT },
                { "max_num_seqs", INFP_FACT_MAX_SEQS },
                { "dtype", INFP_FACT_DTYPE },
                { "quantization", INFP_FACT_QUANTISATION },
                { "version", INFP_FACT_VERSION },
        };

        for (size_t i = 0; i < INFP_COUNT(facts); i++) {
                if (strlen(facts[i].name) == name->size && memcmp(facts[i].name, name->at, name->size) == 0)
                        return facts[i].fact;
        }
        return INFP_FACT_NONE;
}

static bool is(const struct infp_prom_text *t, const char *s)
{
        return t->size == strlen(s) && memcmp(t->at, s, t->size) == 0;
}

/* "vllm:cache_config_info" -> "cache_config_info"; false: not information of this make, or not in force. LoRA's holds a time. */
static bool info_name(const struct infp_engine_about *about, const struct infp_prom_sample *sample, char *ret,
                      size_t cap)
{
        static const char end[] = "_info";
        const char *begin = sample->name.at;
        size_t size = sample->name.size;

        if (size < sizeof(end) || memcmp(begin + size - strlen(end), end, strlen(end)) != 0 || sample->value != 1 ||
            infp_engine_make_of(begin, size) != about->make)
                return false;
        for (const char *const *p = infp_engine_makes[about->make].prefixes; *p; p++) {
                size_t n = strlen(*p);

                if (size > n && memcmp(begin, *p, n) == 0) {
                        begin += n;
                        size -= n;
                        break;
                }
        }
        if (size >= cap)
                return false;
        memcpy(ret, begin, size);
        ret[size] = 0;
        return true;
}

static void add_info(struct infp_engine_about *about, const struct infp_prom_sample *sample, const char *name)
{
        char section[160];
        json_t *labels = json_object();

        snprintf(section, sizeof(section), "%s", name);
        for (unsigned i = 0; i < sample->n_labels; i++) {
                const struct infp_prom_label *l = &sample->labels[i];
                char key[128];

                /* Several engines on a page: each its own section. */
                if (is(&l->name, "engine") && !is(&l->value, "0"))
                        snprintf(section, sizeof(section), "%s.%.*s", name,
                                 (int) (l->value.size < 20 ? l->value.size : 20), l->value.at);
                infp_about_set_fact(about, fact_of_label(&l->name), l->value.at, l->value.size, INFP_ABOUT_FROM_PAGE);
                if (l->name.size >= sizeof(key))
                        continue;
                memcpy(key, l->name.at, l->name.size);
                key[l->name.size] = 0;
                /* Refuses what is not UTF-8: then the label is left out. */
                json_object_set_new(labels, key, json_stringn(l->value.at, l->value.size));
        }
        infp_about_set_config(about, section, labels);
        json_decref(labels);
}

static void add_gauge(struct infp_engine_about *about, const struct infp_prom_sample *sample)
{
        static const struct {
                enum infp_engine_make make;
                const char *series;
                size_t number;
        } gauges[] = {
                { INFP_ENGINE_SGLANG, "sglang:page_size", offsetof(struct infp_engine_about, block_size) },
                { INFP_ENGINE_SGLANG, "sglang:num_pages", offsetof(struct infp_engine_about, blocks) },
                { INFP_ENGINE_SGLANG, "sglang:context_len", offsetof(struct infp_engine_about, context) },
                { INFP_ENGINE_TENSORRT_LLM, "trtllm_kv_cache_tokens_per_block",
                  offsetof(struct infp_engine_about, block_size) },
                { INFP_ENGINE_TENSORRT_LLM, "trtllm_kv_cache_max_blocks", offsetof(struct infp_engine_about, blocks) },
                { INFP_ENGINE_TENSORRT_LLM, "trtllm_max_num_active_requests",
                  offsetof(struct infp_engine_about, max_seqs) },
        };

        for (size_t i = 0; i < INFP_COUNT(gauges); i++) {
                if (gauges[i].make == about->make && is(&sample->name, gauges[i].series) && sample->value >= 1 &&
                    sample->value < 0x1p62)
                        infp_about_set_number(about, (void *) ((char *) about + gauges[i].number),
                                              (int64_t) sample->value, INFP_ABOUT_FROM_PAGE);
        }
}

/* Triton and MLServer call it `model`; Ray puts its own version on each series. */
static enum infp_about_fact fact_of_any_label(enum infp_engine_make make, const struct infp_prom_text *name)
{
        if (is(name, "model_name"))
                return INFP_FACT_MODEL;
        if ((make == INFP_ENGINE_TRITON || make == INFP_ENGINE_MLSERVER) && is(name, "model"))
                return INFP_FACT_MODEL;
        if (make == INFP_ENGINE_RAY_SERVE && is(name, "Version"))
                return INFP_FACT_VERSION;
        return INFP_FACT_NONE;
}

void infp_engine_about_sample(struct infp_engine_about *about, const struct infp_prom_sample *sample)
{
        unsigned n_models = about->n_models;
        char name[128];

        if (!about->make)
                return;
        for (unsigned i = 0; i < sample->n_labels; i++) {
                const struct infp_prom_label *l = &sample->labels[i];

                infp_about_set_fact(about, fact_of_any_label(about->make, &l->name), l->value.at, l->value.size,
                                    INFP_ABOUT_FROM_PAGE);
        }
        if (info_name(about, sample, name, sizeof(name)))
                add_info(about, sample, name);
        else if (isfinite(sample->value))
                add_gauge(about, sample);
        about->has_changed |= about->n_models != n_models;
}
