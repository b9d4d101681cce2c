/* What the files of a container say. A file that is half there gives what it has; one that is not there leaves its cells empty. */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "collectors/container/state.h"
#include "collectors/fields.h"

enum { V1 = 1, V2 = 2, BOTH = V1 | V2, TICKS = 0 };

/* A number of a file: after `name` at the start of a line, or the whole text. times / by: to the cell's unit; by TICKS: ticks
 * of USER_HZ to cs. Of v1's memory.stat the lines total_... come later and win: they count the cgroups below as well, as
 * memory.usage_in_bytes does. */
static const struct pick {
        enum container_file file;
        uint8_t versions, cell;
        const char *name;
        uint32_t times, by;
} picks[] = {
        { FILE_CPU_STAT, V2, C_CPU_TIME, "usage_usec", 1000, 1 },
        { FILE_CPU_STAT, V2, C_CPU_USER, "user_usec", 1, 10000 },
        { FILE_CPU_STAT, V2, C_CPU_USER_NS, "user_usec", 1000, 1 },
        { FILE_CPU_STAT, V2, C_CPU_KERNEL, "system_usec", 1, 10000 },
        { FILE_CPU_STAT, V2, C_CPU_KERNEL_NS, "system_usec", 1000, 1 },
        { FILE_CPU_STAT, BOTH, C_PERIODS, "nr_periods", 1, 1 },
        { FILE_CPU_STAT, BOTH, C_THROTTLED, "nr_throttled", 1, 1 },
        { FILE_CPU_STAT, V2, C_THROTTLED_NS, "throttled_usec", 1000, 1 },
        { FILE_CPU_STAT, V1, C_THROTTLED_NS, "throttled_time", 1, 1 },
        { FILE_CPU_USAGE, V1, C_CPU_TIME, NULL, 1, 1 },
        { FILE_CPU_USER, V1, C_CPU_USER_NS, NULL, 1, 1 },
        { FILE_CPU_SYSTEM, V1, C_CPU_KERNEL_NS, NULL, 1, 1 },
        { FILE_CPU_TICKS, V1, C_CPU_USER, "user", 1, TICKS },
        { FILE_CPU_TICKS, V1, C_CPU_KERNEL, "system", 1, TICKS },
        { FILE_MEMORY, BOTH, C_MEMORY_USED, NULL, 1, 1 },
        { FILE_MEMORY_PEAK, BOTH, C_MEMORY_PEAK, NULL, 1, 1 },
        { FILE_MEMORY_STAT, V2, C_MEMORY_ANON, "anon", 1, 1 },
        { FILE_MEMORY_STAT, V2, C_MEMORY_FILE, "file", 1, 1 },
        { FILE_MEMORY_STAT, V2, C_MEMORY_KERNEL, "kernel", 1, 1 },
        { FILE_MEMORY_STAT, BOTH, C_MEMORY_SHMEM, "shmem", 1, 1 },
        { FILE_MEMORY_STAT, BOTH, C_MEMORY_INACTIVE_FILE, "inactive_file", 1, 1 },
        { FILE_MEMORY_STAT, BOTH, C_MAJOR_FAULTS, "pgmajfault", 1, 1 },
        { FILE_MEMORY_STAT, V1, C_MEMORY_ANON, "rss", 1, 1 },
        { FILE_MEMORY_STAT, V1, C_MEMORY_FILE, "cache", 1, 1 },
        { FILE_MEMORY_STAT, V1, C_SWAP_USED, "swap", 1, 1 },
        { FILE_MEMORY_STAT, V1, C_MEMORY_ANON, "total_rss", 1, 1 },
        { FILE_MEMORY_STAT, V1, C_MEMORY_FILE, "total_cache", 1, 1 },
        { FILE_MEMORY_STAT, V1, C_MEMORY_SHMEM, "total_shmem", 1, 1 },
        { FILE_MEMORY_STAT, V1, C_MEMORY_INACTIVE_FILE, "total_inactive_file", 1, 1 },
        { FILE_MEMORY_STAT, V1, C_MAJOR_FAULTS, "total_pgmajfault", 1, 1 },
        { FILE_MEMORY_STAT, V1, C_SWAP_USED, "total_swap", 1, 1 },
        { FILE_MEMORY_EVENTS, V2, C_MEMORY_HIGH_HITS, "high", 1, 1 },
        { FILE_MEMORY_EVENTS, V2, C_MEMORY_LIMIT_HITS, "max", 1, 1 },
        { FILE_MEMORY_EVENTS, BOTH, C_OOM_KILLS, "oom_kill", 1, 1 },
        { FILE_MEMORY_FAILS, V1, C_MEMORY_LIMIT_HITS, NULL, 1, 1 },
        { FILE_MEMORY_KERNEL, V1, C_MEMORY_KERNEL, NULL, 1, 1 },
        { FILE_SWAP, V2, C_SWAP_USED, NULL, 1, 1 },
        { FILE_PIDS, BOTH, C_PIDS, NULL, 1, 1 },
        { FILE_PIDS_EVENTS, BOTH, C_PIDS_LIMIT_HITS, "max", 1, 1 },
};

static const struct {
        enum container_file file;
        uint8_t some, full; /* cells; 0: none */
} pressures[] = {
        { FILE_PSI_CPU, C_CPU_SOME, C_CPU_FULL },
        { FILE_PSI_MEMORY, C_MEMORY_SOME, C_MEMORY_FULL },
        { FILE_PSI_IO, C_IO_SOME, C_IO_FULL },
        { FILE_PSI_IRQ, 0, C_IRQ_FULL },
};

static void set(const struct infp_env *env, struct infp_row *row, const struct pick *pick, struct infp_span word)
{
        uint64_t v;

        if (infp_span_u64(word, &v))
                return;
        if (pick->by == TICKS) {
                if (!__builtin_mul_overflow(v, 100u, &v))
                        infp_row_raw(row, pick->cell, v / env->ticks_per_s);
        } else if (!__builtin_mul_overflow(v, pick->times, &v)) {
                infp_row_raw(row, pick->cell, v / pick->by);
        }
}

static uint8_t version_bit(const struct container *c, enum container_file file)
{
        return c->is_v2[container_controller(c, file)] ? V2 : V1;
}

/* Those of a file stand together. */
static void picks_of(enum container_file file, size_t *ret_from, size_t *ret_to)
{
        size_t i = 0;

        while (i < INFP_COUNT(picks) && picks[i].file != file)
                i++;
        *ret_from = i;
        while (i < INFP_COUNT(picks) && picks[i].file == file)
                i++;
        *ret_to = i;
}

static void pick_line(const struct infp_env *env, struct infp_row *row, const struct pick *from, const struct pick *to,
                      uint8_t version, struct infp_span line)
{
        struct infp_span name = infp_span_word(&line);

        for (const struct pick *p = from; p < to; p++) {
                struct infp_span rest = line;

                /* The first letter spares most of the comparisons: memory.stat has sixty lines. */
                if (p->name && name.size && p->name[0] == name.at[0] && p->versions & version &&
                    infp_span_is(name, p->name))
                        set(env, row, p, infp_span_word(&rest));
        }
}

/* What was said at the sample before: most containers stand still most of the time, and their texts need not be read again. */
static void pick_again(const struct container *c, struct infp_row *row, const struct pick *from, const struct pick *to)
{
        for (const struct pick *p = from; p < to; p++)
                if (c->last_valid[p->cell / 64] >> p->cell % 64 & 1)
                        infp_row_raw(row, p->cell, c->last[p->cell].u64);
}

static void keep_cells(struct container *c, const struct infp_row *row)
{
        c->last_valid[0] = row->valid[0];
        c->last_valid[1] = row->valid[1];
        memcpy(c->last, row->cell, sizeof(c->last));
}

static void read_picks(struct containers *s, const struct infp_env *env, struct container *c, enum container_file file,
                       struct infp_row *row)
{
        static const char limit[] = "hierarchical_memory_limit ";
        struct infp_span text, line;
        uint8_t version = version_bit(c, file);
        size_t from, to;
        int r = container_read_file(s, env, c, file, &text);

        if (r < 0)
                return;
        picks_of(file, &from, &to);
        if (r > 0) {
                pick_again(c, row, picks + from, picks + to);
                return;
        }
        text = infp_whole_words(text); /* the last number of a text that was cut may be the start of another */
        if (from < to && !picks[from].name) {
                if (infp_span_line(&text, &line))
                        for (; from < to; from++)
                                set(env, row, &picks[from], infp_span_word(&(struct infp_span){ line.at, line.size }));
                return;
        }
        while (infp_span_line(&text, &line)) {
                if (file == FILE_MEMORY_STAT && line.size && line.at[0] == 'h' && infp_span_starts(line, limit)) {
                        infp_span_word(&line);
                        c->limits.memory_hierarchy = infp_cgroup_limit(infp_span_word(&line));
                        continue;
                }
                pick_line(env, row, picks + from, picks + to, version, line);
        }
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=12345" */
static void read_pressure(struct containers *s, const struct infp_env *env, struct container *c, size_t index,
                          struct infp_row *row)
{
        struct infp_span text, line;

        if (container_read_file(s, env, c, pressures[index].file, &text) < 0)
                return;
        text = infp_whole_words(text);
        while (infp_span_line(&text, &line)) {
                struct infp_span what = infp_span_word(&line), word;
                unsigned cell = infp_span_is(what, "some")   ? pressures[index].some
                                : infp_span_is(what, "full") ? pressures[index].full
                                                             : 0;
                uint64_t us;

                while (cell && (word = infp_span_word(&line)).size) {
                        struct infp_span value = { "", 0 }, name = infp_span_cut(word, '=', &value);

                        if (infp_span_is(name, "total") && !infp_span_u64(value, &us) &&
                            !__builtin_mul_overflow(us, 1000u, &us))
                                infp_row_raw(row, cell, us);
                }
        }
}

static unsigned emit_cpus(struct containers *s, const struct infp_env *env, struct infp_emit *emit, struct container *c)
{
        uint64_t t_ns = env->now_ns(env), v;
        struct infp_span text, line = { "", 0 }, word;
        unsigned n = 0;

        if (container_read_file(s, env, c, FILE_CPU_EACH, &text) < 0)
                return 0;
        text = infp_whole_words(text);
        infp_span_line(&text, &line);
        while ((word = infp_span_word(&line)).size && !infp_span_u64(word, &v)) {
                struct infp_row *row = infp_emit_begin(emit, &infp_table_container_cpu, t_ns);

                infp_row_id(row, CPU_OF, c->id);
                infp_row_i64(row, CPU_NUMBER, n++);
                infp_row_raw(row, CPU_TIME_NS, v);
                infp_emit_commit(emit);
        }
        return n;
}

static void derive(const struct container *c, struct infp_row *row, unsigned n_cpus)
{
        if (infp_row_has(row, C_MEMORY_USED) && infp_row_has(row, C_MEMORY_INACTIVE_FILE) &&
            row->cell[C_MEMORY_USED].i64 >= row->cell[C_MEMORY_INACTIVE_FILE].i64)
                infp_row_i64(row, C_MEMORY_WORKING_SET,
                             row->cell[C_MEMORY_USED].i64 - row->cell[C_MEMORY_INACTIVE_FILE].i64);
        if (!infp_row_has(row, C_PROCESSORS) && n_cpus)
                infp_row_i64(row, C_PROCESSORS, n_cpus);
        infp_row_bool(row, C_IS_TARGET, c->is_target);
        if (c->is_target && c->procs_ns)
                infp_row_i64(row, C_OTHERS, c->n_others);
}

/* The emitter has one row at a time, so those of devices and CPUs, whose sums the row needs, go before. */
int container_sample(struct containers *s, const struct infp_env *env, struct infp_emit *emit, struct container *c)
{
        struct infp_row sums = { .table = NULL }, *row;
        unsigned n_cpus;

        container_see_whether_it_ran(s, env, c);
        n_cpus = emit_cpus(s, env, emit, c);

        infp_row_begin(&sums, &infp_table_containers, s->now_ns);
        container_devices(s, env, emit, c, &sums);
        row = infp_emit_begin(emit, &infp_table_containers, env->now_ns(env));
        infp_row_id(row, C_CONTAINER, c->id);
        for (unsigned cell = C_READ_BYTES; cell < C_N; cell++)
                if (infp_row_has(&sums, cell))
                        infp_row_i64(row, cell, sums.cell[cell].i64);
        for (enum container_file file = 0; file < FILE_PSI_CPU; file++)
                if (file != FILE_CPU_EACH && file != FILE_IO && file != FILE_IO_CALLS)
                        read_picks(s, env, c, file, row);
        for (size_t i = 0; i < INFP_COUNT(pressures); i++)
                read_pressure(s, env, c, i, row);
        container_fill_limits(c, row);
        container_network(s, env, c, row);
        derive(c, row, n_cpus);
        keep_cells(c, row);
        c->is_all_read = false;
        if (c->is_gone)
                return -ENODEV;
        return 0;
}

bool container_file_of_cell(const struct container *c, unsigned cell, enum container_file *ret)
{
        for (size_t i = 0; i < INFP_COUNT(pressures); i++)
                if (cell == pressures[i].some || cell == pressures[i].full) {
                        *ret = pressures[i].file;
                        return true;
                }
        if (cell == C_READ_BYTES || cell == C_WRITE_BYTES || cell == C_READS || cell == C_WRITES) {
                bool calls = (cell == C_READS || cell == C_WRITES) && c->version == 1;

                *ret = calls ? FILE_IO_CALLS : FILE_IO;
                return true;
        }
        if (cell == C_MEMORY_WORKING_SET)
                cell = C_MEMORY_INACTIVE_FILE;
        for (size_t i = 0; i < INFP_COUNT(picks); i++)
                if (picks[i].cell == cell && picks[i].versions & version_bit(c, picks[i].file)) {
                        *ret = picks[i].file;
                        return true;
                }
        return false;
}
