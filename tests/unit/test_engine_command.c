/* What command lines say of engines: which, and where its metrics page is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "collectors/engine/parts.h"

static void commands(void **state)
{
        static const struct {
                const char *line; /* blanks stand for the NULs */
                enum infp_engine_make make;
                unsigned port;
                bool lacks, is_https;
                const char *prefix; /* NULL: none */
                bool may_sleep;
        } cases[] = {
                { "vllm serve org/model", INFP_ENGINE_VLLM, 8000, false, false },
                { "/venv/bin/python3 /venv/bin/vllm serve org/model --port 8001", INFP_ENGINE_VLLM, 8001, false,
                  false },
                { "python -u -m vllm.entrypoints.openai.api_server --port=8091", INFP_ENGINE_VLLM, 8091, false, false },
                { "vllm serve m --port 1 --port 9000", INFP_ENGINE_VLLM, 9000, false, false },
                { "vllm serve m --port 99999", INFP_ENGINE_VLLM, 8000, false, false },
                { "vllm serve m --ssl-keyfile k.pem --ssl-certfile c.pem", INFP_ENGINE_VLLM, 8000, false, true },
                { "vllm bench serve --port 8000", INFP_ENGINE_UNKNOWN, 0, false, false },
                { "VLLM::EngineCore", INFP_ENGINE_UNKNOWN, 0, false, false },
                { "/opt/llama/llama-server -m x.gguf --metrics --port 8091", INFP_ENGINE_LLAMACPP, 8091, false, false },
                { "llama-server -m x.gguf", INFP_ENGINE_LLAMACPP, 8080, true, false },
                { "llama-server --metrics-not", INFP_ENGINE_LLAMACPP, 8080, true, false },
                { "python3 -m sglang.launch_server --enable-metrics", INFP_ENGINE_SGLANG, 30000, false, false },
                { "python3 -m sglang.launch_server --port 30001", INFP_ENGINE_SGLANG, 30001, true, false },
                { "tritonserver --http-port 8000 --metrics-port=9102", INFP_ENGINE_TRITON, 9102, false, false },
                { "llama-server --metrics --api-prefix /llm/ --sleep-idle-seconds 300", INFP_ENGINE_LLAMACPP, 8080,
                  false, false, "/llm", true },
                { "llama-server --metrics --api-prefix=a/b --sleep-idle-seconds=-1", INFP_ENGINE_LLAMACPP, 8080, false,
                  false, "/a/b", false },
                { "llama-server --metrics --api-prefix / --sleep-idle-seconds 0", INFP_ENGINE_LLAMACPP, 8080, false,
                  false, NULL, true },
                { "llama-server --metrics --api-prefix /a?b --sleep-idle-seconds soon", INFP_ENGINE_LLAMACPP, 8080,
                  false, false },
                { "vllm serve m --api-prefix /llm --sleep-idle-seconds 1", INFP_ENGINE_VLLM, 8000, false, false },
                { "grep -r llama-server-notes .", INFP_ENGINE_UNKNOWN, 0, false, false },
                { "bash -c sleep", INFP_ENGINE_UNKNOWN, 0, false, false },
                { "a b c d e f g h i vllm serve", INFP_ENGINE_UNKNOWN, 0, false, false },
                { "", INFP_ENGINE_UNKNOWN, 0, false, false },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                size_t size = strlen(cases[i].line) + 1;
                infp_autofree char *line = malloc(size); /* of its own: the sanitizer watches its end */
                struct engine_command command;

                memcpy(line, cases[i].line, size);
                for (char *c = line; *c; c++)
                        *c = *c == ' ' ? 0 : *c;
                infp_engine_command_read(line, size, &command);
                if (command.make != cases[i].make || (command.make && command.port != cases[i].port) ||
                    (command.missing_flag != NULL) != cases[i].lacks || command.is_https != cases[i].is_https ||
                    strcmp(command.prefix, cases[i].prefix ? cases[i].prefix : "") ||
                    command.may_sleep != cases[i].may_sleep)
                        fail_msg("%s: make %d, port %u, %s, %s", cases[i].line, (int) command.make, command.port,
                                 command.missing_flag ? command.missing_flag : "all is there", command.prefix);
        }
}

/* The buffer ended within the last argument: that one is not used. */
static void cut(void **state)
{
        static const char line[] = "vllm\0serve\0m\0--port\0"
                                   "80";
        struct engine_command command;

        (void) state;
        infp_engine_command_read(line, sizeof(line) - 1, &command);
        assert_int_equal(command.make, INFP_ENGINE_VLLM);
        assert_int_equal(command.port, 8000);
}

static void urls(void **state)
{
        static const struct {
                const char *text, *url; /* NULL: refused */
        } cases[] = {
                { "localhost:8000", "http://localhost:8000/metrics" },
                { "http://h", "http://h/metrics" },
                { "http://h/", "http://h/metrics" },
                { "https://h:1/prometheus/metrics", "https://h:1/prometheus/metrics" },
                { "http://h/metrics?model=a", "http://h/metrics?model=a" },
                { "[::1]:8000", "http://[::1]:8000/metrics" },
                { "unix:///run/e.sock", "unix:///run/e.sock:/metrics" },
                { "unix:///run/e.sock:/m", "unix:///run/e.sock:/m" },
                { "unix:///run/a:b.sock", "unix:///run/a:b.sock:/metrics" },
                { "", NULL },
                { "ftp://h/metrics", NULL },
                { "http://h:port/", NULL },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                char url[ENGINE_URL_MAX];
                struct infp_err err;
                int r = infp_engine_url(cases[i].text, url, &err);

                if ((r < 0) != !cases[i].url || (r >= 0 && strcmp(url, cases[i].url)))
                        fail_msg("%s: %s", cases[i].text, r < 0 ? err.text : url);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(commands),
                cmocka_unit_test(cut),
                cmocka_unit_test(urls),
        };

        return cmocka_run_group_tests_name("engine_command", tests, NULL, NULL);
}
