/* Which task awaits which. From 3.14 on tasks and futures of C know who awaits them. Else it is found from both ends: what a task awaits,
 * with the members of a gather, and whom the callbacks of a task wake. What wakes in another way (a queue, an event) is not found. */
#include <stdlib.h>

#include "app/backtrace/parts.h"
#include "base/mem.h"
#include "base/sort.h"

enum {
        MOST_MEMBERS = 1 << 17, /* of a gather, or that await one future */
        MOST_WOKEN = 512,       /* by one task */
        MOST_DEPTH = 8,         /* of gathers in gathers, of futures that await futures */
        MOST_PAIRS = 1 << 22,
};

struct pair {
        uint64_t key; /* a future; in the end the index of a task */
        uint32_t awaiter;
};

struct relations {
        struct infp_backtrace_asyncio *a;
        struct pair *awaits; /* each future, and each task that awaits it; sorted by the future */
        uint32_t n_awaits, cap_awaits;
        struct pair *edges; /* each task, and each that awaits it */
        uint32_t n_edges, cap_edges;
};

static void add_await(struct relations *r, uint64_t future, uint32_t awaiter)
{
        /* bound: what is left out is said */
        if (r->n_awaits < MOST_PAIRS && INFP_MAKE_ROOM(r->awaits, r->n_awaits, r->cap_awaits, 64))
                r->awaits[r->n_awaits++] = (struct pair){ future, awaiter };
        else
                r->a->ret->has_all_awaiters = false;
}

static void add_edge(struct relations *r, uint32_t task, uint32_t awaiter)
{
        if (task == awaiter)
                return;
        /* bound: what is left out is said */
        if (r->n_edges < MOST_PAIRS && INFP_MAKE_ROOM(r->edges, r->n_edges, r->cap_edges, 64))
                r->edges[r->n_edges++] = (struct pair){ task, awaiter };
        else
                r->a->ret->has_all_awaiters = false;
}

static int compare_pairs(const void *left, const void *right)
{
        const struct pair *a = left, *b = right;

        if (a->key != b->key)
                return a->key < b->key ? -1 : 1;
        return (a->awaiter > b->awaiter) - (a->awaiter < b->awaiter);
}

static bool find_task(const struct relations *r, uint64_t address, uint32_t *ret)
{
        const uint64_t *index = infp_map_get(&r->a->by_address, address);

        if (index)
                *ret = (uint32_t) *index;
        return index != NULL;
}

/* ---- from both ends ---- */

static void add_gathered(struct relations *r, uint64_t future, uint32_t awaiter, unsigned depth)
{
        infp_autofree uint64_t *members = NULL;
        uint32_t n;

        add_await(r, future, awaiter);
        if (depth == MOST_DEPTH || !infp_python_is_gather(r->a->objects, future))
                return;
        members = malloc(MOST_MEMBERS * sizeof(*members)); /* untouched memory costs nothing */
        n = members ? infp_python_gathered(r->a->objects, future, members, MOST_MEMBERS) : 0;
        for (uint32_t i = 0; i < n && r->a->ret->has_all_awaiters; i++)
                add_gathered(r, members[i], awaiter, depth + 1);
}

/* Those that await a future await the task that wakes it. */
static void add_awaiting(struct relations *r, uint64_t future, uint32_t task)
{
        uint32_t low = 0, high = r->n_awaits;

        while (low < high) {
                const uint32_t middle = low + (high - low) / 2;

                if (r->awaits[middle].key < future)
                        low = middle + 1;
                else
                        high = middle;
        }
        for (; low < r->n_awaits && r->awaits[low].key == future; low++)
                add_edge(r, task, r->awaits[low].awaiter);
}

static void list_awaits(struct relations *r)
{
        for (uint32_t i = 0; i < r->a->ret->n_tasks; i++)
                if (r->a->waiters[i])
                        add_gathered(r, r->a->waiters[i], i, 0);
        infp_sort(r->awaits, r->n_awaits, sizeof(*r->awaits), compare_pairs);
}

static void find_by_callbacks(struct relations *r, uint32_t task, uint64_t address)
{
        uint64_t woken[MOST_WOKEN];
        const uint32_t n = infp_python_woken(r->a->objects, address, woken, MOST_WOKEN);
        uint32_t awaiter;

        add_awaiting(r, address, task);
        for (uint32_t i = 0; i < n; i++) {
                if (find_task(r, woken[i], &awaiter))
                        add_edge(r, task, awaiter);
                else
                        add_awaiting(r, woken[i], task);
        }
}

/* ---- as it is known ---- */

static void add_awaiters(struct relations *r, uint32_t task, uint64_t future, unsigned depth)
{
        infp_autofree uint64_t *found = malloc(MOST_MEMBERS * sizeof(*found));
        const uint32_t n = found ? infp_python_awaiters(r->a->objects, future, found, MOST_MEMBERS) : 0;
        uint32_t awaiter;

        for (uint32_t i = 0; i < n && r->a->ret->has_all_awaiters; i++) {
                if (find_task(r, found[i], &awaiter))
                        add_edge(r, task, awaiter);
                else if (depth < MOST_DEPTH)
                        add_awaiters(r, task, found[i], depth + 1);
        }
}

/* ---- to the tasks ---- */

static void give_to_tasks(struct relations *r)
{
        struct infp_backtrace_task *tasks = r->a->ret->tasks;
        uint32_t kept = 0;

        infp_sort(r->edges, r->n_edges, sizeof(*r->edges), compare_pairs);
        for (uint32_t i = 0; i < r->n_edges; i++)
                if (!i || compare_pairs(&r->edges[i], &r->edges[i - 1]) != 0)
                        r->edges[kept++] = r->edges[i];
        for (uint32_t i = 0, n; i < kept; i += n) {
                struct infp_backtrace_task *task = &tasks[r->edges[i].key];

                for (n = 1; i + n < kept && r->edges[i + n].key == r->edges[i].key;)
                        n++;
                task->awaited_by = malloc(n * sizeof(*task->awaited_by));
                for (uint32_t k = 0; k < n && task->awaited_by; k++)
                        task->awaited_by[task->n_awaited_by++] = r->edges[i + k].awaiter;
        }
}

void infp_backtrace_tasks_relate(struct infp_backtrace_asyncio *asyncio)
{
        struct relations r = { .a = asyncio };
        struct infp_backtrace_tasks *tasks = asyncio->ret;

        tasks->has_all_awaiters = true;
        list_awaits(&r);
        for (uint32_t i = 0; i < tasks->n_tasks; i++) {
                struct infp_backtrace_task *task = &tasks->tasks[i];

                if (!find_task(&r, asyncio->waiters[i], &task->waits_for_task))
                        task->waits_for_task = UINT32_MAX;
                if (infp_python_knows_awaiters(asyncio->objects, task->address))
                        add_awaiters(&r, i, task->address, 0);
                else
                        find_by_callbacks(&r, i, task->address);
        }
        give_to_tasks(&r);
        free(r.awaits);
        free(r.edges);
}
