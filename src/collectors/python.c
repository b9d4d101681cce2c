/* record --python: programs of the target that do not load infprof's package, by their command lines. It has no table: `sources` says it. */
#include "collectors/python.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "collect/collector.h"
#include "collect/target.h"

enum { MAX_SEEN = 1024, MAX_WORDS = 32, CMDLINE_BYTES = 4096 };

/* Programs that were looked at. When they are too many, all are looked at again. */
struct python {
        uint64_t seen[MAX_SEEN]; /* 0: free */
        size_t n;
        char cmdline[CMDLINE_BYTES];
};

char infp_python_refusal(char *const *command)
{
        const char *slash = strrchr(command[0], '/'), *name = slash ? slash + 1 : command[0];

        if (strncmp(name, "python", 6) != 0)
                return 0;
        for (size_t i = 1; command[i] && command[i][0] == '-' && command[i][1] && command[i][1] != '-'; i++)
                for (const char *letter = command[i] + 1; *letter; letter++) {
                        if (strchr("ISE", *letter))
                                return *letter;
                        if (*letter == 'c' || *letter == 'm') /* what follows is the program's */
                                return 0;
                        if (*letter == 'W' || *letter == 'X') { /* its value follows */
                                i += !letter[1] && command[i + 1];
                                break;
                        }
                }
        return 0;
}

/* False: known already. */
static bool remember(struct python *python, uint64_t key)
{
        size_t at = key % MAX_SEEN;

        if (python->n == MAX_SEEN / 2) {
                memset(python->seen, 0, sizeof(python->seen));
                python->n = 0;
        }
        while (python->seen[at] && python->seen[at] != key)
                at = (at + 1) % MAX_SEEN;
        if (python->seen[at])
                return false;
        python->seen[at] = key;
        python->n++;
        return true;
}

static void look(struct python *python, const struct infp_env *env, struct infp_process *process,
                 struct infp_emit *emit)
{
        const ssize_t n =
                infp_process_read(env->target, env, process, "cmdline", python->cmdline, sizeof(python->cmdline));
        char *words[MAX_WORDS + 1] = { NULL }, letter, text[256], instance[64];
        const char *slash, *name;
        ssize_t at = 0;

        for (size_t i = 0; i < MAX_WORDS && at < n; i++) { /* bound: options of Python itself come first */
                words[i] = python->cmdline + at;
                at += (ssize_t) strlen(words[i]) + 1;
        }
        letter = words[0] ? infp_python_refusal(words) : 0;
        if (!letter)
                return;
        slash = strrchr(words[0], '/');
        name = slash ? slash + 1 : words[0];
        snprintf(instance, sizeof(instance), "%.40s -%c", name, letter);
        snprintf(text, sizeof(text),
                 "process %d (%.40s) was started with -%c: it does not load infprof's package, and its children do",
                 (int) process->pid, name, letter);
        infp_emit_source(emit, NULL, -1, instance, INFP_ABSENT, text, NULL);
}

static int python_open(void *state, const struct infp_env *env, struct infp_err *err)
{
        (void) state;
        (void) env;
        (void) err;
        return 0;
}

static int python_sample(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        struct python *python = state;

        (void) err;
        for (size_t i = 0, n = infp_target_count(env->target); i < n; i++) {
                struct infp_process *process = infp_target_at(env->target, i);

                if (process->in_tree && !process->is_gone && remember(python, (process->id ^ process->image) | 1))
                        look(python, env, process, emit);
        }
        return 0;
}

static void python_close(void *state)
{
        (void) state;
}

static const struct infp_table *const tables[] = { NULL };

const struct infp_collector infp_collector_python = {
        .name = "python",
        .help = "Python programs of the target that do not load infprof's package (record --python).",
        .tables = tables,
        .flags = INFP_WALKS_TARGET | INFP_OPT_IN,
        .state_size = sizeof(struct python),
        .open = python_open,
        .sample = python_sample,
        .close = python_close,
};
