/* Side pages of a server: JSON whose members are facts, data below; and the part that is kept as `config`. */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "collectors/engine/about_parts.h"
#include "model/mask.h"

enum { CONFIG_DEPTH = 5, CONFIG_ITEMS = 256, CONFIG_TEXT = 512, SECTION_BYTES = 16 * 1024, SECTIONS = 64 };

/* A member of the page; dots go down, [] takes each item of an array. */
struct member {
        const char *path, *member;
        enum infp_about_fact fact;
};

// clang-format off
static const struct member members[] = {
        { "/version", "version", INFP_FACT_VERSION },
        { "/v1/models", "data.[].id", INFP_FACT_SERVED_NAME },
        { "/v1/models", "data.[].max_model_len", INFP_FACT_CONTEXT },
        { "/v1/models", "data.[].meta.ftype", INFP_FACT_QUANTISATION },
        { "/props", "build_info", INFP_FACT_VERSION },
        { "/props", "model_ftype", INFP_FACT_QUANTISATION },
        { "/props", "total_slots", INFP_FACT_MAX_SEQS },
        { "/props", "default_generation_settings.n_ctx", INFP_FACT_CONTEXT },
        { "/props", "model_path", INFP_FACT_MODEL },
        { "/server_info", "version", INFP_FACT_VERSION },
        { "/server_info", "served_model_name", INFP_FACT_SERVED_NAME },
        { "/server_info", "quantization", INFP_FACT_QUANTISATION },
        { "/server_info", "dtype", INFP_FACT_DTYPE },
        { "/server_info", "max_running_requests", INFP_FACT_MAX_SEQS },
        { "/server_info", "context_length", INFP_FACT_CONTEXT },
        { "/server_info", "page_size", INFP_FACT_BLOCK_SIZE },
        { "/info", "version", INFP_FACT_VERSION },
        { "/info", "model_id", INFP_FACT_SERVED_NAME },
        { "/info", "model_dtype", INFP_FACT_DTYPE },
        { "/info", "max_batch_size", INFP_FACT_MAX_SEQS },
        { "/info", "max_total_tokens", INFP_FACT_CONTEXT },
        { "/api/version", "version", INFP_FACT_VERSION },
        { "/api/ps", "models.[].name", INFP_FACT_SERVED_NAME },
        { "/api/ps", "models.[].details.quantization_level", INFP_FACT_QUANTISATION },
        { "/api/ps", "models.[].context_length", INFP_FACT_CONTEXT },
};
/* Members that are long, change from start to start or with the load, or are defaults of sampling. */
static const char *const left_out[] = {
        "permission", "created", "chat_template", "chat_template_caps", "default_generation_settings", "media_marker",
        "internal_states", "is_sleeping", "ui", "ui_settings", "webui", "webui_settings", "models", "expires_at",
        "modified_at", "capabilities", "description", "tags",
};
// clang-format on

static const char *const none[] = { NULL };
static const char *const of_vllm[] = { "/version", "/v1/models", NULL };
/* The older name is tried, too: the newer one does not exist before 0.5.4. */
static const char *const of_sglang[] = { "/server_info", "/get_server_info", "/v1/models", NULL };
static const char *const of_tgi[] = { "/info", NULL };
static const char *const of_llamacpp[] = { "/props", "/v1/models", NULL };
static const char *const of_lmdeploy[] = { "/v1/models", NULL };
static const char *const of_ollama[] = { "/api/version", "/api/ps", NULL };

const char *const *infp_engine_about_paths(enum infp_engine_make make)
{
        switch (make) {
        case INFP_ENGINE_VLLM:
        case INFP_ENGINE_TENSORRT_LLM:
                return of_vllm;
        case INFP_ENGINE_SGLANG:
                return of_sglang;
        case INFP_ENGINE_TGI:
                return of_tgi;
        case INFP_ENGINE_LLAMACPP:
                return of_llamacpp;
        case INFP_ENGINE_LMDEPLOY:
                return of_lmdeploy;
        case INFP_ENGINE_OLLAMA:
                return of_ollama;
        default: /* Triton, Ray Serve, MLServer: their facts are on another port, which is not known */
                return none;
        }
}

static bool is_left_out(const char *name)
{
        for (size_t i = 0; i < INFP_COUNT(left_out); i++) {
                if (strcmp(left_out[i], name) == 0)
                        return true;
        }
        return false;
}

/* A text that contains a secret is dropped as a whole: people use it to recognise a set-up. */
static bool is_secret(const struct infp_engine_about *about, const char *name, const char *text, size_t size)
{
        char masked[2 * CONFIG_TEXT];
        size_t n;

        if (about->keeps_secrets || !size)
                return false;
        if (infp_mask_is_secret_name(name, strlen(name)))
                return true;
        n = infp_mask_cmdline(text, size, false, masked, sizeof(masked));
        return memmem(masked, n, "***", 3) && !memmem(text, size, "***", 3);
}

static json_t *copy_text(const struct infp_engine_about *about, const char *name, const json_t *value)
{
        const char *text = json_string_value(value);
        const size_t size = infp_utf8_cut(text, json_string_length(value), CONFIG_TEXT);

        return is_secret(about, name, text, size) ? json_string("***") : json_stringn(text, size);
}

static json_t *copy(const struct infp_engine_about *about, const char *name, const json_t *value, unsigned depth)
{
        const char *key;
        json_t *item, *ret;
        size_t i;

        if (json_is_string(value))
                return copy_text(about, name, value);
        if (json_is_array(value) && depth < CONFIG_DEPTH) {
                ret = json_array();
                json_array_foreach(value, i, item)
                {
                        if (i < CONFIG_ITEMS)
                                json_array_append_new(ret, copy(about, name, item, depth + 1));
                }
                return ret;
        }
        if (json_is_object(value) && depth < CONFIG_DEPTH) {
                ret = json_object();
                json_object_foreach((json_t *) value, key, item)
                {
                        if (!is_left_out(key) && json_object_size(ret) < CONFIG_ITEMS && strlen(key) <= CONFIG_TEXT)
                                json_object_set_new(ret, key, copy(about, key, item, depth + 1));
                }
                return ret;
        }
        return json_is_array(value) || json_is_object(value) ? json_null() : json_incref((json_t *) value);
}

void infp_about_set_config(struct infp_engine_about *about, const char *section, const json_t *value)
{
        infp_autofree char *text = NULL;
        json_t *ours;

        /* A page may name another engine, and so another section, at each scrape. */
        if (json_object_size(about->config) >= SECTIONS && !json_object_get(about->config, section))
                return;
        ours = copy(about, section, value, 0);
        text = json_dumps(ours, JSON_COMPACT | JSON_ENCODE_ANY);
        if (!text || strlen(text) > SECTION_BYTES) {
                json_decref(ours);
                ours = json_string("too long");
        }
        if (!about->config)
                about->config = json_object();
        if (json_equal(json_object_get(about->config, section), ours)) {
                json_decref(ours);
                return;
        }
        about->has_changed = true;
        json_object_set_new(about->config, section, ours);
}

static void set_value(struct infp_engine_about *about, enum infp_about_fact fact, const json_t *value)
{
        char number[32];

        if (json_is_string(value)) {
                infp_about_set_fact(about, fact, json_string_value(value), json_string_length(value),
                                    INFP_ABOUT_FROM_SIDE);
        } else if (json_is_integer(value)) {
                int n = snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT, json_integer_value(value));

                infp_about_set_fact(about, fact, number, (size_t) n, INFP_ABOUT_FROM_SIDE);
        }
}

/* Follows the steps of a member's path. */
static void walk(struct infp_engine_about *about, const json_t *value, const char *member, enum infp_about_fact fact)
{
        const char *dot = strchr(member, '.');
        size_t size = dot ? (size_t) (dot - member) : strlen(member), i;
        char name[64];
        json_t *item;

        if (size == 2 && memcmp(member, "[]", 2) == 0) {
                json_array_foreach(value, i, item)
                {
                        walk(about, item, dot + 1, fact);
                }
                return;
        }
        memcpy(name, member, size);
        name[size] = 0;
        item = json_object_get(value, name);
        if (dot)
                walk(about, item, dot + 1, fact);
        else
                set_value(about, fact, item);
}

static void read_members(struct infp_engine_about *about, const char *path, const json_t *root)
{
        for (size_t i = 0; i < INFP_COUNT(members); i++) {
                enum infp_about_fact fact = members[i].fact;

                if (strcmp(members[i].path, path) != 0)
                        continue;
                /* The file's name shows the number format, but clients ask for another name. */
                if (fact == INFP_FACT_MODEL) {
                        const json_t *file = json_object_get(root, members[i].member);

                        if (json_is_string(file))
                                infp_about_add_model(about, json_string_value(file), json_string_length(file),
                                                     INFP_ABOUT_FROM_COMMAND);
                        continue;
                }
                walk(about, root, members[i].member, fact);
        }
}

static void keep(struct infp_engine_about *about, const char *path, const json_t *root)
{
        static const struct {
                const char *path, *section, *member; /* of the page; NULL: all of it */
        } sections[] = {
                { "/v1/models", "models", "data" },
                { "/props", "props", NULL },
                { "/server_info", "server_info", NULL },
                { "/info", "info", NULL },
        };

        for (size_t i = 0; i < INFP_COUNT(sections); i++) {
                const char *member = sections[i].member;
                const json_t *value = member ? json_object_get(root, member) : root;

                if (strcmp(sections[i].path, path) == 0 && value)
                        infp_about_set_config(about, sections[i].section, value);
        }
}

int infp_engine_about_body(struct infp_engine_about *about, const char *path, const char *body, size_t size,
                           struct infp_err *err)
{
        unsigned n_models = about->n_models;
        json_error_t why;
        json_t *root;

        if (size > INFP_ABOUT_SIDE_BYTES)
                return infp_fail(err, -EBADMSG, "%s has %zu bytes, more than %d", path, size, INFP_ABOUT_SIDE_BYTES);
        root = json_loadb(body, size, 0, &why);
        if (!json_is_object(root)) {
                json_decref(root);
                return infp_fail(err, -EBADMSG, "%s is not a JSON object%s%s", path, root ? "" : ": ",
                                 root ? "" : why.text);
        }
        /* A server's list is complete: earlier models are gone. */
        if (strcmp(path, "/v1/models") == 0 || strcmp(path, "/api/ps") == 0)
                about->models_rank =
                        about->models_rank > INFP_ABOUT_FROM_PAGE ? INFP_ABOUT_FROM_PAGE : about->models_rank;
        if (strcmp(path, "/get_server_info") == 0)
                path = "/server_info";
        read_members(about, path, root);
        keep(about, path, root);
        about->has_changed |= about->n_models != n_models;
        json_decref(root);
        return 0;
}
