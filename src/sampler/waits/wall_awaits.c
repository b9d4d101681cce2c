/* Tasks that await tasks, themselves or by a future that others set in the end: the stack of one goes on into the other's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/sort.h"
#include "sampler/waits/wall_tasks_parts.h"

enum {
        AWAITED = 16,  /* tasks that await each other */
        WOKEN = 64,    /* by a task or future */
        FOLLOWED = 64, /* futures that a task wakes, and that these wake */
};

static const struct wall_one *find_one(const struct infp_wall_tasks *tasks, uint64_t address)
{
        return address ? bsearch(&address, tasks->ones, tasks->n, sizeof(*tasks->ones), infp_wall_by_address) : NULL;
}

static bool may_be_awaited(const struct wall_one *one)
{
        return one && one->is_sure && !one->is_foreign;
}

/* A future that a task awaits may be set by other tasks: gather's by its members, the one that a TaskGroup, asyncio.wait, wait_for or shield
 * wait for by theirs. Callbacks of those lead to it. */

static void count_setter(struct infp_wall_tasks *tasks, uint64_t future, uint32_t task)
{
        const struct wait *end = tasks->waits + tasks->n_waits,
                          *at = bsearch(&future, tasks->waits, tasks->n_waits, sizeof(*at), infp_wall_by_address);

        while (at && at > tasks->waits && at[-1].future == future)
                at--;
        for (; at && at < end && at->future == future; at++) {
                struct wall_one *one = &tasks->ones[at->task];

                one->n_setters += !one->n_setters || one->setter != task;
                one->setter = task;
        }
}

/* By what a task or a future wakes; a task that is woken awaits it itself. Left: how many futures may still be followed. False: not all
 * were. */
static bool find_setters(struct infp_wall_tasks *tasks, uint32_t task, uint64_t future, unsigned *left)
{
        uint64_t woken[WOKEN];
        uint32_t n;

        if (!*left)
                return false;
        --*left;
        n = infp_python_woken(&tasks->objects, future, woken, WOKEN);
        for (uint32_t i = 0; i < n; i++) {
                count_setter(tasks, woken[i], task);
                if (!find_one(tasks, woken[i]) && !find_setters(tasks, task, woken[i], left))
                        return false;
        }
        return n < WOKEN;
}

/* What was known of a task holds while the task has not changed and none of the tasks that set its future has ended. True: it holds. */
static bool keep_setters(const struct infp_wall_tasks *tasks, struct wall_one *one, bool may_look)
{
        const struct wall_known *known = infp_wall_known(tasks, one->task.address);
        const struct wall_one *setter = known && known->n_setters ? find_one(tasks, known->setter) : NULL;

        if (!known || !known->is_followed || known->hash != one->hash ||
            (known->n_setters && !may_be_awaited(setter)) || (known->n_setters > 1 && may_look))
                return false;
        one->is_followed = true;
        one->n_setters = known->n_setters;
        one->setter = setter ? (uint32_t) (setter - tasks->ones) : 0;
        return true;
}

/* False: not all that are there were followed. */
static bool find_all_setters(struct infp_wall_tasks *tasks)
{
        bool are_all = true;

        for (uint32_t i = 0; i < tasks->n_waits; i++)
                tasks->ones[tasks->waits[i].task].n_setters = 0;
        for (uint32_t i = 0; i < tasks->n && tasks->n_waits; i++) {
                unsigned left = FOLLOWED;

                are_all &=
                        !may_be_awaited(&tasks->ones[i]) || find_setters(tasks, i, tasks->ones[i].task.address, &left);
        }
        return are_all;
}

/* Where the loop runs, what is found twice. */
void infp_wall_follow_futures(struct infp_wall_tasks *tasks, const struct infp_wall_tasks_look *look)
{
        bool may_look = !tasks->left_out, are_all;

        for (uint32_t i = 0; i < tasks->n; i++)
                may_look &= tasks->ones[i].is_sure || tasks->ones[i].is_foreign;
        tasks->n_waits = 0;
        for (uint32_t i = 0; i < tasks->n; i++) {
                struct wall_one *one = &tasks->ones[i];

                if (may_be_awaited(one) && one->waits_for && !find_one(tasks, one->waits_for) &&
                    !keep_setters(tasks, one, may_look) && may_look)
                        tasks->waits[tasks->n_waits++] = (struct wait){ .future = one->waits_for, .task = i };
        }
        infp_sort(tasks->waits, tasks->n_waits, sizeof(*tasks->waits), infp_wall_by_address);
        are_all = find_all_setters(tasks);
        for (uint32_t i = 0; i < tasks->n_waits; i++) {
                tasks->waits[i].n_setters = tasks->ones[tasks->waits[i].task].n_setters;
                tasks->waits[i].setter = tasks->ones[tasks->waits[i].task].setter;
        }
        if (!look->is_asleep)
                are_all = are_all && find_all_setters(tasks);
        for (uint32_t i = 0; i < tasks->n_waits; i++) {
                const struct wait *wait = &tasks->waits[i];
                struct wall_one *one = &tasks->ones[wait->task];

                if (!are_all || one->n_setters != wait->n_setters || one->setter != wait->setter)
                        one->n_setters = 0;
                else
                        one->is_followed = true;
        }
}

void infp_wall_forget_futures(struct infp_wall_tasks *tasks)
{
        for (uint32_t i = 0; i < tasks->n_waits; i++) {
                tasks->ones[tasks->waits[i].task].n_setters = 0;
                tasks->ones[tasks->waits[i].task].is_followed = false;
        }
}

/* Index of the task that one awaits: by itself, or as the last one that its future waits for. UINT32_MAX: none. */
static uint32_t find_awaited(const struct infp_wall_tasks *tasks, const struct wall_one *one)
{
        const struct wall_one *found =
                one->n_setters == 1 ? &tasks->ones[one->setter] : find_one(tasks, one->waits_for);

        return may_be_awaited(found) && found != one ? (uint32_t) (found - tasks->ones) : UINT32_MAX;
}

/* The next one on the way from ones[i] to what it waits for at last; n: how many were before it. */
static struct wall_one *next_of(struct infp_wall_tasks *tasks, const struct wall_one *one, unsigned n)
{
        return one->next != UINT32_MAX && n < AWAITED ? &tasks->ones[one->next] : NULL;
}

/* Whether it is new, by itself or by those that it awaits. */
static void judge(struct infp_wall_tasks *tasks, struct wall_one *one)
{
        const struct wall_known *known = infp_wall_known(tasks, one->task.address);
        bool is_running = one->has_frames && one->task.is_running;
        unsigned n = 0;

        one->whole = one->hash ^ one->n_setters;
        for (const struct wall_one *at = one; (at = next_of(tasks, at, n)); n++) {
                one->whole = infp_hash64(&at->hash, sizeof(at->hash), one->whole);
                is_running |= at->has_frames && at->task.is_running;
        }
        one->is_new = is_running || !known || known->whole != one->whole;
}

bool infp_wall_link_tasks(struct infp_wall_tasks *tasks)
{
        bool needs = false;

        for (uint32_t i = 0; i < tasks->n; i++) {
                struct wall_one *one = &tasks->ones[i];

                one->next = one->is_foreign ? UINT32_MAX : find_awaited(tasks, one);
                one->is_linked |= one->n_setters > 0;
                if (one->next != UINT32_MAX)
                        one->is_linked = tasks->ones[one->next].is_linked = true;
        }
        for (uint32_t i = 0; i < tasks->n; i++)
                if (tasks->ones[i].is_sure)
                        judge(tasks, &tasks->ones[i]);
        for (uint32_t i = 0; i < tasks->n; i++) {
                struct wall_one *one = &tasks->ones[i];

                if (!one->is_sure || !one->is_linked || one->has_frames)
                        continue;
                one->is_read = one->is_sure = false;
                needs = true;
        }
        return needs;
}

/* Its frames, and before them those of the tasks that it awaits, as far as there is room. */
static void join(struct infp_wall_tasks *tasks, struct wall_one *one)
{
        const struct wall_one *way[AWAITED], *last = one, *at;
        struct infp_frames_one *frames = tasks->pool + tasks->n_pool;
        uint32_t n = one->task.n, size = 0;
        unsigned n_way = 0;

        while ((at = next_of(tasks, last, n_way)) && at->is_sure && at->has_frames && n + at->task.n <= WALL_CHAIN) {
                way[n_way++] = last = at;
                n += at->task.n;
        }
        if (at && (!at->is_sure || !at->has_frames)) /* it has changed all the time */
                one->whole = 0;
        if (n > WALL_POOL - tasks->n_pool) {
                last = one;
                n_way = 0;
        }
        one->task.is_cut |= last->task.is_cut || last->next != UINT32_MAX;
        if (!n_way)
                return;
        while (n_way > 0) {
                const struct infp_wall_task *task = &way[--n_way]->task;

                memcpy(frames + size, task->frames, task->n * sizeof(*frames));
                size += task->n;
        }
        memcpy(frames + size, one->task.frames, one->task.n * sizeof(*frames));
        one->joined = frames;
        one->n_joined = n;
        tasks->n_pool += n;
}

void infp_wall_join_tasks(struct infp_wall_tasks *tasks)
{
        for (uint32_t i = 0; i < tasks->n; i++)
                if (tasks->ones[i].is_sure && tasks->ones[i].is_new && tasks->ones[i].next != UINT32_MAX)
                        join(tasks, &tasks->ones[i]);
        for (uint32_t i = 0; i < tasks->n; i++) {
                struct wall_one *one = &tasks->ones[i];
                const struct wall_one *awaited = one->next == UINT32_MAX ? find_one(tasks, one->waits_for) : NULL;

                one->task.is_cut |= awaited && !awaited->is_sure && !awaited->is_foreign; /* it changes all the time */
                if (one->n_joined) {
                        one->task.frames = one->joined;
                        one->task.n = one->n_joined;
                }
                if (one->n_setters > 1)
                        snprintf(one->task.state, sizeof(one->task.state), "waiting for %u tasks", one->n_setters);
        }
}
