#include "cli/source_options.h"

#include <errno.h>
#include <string.h>

#include "collectors/engine/engine.h"

static const struct infp_option source_options[] = { INFP_SOURCE_OPTIONS };

static bool is_source_option(const struct infp_option *option)
{
        for (size_t i = 0; i < sizeof(source_options) / sizeof(source_options[0]); i++)
                if (strcmp(source_options[i].name, option->name) == 0)
                        return true;
        return false;
}

int infp_header_check(const char *line, struct infp_err *err)
{
        if (!strchr(line, ':') || strpbrk(line, "\r\n"))
                return infp_fail(err, -EINVAL, "--header must be one line \"Name: value\"");
        return 0;
}

/* A recording of hours without what was asked for, because of a slip in its address, is worse than none. */
static int check(const struct infp_given *given, struct infp_err *err)
{
        struct infp_err why = { "" };

        if (!strcmp(given->option->name, "header"))
                return infp_header_check(given->value, err);
        if (strcmp(given->option->name, "engine") || !given->value || infp_engine_check(given->value, &why) >= 0)
                return 0;
        return infp_fail(err, -EINVAL, "--engine: %s", why.text);
}

int infp_source_settings(const struct infp_arguments *arguments, struct infp_setting settings[INFP_SOURCE_SETTINGS],
                         struct infp_err *err)
{
        size_t n = 0;

        for (size_t i = 0; i < arguments->n_given; i++) {
                const struct infp_given *given = &arguments->given[i];

                if (!is_source_option(given->option))
                        continue;
                if (n + 1 == INFP_SOURCE_SETTINGS)
                        return infp_fail(err, -EINVAL, "--%s: too many options of this kind (at most %d)",
                                         given->option->name, INFP_SOURCE_SETTINGS - 1);
                INFP_TRY(check(given, err));
                settings[n++] = (struct infp_setting){ given->option->name, given->value ? given->value : "1" };
        }
        settings[n] = (struct infp_setting){ NULL, NULL };
        return 0;
}
