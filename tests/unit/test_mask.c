#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"
#include "model/mask.h"

static void secret_names(void **state)
{
        static const char *const secret[] = {
                "key",
                "KEY",
                "api-key",
                "api_key",
                "apiKey",
                "APIKey",
                "API_KEY",
                "x-api-key",
                "OPENAI_API_KEY",
                "apikey",
                "API_KEY_2",
                "AWS_SECRET_ACCESS_KEY",
                "AWS_ACCESS_KEY_ID",
                "ssh-key",
                "SIGNING_KEY_BASE64",
                "admin-api-key",
                "api-keys",
                "token",
                "TOKEN",
                "HF_TOKEN",
                "hf-token",
                "hfToken",
                "HFToken",
                "HUGGING_FACE_HUB_TOKEN",
                "access_token",
                "id_token",
                "auth-token",
                "authToken",
                "GITHUB_TOKEN",
                "token2",
                "api_tokens",
                "secret",
                "SECRET",
                "CLIENT_SECRET",
                "client_secret_value",
                "secret_id",
                "SECRET_KEY",
                "password",
                "Password",
                "PASSWORD",
                "DB_PASSWORD",
                "ssl-keyfile-password",
                "passwd",
                "passphrase",
                "PGPASSWORD",
                "MYSQL_PWD",
                "API_KEY_VALUE",
                "DB_PASS",
                "authorization",
                "Authorization",
                "Proxy-Authorization",
                "--api-key",
                "-token",
                "a.b.token",
                "bearer",
                "credential",
                "credentials",
                "basic-auth",
                "auth",
                "REDIS_AUTH",
                "pat",
                "GITLAB_PAT",
                "jwt",
                "session-id",
                "sessionId",
        };
        static const char *const innocent[] = {
                "",
                "-",
                "--",
                "monkey",
                "turkey",
                "keyboard",
                "keep",
                "keys",
                "keepalive",
                "key-cache",
                "cache-key",
                "cache-type-k",
                "prompt-cache",
                "primary_key",
                "public_key",
                "key_value",
                "sort-key",
                "group_by_key",
                "tokenizer",
                "tokenizer-mode",
                "TOKENIZERS_PARALLELISM",
                "detokenize",
                "tokens",
                "max-tokens",
                "max_tokens",
                "max-num-batched-tokens",
                "num-speculative-tokens",
                "max_new_tokens",
                "tokens_per_step",
                "token-budget",
                "eos_token",
                "eos_token_id",
                "bos-token",
                "add_bos_token",
                "pad_token_id",
                "stop-token",
                "stop_token_ids",
                "long-prefill-token-threshold",
                "image-token",
                "time_per_output_token",
                "tokenizer.ggml.add_bos_token",
                "return-tokens-as-token-ids",
                "enable-prompt-tokens-details",
                "api-key-file",
                "ssl-keyfile",
                "ssl-key-file",
                "ssl_keyfile",
                "SSH_KEY_PATH",
                "token_file",
                "tokenFile",
                "password-file",
                "secret-name",
                "PATH",
                "PWD",
                "OLDPWD",
                "API_KEY_ENV",
                "model",
                "author",
                "authorization-mode",
                "compass",
                "pass-through",
                "two_pass",
                "hot_key",
                "KEYMAP",
                "secretary",
                "auth-type",
                "auth_mode",
                "no-auth",
                "enable-auth",
                "use-jwt",
                "author",
                "pattern",
                "path",
                "patience",
                "credentials-file",
                "SSH_AUTH_SOCK",
                "XDG_SESSION_TYPE",
                "session",
                "user",
                "u",
                "b",
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(secret); i++) {
                if (!infp_mask_is_secret_name(secret[i], strlen(secret[i])))
                        fail_msg("%s is secret", secret[i]);
        }
        for (size_t i = 0; i < INFP_COUNT(innocent); i++) {
                if (infp_mask_is_secret_name(innocent[i], strlen(innocent[i])))
                        fail_msg("%s is not secret", innocent[i]);
        }
        assert_true(infp_mask_is_secret_name("tokenizer", 5)); /* bounded */
}

struct command {
        const char *arguments; /* each ends in '|' here, NUL in the real one */
        const char *shown;
};

static char *mask(const char *text, bool keep)
{
        size_t size = strlen(text), cap = 4 * size + 64, n;
        char *arguments = malloc(size + 1), *ret = malloc(cap);

        assert_non_null(arguments);
        assert_non_null(ret);
        memcpy(arguments, text, size + 1);
        for (size_t i = 0; i < size; i++) {
                if (arguments[i] == '|')
                        arguments[i] = 0;
        }
        n = infp_mask_cmdline(arguments, size, keep, ret, cap - 1);
        assert_true(n < cap);
        ret[n] = 0;
        free(arguments);
        return ret;
}

static void check(const struct command *commands, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                char *shown = mask(commands[i].arguments, false);

                if (strcmp(shown, commands[i].shown) != 0)
                        fail_msg("\n%s\nis shown as\n%s\nnot as\n%s", commands[i].arguments, shown, commands[i].shown);
                free(shown);
        }
}

static void options(void **state)
{
        static const struct command cases[] = {
                { "x|--api-key|abc|", "x --api-key ***" },
                { "x|--api-key|abc", "x --api-key ***" }, /* the last NUL is missing */
                { "x|--api_key=abc|", "x --api_key=***" },
                { "x|--api-key=a b|-v|", "x '--api-key=***' -v" },
                { "x|--api-key|a b|-v|", "x --api-key *** -v" },
                { "x|--token|-abc|", "x --token ***" },            /* base64url may begin with a dash */
                { "x|--token|--port|80|", "x --token --port 80" }, /* its value is missing */
                { "x|--token|-p|80|", "x --token -p 80" },
                { "x|--token||-p|", "x --token '' -p" },
                { "x|--token|", "x --token" },
                { "x|--token=|y|", "x --token= y" },
                { "x|-token|abc|y|", "x -token *** y" },
                { "x|--password|pw|file|", "x --password *** file" },
                { "x|--hf-token|hf_abcdefgh|--model|m|", "x --hf-token *** --model m" },
                /* vLLM takes a list of keys */
                { "vllm|serve|m|--api-key|k1|k2|k3|--port|1|", "vllm serve m --api-key *** *** *** --port 1" },
                { "x|--api-key|k|meta-llama/Llama|", "x --api-key *** meta-llama/Llama" },
                { "x|--api-key|k|http://h:1/v1|", "x --api-key *** http://h:1/v1" },
                { "env|HF_TOKEN=abc|python|x.py|", "env HF_TOKEN=*** python x.py" },
                { "docker|run|-e|HF_TOKEN=abc|--env=API_KEY=abc|i|", "docker run -e HF_TOKEN=*** --env=API_KEY=*** i" },
                { "docker|-eHF_TOKEN=abc|", "docker -eHF_TOKEN=***" },
                { "x|PGPASSWORD=a=b,c|", "x PGPASSWORD=***" },
                { "x|--set|a=1,token=abc,b=2|", "x --set a=1,token=***,b=2" },
        };

        (void) state;
        check(cases, INFP_COUNT(cases));
}

static void headers(void **state)
{
        static const struct command cases[] = {
                { "curl|-H|Authorization: Bearer abc|http://h/|", "curl -H 'Authorization: ***' http://h/" },
                { "curl|-H|authorization:Bearer abc|", "curl -H 'authorization:***'" },
                { "curl|-HX-Api-Key: abc|", "curl '-HX-Api-Key: ***'" },
                { "curl|--header|X-Api-Key:abc|", "curl --header X-Api-Key:***" },
                { "curl|-H|Content-Type: application/json|", "curl -H 'Content-Type: application/json'" },
                { "curl|-H|Accept: key|", "curl -H 'Accept: key'" },
                { "curl|--header=Authorization: Basic abc|", "curl '--header=Authorization: ***'" },
                { "x|Bearer abc.def|", "x 'Bearer ***'" },
                { "x|Authorization:abc|", "x Authorization:***" },
                { "x|-v|key:/mnt|token:latest|", "x -v key:/mnt token:latest" }, /* a volume, an image */
        };

        (void) state;
        check(cases, INFP_COUNT(cases));
}

/* What only some programs mean by an option, and what is said about a secret without being one. */
static void options_of_some(void **state)
{
        static const struct command cases[] = {
                { "x|--bearer|S3cret|y|", "x --bearer *** y" },
                { "x|--credential|S3cret|", "x --credential ***" },
                { "x|--credentials=S3cret|", "x --credentials=***" },
                { "x|--credentials|/etc/c.json|", "x --credentials /etc/c.json" },
                { "x|--credentials|service.json|", "x --credentials service.json" },
                { "x|--credentials|include|", "x --credentials include" },
                { "x|GOOGLE_APPLICATION_CREDENTIALS=/c.json|", "x GOOGLE_APPLICATION_CREDENTIALS=/c.json" },
                { "x|--basic-auth|alice:S3cret|", "x --basic-auth ***" },
                { "x|--basic-auth=alice:S3cret|", "x --basic-auth=***" },
                { "x|--auth|S3cret|", "x --auth ***" },
                { "x|--auth|basic|--port|1|", "x --auth basic --port 1" },
                { "x|--auth=none|", "x --auth=none" },
                { "x|--auth|https://sso.example/|", "x --auth https://sso.example/" },
                { "x|--enable-auth|model|", "x --enable-auth model" },
                { "x|--pat|S3cret|--jwt|S3cret|--session-id|S3cret|", "x --pat *** --jwt *** --session-id ***" },
                { "x|--session-id|12|", "x --session-id 12" },
                { "REDIS_AUTH=S3cret|x|", "REDIS_AUTH=*** x" },
                { "curl|-u|alice:S3cret|http://h/|", "curl -u alice:*** http://h/" },
                { "curl|-ualice:S3cret|", "curl -ualice:***" },
                { "curl|--user|alice:S3 cret|", "curl --user 'alice:***'" },
                { "curl|--user=alice:S3cret|", "curl --user=alice:***" },
                { "curl|--proxy-user|alice:S3cret|", "curl --proxy-user alice:***" },
                { "curl|-U|:S3cret|", "curl -U :***" },
                { "docker|run|--user|1000|-u|1000:1000|i|", "docker run --user 1000 -u 1000:1000 i" },
                { "sudo|-u|alice|python|-u|server.py|", "sudo -u alice python -u server.py" },
                { "python|-u|-m|x|", "python -u -m x" },
                { "x|-u|http://h:80/|-u|/a:b|", "x -u http://h:80/ -u /a:b" },
                { "curl|-b|sid=S3cret|", "curl -b sid=***" },
                { "curl|--cookie|a=1; sid=S3cret|", "curl --cookie 'a=***'" },
                { "curl|-b|cookies.txt|--cookie-jar|j|", "curl -b cookies.txt --cookie-jar j" },
                { "llama-server|-b|2048|", "llama-server -b 2048" },
                { "curl|-H|X-Tenant: S3cret|", "curl -H 'X-Tenant: ***'" },
                { "curl|-HX-Tenant:S3cret|", "curl -HX-Tenant:***" },
                { "curl|--header=Cookie: sid=S3cret|", "curl '--header=Cookie: ***'" },
                { "curl|-H|User-Agent: a/1 (b: c)|-H|Date: Tue 10:20:30|",
                  "curl -H 'User-Agent: a/1 (b: c)' -H 'Date: Tue 10:20:30'" },
                { "docker|-H|tcp://h:2375|ps|", "docker -H tcp://h:2375 ps" },
                { "x|-H|h:8080|-H|0.0.0.0|", "x -H h:8080 -H 0.0.0.0" },
                { "x|--default-headers|{\"X-Tenant\": \"S3cret\", \"Accept\": \"a\"}|",
                  "x --default-headers '{\"X-Tenant\": ***, \"Accept\": \"a\"}'" },
                { "x|--dsn|Server=h;Uid=u;Pwd=S3cret;Port=1|", "x --dsn Server=h;Uid=u;Pwd=***;Port=1" },
                { "x|--dsn=Server=h;PWD=S3cret|", "x --dsn=Server=h;PWD=***" },
                { "env|PWD=/home/a|x|", "env PWD=/home/a x" },
                { "x|--token-file|/run/token|--password-file=p|", "x --token-file /run/token --password-file=p" },
                /* within a script or a title */
                { "sh|-c|curl -u alice:S3cret -H 'X-Tenant: S3cret' -b sid=S3cret http://h/|",
                  "sh -c 'curl -u alice:*** -H 'X-Tenant: ***' -b sid=*** http://h/'" },
                { "sh|-c|x --auth S3cret --auth basic --pat 'S3 cret'|",
                  "sh -c 'x --auth *** --auth basic --pat ***'" },
                { "sh|-c|python -u x.py; docker -u 1:1 -b 4|", "sh -c 'python -u x.py; docker -u 1:1 -b 4'" },
        };

        (void) state;
        check(cases, INFP_COUNT(cases));
}

static void webhooks(void **state)
{
        static const struct command cases[] = {
                { "x|https://hooks.slack.com/services/T0/B0/S3cret|y|", "x https://hooks.slack.com/services/*** y" },
                { "x|--alert=https://hooks.slack.com/services/T0/B0/S3cret|",
                  "x --alert=https://hooks.slack.com/services/***" },
                { "x|https://discord.com/api/webhooks/12/S3cret?wait=true|",
                  "x https://discord.com/api/webhooks/***?wait=true" },
                { "x|https://a.webhook.office.com/webhookb2/S3cret@t|",
                  "x https://a.webhook.office.com/webhookb2/***" },
                { "x|https://api.telegram.org/bot12:S3cret/sendMessage|", "x https://api.telegram.org/bot***" },
                { "x|https://hooks.example.org/hooks/S3cret|", "x https://hooks.example.org/hooks/***" },
                { "x|https://u:p@hooks.slack.com/services/S3cret|", "x https://***@hooks.slack.com/services/***" },
                { "x|a https://hooks.slack.com/services/S3cret b|", "x 'a https://hooks.slack.com/services/*** b'" },
                { "x|https://h/services/x|https://api.telegram.org/|",
                  "x https://h/services/x https://api.telegram.org/" },
                { "x|https://h/?sid=S3cret&a=1|", "x https://h/?sid=***&a=1" },
        };

        (void) state;
        check(cases, INFP_COUNT(cases));
}

/* What servers say and labels hold: no quotes around it. */
static void texts(void **state)
{
        static const struct command cases[] = {
                { "Incorrect API key provided: sk-abcdefgh. See https://h/",
                  "Incorrect API key provided: ***. See https://h/" },
                { "http://u:pw@h/v1: no", "http://***@h/v1: no" },
                { "load 12 of 3, key: none", "load 12 of 3, key: ***" },
                { "", "" },
                { "warm up", "warm up" },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                char shown[128];

                shown[infp_mask_text(cases[i].arguments, strlen(cases[i].arguments), shown, sizeof(shown) - 1)] = 0;
                assert_string_equal(shown, cases[i].shown);
        }
}

/* As they stand in a list of another process: no quotes, and each by itself. */
static void arguments_one_by_one(void **state)
{
        static const struct {
                const char *arguments[6], *shown[6];
        } cases[] = {
                { { "serve", "--api-key", "a b", "c", "--port", "80" },
                  { "serve", "--api-key", "***", "***", "--port", "80" } },
                { { "", "two words", "-u", "me:pw", "x" }, { "", "two words", "-u", "me:***", "x" } },
                { { "--token", "--api-key=x", "y" }, { "--token", "--api-key=***", "y" } },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                unsigned said = 0;

                for (size_t k = 0; k < INFP_COUNT(cases[i].arguments) && cases[i].arguments[k]; k++) {
                        const char *argument = cases[i].arguments[k];
                        char shown[64];

                        shown[infp_mask_next(&said, argument, strlen(argument), shown, sizeof(shown) - 1)] = 0;
                        assert_string_equal(shown, cases[i].shown[k]);
                }
        }
}

static void urls(void **state)
{
        static const struct command cases[] = {
                { "x|https://user:pw@host/?token=abc&x=1|", "x https://***@host/?token=***&x=1" },
                { "x|https://host/p?x=1&api_key=abc#top|", "x https://host/p?x=1&api_key=***#top" },
                { "x|https://host/p?key=abc|", "x https://host/p?key=***" },
                { "x|https://host/#access_token=abc&x=1|", "x https://host/#access_token=***&x=1" },
                { "x|--url=https://u:p@w@host:80/|", "x --url=https://***@host:80/" }, /* the last @ counts */
                { "x|https://tok3n@github.com/a/b|", "x https://***@github.com/a/b" },
                { "x|git+https://tok3n@github.com/a/b|", "x git+https://***@github.com/a/b" },
                { "x|ssh://git@github.com/a|", "x ssh://git@github.com/a" },
                { "x|postgres://app@db/x|", "x postgres://app@db/x" },
                { "x|postgres://app:pw@db/x|", "x postgres://***@db/x" },
                { "x|redis://:pw@db:6379|", "x redis://***@db:6379" },
                { "x|http://host/a@b?c=d|", "x http://host/a@b?c=d" },
                { "x|http://[::1]:8000/v1|", "x http://[::1]:8000/v1" },
                { "x|https://s3/b?X-Amz-Signature=abc&X-Amz-Date=1|",
                  "x https://s3/b?X-Amz-Signature=***&X-Amz-Date=1" },
                { "x|https://blob/b?sv=1&sig=abc&se=2|", "x https://blob/b?sv=1&sig=***&se=2" },
                { "x|http://h/?max_tokens=5&tokenizer=x|", "x http://h/?max_tokens=5&tokenizer=x" },
                { "x|a https://u:p@h/ b|", "x 'a https://***@h/ b'" },
                { "x|://|http://|", "x :// http://" },
        };

        (void) state;
        check(cases, INFP_COUNT(cases));
}

static void shapes(void **state)
{
        static const struct command cases[] = {
                { "hf_abcd|", "***" },
                { "x|hf_abcd|y|", "x *** y" },
                { "x|a=hf_abcd,b|", "x a=***,b" },
                { "x|sk-proj-Ab_1-x|", "x ***" },
                { "x|\"sk-1234\"|", "x \"***\"" },
                { "x|/models/hf_abcdefghijklmnopqrstuvwxyz/y|", "x /models/***/y" }, /* long enough to be one */
                { "x|/models/hf_cache/y|", "x /models/hf_cache/y" },
                { "x|--hf_overrides|{}|", "x --hf_overrides {}" },
                { "pip|install|hf_transfer|hf_xet|", "pip install hf_transfer hf_xet" },
                { "x|task-list|disk-cache|risk-free|", "x task-list disk-cache risk-free" },
                { "x|sk-model.gguf|", "x sk-model.gguf" },
                { "x|hf_model.py|", "x hf_model.py" },
                { "x|ghp_0123456789abcdefghij|", "x ***" },
                { "x|ghp_short|", "x ghp_short" },
                { "x|eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln-_A|", "x ***" },
                { "x|--map|eyJ|eyJabc|", "x --map eyJ eyJabc" },
                { "x|npm_0123456789abcdefghij0123|npm_config_x|", "x *** npm_config_x" },
                { "x|AIzaSyA-0123456789_abcdefghijklmnopqrs|", "x ***" },
                { "x|r8_0123456789abcdefghijklm|r8_x|", "x *** r8_x" },
                { "x|xai-0123456789abcdefghijklm|xai-grok|", "x *** xai-grok" },
                { "x|pplx-0123456789abcdefghijklm|pplx-7b-online|", "x *** pplx-7b-online" },
                { "x|sk_live_0123456789|", "x ***" },
                { "x|xoxb-12345678901-ab|xoxp-12345678901-ab|", "x *** ***" },
                { "x|dop_v1_0123456789abcdefghij|", "x ***" },
                { "x|AKIAIOSFODNN7EXAMPLE|AKIAIOSFODNN7EXAMPLES|AKIA|", "x *** AKIAIOSFODNN7EXAMPLES AKIA" },
                { "x|gho_0123456789abcdefghij|ghu_0123456789abcdefghij|ghr_0123456789abcdefghij|", "x *** *** ***" },
                { "x|ghs_0123456789abcdefghij|glpat-0123456789abcdef|", "x *** ***" },
                { "x|-----BEGIN RSA PRIVATE KEY-----\nS3cret\n-----END RSA PRIVATE KEY-----\n--port 1|",
                  "x '-----BEGIN RSA PRIVATE KEY-----***\n--port 1'" },
                { "x|K=-----BEGIN PRIVATE KEY-----S3cret|", "x 'K=-----BEGIN PRIVATE KEY-----***'" },
                { "x|-----BEGIN a|", "x '-----BEGIN a'" },
                { "x|hf_|sk-|", "x hf_ sk-" },
                { "x|sk-a|", "x sk-a" },
        };

        (void) state;
        check(cases, INFP_COUNT(cases));
}

static void scripts(void **state)
{
        static const struct command cases[] = {
                { "sh|-c|HF_TOKEN=abc vllm serve m --port 1|", "sh -c 'HF_TOKEN=*** vllm serve m --port 1'" },
                { "bash|-lc|export A_KEY=\"a b\"; run x|", "bash -lc 'export A_KEY=***; run x'" },
                { "sh|-c|run --api-key abc --port 1|", "sh -c 'run --api-key *** --port 1'" },
                { "sh|-c|run --api-key 'a b' -v|", "sh -c 'run --api-key *** -v'" },
                { "sh|-c|run --token=abc&& echo|", "sh -c 'run --token=***&& echo'" },
                { "sh|-c|curl -H \"Authorization: Bearer abc\" http://h/|",
                  "sh -c 'curl -H \"Authorization: ***\" http://h/'" },
                { "sh|-c|run \"TOKEN=abc\" x|", "sh -c 'run \"TOKEN=***\" x'" },
                { "sh|-c|exec run --tokenizer x --max-tokens 5|", "sh -c 'exec run --tokenizer x --max-tokens 5'" },
                { "x|a run --api-key abc b|", "x 'a run --api-key *** b'" }, /* a title, not a shell */
                { "x|run --token --port 1|", "x 'run --token --port 1'" },
                { "sh|-c|TOKEN=\"unclosed|", "sh -c TOKEN=***" },
                { "python|-c|e[\"HF_TOKEN\"] = \"abc\"; f(token=\"x\")|",
                  "python -c 'e[\"HF_TOKEN\"] = ***; f(token=***)'" },
                { "sh|-c|if [ $TOKEN == x ]; then y|", "sh -c 'if [ $TOKEN == x ]; then y'" },
                { "sh|-c|TOKEN=a\\ b c|", "sh -c 'TOKEN=*** c'" },
        };

        (void) state;
        check(cases, INFP_COUNT(cases));
}

static void json(void **state)
{
        static const struct command cases[] = {
                { "x|{\"api_key\": \"abc\", \"n\": 1}|", "x '{\"api_key\": ***, \"n\": 1}'" },
                { "x|{\"token\":\"a\\\"b\",\"n\":1}|", "x {\"token\":***,\"n\":1}" },
                { "x|{\"token\":5}|", "x {\"token\":***}" },
                { "x|{\"a\":{\"password\":\"p,}q\"}}|", "x {\"a\":{\"password\":***}}" },
                { "x|{\\\"token\\\": \\\"abc\\\", \\\"n\\\": 1}|", "x '{\\\"token\\\": ***, \\\"n\\\": 1}'" },
                { "x|{\"max_tokens\": 5, \"stop_token_ids\": [1]}|",
                  "x '{\"max_tokens\": 5, \"stop_token_ids\": [1]}'" },
                { "x|{\"token\": \"open|", "x '{\"token\": ***'" },
                { "x|{'secret': 'abc'}|", "x '{'secret': ***}'" },
        };

        (void) state;
        check(cases, INFP_COUNT(cases));
}

/* Whole command lines of real servers: not a character may change. */
static void servers(void **state)
{
        static const char *const commands[] = {
                ("vllm|serve|Qwen/Qwen2.5-0.5B|--max-num-batched-tokens|8192|--tokenizer|x/y|--tokenizer-mode|auto|"
                 "--skip-tokenizer-init|--max-model-len|4096|--kv-cache-dtype|fp8|--enable-prompt-tokens-details|"
                 "--long-prefill-token-threshold|256|--ssl-keyfile|/k.pem|--served-model-name|sk|--seed|0"),
                ("vllm|serve|m|--speculative-config|{\"method\":\"ngram\",\"num_speculative_tokens\":5}|"
                 "--hf_overrides|{\"a\":1}|--limit-mm-per-prompt|image=4|--middleware|a.b.C|--override-generation-"
                 "config|"
                 "{\"max_new_tokens\":5,\"eos_token_id\":[1,2]}"),
                ("llama-server|-m|/models/"
                 "qwen2.5-q8_0.gguf|--keep|4|--cache-type-k|q8_0|--key-cache|q8|--prompt-cache|f|"
                 "--override-kv|tokenizer.ggml.add_bos_token=bool:false|--special|--api-key-file|/etc/keys|-ngl|99|"
                 "--ssl-key-file|k.pem|-c|2048|--slot-save-path|s"),
                ("python3|-m|sglang.launch_server|--model-path|m|--tokenizer-path|t|--chunked-prefill-size|512|"
                 "--max-total-tokens|9|--speculative-token-map|f|--tool-call-parser|qwen"),
                "text-generation-launcher|--model-id|m|--max-input-tokens|4|--max-batch-prefill-tokens|9|--port|80",
                "python|train.py|--monkey|patch|tokens_per_step=5|key_value=3|--sort-key|name",
                "tritonserver|--model-repository=/models|--cache-config=local,size=1|--http-restricted-api=x:y",
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(commands); i++) {
                char *shown = mask(commands[i], false), *plain = mask(commands[i], true);

                assert_string_equal(shown, plain);
                assert_null(strstr(shown, "***"));
                free(shown);
                free(plain);
        }
}

static void keep_and_quotes(void **state)
{
        char *shown = mask("x|--api-key|hf_abcdefg||a b|https://u:p@h/|", true);

        (void) state;
        assert_string_equal(shown, "x --api-key hf_abcdefg '' 'a b' https://u:p@h/");
        free(shown);
        shown = mask("a|b\tc|d\ne||", false); /* the last argument is empty */
        assert_string_equal(shown, "a 'b\tc' 'd\ne' ''");
        free(shown);
        shown = mask("", false);
        assert_string_equal(shown, "");
        free(shown);
        /* A title over what were arguments. */
        shown = mask("VLLM::EngineCore|||||||||||", false);
        assert_string_equal(shown, "VLLM::EngineCore");
        free(shown);
        shown = mask("nginx: worker||", false);
        assert_string_equal(shown, "'nginx: worker'");
        free(shown);
        shown = mask("sshd: root@pts/0     |", false);
        assert_string_equal(shown, "'sshd: root@pts/0'");
        free(shown);
        shown = mask("printf|%s ||", false); /* arguments, of which the last is empty */
        assert_string_equal(shown, "printf '%s ' ''");
        free(shown);
        shown = mask("|||||", false);
        assert_string_equal(shown, "");
        free(shown);
}

/* At no size of the buffer does it write beyond, nor show a part of the secret or of a character. */
static void small_buffers(void **state)
{
        static const char arguments[] = "x\0--token\0SECRET\0\xe2\x82\xac";
        static const char whole[] = "x --token *** \xe2\x82\xac";
        char ret[64];

        (void) state;
        for (size_t cap = 0; cap <= sizeof(whole); cap++) {
                size_t n;

                memset(ret, '#', sizeof(ret));
                n = infp_mask_cmdline(arguments, sizeof(arguments), false, ret, cap);
                assert_true(n <= cap);
                assert_int_equal(ret[cap], '#');
                assert_memory_equal(ret, whole, n);
                if (cap >= sizeof(whole) - 1)
                        assert_int_equal(n, sizeof(whole) - 1);
                else
                        assert_int_equal(n, cap < 14 ? cap : 14);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(secret_names),  cmocka_unit_test(options),
                cmocka_unit_test(headers),       cmocka_unit_test(options_of_some),
                cmocka_unit_test(webhooks),      cmocka_unit_test(texts),
                cmocka_unit_test(urls),          cmocka_unit_test(shapes),
                cmocka_unit_test(scripts),       cmocka_unit_test(json),
                cmocka_unit_test(servers),       cmocka_unit_test(keep_and_quotes),
                cmocka_unit_test(small_buffers), cmocka_unit_test(arguments_one_by_one),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
