/* Samples, their threads, and sums since the start. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/watch/parts.h"
#include "base/hash.h"
#include "base/mem.h"

int watch_take_process(struct infp_watch *watch, const struct watch_batch *b, uint32_t row)
{
        const uint64_t id = watch_id(b, W_PROCESS_ID, row), *found = infp_map_get(&watch->process_by_id, id);
        struct watch_process process = { .pid = watch_i64(b, W_PROCESS_PID, row) };

        if (!id)
                return 0;
        INFP_TRY(watch_text(watch, b, W_PROCESS_NAME, row, &process.name));
        if (found) {
                watch->processes[*found] = process; /* after exec it has another name */
                return 0;
        }
        if (!INFP_MAKE_ROOM(watch->processes, watch->n_processes, watch->cap_processes, 64) ||
            infp_map_put(&watch->process_by_id, id, watch->n_processes) < 0)
                return -ENOMEM;
        watch->processes[watch->n_processes++] = process;
        return 0;
}

/* By process and number: a thread that changes its name is the same row. */
static int thread_of(struct infp_watch *watch, uint64_t process, int64_t tid, uint32_t *ret)
{
        const uint64_t parts[] = { process, (uint64_t) tid };
        const uint64_t key = infp_hash64(parts, sizeof(parts), 13), *found = infp_map_get(&watch->thread_by_id, key);

        *ret = WATCH_NONE;
        if (found) {
                *ret = (uint32_t) *found;
                return 0;
        }
        /* bound: of more threads the list has not all; functions have them */
        if (watch->n_threads >= WATCH_MOST_THREADS)
                return 0;
        if (!INFP_MAKE_ROOM(watch->threads, watch->n_threads, watch->cap_threads, 64) ||
            infp_map_put(&watch->thread_by_id, key, watch->n_threads) < 0)
                return -ENOMEM;
        watch->threads[watch->n_threads] = (struct watch_thread){ .process = process, .tid = tid };
        *ret = watch->n_threads++;
        return 0;
}

int watch_take_thread(struct infp_watch *watch, const struct watch_batch *b, uint32_t row)
{
        uint32_t thread, name;

        INFP_TRY(thread_of(watch, watch_id(b, W_THREAD_PROCESS, row), watch_i64(b, W_THREAD_TID, row), &thread));
        INFP_TRY(watch_text(watch, b, W_THREAD_PYTHON_NAME, row, &name));
        if (!name)
                INFP_TRY(watch_text(watch, b, W_THREAD_NAME, row, &name));
        if (thread != WATCH_NONE && name)
                watch->threads[thread].name = name;
        return 0;
}

/* Room for one more; the oldest go when there are too many. */
static int make_room(struct infp_watch *watch)
{
        if (watch->first_sample > watch->n_samples / 2 ||
            watch->n_samples - watch->first_sample >= WATCH_MOST_SAMPLES) {
                if (watch->n_samples - watch->first_sample >= WATCH_MOST_SAMPLES)
                        watch->first_sample += WATCH_MOST_SAMPLES / 8;
                watch->n_samples -= watch->first_sample;
                memmove(watch->samples, watch->samples + watch->first_sample,
                        watch->n_samples * sizeof(*watch->samples));
                watch->first_sample = 0;
        }
        return INFP_MAKE_ROOM(watch->samples, watch->n_samples, watch->cap_samples, 1024) ? 0 : -ENOMEM;
}

static void count_since(struct infp_watch *watch, const struct watch_sample *sample)
{
        const unsigned mode = sample->mode;

        watch->since_samples[mode] += sample->samples;
        watch->since_used[mode] += (double) sample->weight;
        if (sample->thread != WATCH_NONE)
                watch->threads[sample->thread].sums.since_total[mode] += (double) sample->weight;
        if (sample->node == WATCH_NONE)
                return;
        watch->nodes[sample->node].since[mode] += sample->weight;
        watch_use_stack(watch, sample->node);
        watch_count(watch, sample->node, (double) sample->weight, (int) mode);
}

static int note_state(struct infp_watch *watch, const struct watch_batch *b, uint32_t row, struct watch_sample *sample)
{
        struct watch_thread *thread = sample->thread == WATCH_NONE ? NULL : &watch->threads[sample->thread];

        INFP_TRY(watch_text(watch, b, W_SAMPLE_STATE, row, &sample->state));
        if (!thread || sample->mode != INFP_STACK_WALL || sample->t_ns < thread->state_t_ns)
                return 0;
        thread->state = sample->state;
        thread->state_t_ns = sample->t_ns;
        return 0;
}

int watch_take_sample(struct infp_watch *watch, const struct watch_batch *b, uint32_t row)
{
        struct watch_sample sample = { .t_ns = (uint64_t) infp_batch_i64(&b->batch, 0, row) };
        const int64_t n = watch_has(b, W_SAMPLE_SAMPLES, row) ? watch_i64(b, W_SAMPLE_SAMPLES, row) : 1;
        double weight = (double) n;
        size_t size;
        const char *text = watch_str(b, W_SAMPLE_MODE, row, &size);
        const enum infp_stack_mode mode = infp_stack_mode_by_name(text, size);

        if (mode >= INFP_WATCH_MODES || n <= 0)
                return 0;
        if (watch_has(b, W_SAMPLE_WEIGHT, row))
                weight = infp_batch_f64(&b->batch, (unsigned) b->at[W_SAMPLE_WEIGHT], row);
        sample.weight = isfinite(weight) && weight > 0 ? (float) weight : 0;
        sample.samples = (uint32_t) (n < 0xFFFFFF ? n : 0xFFFFFF) & 0xFFFFFF;
        sample.mode = (unsigned) mode & 0xF;
        text = watch_str(b, W_SAMPLE_GIL, row, &size);
        sample.gil = (unsigned) infp_gil_by_name(text, size) & 0xF;
        sample.node = watch_node_of(watch, watch_id(b, W_SAMPLE_STACK, row));
        watch->left_out += sample.node == WATCH_NONE && watch_has(b, W_SAMPLE_STACK, row);
        INFP_TRY(thread_of(watch, watch_id(b, W_SAMPLE_PROCESS, row), watch_i64(b, W_SAMPLE_TID, row), &sample.thread));
        INFP_TRY(note_state(watch, b, row, &sample));
        watch->sampling[mode].has_mode = true;
        if (sample.t_ns >= watch->since_ns)
                count_since(watch, &sample);
        INFP_TRY(make_room(watch));
        watch->samples[watch->n_samples++] = sample;
        return 0;
}

/* Rows come nearly in order of time. */
void watch_drop_old(struct infp_watch *watch)
{
        const uint64_t from = watch->newest_ns > watch->history_ns ? watch->newest_ns - watch->history_ns : 0;

        while (watch->first_sample < watch->n_samples && watch->samples[watch->first_sample].t_ns < from)
                watch->first_sample++;
}

static void forget_since(struct watch_sums *sums)
{
        memset(sums->since_self, 0, sizeof(sums->since_self));
        memset(sums->since_total, 0, sizeof(sums->since_total));
}

static void forget_code(struct infp_watch *watch)
{
        for (uint32_t i = 0; i < watch->n_functions; i++)
                forget_since(&watch->functions[i].sums);
        for (uint32_t i = 0; i < watch->n_lines; i++)
                forget_since(&watch->lines[i].sums);
}

/* After names have changed: what was counted under the old ones is counted under the new ones. */
void watch_recount(struct infp_watch *watch)
{
        if (!watch->is_stale)
                return;
        watch->is_stale = false;
        forget_code(watch);
        for (uint32_t i = 0; i < watch->n_nodes; i++)
                for (int mode = 0; mode < INFP_WATCH_MODES; mode++)
                        if (watch->nodes[i].since[mode] > 0)
                                watch_count(watch, i, (double) watch->nodes[i].since[mode], mode);
}

void infp_watch_reset(struct infp_watch *watch)
{
        forget_code(watch);
        for (uint32_t i = 0; i < watch->n_threads; i++)
                forget_since(&watch->threads[i].sums);
        for (uint32_t i = 0; i < watch->n_nodes; i++)
                memset(watch->nodes[i].since, 0, sizeof(watch->nodes[i].since));
        memset(watch->since_samples, 0, sizeof(watch->since_samples));
        memset(watch->since_used, 0, sizeof(watch->since_used));
        watch->since_ns = watch->newest_ns + 1;
}
