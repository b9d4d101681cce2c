/* Who an engine is: from captured pages and side pages, from command lines. */
#include <jansson.h>

#include "engine_page.h"

#include "collectors/engine/tables.h"

static void side(struct infp_engine_about *about, const char *path, const char *file)
{
        struct infp_err err = { "" };
        size_t size;
        char *text = page_text(file, &size);

        if (infp_engine_about_body(about, path, text, size, &err) < 0)
                fail_msg("%s", err.text);
        free(text);
}

static void page(struct infp_engine_about *about, const char *file)
{
        size_t size;
        char *text = page_text(file, &size);

        page_read(text, size, NULL, about);
        free(text);
}

static const struct kept *row(struct machine *m, struct infp_engine_about *about)
{
        infp_row_id(infp_emit_begin(&m->emit, &infp_table_engines, m->clock_ns), INFP_ENGINES_ID, 1);
        infp_engine_about_row(about, &m->emit.row);
        infp_emit_commit(&m->emit);
        return machine_need(m, "engines", NULL);
}

#define TEXT_OF(k, cell) (kept_has(k, cell) ? kept_text(k, cell, (char[65536]){ 0 }, 65536) : "")

#define COMMAND(about, ...) command(about, (const char *const[]){ __VA_ARGS__, NULL })
static void command(struct infp_engine_about *about, const char *const *arguments)
{
        char text[4096];
        size_t size = 0;

        for (; *arguments; arguments++) {
                memcpy(text + size, *arguments, strlen(*arguments) + 1);
                size += strlen(*arguments) + 1;
        }
        infp_engine_about_command(about, text, size);
}

static void vllm_as_captured(void **state)
{
        struct machine *m = machine_open("/");
        struct infp_engine_about about = { 0 };
        const struct kept *k;
        const char *config;

        (void) state;
        /* The command line of the capture's README. */
        COMMAND(&about, "python", "-m", "vllm.entrypoints.openai.api_server", "--model", "models/tiny-llama",
                "--served-model-name", "tiny", "--load-format", "dummy", "--dtype", "bfloat16", "--max-model-len",
                "1024", "--max-num-seqs", "4", "--enforce-eager", "--host", "127.0.0.1", "--port", "8093", "--api-key",
                "abcdef");
        page(&about, "vllm-0.32.0/metrics-load.prom");
        side(&about, "/version", "vllm-0.32.0/version.json");
        side(&about, "/v1/models", "vllm-0.32.0/models.json");
        assert_true(about.has_changed);
        k = row(m, &about);
        assert_false(about.has_changed);
        EXPECT(m, TEXT("engines", NULL, "make", "vllm"), TEXT("engines", NULL, "version", "0.32.0"),
               TEXT("engines", NULL, "model", "tiny"), TEXT("engines", NULL, "quantisation", "bfloat16"),
               I64("engines", NULL, "max_num_seqs", 4), I64("engines", NULL, "max_model_len", 1024),
               I64("engines", NULL, "block_size", 128), I64("engines", NULL, "num_gpu_blocks", 1024));
        config = TEXT_OF(k, INFP_ENGINES_CONFIG);
        assert_non_null(strstr(config, "\"cache_config_info\":{"));
        assert_non_null(strstr(config, "\"prefix_caching_hash_algo\":\"sha256\""));
        assert_non_null(strstr(config, "\"root\":\"models/tiny-llama\""));
        assert_null(strstr(config, "permission"));
        assert_non_null(strstr(TEXT_OF(k, INFP_ENGINES_COMMAND), "--max-num-seqs 4"));
        assert_non_null(strstr(TEXT_OF(k, INFP_ENGINES_COMMAND), "--api-key ***"));
        /* The same page once more changes nothing. */
        page(&about, "vllm-0.32.0/metrics-after.prom");
        side(&about, "/v1/models", "vllm-0.32.0/models.json");
        assert_false(about.has_changed);
        infp_engine_about_done(&about);
        machine_close(m);
}

/* A page that is refused to us (401) leaves the make that the command line told. */
static void make_of_the_command(void **state)
{
        struct machine *m = machine_open("/");
        struct infp_engine_about about = { .commanded_make = INFP_ENGINE_VLLM };

        (void) state;
        row(m, &about);
        EXPECT(m, TEXT("engines", NULL, "make", "vllm"));
        page(&about, "llamacpp-b10434/metrics-load.prom");
        row(m, &about);
        EXPECT(m, TEXT("engines", NULL, "make", "llamacpp"));
        infp_engine_about_done(&about);
        machine_close(m);
}

static void llamacpp_as_captured(void **state)
{
        static const struct {
                const char *folder, *version;
        } cases[] = { { "llamacpp-b10434", "b1-7e4c0a9" }, { "llamacpp-b11434", "" /* b0-unknown */ } };

        (void) state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct machine *m = machine_open("/");
                struct infp_engine_about about = { 0 };
                const struct kept *k;
                char file[64];

                snprintf(file, sizeof(file), "%s/metrics-load.prom", cases[i].folder);
                page(&about, file);
                snprintf(file, sizeof(file), "%s/props.json", cases[i].folder);
                side(&about, "/props", file);
                snprintf(file, sizeof(file), "%s/models.json", cases[i].folder);
                side(&about, "/v1/models", file);
                k = row(m, &about);
                assert_string_equal(TEXT_OF(k, INFP_ENGINES_VERSION), cases[i].version);
                EXPECT(m, TEXT("engines", NULL, "make", "llamacpp"),
                       TEXT("engines", NULL, "model", "models/gemma-3-270m-q4_k_m.gguf"),
                       TEXT("engines", NULL, "quantisation", "Q4_K - Medium"), I64("engines", NULL, "max_num_seqs", 4),
                       I64("engines", NULL, "max_model_len", 2048), ABSENT("engines", NULL, "block_size"),
                       ABSENT("engines", NULL, "num_gpu_blocks"), ABSENT("engines", NULL, "flags"));
                assert_non_null(strstr(TEXT_OF(k, INFP_ENGINES_CONFIG), "\"n_params\":268098176"));
                assert_null(strstr(TEXT_OF(k, INFP_ENGINES_CONFIG), "chat_template"));
                assert_null(strstr(TEXT_OF(k, INFP_ENGINES_CONFIG), "media_marker"));
                infp_engine_about_done(&about);
                machine_close(m);
        }
}

static void others_by_their_page(void **state)
{
        struct machine *m = machine_open("/");
        struct infp_engine_about about = { 0 };

        (void) state;
        page(&about, "ray-serve-2.60.0/metrics-load.prom");
        row(m, &about);
        EXPECT(m, TEXT("engines", NULL, "make", "ray_serve"), TEXT("engines", NULL, "version", "2.60.0"),
               ABSENT("engines", NULL, "model"));
        /* Another make behind the same URL: nothing of the old one stays. */
        page(&about, "mlserver-1.7.1/metrics-load.prom");
        row(m, &about);
        EXPECT(m, TEXT("engines", NULL, "make", "mlserver"), ABSENT("engines", NULL, "version"),
               TEXT("engines", NULL, "model", "sinsum"));
        page(&about, "made/triton.prom");
        row(m, &about);
        EXPECT(m, TEXT("engines", NULL, "make", "triton"), TEXT("engines", NULL, "model", "a,b"));
        page(&about, "made/tensorrt_llm.prom");
        row(m, &about);
        EXPECT(m, TEXT("engines", NULL, "make", "tensorrt_llm"), TEXT("engines", NULL, "model", "n"),
               TEXT("engines", NULL, "quantisation", "FP8"), I64("engines", NULL, "block_size", 32),
               I64("engines", NULL, "num_gpu_blocks", 4000), I64("engines", NULL, "max_num_seqs", 64));
        infp_engine_about_done(&about);
        machine_close(m);
}

static void body(struct infp_engine_about *about, const char *path, const char *text)
{
        struct infp_err err = { "" };

        if (infp_engine_about_body(about, path, text, strlen(text), &err) < 0)
                fail_msg("%s", err.text);
}

/* Made from documentation. */
static void side_pages_of_others(void **state)
{
        struct machine *m = machine_open("/");
        struct infp_engine_about about = { 0 };
        const struct kept *k;

        (void) state;
        infp_engine_about_make(&about, INFP_ENGINE_SGLANG);
        body(&about, "/get_server_info",
             "{\"version\":\"0.5.3\",\"served_model_name\":\"q\",\"quantization\":null,\"dtype\":\"auto\","
             "\"max_running_requests\":48,\"context_length\":32768,\"page_size\":1,\"api_key\":\"abcdef\","
             "\"model_path\":\"org/q-AWQ\",\"chat_template\":\"long\",\"internal_states\":[{\"load\":1}],"
             "\"speculative_draft_url\":\"http://u:p4ss@host/x\",\"hf\":\"hf_abcdefghijklmnopqrstuvwxyz012345\"}");
        k = row(m, &about);
        EXPECT(m, TEXT("engines", NULL, "version", "0.5.3"), TEXT("engines", NULL, "model", "q"),
               I64("engines", NULL, "max_num_seqs", 48), I64("engines", NULL, "max_model_len", 32768),
               I64("engines", NULL, "block_size", 1), ABSENT("engines", NULL, "quantisation"));
        assert_non_null(strstr(TEXT_OF(k, INFP_ENGINES_CONFIG), "\"api_key\":\"***\""));
        assert_null(strstr(TEXT_OF(k, INFP_ENGINES_CONFIG), "p4ss"));
        assert_null(strstr(TEXT_OF(k, INFP_ENGINES_CONFIG), "hf_abc"));
        assert_null(strstr(TEXT_OF(k, INFP_ENGINES_CONFIG), "internal_states"));

        infp_engine_about_make(&about, INFP_ENGINE_TGI);
        body(&about, "/info",
             "{\"model_id\":\"org/m-GPTQ\",\"model_dtype\":\"float16\",\"max_batch_size\":null,\"version\":\"3.0.1\","
             "\"max_total_tokens\":4096}");
        row(m, &about);
        EXPECT(m, TEXT("engines", NULL, "version", "3.0.1"), TEXT("engines", NULL, "model", "org/m-GPTQ"),
               TEXT("engines", NULL, "quantisation", "GPTQ"), I64("engines", NULL, "max_model_len", 4096),
               ABSENT("engines", NULL, "max_num_seqs"));

        infp_engine_about_make(&about, INFP_ENGINE_OLLAMA);
        body(&about, "/api/version", "{\"version\":\"0.12.3\"}");
        body(&about, "/api/ps",
             "{\"models\":[{\"name\":\"llama3:8b\",\"details\":{\"quantization_level\":\"Q4_0\"},"
             "\"context_length\":4096}]}");
        row(m, &about);
        EXPECT(m, TEXT("engines", NULL, "version", "0.12.3"), TEXT("engines", NULL, "model", "llama3:8b"),
               TEXT("engines", NULL, "quantisation", "Q4_0"), I64("engines", NULL, "max_model_len", 4096));
        infp_engine_about_done(&about);
        machine_close(m);
}

static void hostile_bodies(void **state)
{
        static const char *const bad[] = { "", "<html>", "[1]", "3", "{\"version\":", "{\"a\":\"\xff\"}", "null" };
        static const char *const odd[] = {
                "{}", "{\"version\":{\"a\":1}}", "{\"version\":[]}", "{\"version\":\"\"}", "{\"version\":null}",
        };
        static char deep[300000];
        struct infp_engine_about about = { 0 };
        struct infp_err err = { "" };

        (void) state;
        infp_engine_about_make(&about, INFP_ENGINE_VLLM);
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                assert_int_equal(infp_engine_about_body(&about, "/version", bad[i], strlen(bad[i]), &err), -EBADMSG);
                assert_non_null(strstr(err.text, "/version is not a JSON object"));
        }
        for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
                assert_int_equal(infp_engine_about_body(&about, "/version", odd[i], strlen(odd[i]), &err), 0);
        assert_int_equal(about.version.rank, 0);
        /* 100,000 levels, and a text without an end. */
        memset(deep, '[', sizeof(deep));
        assert_int_equal(infp_engine_about_body(&about, "/v1/models", deep, sizeof(deep), &err), -EBADMSG);
        memset(deep, 'x', sizeof(deep));
        memcpy(deep, "{\"build_info\":\"", 15);
        memcpy(deep + sizeof(deep) - 2, "\"}", 2);
        infp_engine_about_make(&about, INFP_ENGINE_LLAMACPP);
        assert_int_equal(infp_engine_about_body(&about, "/props", deep, sizeof(deep), &err), 0);
        assert_int_equal(strlen(about.version.at), INFP_ABOUT_TEXT - 1);
        infp_engine_about_done(&about);
}

/* A page that names other engines at each scrape: what is kept of them does not grow for ever. */
static void config_is_bounded(void **state)
{
        struct infp_engine_about about = { 0 };
        char text[256];

        (void) state;
        for (unsigned i = 0; i < 1000; i++) {
                int size =
                        snprintf(text, sizeof(text), "vllm:cache_config_info{block_size=\"16\",engine=\"%u\"} 1\n", i);

                page_read(text, (size_t) size, NULL, &about);
        }
        assert_in_range(json_object_size(about.config), 1, 64);
        assert_non_null(json_object_get(about.config, "cache_config_info"));
        /* One that is there goes on being read. */
        page_read("vllm:cache_config_info{block_size=\"32\",engine=\"0\"} 1\n", 53, NULL, &about);
        assert_string_equal(
                json_string_value(json_object_get(json_object_get(about.config, "cache_config_info"), "block_size")),
                "32");
        infp_engine_about_done(&about);
}

static void command_lines(void **state)
{
        struct machine *m = machine_open("/");
        struct infp_engine_about about = { 0 };

        (void) state;
        infp_engine_about_make(&about, INFP_ENGINE_VLLM);
        COMMAND(&about, "/usr/bin/python3", "/opt/bin/vllm", "serve", "org/Model-8B-AWQ", "--max_model_len=32k",
                "--block-size=16");
        row(m, &about);
        EXPECT(m, TEXT("engines", NULL, "model", "org/Model-8B-AWQ"), TEXT("engines", NULL, "quantisation", "AWQ"),
               I64("engines", NULL, "max_model_len", 32000), I64("engines", NULL, "block_size", 16),
               ABSENT("engines", NULL, "max_num_seqs"));
        /* What the server says goes before it. */
        body(&about, "/v1/models", "{\"data\":[{\"id\":\"x\",\"max_model_len\":8192},{\"id\":\"x-lora\"}]}");
        row(m, &about);
        EXPECT(m, TEXT("engines", NULL, "model", "x,x-lora"), I64("engines", NULL, "max_model_len", 8192));

        infp_engine_about_make(&about, INFP_ENGINE_LLAMACPP);
        COMMAND(&about, "/opt/llama/bin/llama-server", "-m", "/models/gemma-3-270m-q4_k_m.gguf", "-np", "4", "-c",
                "8192", "--alias", "gemma");
        row(m, &about);
        EXPECT(m, TEXT("engines", NULL, "model", "gemma"), TEXT("engines", NULL, "quantisation", "q4_k_m"),
               I64("engines", NULL, "max_num_seqs", 4), ABSENT("engines", NULL, "max_model_len"));

        infp_engine_about_make(&about, INFP_ENGINE_TENSORRT_LLM);
        COMMAND(&about, "/usr/bin/python3", "/usr/local/bin/trtllm-serve", "org/n-fp8", "--max_batch_size", "64");
        row(m, &about);
        EXPECT(m, TEXT("engines", NULL, "model", "org/n-fp8"), TEXT("engines", NULL, "quantisation", "fp8"),
               I64("engines", NULL, "max_num_seqs", 64));
        infp_engine_about_done(&about);
        machine_close(m);
}

/* A new server behind the URL: what it says replaces what the old one said, though it says it in a lesser place. */
static void restart_with_another_model(void **state)
{
        struct machine *m = machine_open("/");
        struct infp_engine_about about = { 0 };

        (void) state;
        infp_engine_about_make(&about, INFP_ENGINE_VLLM);
        body(&about, "/version", "{\"version\":\"0.31.0\"}");
        body(&about, "/v1/models", "{\"data\":[{\"id\":\"old\",\"max_model_len\":100}]}");
        infp_engine_about_restart(&about);
        row(m, &about);
        EXPECT(m, TEXT("engines", NULL, "model", "old"), TEXT("engines", NULL, "version", "0.31.0"));
        body(&about, "/v1/models", "{\"data\":[{\"id\":\"new\",\"max_model_len\":200}]}");
        row(m, &about);
        EXPECT(m, TEXT("engines", NULL, "model", "new"), I64("engines", NULL, "max_model_len", 200),
               TEXT("engines", NULL, "version", "0.31.0"));
        infp_engine_about_done(&about);
        machine_close(m);
}

static void side_pages_to_ask(void **state)
{
        (void) state;
        assert_string_equal(infp_engine_about_paths(INFP_ENGINE_VLLM)[0], "/version");
        assert_string_equal(infp_engine_about_paths(INFP_ENGINE_LLAMACPP)[0], "/props");
        /* Triton's own server is behind another port: that is not asked. */
        assert_null(infp_engine_about_paths(INFP_ENGINE_TRITON)[0]);
        assert_null(infp_engine_about_paths(INFP_ENGINE_UNKNOWN)[0]);
        assert_string_equal(infp_engine_live_path(INFP_ENGINE_LLAMACPP), "/slots");
        assert_null(infp_engine_live_path(INFP_ENGINE_VLLM));
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(vllm_as_captured),           cmocka_unit_test(make_of_the_command),
                cmocka_unit_test(llamacpp_as_captured),       cmocka_unit_test(others_by_their_page),
                cmocka_unit_test(side_pages_of_others),       cmocka_unit_test(hostile_bodies),
                cmocka_unit_test(config_is_bounded),          cmocka_unit_test(command_lines),
                cmocka_unit_test(restart_with_another_model), cmocka_unit_test(side_pages_to_ask),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
