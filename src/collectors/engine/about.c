#include "collectors/engine/about.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"
#include "base/text.h"
#include "collectors/engine/about_parts.h"
#include "collectors/engine/tables.h"
#include "model/mask.h"

enum { CONFIG_BYTES = 48 * 1024 };

void infp_engine_about_done(struct infp_engine_about *about)
{
        json_decref(about->config);
        about->config = NULL;
}

/* Facts of the old server stay until the new one has reported its own; a page of the new one may report less than a side page
 * of the old one did, so all ranks fall to the lowest that counts. */
void infp_engine_about_restart(struct infp_engine_about *about)
{
        struct infp_about_text *texts[] = { &about->version, &about->quantisation, &about->dtype };
        struct infp_about_number *numbers[] = { &about->max_seqs, &about->context, &about->block_size, &about->blocks };

        for (size_t i = 0; i < INFP_COUNT(texts); i++)
                texts[i]->rank = texts[i]->rank ? INFP_ABOUT_FROM_NAME : INFP_ABOUT_NOTHING;
        for (size_t i = 0; i < INFP_COUNT(numbers); i++)
                numbers[i]->rank = numbers[i]->rank ? INFP_ABOUT_FROM_NAME : INFP_ABOUT_NOTHING;
        about->models_rank = about->n_models ? INFP_ABOUT_FROM_NAME : INFP_ABOUT_NOTHING;
}

static void set_text(struct infp_engine_about *about, struct infp_about_text *text, const char *s, size_t size,
                     enum infp_about_rank rank)
{
        size_t n = infp_utf8_cut(s, size, sizeof(text->at) - 1);

        if (!size || rank < text->rank)
                return;
        about->has_changed |= strlen(text->at) != n || memcmp(text->at, s, n) != 0;
        memcpy(text->at, s, n);
        text->at[n] = 0;
        text->rank = (uint8_t) rank;
}

static void set_number(struct infp_engine_about *about, struct infp_about_number *number, int64_t value,
                       enum infp_about_rank rank)
{
        if (value <= 0 || rank < number->rank)
                return;
        about->has_changed |= !number->rank || number->value != value;
        number->value = value;
        number->rank = (uint8_t) rank;
}

/* "q4_k_m", "IQ3_XXS", "FP8", "AWQ", "w4a16", "4bit": a word of a model's name that is a number format. */
static bool is_format(const char *word, size_t size)
{
        static const char *const formats[] = { "f16",   "f32",  "bf16", "fp16",  "fp8",  "fp4",   "nvfp4",
                                               "mxfp4", "int4", "int8", "awq",   "gptq", "w4a16", "w8a16",
                                               "w8a8",  "4bit", "8bit", "tq1_0", "tq2_0" };
        size_t q = size > 0 && (word[0] == 'i' || word[0] == 'I');

        if (size >= q + 2 && (word[q] == 'q' || word[q] == 'Q') && word[q + 1] >= '1' && word[q + 1] <= '8' &&
            (size == q + 2 || word[q + 2] == '_'))
                return true;
        for (size_t i = 0; i < INFP_COUNT(formats); i++) {
                if (strlen(formats[i]) == size && strncasecmp(formats[i], word, size) == 0)
                        return true;
        }
        return false;
}

static void read_format(struct infp_engine_about *about, const char *name, size_t size)
{
        for (size_t begin = 0; begin < size;) {
                size_t end = begin;

                while (end < size && !strchr("-./: \\", name[end]))
                        end++;
                if (is_format(name + begin, end - begin))
                        set_text(about, &about->quantisation, name + begin, end - begin, INFP_ABOUT_FROM_NAME);
                begin = end + 1;
        }
}

void infp_about_add_model(struct infp_engine_about *about, const char *s, size_t size, enum infp_about_rank rank)
{
        struct infp_about_text *model;

        size = infp_utf8_cut(s, size, INFP_ABOUT_TEXT - 1);
        if (!size || rank < about->models_rank)
                return;
        if (rank > about->models_rank)
                about->n_models = about->models_are_cut = 0;
        about->models_rank = (uint8_t) rank;
        for (unsigned i = 0; i < about->n_models; i++) {
                if (strlen(about->model[i].at) == size && memcmp(about->model[i].at, s, size) == 0)
                        return;
        }
        if (about->n_models == INFP_ABOUT_MODELS) {
                about->models_are_cut = true;
                return;
        }
        /* The old content of the place is compared: a list that is given again is not a change. */
        model = &about->model[about->n_models++];
        model->rank = INFP_ABOUT_NOTHING;
        set_text(about, model, s, size, rank);
        read_format(about, s, size);
}

static bool says_nothing(const char *s, size_t size)
{
        static const char *const nothing[] = { "", "None", "none", "null", "auto" };

        for (size_t i = 0; i < INFP_COUNT(nothing); i++) {
                if (strlen(nothing[i]) == size && memcmp(nothing[i], s, size) == 0)
                        return true;
        }
        return false;
}

/* "32k" is 32,000 and "32K" 32,768, as vLLM reads them; "1024.0" is a whole number too. */
static int64_t number_of(const char *s, size_t size)
{
        static const struct {
                char letter;
                int64_t factor;
        } units[] = { { 'k', 1000 }, { 'K', 1024 }, { 'm', 1000000 }, { 'M', 1 << 20 } };
        int64_t factor = 1;
        double v;

        for (size_t i = 0; size > 1 && i < INFP_COUNT(units); i++) {
                if (s[size - 1] == units[i].letter) {
                        factor = units[i].factor;
                        size--;
                        break;
                }
        }
        if (infp_parse_f64(s, size, &v) < 0 || !(v > 0) || v * (double) factor >= 0x1p62)
                return 0;
        return (int64_t) (v * (double) factor);
}

/* llama.cpp built outside its repository */
static const char unknown_build[] = "b0-unknown";

void infp_about_set_fact(struct infp_engine_about *about, enum infp_about_fact fact, const char *s, size_t size,
                         enum infp_about_rank rank)
{
        if (says_nothing(s, size))
                return;
        switch (fact) {
        case INFP_FACT_NONE:
                break;
        case INFP_FACT_MODEL:
        case INFP_FACT_SERVED_NAME:
                infp_about_add_model(about, s, size, rank);
                break;
        case INFP_FACT_VERSION:
                if (size == strlen(unknown_build) && memcmp(s, unknown_build, size) == 0)
                        break;
                set_text(about, &about->version, s, size, rank);
                break;
        case INFP_FACT_QUANTISATION:
                set_text(about, &about->quantisation, s, size, rank);
                break;
        case INFP_FACT_DTYPE:
                set_text(about, &about->dtype, s, size, rank);
                break;
        case INFP_FACT_MAX_SEQS:
                set_number(about, &about->max_seqs, number_of(s, size), rank);
                break;
        case INFP_FACT_CONTEXT:
                set_number(about, &about->context, number_of(s, size), rank);
                break;
        case INFP_FACT_BLOCK_SIZE:
                set_number(about, &about->block_size, number_of(s, size), rank);
                break;
        case INFP_FACT_BLOCKS:
                set_number(about, &about->blocks, number_of(s, size), rank);
                break;
        }
}

static void row_number(struct infp_row *row, unsigned cell, const struct infp_about_number *number)
{
        if (number->rank)
                infp_row_i64(row, cell, number->value);
}

static void row_models(const struct infp_engine_about *about, struct infp_row *row)
{
        char text[INFP_ABOUT_MODELS * (INFP_ABOUT_TEXT + 1) + sizeof("...")];
        size_t size = 0;

        for (unsigned i = 0; i < about->n_models; i++) {
                size_t n = strlen(about->model[i].at);

                if (i)
                        text[size++] = ',';
                memcpy(text + size, about->model[i].at, n);
                size += n;
        }
        if (about->models_are_cut) {
                memcpy(text + size, ",...", 4);
                size += 4;
        }
        if (size)
                infp_row_bytes(row, INFP_ENGINES_MODEL, text, size);
}

static void row_config(const struct infp_engine_about *about, struct infp_row *row)
{
        infp_autofree char *text = about->config ? json_dumps(about->config, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
        size_t size = text ? strlen(text) : 0;

        /* A text that does not fit would be cut, and no longer be JSON. */
        if (size && size <= CONFIG_BYTES)
                infp_row_str(row, INFP_ENGINES_CONFIG, text);
}

void infp_engine_about_row(struct infp_engine_about *about, struct infp_row *row)
{
        infp_row_foreign(row, INFP_ENGINES_MAKE,
                         infp_engine_makes[about->make ? about->make : about->commanded_make].name);
        infp_row_foreign(row, INFP_ENGINES_VERSION, about->version.at);
        row_models(about, row);
        infp_row_foreign(row, INFP_ENGINES_QUANTISATION,
                         about->quantisation.rank ? about->quantisation.at : about->dtype.at);
        if (about->command_size)
                infp_row_bytes(row, INFP_ENGINES_COMMAND, about->command, about->command_size);
        row_number(row, INFP_ENGINES_MAX_SEQS, &about->max_seqs);
        row_number(row, INFP_ENGINES_CONTEXT, &about->context);
        row_number(row, INFP_ENGINES_BLOCK_SIZE, &about->block_size);
        row_number(row, INFP_ENGINES_BLOCKS, &about->blocks);
        row_config(about, row);
        about->has_changed = false;
}

/* A flag of a server's command line. */
struct flag {
        enum infp_engine_make make;
        const char *name; /* '-' and '_' mean the same in words */
        enum infp_about_fact fact;
};

// clang-format off
static const struct flag flags[] = {
        { INFP_ENGINE_VLLM, "--model", INFP_FACT_MODEL },
        { INFP_ENGINE_VLLM, "serve", INFP_FACT_MODEL }, /* vllm serve MODEL */
        { INFP_ENGINE_VLLM, "--served-model-name", INFP_FACT_SERVED_NAME },
        { INFP_ENGINE_VLLM, "--quantization", INFP_FACT_QUANTISATION },
        { INFP_ENGINE_VLLM, "-q", INFP_FACT_QUANTISATION },
        { INFP_ENGINE_VLLM, "--dtype", INFP_FACT_DTYPE },
        { INFP_ENGINE_VLLM, "--max-num-seqs", INFP_FACT_MAX_SEQS },
        { INFP_ENGINE_VLLM, "--max-model-len", INFP_FACT_CONTEXT },
        { INFP_ENGINE_VLLM, "--block-size", INFP_FACT_BLOCK_SIZE },
        { INFP_ENGINE_VLLM, "--num-gpu-blocks-override", INFP_FACT_BLOCKS },
        { INFP_ENGINE_SGLANG, "--model-path", INFP_FACT_MODEL },
        { INFP_ENGINE_SGLANG, "--model", INFP_FACT_MODEL },
        { INFP_ENGINE_SGLANG, "--served-model-name", INFP_FACT_SERVED_NAME },
        { INFP_ENGINE_SGLANG, "--quantization", INFP_FACT_QUANTISATION },
        { INFP_ENGINE_SGLANG, "--dtype", INFP_FACT_DTYPE },
        { INFP_ENGINE_SGLANG, "--max-running-requests", INFP_FACT_MAX_SEQS },
        { INFP_ENGINE_SGLANG, "--context-length", INFP_FACT_CONTEXT },
        { INFP_ENGINE_SGLANG, "--page-size", INFP_FACT_BLOCK_SIZE },
        { INFP_ENGINE_TGI, "--model-id", INFP_FACT_MODEL },
        { INFP_ENGINE_TGI, "--quantize", INFP_FACT_QUANTISATION },
        { INFP_ENGINE_TGI, "--dtype", INFP_FACT_DTYPE },
        { INFP_ENGINE_TGI, "--max-batch-size", INFP_FACT_MAX_SEQS },
        { INFP_ENGINE_TGI, "--max-total-tokens", INFP_FACT_CONTEXT },
        { INFP_ENGINE_LLAMACPP, "--model", INFP_FACT_MODEL },
        { INFP_ENGINE_LLAMACPP, "-m", INFP_FACT_MODEL },
        { INFP_ENGINE_LLAMACPP, "--hf-repo", INFP_FACT_MODEL },
        { INFP_ENGINE_LLAMACPP, "-hf", INFP_FACT_MODEL },
        { INFP_ENGINE_LLAMACPP, "--alias", INFP_FACT_SERVED_NAME },
        { INFP_ENGINE_LLAMACPP, "-a", INFP_FACT_SERVED_NAME },
        { INFP_ENGINE_LLAMACPP, "--parallel", INFP_FACT_MAX_SEQS },
        { INFP_ENGINE_LLAMACPP, "-np", INFP_FACT_MAX_SEQS },
        /* Not --ctx-size: its slots share that. */
        { INFP_ENGINE_TENSORRT_LLM, "trtllm-serve", INFP_FACT_MODEL },
        { INFP_ENGINE_TENSORRT_LLM, "serve", INFP_FACT_MODEL }, /* trtllm-serve serve MODEL */
        { INFP_ENGINE_TENSORRT_LLM, "--max-batch-size", INFP_FACT_MAX_SEQS },
        { INFP_ENGINE_TENSORRT_LLM, "--max-seq-len", INFP_FACT_CONTEXT },
        { INFP_ENGINE_LMDEPLOY, "api-server", INFP_FACT_MODEL }, /* lmdeploy serve api_server MODEL */
        { INFP_ENGINE_LMDEPLOY, "--model-name", INFP_FACT_SERVED_NAME },
        { INFP_ENGINE_LMDEPLOY, "--model-format", INFP_FACT_QUANTISATION },
        { INFP_ENGINE_LMDEPLOY, "--dtype", INFP_FACT_DTYPE },
        { INFP_ENGINE_LMDEPLOY, "--max-batch-size", INFP_FACT_MAX_SEQS },
        { INFP_ENGINE_LMDEPLOY, "--session-len", INFP_FACT_CONTEXT },
        { INFP_ENGINE_LMDEPLOY, "--cache-block-seq-len", INFP_FACT_BLOCK_SIZE },
};
// clang-format on

/* The flag at the start of an argument; *ret_value: after its '=', or NULL. A command's word may be the end of a path. */
static bool is_flag(const char *argument, size_t size, const char *name, const char **ret_value)
{
        size_t n = strlen(name);

        if (name[0] != '-' && size > n && argument[size - n - 1] == '/') {
                argument += size - n;
                size = n;
        }
        if (size < n)
                return false;
        for (size_t i = 0; i < n; i++) {
                char a = argument[i] == '_' ? '-' : argument[i];

                if (a != name[i])
                        return false;
        }
        if (size == n)
                *ret_value = NULL;
        else if (name[0] == '-' && name[1] == '-' && argument[n] == '=')
                *ret_value = argument + n + 1;
        else
                return false;
        return true;
}

static void set_from_command(struct infp_engine_about *about, const struct flag *flag, const char *value, size_t size)
{
        bool names_model = flag->fact == INFP_FACT_MODEL, names_served = flag->fact == INFP_FACT_SERVED_NAME;

        /* The name that clients use outranks that of the file, in any order. */
        if (names_model || names_served)
                infp_about_add_model(about, value, size, names_served ? INFP_ABOUT_FROM_COMMAND : INFP_ABOUT_FROM_NAME);
        else
                infp_about_set_fact(about, flag->fact, value, size, INFP_ABOUT_FROM_COMMAND);
}

static void read_command(struct infp_engine_about *about)
{
        const char *at = about->arguments, *end = at + about->arguments_size;

        for (const char *next; at < end; at = next) {
                size_t size = strnlen(at, (size_t) (end - at));

                next = at + size + (at + size < end);
                for (size_t i = 0; i < INFP_COUNT(flags); i++) {
                        const char *value;

                        if (flags[i].make != about->make || !is_flag(at, size, flags[i].name, &value))
                                continue;
                        if (value)
                                set_from_command(about, &flags[i], value, (size_t) (at + size - value));
                        else if (next < end && *next != '-')
                                set_from_command(about, &flags[i], next, strnlen(next, (size_t) (end - next)));
                }
        }
}

void infp_engine_about_command(struct infp_engine_about *about, const char *arguments, size_t size)
{
        if (size > sizeof(about->arguments))
                size = sizeof(about->arguments);
        if (size == about->arguments_size && memcmp(about->arguments, arguments, size) == 0)
                return;
        memcpy(about->arguments, arguments, size);
        about->arguments_size = size;
        about->command_size =
                infp_mask_cmdline(arguments, size, about->keeps_secrets, about->command, sizeof(about->command));
        about->has_changed = true;
        read_command(about);
}

void infp_engine_about_make(struct infp_engine_about *about, enum infp_engine_make make)
{
        if (about->make == make)
                return;
        json_decref(about->config);
        about->config = NULL;
        about->make = make;
        about->has_changed = true;
        memset(&about->version, 0, sizeof(about->version));
        memset(&about->quantisation, 0, sizeof(about->quantisation));
        memset(&about->dtype, 0, sizeof(about->dtype));
        about->max_seqs = about->context = about->block_size = about->blocks = (struct infp_about_number){ 0 };
        about->n_models = about->models_are_cut = 0;
        about->models_rank = INFP_ABOUT_NOTHING;
        read_command(about);
}

/* The page of an engine: labels that name the model, information series (value 1, facts as labels), gauges of limits. */

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
                        set_number(about, (void *) ((char *) about + gauges[i].number), (int64_t) sample->value,
                                   INFP_ABOUT_FROM_PAGE);
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
