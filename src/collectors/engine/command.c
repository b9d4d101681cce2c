/* What the command line of a process says of an engine: which server it is, and where its metrics page is. */
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "collectors/engine/parts.h"

enum { ARGUMENTS_MAX = 1024, PROGRAM_WORDS = 8 };

struct arguments {
        const char *at[ARGUMENTS_MAX]; /* each ends with NUL */
        unsigned n;
};

static void split(const char *text, size_t size, struct arguments *ret)
{
        ret->n = 0;
        /* bound: as many as the text that is kept has room for */
        for (size_t i = 0; i < size && ret->n < ARGUMENTS_MAX;) {
                size_t length = strnlen(text + i, size - i);

                if (i + length == size)
                        break; /* cut: its last argument has no end */
                ret->at[ret->n++] = text + i;
                i += length + 1;
        }
}

static const char *base_name(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash ? slash + 1 : path;
}

/* "vllm.entrypoints" is the module itself and all within it: "vllm.entrypoints.openai.api_server". */
static bool is_word(const char *argument, const char *word, size_t size)
{
        return !strncmp(argument, word, size) && (!argument[size] || argument[size] == '.');
}

/* A command of several words, "vllm serve", is as many arguments. The first may be a path. */
static bool stands_at(const struct arguments *arguments, unsigned i, const char *command)
{
        for (bool is_first = true; *command; is_first = false, i++) {
                size_t size = strcspn(command, " ");
                const char *argument;

                if (i >= arguments->n)
                        return false;
                argument = is_first ? base_name(arguments->at[i]) : arguments->at[i];
                if (!is_word(argument, command, size))
                        return false;
                command += size;
                command += strspn(command, " ");
        }
        return true;
}

/* The program and what an interpreter may have before it: "python3 -u -m vllm.entrypoints...". What stands further on is a
 * file name or a text. */
static enum infp_engine_make make_of(const struct arguments *arguments, unsigned *ret_at)
{
        /* bound: the program stands before its arguments */
        for (unsigned i = 0; i < arguments->n && i < PROGRAM_WORDS; i++)
                for (unsigned make = INFP_ENGINE_UNKNOWN + 1; make < INFP_ENGINE_N; make++)
                        for (const char *const *c = infp_engine_makes[make].commands; *c; c++)
                                if (stands_at(arguments, i, *c)) {
                                        *ret_at = i;
                                        return (enum infp_engine_make) make;
                                }
        return INFP_ENGINE_UNKNOWN;
}

/* The value of "--flag value" or "--flag=value" when argument i is that flag; NULL else. */
static const char *value_of(const struct arguments *arguments, unsigned i, const char *flag)
{
        const char *argument = arguments->at[i];
        size_t size = strlen(flag);

        if (strncmp(argument, flag, size))
                return NULL;
        if (argument[size] == '=')
                return argument + size + 1;
        return !argument[size] && i + 1 < arguments->n ? arguments->at[i + 1] : NULL;
}

static unsigned port_of(const struct arguments *arguments, unsigned from, const struct infp_engine_make_info *info)
{
        unsigned port = info->port;

        for (unsigned i = from; i < arguments->n; i++)
                for (const char *const *flag = info->port_flags; *flag; flag++) {
                        const char *text = value_of(arguments, i, *flag);
                        uint64_t number;

                        /* The last one counts, as in argparse. */
                        if (text && !infp_parse_u64(text, strlen(text), &number) && number && number <= 65535)
                                port = (unsigned) number;
                }
        return port;
}

/* The value of a flag, the last one; NULL: it is not given. */
static const char *last_value(const struct arguments *arguments, unsigned from, const char *flag)
{
        const char *found = NULL, *value;

        for (unsigned i = from; flag && i < arguments->n; i++) {
                value = value_of(arguments, i, flag);
                found = value ? value : found;
        }
        return found;
}

/* "/llm", "llm/" and so on as it stands in a URL. One that does not fit a URL is left out. */
static void set_prefix(const char *text, char ret[ENGINE_PREFIX_MAX])
{
        size_t size;

        while (text && *text == '/')
                text++;
        size = text ? strlen(text) : 0;
        while (size && text[size - 1] == '/')
                size--;
        if (size && size + 2 <= ENGINE_PREFIX_MAX && strcspn(text, "?#") >= size)
                snprintf(ret, ENGINE_PREFIX_MAX, "/%.*s", (int) size, text);
}

static bool has_flag(const struct arguments *arguments, unsigned from, const char *flag)
{
        size_t size = strlen(flag);

        for (unsigned i = from; i < arguments->n; i++)
                if (!strncmp(arguments->at[i], flag, size) &&
                    (!arguments->at[i][size] || arguments->at[i][size] == '='))
                        return true;
        return false;
}

void infp_engine_command_read(const char *arguments, size_t size, struct engine_command *ret)
{
        static const char *const tls_flags[] = { "--ssl-keyfile", "--ssl-key-file" };
        const struct infp_engine_make_info *info;
        struct arguments list;
        const char *sleep;
        double sleep_s;
        unsigned at = 0;

        *ret = (struct engine_command){ .make = INFP_ENGINE_UNKNOWN };
        split(arguments, size, &list);
        ret->make = make_of(&list, &at);
        if (ret->make == INFP_ENGINE_UNKNOWN)
                return;
        info = &infp_engine_makes[ret->make];
        ret->port = port_of(&list, at, info);
        if (!ret->port)
                ret->make = INFP_ENGINE_UNKNOWN;
        if (info->metrics_flag && !has_flag(&list, at, info->metrics_flag))
                ret->missing_flag = info->metrics_flag;
        set_prefix(last_value(&list, at, info->prefix_flag), ret->prefix);
        sleep = last_value(&list, at, info->sleep_flag);
        ret->may_sleep = sleep && infp_parse_f64(sleep, strlen(sleep), &sleep_s) == 0 && sleep_s >= 0;
        for (unsigned i = 0; i < sizeof(tls_flags) / sizeof(tls_flags[0]); i++)
                ret->is_https |= has_flag(&list, at, tls_flags[i]);
}
