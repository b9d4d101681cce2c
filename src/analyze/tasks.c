#include "analyze/tasks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/sort.h"
#include "model/stack_tables.h"

static enum infp_task_does does(const struct infp_profile *profile, const struct infp_profile_sum *sum)
{
        const char *state = infp_profile_str(profile, sum->state);

        return !state ? INFP_TASK_RUNS : !strcmp(state, INFP_STATE_WAITS_FOR_LOOP) ? INFP_TASK_READY : INFP_TASK_AWAITS;
}

/* NULL: no memory. */
static struct infp_task *task_of(struct infp_profile *profile, const struct infp_profile_sum *sum,
                                 struct infp_map *known, struct infp_tasks *ret)
{
        const struct infp_profile_process *process = &profile->processes[sum->process];
        const uint64_t *at;
        uint32_t name;
        uint64_t key;
        char label[512];

        infp_profile_task_label(profile, sum, label, sizeof(label));
        if (infp_strings_add(&profile->strings, label, strlen(label), &name) < 0)
                return NULL;
        key = (uint64_t) sum->process << 32 | name;
        at = infp_map_get(known, key);
        if (at)
                return &ret->list[*at];
        if (!INFP_MAKE_ROOM(ret->list, ret->n, ret->cap, 16) || infp_map_put(known, key, ret->n) < 0)
                return NULL;
        ret->list[ret->n] = (struct infp_task){ .name = name, .process = process->name, .pid = process->pid };
        return &ret->list[ret->n++];
}

static int by_seconds(const void *a, const void *b)
{
        const struct infp_task *x = a, *y = b;

        return x->total_s > y->total_s ? -1 : x->total_s < y->total_s;
}

static int take_all(struct infp_profile *profile, struct infp_map *known, struct infp_tasks *ret)
{
        for (uint32_t i = 0; i < profile->n_sums; i++) {
                const struct infp_profile_sum *sum = &profile->sums[i];
                struct infp_task *task = task_of(profile, sum, known, ret);
                const enum infp_task_does it = does(profile, sum);

                if (!task)
                        return -ENOMEM;
                task->seconds[it] += sum->weight;
                task->total_s += sum->weight;
                if (it == INFP_TASK_AWAITS)
                        INFP_TRY(infp_profile_places_add(&task->places, profile, sum->node, sum->weight));
        }
        for (uint32_t i = 0; i < ret->n; i++)
                infp_profile_places_sort(&ret->list[i].places);
        infp_sort(ret->list, ret->n, sizeof(*ret->list), by_seconds);
        return 0;
}

int infp_tasks_read(struct infp_run *run, uint64_t t0, uint64_t t1, struct infp_tasks *ret, struct infp_err *err)
{
        infp_cleanup(infp_profile_done) struct infp_profile profile = { 0 };
        const struct infp_profile_options options = {
                .t0 = t0, .t1 = t1, .mode = infp_stack_modes[INFP_STACK_ASYNC].name, .keeps_tasks = true
        };
        infp_cleanup(infp_map_done) struct infp_map known = { 0 };
        int r;

        *ret = (struct infp_tasks){ 0 };
        INFP_TRY(infp_profile_read(run, &options, &profile, err));
        r = take_all(&profile, &known, ret);
        ret->strings = profile.strings;
        profile.strings = (struct infp_strings){ 0 };
        if (r < 0)
                infp_tasks_done(ret);
        return r < 0 ? infp_fail(err, r, "no memory for the tasks of asyncio") : 0;
}

void infp_tasks_done(struct infp_tasks *tasks)
{
        for (uint32_t i = 0; i < tasks->n; i++)
                infp_profile_places_done(&tasks->list[i].places);
        free(tasks->list);
        infp_strings_done(&tasks->strings);
        *tasks = (struct infp_tasks){ 0 };
}
