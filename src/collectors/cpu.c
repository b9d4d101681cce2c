/* CPU time of the machine and of each core: /proc/stat, and the load of /proc/loadavg.
 *
 * Cores are known by the number that the kernel gives them, never by their place: an offline core leaves a hole. */
#include <errno.h>

#include "collect/collector.h"
#include "collectors/fields.h"

enum cpu_cell {
        CPU_TIME,
        CPU_USER,
        CPU_KERNEL,
        CPU_IDLE,
        CPU_IOWAIT,
        CPU_IRQ,
        CPU_SOFTIRQ,
        CPU_NICE,
        CPU_STEAL,
        CPU_GUEST,
        CPU_GUEST_NICE,
        CPU_CORE_N, /* columns that cores have, too, end here */
        CPU_CONTEXT_SWITCHES = CPU_CORE_N,
        CPU_LOAD1,
        CPU_LOAD5,
        CPU_LOAD15,
        CPU_THREADS,
        CPU_INTERRUPTS,
        CPU_SOFT_INTERRUPTS,
        CPU_FORKS,
        CPU_RUNNING,
        CPU_BLOCKED,
        CPU_N,
};

/* proc(5): iowait may decrease, and idle with it, since both are estimates for sleeping cores. Steal comes from a hypervisor,
 * and from another one after a migration. */
// clang-format off
static const struct infp_column cpu_columns[] = {
        [CPU_TIME] = INFP_COLUMN(vCpuTime, I64, COUNTER, cs, DERIVED, ZERO, NULL, 0, "infprof_host_cpu_time_seconds_total", "Time in user and kernel mode; nice, interrupts and waiting are not included."),
        [CPU_USER] = INFP_COLUMN(vCpuTimeUserMode, I64, COUNTER, cs, MEASURED, ZERO, "stat:1", 0, "infprof_host_cpu_user_seconds_total", "Time in user mode, guests of virtual machines included, nice excluded."),
        [CPU_KERNEL] = INFP_COLUMN(vCpuTimeKernelMode, I64, COUNTER, cs, MEASURED, ZERO, "stat:3", 0, "infprof_host_cpu_kernel_seconds_total", "Time in kernel mode."),
        [CPU_IDLE] = INFP_COLUMN(vCpuIdleTime, I64, COUNTER, cs, MEASURED, NONE, "stat:4", 0, "infprof_host_cpu_idle_seconds_total", "Idle time."),
        [CPU_IOWAIT] = INFP_COLUMN(vCpuTimeIOWait, I64, COUNTER, cs, MEASURED, NONE, "stat:5", 0, "infprof_host_cpu_iowait_seconds_total", "Idle time while a task waited for I/O; the kernel may take some of it back."),
        [CPU_IRQ] = INFP_COLUMN(vCpuTimeIntSrvc, I64, COUNTER, cs, MEASURED, ZERO, "stat:6", 0, "infprof_host_cpu_interrupt_seconds_total", "Time in hardware interrupts."),
        [CPU_SOFTIRQ] = INFP_COLUMN(vCpuTimeSoftIntSrvc, I64, COUNTER, cs, MEASURED, ZERO, "stat:7", 0, "infprof_host_cpu_soft_interrupt_seconds_total", "Time in software interrupts."),
        [CPU_NICE] = INFP_COLUMN(vCpuNice, I64, COUNTER, cs, MEASURED, ZERO, "stat:2", 0, "infprof_host_cpu_nice_seconds_total", "Time of niced processes in user mode."),
        [CPU_STEAL] = INFP_COLUMN(vCpuSteal, I64, COUNTER, cs, MEASURED, NONE, "stat:8", 0, "infprof_host_cpu_steal_seconds_total", "Time that the hypervisor gave to others while this machine wanted to run."),
        [CPU_GUEST] = INFP_COLUMN(vCpuGuest, I64, COUNTER, cs, MEASURED, ZERO, "stat:9", 0, "infprof_host_cpu_guest_seconds_total", "Time of guests of this machine, also in vCpuTimeUserMode."),
        [CPU_GUEST_NICE] = INFP_COLUMN(vCpuGuestNice, I64, COUNTER, cs, MEASURED, ZERO, "stat:10", 0, "infprof_host_cpu_guest_nice_seconds_total", "Time of niced guests of this machine, also in vCpuNice."),
        [CPU_CONTEXT_SWITCHES] = INFP_COLUMN(vCpuContextSwitches, I64, COUNTER, count, MEASURED, ZERO, "stat:ctxt", 0, "infprof_host_context_switches_total", "Context switches of all CPUs."),
        [CPU_LOAD1] = INFP_COLUMN(vLoadAvg, F64, GAUGE, ratio, MEASURED, NO, "loadavg:0", 0, "infprof_host_load1", "Load: tasks that run or wait uninterruptibly, 1-minute average."),
        [CPU_LOAD5] = INFP_COLUMN(vLoadAvg5, F64, GAUGE, ratio, MEASURED, NO, "loadavg:1", 0, "infprof_host_load5", "Load, 5-minute average."),
        [CPU_LOAD15] = INFP_COLUMN(vLoadAvg15, F64, GAUGE, ratio, MEASURED, NO, "loadavg:2", 0, "infprof_host_load15", "Load, 15-minute average."),
        [CPU_THREADS] = INFP_COLUMN(vThreads, I64, GAUGE, count, MEASURED, NO, NULL, 0, "infprof_host_threads", "Threads of all processes (the number after the slash of loadavg)."),
        [CPU_INTERRUPTS] = INFP_COLUMN(vInterrupts, I64, COUNTER, count, MEASURED, ZERO, "stat:intr", 0, "infprof_host_interrupts_total", "Hardware interrupts served."),
        [CPU_SOFT_INTERRUPTS] = INFP_COLUMN(vSoftInterrupts, I64, COUNTER, count, MEASURED, ZERO, "stat:softirq", 0, "infprof_host_soft_interrupts_total", "Software interrupts served."),
        [CPU_FORKS] = INFP_COLUMN(vProcessesForked, I64, COUNTER, count, MEASURED, ZERO, "stat:processes", 0, "infprof_host_forks_total", "Processes and threads made since boot."),
        [CPU_RUNNING] = INFP_COLUMN(vProcessesRunning, I64, GAUGE, count, MEASURED, NO, "stat:procs_running", 0, "infprof_host_threads_runnable", "Threads that run or are ready to run."),
        [CPU_BLOCKED] = INFP_COLUMN(vProcessesBlocked, I64, GAUGE, count, MEASURED, NO, "stat:procs_blocked", 0, "infprof_host_threads_blocked", "Threads that wait for I/O."),
};

static const struct infp_column core_keys[] = {
        INFP_COLUMN(core, I64, LABEL, none, MEASURED, NO, "cpu", 0, NULL, "Number of the core in the kernel."),
};
// clang-format on

static const struct infp_table cpu_table = {
        .name = "cpu",
        .help = "CPU time and load of the whole machine.",
        .columns = cpu_columns,
        .n_columns = CPU_N,
        .section = "cpu",
        .series = "",
};

static const struct infp_table core_table = {
        .name = "cpu_core",
        .help = "CPU time of each core that is online.",
        .keys = core_keys,
        .n_keys = 1,
        .columns = cpu_columns,
        .n_columns = CPU_CORE_N,
        .section = "cpu_core",
};

struct cpu {
        struct infp_procfile stat, loadavg;
        struct infp_fields stat_fields, load_fields, core_fields;
        struct infp_span words[INFP_FIELD_WORDS];
};

static int cpu_open(void *state, const struct infp_env *env, struct infp_err *err)
{
        struct cpu *cpu = state;
        int r, s;

        cpu->stat = cpu->loadavg = (struct infp_procfile) INFP_PROCFILE_INIT;
        infp_fields_init(&cpu->stat_fields, &cpu_table, "stat", "/proc/stat", env->ticks_per_s);
        infp_fields_init(&cpu->load_fields, &cpu_table, "loadavg", "/proc/loadavg", 0);
        infp_fields_init(&cpu->core_fields, &core_table, "stat", "/proc/stat", env->ticks_per_s);
        r = infp_procfile_open(&cpu->stat, env->root_fd, "proc/stat", !env->is_live);
        s = infp_procfile_open(&cpu->loadavg, env->root_fd, "proc/loadavg", !env->is_live);
        if (r < 0 && s < 0)
                return infp_fail_errno(err, r == -ENOENT ? -ENODEV : r,
                                       "/proc/stat cannot be opened (is /proc mounted?)");
        return 0;
}

static void set_time(struct infp_row *row, unsigned n_keys)
{
        int64_t sum;

        if (infp_row_has(row, n_keys + CPU_USER) && infp_row_has(row, n_keys + CPU_KERNEL) &&
            !__builtin_add_overflow(row->cell[n_keys + CPU_USER].i64, row->cell[n_keys + CPU_KERNEL].i64, &sum))
                infp_row_i64(row, n_keys + CPU_TIME, sum);
}

/* "cpu12 ..." gives 12; the line of the sum, "cpu ...", is not a core. */
static bool core_number(struct infp_span word, int64_t *ret)
{
        word.at += 3;
        word.size -= 3;
        return !infp_span_i64(word, ret) && *ret >= 0;
}

static void emit_core(struct cpu *cpu, struct infp_emit *emit, struct infp_span line, uint64_t t_ns)
{
        size_t n = infp_span_words(line, cpu->words, INFP_FIELD_WORDS);
        struct infp_row *row;
        int64_t core;

        if (!core_number(cpu->words[0], &core))
                return;
        row = infp_emit_begin(emit, &core_table, t_ns);
        infp_row_i64(row, 0, core);
        infp_fields_words(&cpu->core_fields, row, cpu->words, n);
        set_time(row, core_table.n_keys);
        infp_emit_commit(emit);
}

static void emit_cores(struct cpu *cpu, struct infp_emit *emit, struct infp_span text, uint64_t t_ns)
{
        struct infp_span line;

        /* Their lines come first; the long ones after them are not needed. */
        while (infp_span_line(&text, &line) && infp_span_starts(line, "cpu"))
                emit_core(cpu, emit, line, t_ns);
}

static void fill_stat(struct cpu *cpu, struct infp_row *row, struct infp_span text)
{
        struct infp_span line;

        while (infp_span_line(&text, &line)) {
                if (infp_span_starts(line, "cpu ")) {
                        size_t n = infp_span_words(line, cpu->words, INFP_FIELD_WORDS);

                        infp_fields_words(&cpu->stat_fields, row, cpu->words, n);
                } else if (!infp_span_starts(line, "cpu")) {
                        infp_fields_named(&cpu->stat_fields, row, line);
                }
        }
        set_time(row, 0);
}

static void fill_load(struct cpu *cpu, struct infp_row *row, struct infp_span text)
{
        struct infp_span line, threads;
        uint64_t n_threads;
        size_t n;

        if (!infp_span_line(&text, &line))
                return;
        n = infp_span_words(line, cpu->words, INFP_FIELD_WORDS);
        infp_fields_words(&cpu->load_fields, row, cpu->words, n);
        if (n > 3 && (infp_span_cut(cpu->words[3], '/', &threads), !infp_span_u64(threads, &n_threads)))
                infp_row_raw(row, CPU_THREADS, n_threads);
}

static int cpu_sample(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        struct cpu *cpu = state;
        uint64_t t_ns = env->now_ns(env);
        int r = infp_procfile_read(&cpu->stat, env->root_fd, "proc/stat");
        int s = infp_procfile_read(&cpu->loadavg, env->root_fd, "proc/loadavg");
        struct infp_span stat = infp_whole_words(infp_procfile_text(&cpu->stat));
        struct infp_row *row;

        if (r < 0 && s < 0)
                return infp_fail_errno(err, r, "/proc/stat cannot be read");
        emit_cores(cpu, emit, stat, t_ns);
        row = infp_emit_begin(emit, &cpu_table, t_ns);
        fill_stat(cpu, row, stat);
        fill_load(cpu, row, infp_whole_words(infp_procfile_text(&cpu->loadavg)));
        infp_fields_explain(&cpu->stat_fields, emit, r);
        infp_fields_explain_derived(&cpu->stat_fields, emit, CPU_TIME, r);
        infp_fields_explain(&cpu->load_fields, emit, s);
        infp_fields_explain_derived(&cpu->load_fields, emit, CPU_THREADS, s);
        infp_emit_commit(emit);
        return 0;
}

static void cpu_close(void *state)
{
        struct cpu *cpu = state;

        infp_procfile_done(&cpu->stat);
        infp_procfile_done(&cpu->loadavg);
}

static const struct infp_table *const cpu_tables[] = { &cpu_table, &core_table, NULL };

const struct infp_collector infp_collector_cpu = {
        .name = "cpu",
        .help = "CPU time, load and context switches of the machine and its cores.",
        .tables = cpu_tables,
        .state_size = sizeof(struct cpu),
        .open = cpu_open,
        .sample = cpu_sample,
        .close = cpu_close,
};
