#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/rights.h"
#include "base/time.h"
#include "collectors/process/state.h"

/* Why columns of the processes are empty: reported once for all processes, not for each. */

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

/* What cannot be known any more when a process of an attached tree ends. */
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
                infp_emit_source(
                        emit, &infp_table_tree, -1, "ended processes", INFP_ABSENT,
                        "some processes ended and no process waited for them (their parent ignores SIGCHLD): the "
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

static void explain_run_delay(const struct processes *s, const struct infp_env *env, struct infp_emit *emit)
{
        static const char *const reasons[] = {
                "the machine is recorded: the waits of all its threads would be thousands of files at each tick",
                "this kernel does not count how long threads wait for a CPU (CONFIG_SCHEDSTATS)"
        };
        const bool is_host = infp_target_mode(env->target) == INFP_MODE_HOST;

        if (!s->counts_delays && (is_host || s->gauges.n_alive))
                infp_emit_source(emit, &infp_table_tree, TREE_RUN_DELAY, NULL, INFP_ABSENT, reasons[!is_host],
                                 is_host ? "record a command, or a process with --pid" : NULL);
        else if (!s->counts_delays)
                infp_emit_quiet(emit, TREE_RUN_DELAY);
        else
                infp_emit_source(emit, &infp_table_tree, TREE_RUN_DELAY, NULL, INFP_OK, NULL, NULL);
        if (s->delays.is_cut)
                infp_emit_source(
                        emit, &infp_table_tree, TREE_RUN_DELAY, "many threads", INFP_ABSENT,
                        "the target has more than 2,000 threads: of some processes only the first thread's wait "
                        "for a CPU counts",
                        NULL);
}

static void explain(struct processes *s, const struct infp_env *env, struct infp_emit *emit)
{
        explain_io(s, emit);
        explain_delays(s, emit);
        explain_pss(s, emit);
        explain_clock(s, emit);
        explain_status(s, emit);
        explain_ended(s, env, emit);
        explain_missing(env, emit);
        explain_run_delay(s, env, emit);
}

/* Processes: those of the target's tree, or with -p all of the machine. The target has read /proc/PID/stat of all of them at
 * this tick; the other files are read here, for processes whose stat has changed. */

/* At least one row in this time, so that a reader of a part of the recording need not look back further. */
#define ROW_AT_LEAST_NS (60 * INFP_NS_PER_S)
/* A process that uses less than a tick of CPU time can do io: looked at this often. */
#define DETAILS_NS (900 * INFP_NS_PER_MS)

static void read_boot_time(struct processes *s, const struct infp_env *env)
{
        struct infp_procfile file = INFP_PROCFILE_INIT;
        struct infp_span text, line;

        if (infp_procfile_read(&file, env->root_fd, "proc/stat") >= 0) {
                text = infp_procfile_text(&file);
                while (infp_span_line(&text, &line)) {
                        if (!infp_span_starts(line, "btime "))
                                continue;
                        infp_span_word(&line);
                        s->has_boot =
                                !infp_span_i64(infp_span_word(&line), &s->boot_unix_ns) &&
                                !__builtin_mul_overflow(s->boot_unix_ns, (int64_t) INFP_NS_PER_S, &s->boot_unix_ns);
                }
        }
        infp_procfile_done(&file);
}

static int processes_open(void *state, const struct infp_env *env, struct infp_err *err)
{
        struct processes *s = state;

        if (!env->target || (infp_target_mode(env->target) == INFP_MODE_HOST && !infp_target_all(env->target)))
                return infp_fail(err, -ENODEV,
                                 "no process is the target: the machine is recorded; -p records all its processes");
        infp_fields_init(&s->status_fields, &infp_table_processes, "status", "/proc/PID/status", 0);
        infp_fields_init(&s->io_fields, &infp_table_processes, "io", "/proc/PID/io", 0);
        s->is_live = env->is_live;
        process_delays_init(&s->delays, env->is_live);
        s->has_io_files = !faccessat(env->root_fd, "proc/self/io", F_OK, 0);
        s->wants_pss = infp_env_flag(env, "pss");
        s->keeps_secrets = infp_env_flag(env, "keep-secrets");
        s->total.is_ours_known = infp_target_mode(env->target) == INFP_MODE_RUN;
        s->total.ticks_per_s = env->ticks_per_s;
        read_boot_time(s, env);
        return 0;
}

static void check_settings(struct processes *s, const struct infp_env *env)
{
        char text[16];

        if (s->now_ns < s->next_check_ns)
                return;
        s->next_check_ns = s->now_ns + ROW_AT_LEAST_NS;
        s->has_delays =
                infp_read_at(env->root_fd, "proc/sys/kernel/task_delayacct", text, sizeof(text)) > 0 && text[0] == '1';
}

static bool in_scope(const struct infp_env *env, const struct infp_process *p)
{
        return p->in_tree || infp_target_mode(env->target) == INFP_MODE_HOST;
}

static bool is_same(const struct process_cells *a, const struct process_cells *b)
{
        return a->valid == b->valid && !memcmp(a->v, b->v, sizeof(a->v));
}

static void emit_row(struct infp_emit *emit, const struct infp_process *p, const struct process_cells *c, uint64_t t_ns)
{
        struct infp_row *row = infp_emit_begin(emit, &infp_table_processes, t_ns);
        char state[2] = { p->is_gone ? 'X' : (char) c->v[PROCESS_STATE], 0 };

        infp_row_id(row, PROCESS_ID, p->id);
        infp_row_bytes(row, PROCESS_STATE, state, 1);
        infp_row_bool(row, PROCESS_IN_TREE, c->v[PROCESS_IN_TREE]);
        for (unsigned i = PROCESS_PARENT; i < PROCESS_N; i++)
                if (c->valid >> i & 1)
                        infp_row_i64(row, i, c->v[i]);
        infp_emit_commit(emit);
}

/* The worst of two: what one process lacks, the sum lacks. */
static enum process_access worst(enum process_access a, enum process_access b)
{
        return a == ACCESS_DENIED || b == ACCESS_DENIED ? ACCESS_DENIED : a > b ? a : b;
}

/* A past value is not the present one. */
static int64_t known(const struct process_cells *c, unsigned cell)
{
        return c->valid >> cell & 1 ? c->v[cell] : 0;
}

static int add_up(struct processes *s, const struct infp_env *env, const struct infp_process *p, struct process_user *u)
{
        const struct process_cells *c = &u->cells;
        bool is_alive;

        s->gauges.n_all++;
        s->io = worst(s->io, u->io);
        s->pss = worst(s->pss, u->pss);
        if (!in_scope(env, p))
                return 0;
        s->tree_io = worst(s->tree_io, u->io);
        s->status = worst(s->status, u->status);
        s->gauges.n++;
        is_alive = (p->state != 'Z' && p->state != 'X') || p->n_threads > 1;
        s->gauges.n_alive += is_alive;
        s->gauges.n_unmeasured += is_alive && !(c->valid >> PROCESS_RSS & 1);
        s->gauges.n_threads += c->v[PROCESS_THREADS];
        s->gauges.rss += known(c, PROCESS_RSS);
        s->gauges.vms += known(c, PROCESS_VMS);
        s->gauges.swap += known(c, PROCESS_SWAP);
        s->gauges.rss_peak = c->v[PROCESS_RSS_PEAK] > s->gauges.rss_peak ? c->v[PROCESS_RSS_PEAK] : s->gauges.rss_peak;
        s->has_seen_io = s->has_seen_io || u->io == ACCESS_OK;
        return process_total_live(&s->total, p, &u->gain, &u->share);
}

/* Was it looked at in this refresh? */
static bool is_read(const struct infp_env *env, const struct infp_process *p)
{
        return p->in_tree || infp_target_is_full(env->target);
}

/* In the tree every nanosecond counts; outside it what shows in stat. */
static bool has_run(const struct infp_process *p, const struct process_user *u)
{
        return p->in_tree && p->cpu_ns != u->cells.v[PROCESS_CPU_NS] && p->cpu_ns >= 0;
}

static int sample_live(struct processes *s, const struct infp_env *env, struct infp_emit *emit, struct infp_process *p)
{
        struct process_user *u = p->user;
        struct process_cells now;
        bool is_due, details;

        if (!u) {
                INFP_TRY(process_first_sight(s, env, p));
                u = p->user;
        }
        is_due = !u->row_ns || (s->now_ns - u->row_ns >= ROW_AT_LEAST_NS && is_read(env, p));
        details = p->is_changed || is_due || p->is_found || (has_run(p, u) && s->now_ns - u->details_ns >= DETAILS_NS);
        if (details || has_run(p, u) || u->n_checks) {
                process_read(s, env, p, u, details, &now);
                INFP_TRY(process_entity(s, env, emit, p, is_due));
                u = p->user;
                process_share_update(env, p, u, &now);
                if (p->is_found)
                        memcpy(u->share.base, u->share.v, sizeof(u->share.base));
                if (is_due || !is_same(&now, &u->cells)) {
                        emit_row(emit, p, &now, p->t_ns);
                        u->row_ns = s->now_ns;
                }
                if (details)
                        u->details_ns = s->now_ns;
                u->cells = now;
        }
        s->has_clocks = s->has_clocks || p->cpu_ns >= 0;
        return s->has_totals ? add_up(s, env, p, u) : 0;
}

static int take_last_look(struct processes *s, const struct infp_env *env, struct infp_emit *emit,
                          struct infp_process *p)
{
        if (!p->user)
                INFP_TRY(process_first_sight(s, env, p));
        process_read_last(s, env, p, p->user);
        return process_entity(s, env, emit, p, false);
}

/* The figures of an ended process, reported once. */
static void add_ended(struct processes *s, const struct infp_process *p, const struct process_user *u)
{
        const int64_t own = u->cells.v[PROCESS_RSS_PEAK], all = p->last ? (int64_t) p->last->rss_peak_bytes : 0;

        s->ended_io = u->io > ACCESS_UNSEEN ? worst(s->ended_io, u->io) : s->ended_io;
        s->n_io_unseen += u->io == ACCESS_UNSEEN;
        s->has_seen_io = s->has_seen_io || u->io == ACCESS_OK;
        s->ended_rss_peak = own > s->ended_rss_peak ? own : s->ended_rss_peak;
        s->ended_rss_peak = all > s->ended_rss_peak ? all : s->ended_rss_peak;
}

static int sample_gone(struct processes *s, const struct infp_env *env, struct infp_emit *emit, struct infp_process *p)
{
        struct process_user *u;

        if (p->last)
                INFP_TRY(take_last_look(s, env, emit, p));
        u = p->user;
        if (!u)
                return 0;
        emit_row(emit, p, &u->cells, s->now_ns);
        process_delay_forget(&s->delays, &u->delay);
        if (p->in_tree)
                add_ended(s, p, u);
        return in_scope(env, p) ? process_total_ended(&s->total, p, &u->gain, &u->share) : 0;
}

static int64_t to_cs(const struct processes *s, int64_t ticks)
{
        uint32_t per_s = s->total.ticks_per_s;

        return per_s == 100 ? ticks : ticks / per_s * 100 + ticks % per_s * 100 / per_s;
}

static void fill_tree(const struct processes *s, struct infp_row *row, const struct process_share *total)
{
        static const struct {
                enum tree_cell cell;
                enum process_counter counter;
        } io[] = { { TREE_READ_CHARS, COUNTER_READ_CHARS },
                   { TREE_WRITE_CHARS, COUNTER_WRITE_CHARS },
                   { TREE_READ_BYTES, COUNTER_READ_BYTES },
                   { TREE_WRITE_BYTES, COUNTER_WRITE_BYTES } };

        infp_row_i64(row, TREE_ALL, s->gauges.n_all);
        infp_row_i64(row, TREE_PROCESSES, s->gauges.n);
        infp_row_i64(row, TREE_CPU_NS, total->v[COUNTER_CPU_NS]);
        infp_row_i64(row, TREE_USER, to_cs(s, total->v[COUNTER_USER]));
        infp_row_i64(row, TREE_SYSTEM, to_cs(s, total->v[COUNTER_SYSTEM]));
        infp_row_i64(row, TREE_MINOR_FAULTS, total->v[COUNTER_MINOR_FAULTS]);
        infp_row_i64(row, TREE_MAJOR_FAULTS, total->v[COUNTER_MAJOR_FAULTS]);
        if (s->status != ACCESS_MISSING) {
                infp_row_i64(row, TREE_VOLUNTARY, total->v[COUNTER_VOLUNTARY]);
                infp_row_i64(row, TREE_INVOLUNTARY, total->v[COUNTER_INVOLUNTARY]);
        }
        if (s->counts_delays)
                infp_row_i64(row, TREE_RUN_DELAY, total->v[COUNTER_RUN_DELAY]);
        /* What was never seen for any process is not 0. */
        for (size_t i = 0; s->tree_io <= ACCESS_UNSEEN && (s->has_seen_io || !s->n_io_unseen) && i < INFP_COUNT(io);
             i++)
                infp_row_i64(row, io[i].cell, total->v[io[i].counter]);
}

/* A tree without a live process (the command has not started or has ended, or no process was found to attach to) has nothing
 * to measure. tree_processes shows that, and another row of `sources` why: no row for each column. */
static void fill_gauges(const struct processes *s, struct infp_emit *emit, struct infp_row *row)
{
        const int64_t peak = s->gauges.rss_peak > s->ended_rss_peak ? s->gauges.rss_peak : s->ended_rss_peak;

        if (peak)
                infp_row_i64(row, TREE_RSS_PEAK, peak);
        else
                infp_emit_quiet(emit, TREE_RSS_PEAK);
        if (!s->gauges.n_alive) {
                for (unsigned cell = TREE_THREADS; cell <= TREE_SWAP; cell++)
                        infp_emit_quiet(emit, cell);
                return;
        }
        infp_row_i64(row, TREE_THREADS, s->gauges.n_threads);
        if (s->gauges.n_unmeasured) /* a sum without them would be too small */
                return;
        infp_row_i64(row, TREE_RSS, s->gauges.rss);
        infp_row_i64(row, TREE_VMS, s->gauges.vms);
        if (s->status != ACCESS_MISSING)
                infp_row_i64(row, TREE_SWAP, s->gauges.swap);
}

static int sample_all(struct processes *s, const struct infp_env *env, struct infp_emit *emit)
{
        for (size_t i = 0; i < infp_target_count(env->target); i++) {
                struct infp_process *p = infp_target_at(env->target, i);

                INFP_TRY(p->is_gone ? sample_gone(s, env, emit, p) : sample_live(s, env, emit, p));
        }
        return 0;
}

static int processes_sample(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        struct processes *s = state;
        struct infp_reaped reaped = infp_target_reaped_at_refresh(env->target);
        struct process_share total;
        struct infp_row *row;
        int r;

        s->now_ns = env->now_ns(env);
        s->gauges = (struct process_gauges){ 0 };
        s->has_clocks = false;
        s->status = s->io = s->pss = ACCESS_UNKNOWN;
        s->tree_io = s->ended_io;
        check_settings(s, env);
        /* Without a target the tree is all processes, and most ticks do not read all of them. */
        s->has_totals = infp_target_mode(env->target) != INFP_MODE_HOST || infp_target_is_full(env->target);
        if (s->has_totals)
                process_total_begin(&s->total, &reaped);
        r = sample_all(s, env, emit);
        if (r < 0)
                return infp_fail(err, r, "no memory for the processes");
        if (!s->has_totals)
                return 0;
        process_total_end(&s->total, &total);
        row = infp_emit_begin(emit, &infp_table_tree, s->now_ns);
        fill_gauges(s, emit, row);
        fill_tree(s, row, &total);
        explain(s, env, emit);
        infp_emit_commit(emit);
        return 0;
}

static void processes_close(void *state)
{
        struct processes *s = state;

        process_total_done(&s->total);
        process_delays_done(&s->delays);
}

static const struct infp_table *const tables[] = { &infp_table_process, &infp_table_processes, &infp_table_tree, NULL };

const struct infp_collector infp_collector_processes = {
        .name = "processes",
        .help = "Processes of the command or of the attached tree, with -p of the whole machine, and the tree's "
                "totals.",
        .tables = tables,
        .flags = INFP_WALKS_TARGET,
        .state_size = sizeof(struct processes),
        .open = processes_open,
        .sample = processes_sample,
        .close = processes_close,
};
