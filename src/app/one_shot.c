#include "app/one_shot.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"
#include "collect/once.h"
#include "collect/target.h"
#include "model/builder.h"
#include "record/tail.h"

struct take {
        struct infp_sink *tail;
        int64_t unix_minus_mono_ns;
        int r; /* first failure */
        struct infp_err *err;
};

/* The tail takes batches; a batch of one row is made for each. */
static int put(void *context, const struct infp_row *row)
{
        struct take *take = context;
        struct infp_builder *b = infp_builder_new(row->table, 1);
        const int64_t unix_ns = (int64_t) row->t_ns + take->unix_minus_mono_ns;
        int r = b ? infp_builder_append(b, row, unix_ns) : -ENOMEM;

        if (r == -ENOSPC) {
                r = infp_builder_grow(b, row->text_size + 1);
                if (r >= 0)
                        r = infp_builder_append(b, row, unix_ns);
        }
        if (r >= 0) {
                const struct infp_batch batch = infp_builder_batch(b, 0);

                r = take->tail->batch(take->tail, &batch, take->err);
        }
        infp_builder_free(b);
        if (r < 0 && !take->r)
                take->r = r;
        return 0;
}

static int begin_tables(struct infp_sink *tail, struct infp_err *err)
{
        for (const struct infp_table *const *t = infp_all_tables(); *t; t++)
                INFP_TRY(tail->table_begin(tail, *t, err));
        return 0;
}

static int collect(struct infp_one_shot *shot, struct infp_err *err)
{
        const int64_t offset = (int64_t) infp_clock_ns(CLOCK_REALTIME) - (int64_t) infp_clock_ns(CLOCK_MONOTONIC);
        struct take take = { .tail = shot->tail, .unix_minus_mono_ns = offset, .err = err };
        infp_autofree struct infp_emit *emit = calloc(1, sizeof(*emit));
        int r;

        if (!emit)
                return infp_fail(err, -ENOMEM, "no memory for a sample");
        shot->unix_ms = (int64_t) (infp_clock_ns(CLOCK_REALTIME) / INFP_NS_PER_MS);
        infp_emit_init(emit, put, &take);
        r = infp_collect_once(&shot->env, NULL, emit, 0, err);
        if (r < 0)
                return r;
        shot->is_hung = r > 0;
        if (shot->is_hung)
                infp_thread_leave_behind();
        return take.r;
}

int infp_one_shot_take(const char *root, const struct infp_setting *settings, bool all, struct infp_one_shot *ret,
                       struct infp_err *err)
{
        int r;

        *ret = (struct infp_one_shot){ 0 };
        INFP_TRY(infp_env_open(&ret->env, root, err));
        ret->env.settings = settings;
        ret->env.period_ms = 1000;
        r = infp_target_new(INFP_MODE_HOST, all, &ret->env.target, err);
        if (r >= 0)
                r = infp_tail_new(ret->env.period_ms, &ret->tail, err);
        if (r >= 0)
                r = begin_tables(ret->tail, err);
        if (r >= 0)
                r = collect(ret, err);
        if (r < 0) {
                infp_one_shot_done(ret);
                return r;
        }
        ret->last = infp_tail_last(ret->tail);
        return 0;
}

void infp_one_shot_done(struct infp_one_shot *shot)
{
        shot->tail = infp_tail_free(shot->tail);
        if (shot->is_hung)
                return;
        shot->env.target = infp_target_free(shot->env.target);
        infp_env_close(&shot->env);
}
