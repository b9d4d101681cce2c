/* Adds samples up by stack, thread, state and mode. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/profile/parts.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/sort.h"

enum { P_ID, P_PID, P_NAME };
static const struct infp_profile_column process_columns[] = {
        [P_ID] = { "id", INFP_ID64 }, [P_PID] = { "pId", INFP_I64 }, [P_NAME] = { "pName", INFP_STR }
};
enum { T_ID, T_PROCESS, T_TID, T_NAME, T_PID, T_PYTHON_NAME };
static const struct infp_profile_column thread_columns[] = {
        [T_ID] = { "id", INFP_ID64 },   [T_PROCESS] = { "process", INFP_ID64 },
        [T_TID] = { "tid", INFP_I64 },  [T_NAME] = { "tName", INFP_STR },
        [T_PID] = { "tPid", INFP_I64 }, [T_PYTHON_NAME] = { "tPythonName", INFP_STR }
};
enum {
        PROCESS,
        TID,
        THREAD,
        STACK,
        WEIGHT,
        SAMPLES,
        STATE,
        MODE,
        IS_TRUNCATED,
        IS_COMPLETED,
        CUT_BYTES,
        TASK,
        OBJECTS
};
static const struct infp_profile_column sample_columns[] = {
        [PROCESS] = { "process", INFP_ID64 },
        [TID] = { "tid", INFP_I64 },
        [THREAD] = { "thread", INFP_ID64 },
        [STACK] = { "stack", INFP_ID64 },
        [WEIGHT] = { "weight", INFP_F64 },
        [SAMPLES] = { "samples", INFP_I64 },
        [STATE] = { "state", INFP_STR },
        [MODE] = { "mode", INFP_STR },
        [IS_TRUNCATED] = { "is_truncated", INFP_BOOL },
        [IS_COMPLETED] = { "is_completed", INFP_BOOL },
        [CUT_BYTES] = { "cut_bytes", INFP_I64 },
        [TASK] = { "task", INFP_STR },
        [OBJECTS] = { "objects", INFP_F64 },
};

/* The arrays hold what is hashed; 64 bits do not collide by chance. */
static uint64_t hash_of(const void *parts, size_t size, uint64_t seed)
{
        return infp_hash64(parts, size, seed);
}

static int process_of(struct infp_profile_reader *reader, uint64_t id, uint32_t *ret, struct infp_err *err)
{
        struct infp_profile *s = reader->profile;
        const uint64_t *known = infp_map_get(&reader->processes, id);

        if (known) {
                *ret = (uint32_t) *known;
                return 0;
        }
        INFP_TRY(infp_profile_room(&s->processes, &reader->cap_processes, s->n_processes, sizeof(*s->processes), err));
        if (infp_map_put(&reader->processes, id, s->n_processes) < 0)
                return infp_profile_no_memory(err);
        s->processes[s->n_processes] = (struct infp_profile_process){ .id = id };
        *ret = s->n_processes++;
        return 0;
}

/* key: the id, or a hash in its place. */
static int thread_of(struct infp_profile_reader *reader, uint64_t key, const struct infp_profile_thread *is,
                     uint32_t *ret, struct infp_err *err)
{
        struct infp_profile *s = reader->profile;
        const uint64_t *known = infp_map_get(&reader->threads, key);

        if (known) {
                *ret = (uint32_t) *known;
                return 0;
        }
        INFP_TRY(infp_profile_room(&s->threads, &reader->cap_threads, s->n_threads, sizeof(*s->threads), err));
        if (infp_map_put(&reader->threads, key, s->n_threads) < 0)
                return infp_profile_no_memory(err);
        s->threads[s->n_threads] = *is;
        *ret = s->n_threads++;
        return 0;
}

static int read_processes(struct infp_profile_reader *reader, struct infp_profile_scan *scan, struct infp_err *err)
{
        int r;

        while ((r = infp_profile_scan_next(scan, err)) > 0) {
                struct infp_profile_process *process;
                uint32_t i = 0, name;

                INFP_TRY(process_of(reader, infp_profile_id(scan, P_ID), &i, err));
                INFP_TRY(infp_profile_text(reader, scan, P_NAME, &name, err));
                process = &reader->profile->processes[i];
                process->pid = infp_profile_i64(scan, P_PID);
                process->name = name ? name : process->name;
        }
        return r;
}

/* One that lived between two looks at the processes is known by its threads alone, and has its first one's name. */
static void name_process(struct infp_profile_process *process, int64_t pid, const struct infp_profile_thread *thread)
{
        if (!process->pid)
                process->pid = pid;
        if (!process->name && thread->tid == process->pid)
                process->name = thread->name;
}

static int read_threads(struct infp_profile_reader *reader, struct infp_profile_scan *scan, struct infp_err *err)
{
        int r;

        while ((r = infp_profile_scan_next(scan, err)) > 0) {
                struct infp_profile_thread is = { .id = infp_profile_id(scan, T_ID),
                                                  .tid = infp_profile_i64(scan, T_TID) };
                uint32_t i;

                if (!is.id)
                        continue;
                INFP_TRY(process_of(reader, infp_profile_id(scan, T_PROCESS), &is.process, err));
                INFP_TRY(infp_profile_text(reader, scan, T_PYTHON_NAME, &is.name, err));
                if (!is.name)
                        INFP_TRY(infp_profile_text(reader, scan, T_NAME, &is.name, err));
                INFP_TRY(thread_of(reader, is.id, &is, &i, err));
                reader->profile->threads[i] = is;
                name_process(&reader->profile->processes[is.process], infp_profile_i64(scan, T_PID), &is);
        }
        return r;
}

static int who(struct infp_profile_reader *reader, const struct infp_profile_scan *scan, struct infp_profile_sum *sum,
               struct infp_err *err)
{
        const uint64_t parts[] = { infp_profile_id(scan, PROCESS), (uint64_t) infp_profile_i64(scan, TID) };
        struct infp_profile_thread is = { .id = infp_profile_id(scan, THREAD), .tid = infp_profile_i64(scan, TID) };

        INFP_TRY(process_of(reader, parts[0], &sum->process, err));
        is.process = sum->process;
        return thread_of(reader, is.id ? is.id : hash_of(parts, sizeof(parts), 1), &is, &sum->thread, err);
}

static bool is_wanted(const struct infp_profile_reader *reader, const struct infp_profile_sum *sum)
{
        if (reader->options->process && reader->profile->processes[sum->process].pid != reader->options->process)
                return false;
        for (uint32_t i = 0; i < reader->n_modes; i++)
                if (reader->modes[i] == sum->mode)
                        return true;
        return false;
}

static int sum_of(struct infp_profile_reader *reader, const struct infp_profile_sum *is, uint32_t *ret,
                  struct infp_err *err)
{
        const uint64_t parts[] = {
                is->stack, is->thread, is->process, is->state, is->mode, is->task, is->is_truncated
        };
        const uint64_t key = hash_of(parts, sizeof(parts), 0);
        const uint64_t *known = infp_map_get(&reader->sums, key);
        struct infp_profile *s = reader->profile;

        if (known) {
                *ret = (uint32_t) *known;
                return 0;
        }
        INFP_TRY(infp_profile_room(&s->sums, &reader->cap_sums, s->n_sums, sizeof(*s->sums), err));
        if (infp_map_put(&reader->sums, key, s->n_sums) < 0)
                return infp_profile_no_memory(err);
        s->sums[s->n_sums] = *is;
        *ret = s->n_sums++;
        return 0;
}

static int add_moment(struct infp_profile_reader *reader, uint64_t t_ns, uint32_t sum, uint64_t samples, double weight,
                      struct infp_err *err)
{
        struct infp_profile *s = reader->profile;
        const double part = (double) (t_ns - s->t0) / (double) (s->t1 - s->t0);
        uint32_t bucket = (uint32_t) (part * s->n_buckets);
        const uint64_t *known;

        bucket = bucket < s->n_buckets ? bucket : s->n_buckets - 1;
        known = infp_map_get(&reader->moments, (uint64_t) bucket << 32 | sum);
        if (known) {
                s->moments[*known].samples += samples;
                s->moments[*known].weight += weight;
                return 0;
        }
        INFP_TRY(infp_profile_room(&s->moments, &reader->cap_moments, s->n_moments, sizeof(*s->moments), err));
        if (infp_map_put(&reader->moments, (uint64_t) bucket << 32 | sum, s->n_moments) < 0)
                return infp_profile_no_memory(err);
        s->moments[s->n_moments++] = (struct infp_profile_moment){ bucket, sum, samples, weight };
        return 0;
}

static int add_time(struct infp_profile_reader *reader, uint64_t t_ns, uint32_t sum, uint64_t samples, double weight,
                    struct infp_err *err)
{
        struct infp_profile *s = reader->profile;

        INFP_TRY(infp_profile_room(&s->times, &reader->cap_times, s->n_times, sizeof(*s->times), err));
        s->times[s->n_times++] =
                (struct infp_profile_time){ t_ns, sum, (uint32_t) (samples < UINT32_MAX ? samples : UINT32_MAX),
                                            weight };
        return 0;
}

static bool is_numbered(const char *name, size_t size)
{
        const size_t n = strlen("Task-");
        size_t i = n;

        if (size <= n || memcmp(name, "Task-", n) != 0)
                return false;
        while (i < size && name[i] >= '0' && name[i] <= '9')
                i++;
        return i == size;
}

/* Names of asyncio's own are one: a server has a new one for each request. */
static int task_of(struct infp_profile_reader *reader, const struct infp_profile_scan *scan, uint32_t *ret,
                   struct infp_err *err)
{
        static const char none[] = INFP_PROFILE_NO_TASK_NAME;
        const char *name;
        size_t size;

        if (!infp_profile_has(scan, TASK))
                return 0;
        name = infp_batch_str(&scan->batch, (unsigned) scan->at[TASK], scan->row, &size);
        if (!is_numbered(name, size))
                return infp_profile_text(reader, scan, TASK, ret, err);
        return infp_strings_add(&reader->profile->strings, none, strlen(none), ret) < 0 ? infp_profile_no_memory(err)
                                                                                        : 0;
}

static int add_row(struct infp_profile_reader *reader, const struct infp_profile_scan *scan, struct infp_err *err)
{
        const uint64_t t_ns = (uint64_t) infp_batch_i64(&scan->batch, 0, scan->row);
        const int64_t n = infp_profile_has(scan, SAMPLES) ? infp_profile_i64(scan, SAMPLES) : 1;
        struct infp_profile_sum is = { .stack = infp_profile_id(scan, STACK),
                                       .is_truncated = infp_profile_bool(scan, IS_TRUNCATED) };
        struct infp_profile *s = reader->profile;
        const unsigned measure = reader->takes_objects ? OBJECTS : WEIGHT;
        double weight = 0;
        uint32_t i = 0;

        INFP_TRY(infp_profile_text(reader, scan, MODE, &is.mode, err));
        INFP_TRY(infp_profile_text(reader, scan, STATE, &is.state, err));
        INFP_TRY(who(reader, scan, &is, err));
        if (!is_wanted(reader, &is) || n <= 0 ||
            infp_profile_is_replaced(reader, s->processes[is.process].id, is.mode, t_ns))
                return 0;
        if (reader->options->keeps_tasks)
                INFP_TRY(task_of(reader, scan, &is.task, err));
        if (infp_profile_has(scan, measure)) {
                weight = infp_profile_number(scan, measure);
                reader->has_weights = true;
        }
        INFP_TRY(sum_of(reader, &is, &i, err));
        s->sums[i].samples += (uint64_t) n;
        s->sums[i].completed_samples += infp_profile_bool(scan, IS_COMPLETED) ? (uint64_t) n : 0;
        if (infp_profile_has(scan, CUT_BYTES))
                infp_profile_cut(&s->sums[i].cut, infp_profile_i64(scan, CUT_BYTES), infp_profile_i64(scan, CUT_BYTES));
        if (infp_profile_has(scan, OBJECTS))
                s->sums[i].objects += infp_profile_number(scan, OBJECTS);
        s->sums[i].weight += weight;
        s->sums[i].squares += weight * weight / (double) n;
        s->samples += (uint64_t) n;
        s->weight += weight;
        s->first_t_ns = s->first_t_ns && s->first_t_ns < t_ns ? s->first_t_ns : t_ns;
        s->last_t_ns = s->last_t_ns > t_ns ? s->last_t_ns : t_ns;
        if (s->n_buckets)
                INFP_TRY(add_moment(reader, t_ns, i, (uint64_t) n, weight, err));
        return reader->options->keeps_times ? add_time(reader, t_ns, i, (uint64_t) n, weight, err) : 0;
}

/* Without weights each sample counts as one. */
static void weigh_by_samples(struct infp_profile *s)
{
        s->unit = "samples";
        s->weight = (double) s->samples;
        for (uint32_t i = 0; i < s->n_sums; i++)
                s->sums[i].weight = s->sums[i].squares = (double) s->sums[i].samples;
        for (uint32_t i = 0; i < s->n_times; i++)
                s->times[i].weight = s->times[i].samples;
        for (uint32_t i = 0; i < s->n_moments; i++)
                s->moments[i].weight = (double) s->moments[i].samples;
}

static int by_time(const void *a, const void *b)
{
        const struct infp_profile_time *x = a, *y = b;

        if (x->t_ns != y->t_ns)
                return x->t_ns < y->t_ns ? -1 : 1;
        return (x->sum > y->sum) - (x->sum < y->sum);
}

static int read_rows(struct infp_profile_reader *reader, struct infp_profile_scan *scan, struct infp_err *err)
{
        int r;

        while ((r = infp_profile_scan_next(scan, err)) > 0)
                INFP_TRY(add_row(reader, scan, err));
        return r;
}

int infp_profile_read_samples(struct infp_profile_reader *reader, struct infp_err *err)
{
        struct infp_profile *s = reader->profile;

        INFP_TRY(infp_profile_read_table(reader, "process", process_columns, INFP_COUNT(process_columns), false,
                                         read_processes, err));
        INFP_TRY(infp_profile_read_table(reader, "threads", thread_columns, INFP_COUNT(thread_columns), false,
                                         read_threads, err));
        INFP_TRY(infp_profile_read_programs(reader, err));
        INFP_TRY(infp_profile_read_table(reader, "stack_samples", sample_columns, INFP_COUNT(sample_columns), true,
                                         read_rows, err));
        if (!s->samples && reader->options->process)
                return infp_fail(err, -ENODATA, "the run has no stack samples of process %lld",
                                 (long long) reader->options->process);
        if (!reader->has_weights && reader->takes_objects)
                return infp_fail(
                        err, -ENODATA,
                        "the run does not say how many blocks its samples stand for; --mode %s has their bytes",
                        infp_stack_modes[infp_stack_mode_of_objects(reader->options->mode)].name);
        if (!reader->has_weights)
                weigh_by_samples(s);
        infp_sort(s->times, s->n_times, sizeof(*s->times), by_time);
        return 0;
}
