/* infprof: finds the verb, hands it its arguments. Options without a verb are the short form of `record`. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/command.h"

static const struct infp_command *find_command(const char *name)
{
        for (size_t i = 0; infp_commands[i]; i++)
                if (strcmp(infp_commands[i]->name, name) == 0)
                        return infp_commands[i];
        return NULL;
}

static int print_overview(void)
{
        printf("infprof " INFP_VERSION ": where the time, the memory and the joules of an inference server go\n\n"
               "usage: infprof record [options] -- CMD...    record a program (short: infprof [options] -- CMD...)\n"
               "       infprof [options]                     record this machine until Ctrl-C\n"
               "       infprof VERB [options]                each verb explains itself with -h\n\n"
               "verbs:\n");
        for (size_t i = 0; infp_commands[i]; i++)
                printf("  %-10s %s\n", infp_commands[i]->name, infp_commands[i]->summary);
        printf("\nexamples:\n"
               "  infprof record -- python3 serve.py         everything below it, until it ends\n"
               "  infprof report                             what the newest run found\n"
               "  infprof query 'SELECT max(tree_rss_bytes) FROM tree'\n"
               "  infprof doctor                             what works here, what is missing and the fix\n");
        return INFP_EXIT_OK;
}

static int run_command(const struct infp_command *command, int argc, char **argv)
{
        struct infp_arguments arguments;
        int code = infp_arguments_parse(command, argc, argv, &arguments);

        if (code < 0)
                code = command->run(&arguments);
        infp_arguments_done(&arguments);
        if (fflush(stdout) != 0 && code == INFP_EXIT_OK) {
                infp_say("cannot write to standard output: %m");
                code = INFP_EXIT_FAILURE;
        }
        return code;
}

static int explain(const char *verb)
{
        const struct infp_command *command = find_command(verb);
        char *words[] = { (char *) verb, (char *) "-h", NULL };

        if (command)
                return run_command(command, 2, words);
        infp_say("there is no verb '%s'; `infprof help` lists them", verb);
        return INFP_EXIT_USAGE;
}

/* A standard descriptor that is closed would be given to the next file that we open, and our words would go into that file.
 * O_PATH: it can be read and written as little as a closed one. Closed on exec: a command finds it closed, as we did. */
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
        if (strcmp(first, "help") == 0 || strcmp(first, "-h") == 0 || strcmp(first, "--help") == 0)
                return argc > 2 ? explain(argv[2]) : print_overview();
        if (strcmp(first, "--version") == 0 || strcmp(first, "-V") == 0) {
                printf("infprof " INFP_VERSION "\n");
                return INFP_EXIT_OK;
        }
        command = find_command(first);
        if (command)
                return run_command(command, argc - 1, argv + 1);
        if (first[0] == '-') {
                argv[0] = (char *) "record";
                return run_command(find_command("record"), argc, argv);
        }
        infp_say("there is no verb '%s'; `infprof help` lists them, and `infprof record -- %s` records a program",
                 first, first);
        return INFP_EXIT_USAGE;
}
