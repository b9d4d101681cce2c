#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/nearest.h"

enum { MAX_OPTIONS = 64, FIRST_LONG = 256 };

/* The arrays that getopt_long wants. val of a long option = FIRST_LONG + its place in the command's table. */
struct getopt_tables {
        struct option longs[MAX_OPTIONS + 2];
        char shorts[2 * MAX_OPTIONS + 4];
};

static size_t count_options(const struct infp_command *command)
{
        size_t n = 0;

        while (command->options && command->options[n].name)
                n++;
        return n;
}

static const struct infp_option *option_at(const struct infp_command *command, size_t index)
{
        return index < count_options(command) ? &command->options[index] : &infp_help_option;
}

static void add_option(struct getopt_tables *tables, size_t index, const struct infp_option *option)
{
        bool is_optional = option->argument && option->argument[0] == '[';
        char *end = tables->shorts + strlen(tables->shorts);

        tables->longs[index] = (struct option){
                .name = option->name,
                .has_arg = !option->argument ? no_argument
                           : is_optional     ? optional_argument
                                             : required_argument,
                .val = FIRST_LONG + (int) index,
        };
        if (option->letter) {
                *end++ = option->letter;
                if (option->argument && !is_optional)
                        *end++ = ':';
                *end = 0;
        }
}

static void make_tables(const struct infp_command *command, struct getopt_tables *ret)
{
        size_t n = count_options(command);

        memset(ret, 0, sizeof(*ret));
        /* ':' distinguishes a missing argument from an unknown option. */
        strcpy(ret->shorts, command->stop_at_operand ? "+:" : ":");
        for (size_t i = 0; i <= n; i++)
                add_option(ret, i, option_at(command, i));
}

static int bad_usage(const struct infp_command *command, const char *format, const char *what)
{
        char text[512];

        snprintf(text, sizeof(text), format, what);
        infp_say("%s: %s; see `infprof %s -h`", command->name, text, command->name);
        return command->usage_code ? command->usage_code : INFP_EXIT_USAGE;
}

static const struct infp_option *by_letter(const struct infp_command *command, int letter)
{
        for (size_t i = 0; i <= count_options(command); i++)
                if (option_at(command, i)->letter == letter)
                        return option_at(command, i);
        return NULL;
}

/* An ambiguous prefix, or a typo. */
static int unknown_option(const struct infp_command *command, const char *given)
{
        const char *word = given + strspn(given, "-");
        infp_autofree char *name = strndup(word, strcspn(word, "="));
        infp_autostr struct infp_str text = { 0 };
        struct infp_nearest nearest = { .word = name ? name : "" };
        unsigned n = 0;

        infp_str_printf(&text, "%s could be", given);
        for (size_t i = 0; i <= count_options(command); i++) {
                const char *candidate = option_at(command, i)->name;

                infp_nearest_try(&nearest, candidate);
                if (name && strncmp(candidate, name, strlen(name)) == 0)
                        infp_str_printf(&text, "%s --%s", n++ ? "," : "", candidate);
        }
        if (n < 2) { /* "-x" is unknown, whatever begins with an x */
                infp_str_clear(&text);
                infp_str_printf(&text, "unknown option %s", given);
                if (nearest.best)
                        infp_str_printf(&text, "; did you mean --%s?", nearest.best);
        }
        return bad_usage(command, "%s", text.data ? text.data : "unknown option");
}

/* What getopt_long was looking at when it failed: a letter, or the word before optind. */
static int bad_option(const struct infp_command *command, int found, char **argv, const struct getopt_tables *tables)
{
        char name[128];

        if (optopt >= FIRST_LONG)
                snprintf(name, sizeof(name), "--%s", tables->longs[optopt - FIRST_LONG].name);
        else if (optopt)
                snprintf(name, sizeof(name), "-%c", optopt);
        else
                snprintf(name, sizeof(name), "%s", argv[optind - 1]);
        if (found == ':')
                return bad_usage(command, "option %s needs a value", name);
        if (optopt >= FIRST_LONG)
                return bad_usage(command, "option %s takes no value", name);
        return unknown_option(command, name);
}

static const struct infp_option *by_name(const struct infp_command *command, const char *name)
{
        const struct infp_option *option = command->options;

        while (strcmp(option->name, name) != 0)
                option++;
        return option;
}

/* `--cpu 99` would run a command 99, and `--cpu=$HZ` with HZ unset would sample at the default rate. True: refused, with a
 * message. */
static bool is_value_odd(const struct infp_command *command, const struct infp_option *option, char **argv, int argc)
{
        const char *next = optind < argc ? argv[optind] : "";

        if (optarg && !*optarg)
                bad_usage(command, "--%s= has no value", option->name);
        else if (!optarg && *next && strspn(next, "0123456789.") == strlen(next))
                infp_say("%s: --%s takes its value after an equals sign: --%s=%s", command->name, option->name,
                         option->name, next);
        else
                return false;
        return true;
}

static bool is_given(const struct infp_arguments *arguments, const struct infp_option *option)
{
        for (size_t i = 0; i < arguments->n_given; i++)
                if (arguments->given[i].option == option)
                        return true;
        return false;
}

/* SQL that begins with a comment ("-- what it asks\nSELECT ...") is not an option. Moves such words after all others; returns
 * how many are left for getopt. */
static int move_texts(const struct infp_command *command, int argc, char **argv)
{
        int n = argc;

        if (command->stop_at_operand)
                return argc;
        for (int i = 1; i < n && strcmp(argv[i], "--") != 0;) {
                char *word = argv[i];

                if (strncmp(word, "--", 2) != 0 || !isspace((unsigned char) word[2])) {
                        i++;
                        continue;
                }
                memmove(argv + i, argv + i + 1, (size_t) (argc - i - 1) * sizeof(*argv));
                argv[argc - 1] = word;
                n--;
        }
        return n;
}

int infp_arguments_parse(const struct infp_command *command, int argc, char **argv, struct infp_arguments *ret)
{
        struct getopt_tables tables;
        const int n = move_texts(command, argc, argv);
        int found;

        *ret = (struct infp_arguments){ .given = calloc((size_t) argc + 1, sizeof(*ret->given)) };
        if (!ret->given) {
                infp_say("%s: out of memory", command->name);
                return INFP_EXIT_FAILURE;
        }
        make_tables(command, &tables);
        opterr = 0;
        optind = 0;
        while ((found = getopt_long(n, argv, tables.shorts, tables.longs, NULL)) >= 0) {
                const struct infp_option *option;

                if (found == '?' || found == ':')
                        return bad_option(command, found, argv, &tables);
                option = found >= FIRST_LONG ? option_at(command, (size_t) found - FIRST_LONG)
                                             : by_letter(command, found);
                if (option->same_as)
                        option = by_name(command, option->same_as);
                if (option->argument && option->argument[0] == '[' && is_value_odd(command, option, argv, n))
                        return command->usage_code ? command->usage_code : INFP_EXIT_USAGE;
                if (option == &infp_help_option) {
                        infp_help_command(command);
                        return INFP_EXIT_OK;
                }
                if (!option->many && is_given(ret, option))
                        return bad_usage(command, "option --%s is given twice", option->name);
                ret->given[ret->n_given++] = (struct infp_given){ option, optarg };
        }
        ret->has_dashes = optind > 1 && strcmp(argv[optind - 1], "--") == 0;
        ret->rest = argv + optind;
        ret->n_rest = argc - optind;
        return -1;
}

void infp_arguments_done(struct infp_arguments *arguments)
{
        free(arguments->given);
        arguments->given = NULL;
}

const char *infp_argument(const struct infp_arguments *arguments, const char *name)
{
        for (size_t i = arguments->n_given; i > 0; i--) {
                const struct infp_given *given = &arguments->given[i - 1];

                if (strcmp(given->option->name, name) == 0)
                        return given->value ? given->value : "";
        }
        return NULL;
}

bool infp_argument_given(const struct infp_arguments *arguments, const char *name)
{
        return infp_argument(arguments, name) != NULL;
}
