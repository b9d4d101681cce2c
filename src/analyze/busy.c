#include "analyze/busy.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "query/scan.h"

/* By the base name of the object or the name of the function, as far as it goes: "libgomp-1a2b.so.1" of a wheel is stripped. */
static const struct {
        enum infp_busy_kind kind;
        const char *object, *function;
} signs[] = {
        { INFP_BUSY_OPENMP, "libgomp", NULL },
        { INFP_BUSY_OPENMP, "libiomp5", NULL },
        { INFP_BUSY_OPENMP, "libomp", NULL },
        { INFP_BUSY_OPENMP, NULL, "OpenMP wait " }, /* of symbols/object.c: told by its code */
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
        for (size_t i = 0; i < INFP_COUNT(signs); i++)
                if (starts(f->object, signs[i].object) || starts(f->name, signs[i].function))
                        return signs[i].kind;
        return INFP_BUSY_KINDS;
}

/* Of a stack by its innermost frames: what the kernel does for who polls is polling, and who polls may be a barrier. */
static enum infp_busy_kind kind_of_stack(const struct infp_flame *flame, uint32_t node)
{
        enum infp_busy_kind ret = INFP_BUSY_KINDS;

        for (; flame->nodes[node].function != UINT32_MAX; node = flame->nodes[node].parent) {
                const struct infp_flame_function *f = &flame->functions[flame->nodes[node].function];
                const enum infp_busy_kind kind = f->is_group ? INFP_BUSY_KINDS : kind_of(f);

                if (kind != INFP_BUSY_KINDS)
                        ret = kind;
                if (f->is_group || (f->kind != INFP_FRAME_KERNEL && kind != INFP_BUSY_YIELD))
                        break;
        }
        return ret;
}

void infp_busy_waited(const struct infp_flame *flame, struct infp_busy *busy)
{
        busy->seconds = flame->weight;
        for (uint32_t i = 0; i < flame->n_nodes; i++) {
                const enum infp_busy_kind kind =
                        flame->nodes[i].self_weight > 0 ? kind_of_stack(flame, i) : INFP_BUSY_KINDS;

                if (kind != INFP_BUSY_KINDS)
                        busy->waited_s[kind] += flame->nodes[i].self_weight;
        }
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
        struct infp_busy *busy;
};

static void threads_done(struct threads *threads)
{
        infp_map_done(&threads->seconds);
}

static int add(struct threads *threads, uint64_t process, int64_t tid, double weight)
{
        const uint64_t parts[] = { process, (uint64_t) tid }, key = infp_hash64(parts, sizeof(parts), 0);
        const uint64_t *known = infp_map_get(&threads->seconds, key);
        double seconds = 0;
        uint64_t bits;

        if (known)
                memcpy(&seconds, known, sizeof(seconds));
        seconds += weight;
        memcpy(&bits, &seconds, sizeof(bits));
        if (seconds > threads->busy->thread_s) {
                threads->busy->thread_s = seconds;
                threads->busy->tid = tid;
        }
        return infp_map_put(&threads->seconds, key, bits);
}

static bool is_text(const char *text, size_t size, const char *wanted)
{
        return size == strlen(wanted) && !memcmp(text, wanted, size);
}

static void add_wait(struct infp_busy *busy, const struct infp_batch *batch, int state, uint32_t row, double seconds)
{
        size_t size;
        const char *text = state >= 0 ? infp_batch_str(batch, (unsigned) state, row, &size) : NULL;

        busy->has_waits = true;
        if (text && is_text(text, size, "runnable") && seconds > 0)
                busy->runnable_s += seconds;
}

int infp_busy_thread(struct infp_run *run, uint64_t t0, uint64_t t1, struct infp_busy *busy, struct infp_err *err)
{
        static const char *const columns[] = { "process", "tid", "weight", "mode", "state", NULL };
        enum { PROCESS, TID, WEIGHT, MODE, STATE, N };
        const struct infp_scan_options options = { .t0 = t0, .t1 = t1, .columns = columns };
        infp_cleanup(threads_done) struct threads threads = { .busy = busy };
        struct infp_scan *scan;
        struct infp_batch batch;
        int r = infp_scan_open(run, infp_table_stack_samples.name, &options, &scan, err);

        if (r < 0)
                return r == -ENOENT ? 0 : r;
        while (r >= 0 && (r = infp_scan_next(scan, &batch, err)) > 0) {
                int at[N];

                for (unsigned i = 0; i < N; i++)
                        at[i] = infp_table_find(batch.table, columns[i]);
                for (uint32_t row = 0; at[TID] >= 0 && at[WEIGHT] >= 0 && at[MODE] >= 0 && row < batch.n_rows && r > 0;
                     row++) {
                        size_t size;
                        const char *mode = infp_batch_str(&batch, (unsigned) at[MODE], row, &size);
                        const double weight = infp_batch_number(&batch, (unsigned) at[WEIGHT], row);

                        if (is_text(mode, size, "off-cpu"))
                                add_wait(busy, &batch, at[STATE], row, weight);
                        if (!is_text(mode, size, "cpu") || !(weight > 0))
                                continue;
                        if (add(&threads, at[PROCESS] >= 0 ? infp_batch_u64(&batch, (unsigned) at[PROCESS], row) : 0,
                                infp_batch_i64(&batch, (unsigned) at[TID], row), weight) < 0)
                                r = infp_fail(err, -ENOMEM, "no memory for the threads of the run");
                }
        }
        infp_scan_close(scan);
        return r;
}
