/* infprof: finds the verb, hands it its arguments. Options without a verb are the short form of `record`. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/debug.h"
#include "base/fd.h"
#include "base/thread.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/nearest.h"

static const struct infp_command *find_command(const char *name)
{
        for (size_t i = 0; infp_commands[i]; i++)
                if (strcmp(infp_commands[i]->name, name) == 0)
                        return infp_commands[i];
        return NULL;
}

static void say_line(void *context, const char *line)
{
        (void) context;
        infp_say("debug: %s", line);
}

/* Checks that the output was written, and reports it if not. `verb` may be NULL. */
static int end(const char *verb, int code)
{
        const int r = fflush(stdout) != 0 ? -errno : infp_print_error();

        infp_end_progress();
        if (!verb || strcmp(verb, "doctor") != 0) /* doctor shows them among its findings */
                infp_debug_each(say_line, NULL);
        if (r < 0 && code == INFP_EXIT_OK) {
                infp_say("cannot write to standard output: %s", strerror(-r));
                code = INFP_EXIT_FAILURE;
        }
        return infp_thread_exit_code(code);
}

static int run_command(const struct infp_command *command, int argc, char **argv)
{
        struct infp_arguments arguments;
        int code = infp_arguments_parse(command, argc, argv, &arguments);

        if (code < 0)
                code = command->run(&arguments);
        infp_arguments_done(&arguments);
        return end(command->name, code);
}

/* `otherwise`: a hint for a word that resembles no verb. */
static int fail_unknown(const char *verb, const char *otherwise)
{
        struct infp_nearest nearest = { .word = verb };

        for (size_t i = 0; infp_commands[i]; i++)
                infp_nearest_try(&nearest, infp_commands[i]->name);
        if (nearest.best)
                infp_say("there is no verb '%s'; did you mean `infprof %s`? `infprof help` lists all", verb,
                         nearest.best);
        else
                infp_say("there is no verb '%s'; `infprof help` lists them%s", verb, otherwise);
        return INFP_EXIT_USAGE;
}

static int explain(const char *verb)
{
        const struct infp_command *command = find_command(verb);
        char *words[] = { (char *) verb, (char *) "-h", NULL };

        if (command)
                return run_command(command, 2, words);
        return fail_unknown(verb, "");
}

/* A closed standard descriptor would be reused by the next file that we open, and our messages would go into that file.
 * O_PATH can be read and written no more than a closed one. Closed on exec: a command finds it closed as we did. */
static void fill_standard_descriptors(void)
{
        int fd;

        do
                fd = open("/", O_PATH | O_CLOEXEC);
        while (fd >= 0 && fd <= STDERR_FILENO);
        infp_close(fd);
}

int main(int argc, char **argv)
{
        const struct infp_command *command;
        const char *first = argc > 1 ? argv[1] : "help";

        fill_standard_descriptors();
        if (strcmp(first, "help") == 0 || strcmp(first, "-h") == 0 || strcmp(first, "--help") == 0) {
                if (argc > 2 && strcmp(argv[2], "--json") == 0) {
                        infp_help_json();
                        return end(NULL, INFP_EXIT_OK);
                }
                if (argc > 2)
                        return explain(argv[2]);
                infp_help_overview();
                return end(NULL, INFP_EXIT_OK);
        }
        if (strcmp(first, "--version") == 0 || strcmp(first, "-V") == 0) {
                infp_print("infprof " INFP_VERSION);
                return end(NULL, INFP_EXIT_OK);
        }
        command = find_command(first);
        if (command)
                return run_command(command, argc - 1, argv + 1);
        if (first[0] == '-') {
                argv[0] = (char *) "record";
                return run_command(find_command("record"), argc, argv);
        }
        return fail_unknown(first, ", and `infprof record -- COMMAND` records a program");
}
