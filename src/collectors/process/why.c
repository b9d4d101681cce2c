/* Why columns of the processes are empty: said once for all processes, not for each. */
#include "collectors/process/state.h"

#include "base/rights.h"

static void explain_io(const struct processes *s, struct infp_emit *emit)
{
        for (unsigned i = 0; i < s->io_fields.n; i++) {
                int cell = s->io_fields.field[i].cell;

                if (s->io == ACCESS_DENIED)
                        infp_emit_source(emit, &infp_table_processes, cell, NULL, INFP_DENIED,
                                         "the kernel shows /proc/PID/io of other users' processes only to those who "
                                         "may trace them",
                                         infp_rights_fix(INFP_MAY_TRACE));
                else if (s->io == ACCESS_MISSING)
                        infp_emit_source(emit, &infp_table_processes, cell, NULL, INFP_ABSENT,
                                         "there is no /proc/PID/io: a kernel without CONFIG_TASK_IO_ACCOUNTING", NULL);
                else
                        infp_emit_source(emit, &infp_table_processes, cell, NULL, INFP_OK, NULL, NULL);
        }
        for (int cell = TREE_READ_CHARS; cell <= TREE_WRITE_BYTES; cell++) {
                if (s->tree_io == ACCESS_DENIED)
                        infp_emit_source(
                                emit, &infp_table_tree, cell, NULL, INFP_DENIED,
                                "the kernel shows io of some processes of the tree only to those who may trace them",
                                infp_rights_fix(INFP_MAY_TRACE));
                else if (s->tree_io == ACCESS_MISSING)
                        infp_emit_source(emit, &infp_table_tree, cell, NULL, INFP_ABSENT,
                                         "there is no /proc/PID/io: a kernel without CONFIG_TASK_IO_ACCOUNTING", NULL);
        }
}

static void explain_delays(const struct processes *s, struct infp_emit *emit)
{
        infp_emit_source(emit, &infp_table_processes, PROCESS_BLOCK_DELAY, NULL, s->has_delays ? INFP_OK : INFP_ABSENT,
                         s->has_delays ? NULL
                                       : "the kernel counts delays only while /proc/sys/kernel/task_delayacct is 1",
                         s->has_delays ? NULL : "sysctl kernel.task_delayacct=1");
}

static void explain_pss(const struct processes *s, struct infp_emit *emit)
{
        if (!s->wants_pss)
                infp_emit_source(emit, &infp_table_processes, PROCESS_PSS, NULL, INFP_ABSENT,
                                 INFP_NOT_ASKED
                                 "reading smaps_rollup walks all pages of a process and holds its memory lock",
                                 "record with --pss");
        else if (s->pss == ACCESS_DENIED)
                infp_emit_source(
                        emit, &infp_table_processes, PROCESS_PSS, NULL, INFP_DENIED,
                        "the kernel shows smaps_rollup of other users' processes only to those who may trace them",
                        infp_rights_fix(INFP_MAY_TRACE));
        else
                infp_emit_source(emit, &infp_table_processes, PROCESS_PSS, NULL, INFP_OK, NULL, NULL);
}

static void explain_clock(const struct processes *s, struct infp_emit *emit)
{
        if (s->gauges.n_all && !s->has_clocks)
                infp_emit_source(emit, &infp_table_processes, PROCESS_CPU_NS, NULL, INFP_ABSENT,
                                 "the CPU clocks of processes can be read on the machine itself only", NULL);
}

static void explain_status(const struct processes *s, struct infp_emit *emit)
{
        static const int cells[] = { TREE_SWAP, TREE_VOLUNTARY, TREE_INVOLUNTARY };

        for (unsigned i = 0; s->status == ACCESS_MISSING && i < sizeof(cells) / sizeof(*cells); i++)
                infp_emit_source(emit, &infp_table_tree, cells[i], NULL, INFP_ABSENT,
                                 "/proc/PID/status of some processes cannot be read", NULL);
}

/* What no one can give any more when a process of an attached tree ends. */
static void explain_ended(const struct processes *s, const struct infp_env *env, struct infp_emit *emit)
{
        enum infp_mode mode = infp_target_mode(env->target);

        if (mode == INFP_MODE_PID)
                infp_emit_source(emit, &infp_table_tree, -1, "ended processes", INFP_ABSENT,
                                 "of an attached tree the totals hold the last known times of processes that end; what "
                                 "these used "
                                 "after the last sample, and processes that came and went between two, count only if "
                                 "their parent "
                                 "in the tree waited for them",
                                 "start the program with: infprof record -- COMMAND");
        else if (s->total.has_lost)
                infp_emit_source(emit, &infp_table_tree, -1, "ended processes", INFP_ABSENT,
                                 "some processes ended and nobody waited for them (their parent ignores SIGCHLD): the "
                                 "totals hold "
                                 "their last known times; what they used after the last sample is not in them",
                                 NULL);
        else if (s->n_io_unseen)
                infp_emit_source(emit, &infp_table_tree, -1, "ended processes", INFP_DENIED,
                                 "the kernel shows the io of a process that has ended to root alone: what some "
                                 "processes read and wrote after their last sample is not in the totals",
                                 infp_rights_fix(INFP_MAY_TRACE));
}

static void explain_missing(const struct infp_env *env, struct infp_emit *emit)
{
        struct infp_target_missing missing;

        if (infp_target_mode(env->target) != INFP_MODE_PID)
                return;
        missing = infp_target_missing(env->target);
        infp_emit_source(emit, &infp_table_tree, -1, "target",
                         !missing.text[0]    ? INFP_OK
                         : missing.is_denied ? INFP_DENIED
                                             : INFP_ABSENT,
                         missing.text[0] ? missing.text : NULL, NULL);
}

void process_explain(struct processes *s, const struct infp_env *env, struct infp_emit *emit)
{
        explain_io(s, emit);
        explain_delays(s, emit);
        explain_pss(s, emit);
        explain_clock(s, emit);
        explain_status(s, emit);
        explain_ended(s, env, emit);
        explain_missing(env, emit);
}
