/* A verb of the command line: one const record a file, cmd_<verb>.c, listed by its name in src/cli/meson.build. Options are
 * a table too: parsing, -h and docs come from it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/notice.h"

enum {
        INFP_EXIT_OK = 0,
        INFP_EXIT_FAILURE = 1, /* it could not be done; one sentence on stderr */
        INFP_EXIT_USAGE = 2,   /* bad flags or arguments */
        INFP_EXIT_GATE = 3,    /* compare: a condition of --fail-on holds */
        INFP_EXIT_OURS = 125,  /* record: our failure before the child ran */
        INFP_EXIT_NOT_EXECUTABLE = 126,
        INFP_EXIT_NOT_FOUND = 127,
};

struct infp_option {
        char letter;          /* 0: long only */
        const char *name;     /* without -- */
        const char *argument; /* NULL: a flag; "MS"; "[HZ]": optional, only by --name=HZ */
        const char *help;     /* one line, with the default */
        bool many;            /* may be given again and again */
        const char *same_as;  /* NULL, or the option of which this is another name */
};

/* What was given: in order, values point into argv. */
struct infp_given {
        const struct infp_option *option;
        const char *value; /* NULL for flags and left-out optional arguments */
};

struct infp_arguments {
        struct infp_given *given;
        size_t n_given;
        char **rest; /* operands, ended by NULL */
        int n_rest;
        bool has_dashes; /* a -- stood before the rest */
};

/* A word that an operand may be. */
struct infp_operand {
        const char *name, *help;
};

struct infp_command {
        const char *name;
        const char *summary;  /* one line, as in `infprof help` */
        const char *operands; /* "[-- CMD...]", "SQL" */
        /* The words it may be, in order, for -h, manual and completion; false: no more. NULL: anything. */
        bool (*operand_at)(size_t i, struct infp_operand *ret);
        const char *operands_title;        /* above them: "sections" */
        const struct infp_option *options; /* ended by name NULL; -h, --help is everybody's */
        bool stop_at_operand; /* the first operand ends the options: what follows belongs to another program */
        int usage_code;       /* exit code of bad flags; 0: INFP_EXIT_USAGE */
        const char *more;     /* paragraphs after the options in -h; may be NULL */
        int (*run)(const struct infp_arguments *arguments); /* exit code */
};

/* argv[0] is the verb. Prints the message and returns an exit code >= 0 when the command is over (help, bad usage), else -1. */
int infp_arguments_parse(const struct infp_command *command, int argc, char **argv, struct infp_arguments *ret);
void infp_arguments_done(struct infp_arguments *arguments);
const char *infp_argument(const struct infp_arguments *arguments,
                          const char *name); /* last value; "" for a flag; NULL */
bool infp_argument_given(const struct infp_arguments *arguments, const char *name);

extern const struct infp_command *const infp_commands[]; /* ended by NULL */

/* One line each, in which control characters are escaped. */
/* On stderr: "infprof: text". */
void infp_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
extern const struct infp_notices infp_said; /* notices by infp_say, progress by infp_say_progress */
/* On a terminal, in place of the previous progress line, at most 10 times a second; any other line removes it. */
void infp_say_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
void infp_end_progress(void); /* before something else writes to the terminal */
/* On stdout: what a verb answers in one line. */
void infp_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
int infp_print_error(void); /* why a line was not written; 0: none failed */
/* infp_say, and INFP_EXIT_FAILURE to return. */
int infp_say_failure(const struct infp_err *err);
/* The same for DuckDB's errors, which keep their lines: the last one points into the query. */
int infp_say_sql_failure(const struct infp_err *err);
