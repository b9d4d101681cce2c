/* What the command line of a server says: flags as data, one line each. */
#include <string.h>

#include "base/mem.h"
#include "collectors/engine/about_parts.h"
#include "model/mask.h"

struct flag {
        enum infp_engine_make make;
        const char *name; /* of words '-' and '_' mean the same */
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

static void set(struct infp_engine_about *about, const struct flag *flag, const char *value, size_t size)
{
        bool names_model = flag->fact == INFP_FACT_MODEL, names_served = flag->fact == INFP_FACT_SERVED_NAME;

        /* The name that clients use goes before that of the file, whichever comes first. */
        if (names_model || names_served)
                infp_about_add_model(about, value, size, names_served ? INFP_ABOUT_FROM_COMMAND : INFP_ABOUT_FROM_NAME);
        else
                infp_about_set_fact(about, flag->fact, value, size, INFP_ABOUT_FROM_COMMAND);
}

void infp_about_read_command(struct infp_engine_about *about)
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
                                set(about, &flags[i], value, (size_t) (at + size - value));
                        else if (next < end && *next != '-')
                                set(about, &flags[i], next, strnlen(next, (size_t) (end - next)));
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
        infp_about_read_command(about);
}
