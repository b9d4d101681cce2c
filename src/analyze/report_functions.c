#include "analyze/report_functions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/profile/profile.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"

/* By a prefix of the object's base name or of the function's name: a wheel's "libgomp-1a2b.so.1" is stripped. */
static const struct {
        enum infp_busy_kind kind;
        const char *object, *function;
} signs[] = {
        { INFP_BUSY_OPENMP, "libgomp", NULL },
        { INFP_BUSY_OPENMP, "libiomp5", NULL },
        { INFP_BUSY_OPENMP, "libomp", NULL },
        { INFP_BUSY_OPENMP, NULL, "OpenMP wait " }, /* recognised by its code: symbols/object.c */
        { INFP_BUSY_OPENMP, NULL, "gomp_barrier_wait" },
        { INFP_BUSY_OPENMP, NULL, "gomp_team_barrier_wait" },
        { INFP_BUSY_OPENMP, NULL, "gomp_simple_barrier_wait" },
        { INFP_BUSY_OPENMP, NULL, "__kmp_wait" },
        { INFP_BUSY_OPENMP, NULL, "__kmp_hyper_barrier" },
        { INFP_BUSY_GGML, NULL, "ggml_barrier" },
        { INFP_BUSY_GGML, NULL, "ggml_thread_cpu_relax" },
        { INFP_BUSY_GGML, NULL, "ggml_graph_compute_poll_for_work" },
        { INFP_BUSY_YIELD, NULL, "sched_yield" },
        { INFP_BUSY_YIELD, NULL, "__sched_yield" },
        { INFP_BUSY_YIELD, NULL, "__x64_sys_sched_yield" },
        { INFP_BUSY_YIELD, NULL, "__arm64_sys_sched_yield" },
        { INFP_BUSY_YIELD, NULL, "do_sched_yield" },
        { INFP_BUSY_LOCK, NULL, "pthread_spin_lock" },
        { INFP_BUSY_LOCK, NULL, "__pthread_spin_lock" },
        { INFP_BUSY_LOCK, NULL, "native_queued_spin_lock_slowpath" },
        { INFP_BUSY_LOCK, NULL, "queued_spin_lock_slowpath" },
};

const char *infp_busy_name(enum infp_busy_kind kind)
{
        static const char *const names[] = {
                [INFP_BUSY_OPENMP] = "OpenMP barriers",
                [INFP_BUSY_GGML] = "ggml barriers",
                [INFP_BUSY_YIELD] = "sched_yield polling",
                [INFP_BUSY_LOCK] = "spin locks",
        };

        return names[kind];
}

static bool starts(const char *text, const char *with)
{
        return text && with && !strncmp(text, with, strlen(with));
}

static enum infp_busy_kind kind_of(const struct infp_flame_function *f)
{
        for (size_t i = 0; !f->is_group && i < INFP_COUNT(signs); i++)
                if (starts(f->object, signs[i].object) || starts(f->name, signs[i].function))
                        return signs[i].kind;
        return INFP_BUSY_KINDS;
}

/* The kind of a stack, by its innermost frames: the kernel's work for a polling caller is polling, and the caller of
 * sched_yield may be a barrier. `kinds`: of the functions. */
static enum infp_busy_kind kind_of_stack(const struct infp_flame *flame, const uint8_t *kinds, uint32_t node)
{
        enum infp_busy_kind ret = INFP_BUSY_KINDS;

        for (uint32_t f; (f = flame->nodes[node].function) != UINT32_MAX; node = flame->nodes[node].parent) {
                if (kinds[f] != INFP_BUSY_KINDS)
                        ret = kinds[f];
                if (flame->functions[f].is_group ||
                    (flame->functions[f].kind != INFP_FRAME_KERNEL && kinds[f] != INFP_BUSY_YIELD))
                        break;
        }
        return ret;
}

static int find_waited(const struct infp_flame *flame, struct infp_busy *busy)
{
        infp_autofree uint8_t *kinds = malloc(flame->n_functions + 1);

        if (!kinds)
                return -ENOMEM;
        for (uint32_t i = 0; i < flame->n_functions; i++)
                kinds[i] = kind_of(&flame->functions[i]);
        busy->seconds = flame->weight;
        for (uint32_t i = 0; i < flame->n_nodes; i++) {
                const enum infp_busy_kind kind =
                        flame->nodes[i].self_weight > 0 ? kind_of_stack(flame, kinds, i) : INFP_BUSY_KINDS;

                if (kind != INFP_BUSY_KINDS)
                        busy->waited_s[kind] += flame->nodes[i].self_weight;
        }
        return 0;
}

double infp_busy_waited_s(const struct infp_busy *busy)
{
        double ret = 0;

        for (unsigned i = 0; i < INFP_BUSY_KINDS; i++)
                ret += busy->waited_s[i];
        return ret;
}

struct threads {
        struct infp_map seconds; /* by process and tid: bits of a double */
};

static void threads_done(struct threads *threads)
{
        infp_map_done(&threads->seconds);
}

static int add_thread(struct threads *threads, struct infp_busy *busy, uint64_t process, int64_t tid, double weight)
{
        const uint64_t parts[] = { process, (uint64_t) tid }, key = infp_hash64(parts, sizeof(parts), 0);
        const uint64_t *known = infp_map_get(&threads->seconds, key);
        double seconds = 0;
        uint64_t bits;

        if (known)
                memcpy(&seconds, known, sizeof(seconds));
        seconds += weight;
        memcpy(&bits, &seconds, sizeof(bits));
        if (seconds > busy->thread_s) {
                busy->thread_s = seconds;
                busy->tid = tid;
        }
        return infp_map_put(&threads->seconds, key, bits);
}

/* The thread that had most, and waits for a CPU. */
static int find_thread(const struct infp_profile *profile, struct infp_busy *busy)
{
        infp_cleanup(threads_done) struct threads threads = { { 0 } };

        for (uint32_t i = 0; i < profile->n_sums; i++) {
                const struct infp_profile_sum *sum = &profile->sums[i];
                const enum infp_stack_mode mode = infp_stack_mode_of(infp_profile_str(profile, sum->mode));
                const char *state = infp_profile_str(profile, sum->state);

                if (mode == INFP_STACK_OFF_CPU) {
                        busy->has_waits = true;
                        busy->runnable_s += state && !strcmp(state, "runnable") ? sum->weight : 0;
                }
                if (mode == INFP_STACK_CPU)
                        INFP_TRY(add_thread(&threads, busy, profile->processes[sum->process].id,
                                            profile->threads[sum->thread].tid, sum->weight));
        }
        return 0;
}

void infp_report_functions_done(struct infp_report_functions *functions)
{
        for (unsigned i = 0; i < functions->n; i++) {
                infp_flame_done(&functions->flames[i]);
                infp_flame_done(&functions->lines[i]);
        }
        infp_code_done(&functions->code);
        for (unsigned i = 0; i < INFP_COUNT(functions->strings); i++)
                infp_strings_done(&functions->strings[i]);
        functions->n = 0;
}

static int find_busy(struct infp_profile *profile, struct infp_busy *busy, struct infp_err *err)
{
        static const struct infp_flame_options options = { 0 };
        struct infp_flame flame;
        int r;

        INFP_TRY(infp_flame_make(profile, infp_stack_modes[INFP_STACK_CPU].name, &options, &flame, err));
        r = find_waited(&flame, busy);
        infp_flame_done(&flame);
        if (r >= 0)
                r = find_thread(profile, busy);
        return r < 0 ? infp_fail(err, -ENOMEM, "no memory for the busy threads of the run") : 0;
}

static int make_flame(struct infp_profile *profile, const char *mode, enum infp_flame_by by, uint64_t all_samples,
                      struct infp_flame *ret, struct infp_err *err)
{
        const struct infp_flame_options options = { .fold_waiting = true, .by = by };

        INFP_TRY(infp_flame_make(profile, mode, &options, ret, err));
        ret->all_samples = all_samples;
        free(ret->nodes);
        ret->nodes = NULL;
        ret->n_nodes = 0;
        return 0;
}

struct count {
        const char *mode; /* NULL: it has no name */
        uint64_t samples;
};

/* Modes that have samples, of whole stacks: ours, else the only one. Returns how many. */
static unsigned find_modes(const struct infp_profile *profile, struct count *ret)
{
        bool is_one = profile->n_sums > 0;
        unsigned n = 0;

        for (unsigned i = 0; i < INFP_STACK_MODES; i++) {
                ret[n] = (struct count){ infp_stack_modes[i].name, 0 };
                for (uint32_t k = 0; k < profile->n_sums; k++)
                        if (infp_stack_mode_of(infp_profile_str(profile, profile->sums[k].mode)) == i)
                                ret[n].samples += profile->sums[k].samples;
                n += ret[n].samples > 0;
        }
        for (uint32_t i = 1; i < profile->n_sums; i++)
                is_one &= profile->sums[i].mode == profile->sums[0].mode;
        if (!n && is_one)
                ret[n++] = (struct count){ profile->mode, profile->samples };
        return n;
}

static int add_flames(struct infp_profile *profile, struct infp_report_functions *ret, struct infp_err *err)
{
        struct count counts[INFP_STACK_MODES];
        const unsigned n = find_modes(profile, counts);

        INFP_TRY(infp_profile_take_part(profile, ret->part, err));
        for (unsigned i = 0; i < n; i++, ret->n++) {
                const struct count *count = &counts[i];
                int r;

                INFP_TRY(make_flame(profile, count->mode, INFP_FLAME_BY_NOTHING, count->samples, &ret->flames[ret->n],
                                    err));
                r = make_flame(profile, count->mode, INFP_FLAME_BY_LINE, count->samples, &ret->lines[ret->n], err);
                if (r < 0)
                        infp_flame_done(&ret->flames[ret->n]);
                INFP_TRY(r);
        }
        return 0;
}

/* 1: there are some of that unit; 0: none, or several modes of an import: `flamegraph --mode` takes one. */
static int read_unit(struct infp_run *run, const struct infp_profile_options *options, struct infp_strings *ret_strings,
                     struct infp_report_functions *ret, struct infp_err *err)
{
        infp_cleanup(infp_profile_done) struct infp_profile profile = { 0 };
        int r = infp_profile_read(run, options, &profile, err);

        if (r == -ENODATA || r == -EINVAL)
                return 0;
        INFP_TRY(r);
        r = options->unit ? 0 : find_busy(&profile, &ret->busy, err);
        if (r >= 0 && !options->unit && infp_code_read(&profile, &ret->code) < 0)
                r = infp_fail(err, -ENOMEM, "no memory for the code of the run");
        if (r >= 0)
                r = add_flames(&profile, ret, err);
        *ret_strings = profile.strings;
        profile.strings = (struct infp_strings){ 0 };
        return r < 0 ? r : 1;
}

static bool has_heap(const struct infp_sampling *sampling)
{
        for (unsigned i = 0; i < INFP_STACK_MODES; i++)
                if (infp_stack_modes[i].space && infp_sampling_find(sampling, (enum infp_stack_mode) i))
                        return true;
        return false;
}

int infp_report_functions_read(struct infp_run *run, uint64_t t0, uint64_t t1, enum infp_profile_part part,
                               struct infp_report_functions *ret, struct infp_err *err)
{
        struct infp_profile_options options = { .t0 = t0, .t1 = t1, .all_modes = true };
        int r;

        *ret = (struct infp_report_functions){ .part = part };
        INFP_TRY(infp_sampling_read(run, t0, t1, &ret->sampling, err));
        r = read_unit(run, &options, &ret->strings[0], ret, err);
        options.unit = infp_stack_modes[INFP_STACK_HEAP].unit;
        if (r >= 0 && has_heap(&ret->sampling) && !(ret->n && !strcmp(ret->flames[0].unit, options.unit))) {
                r = read_unit(run, &options, &ret->strings[1], ret, err);
        }
        if (r < 0)
                infp_report_functions_done(ret);
        return r < 0 ? r : 0;
}
