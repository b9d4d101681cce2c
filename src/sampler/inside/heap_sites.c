#include "sampler/inside/heap_sites.h"

#include <stdlib.h>

#include "base/mem.h"
#include "model/stack_tables.h"
#include "sampler/stacks/parts.h"

enum { MOST_SITES = 1 << 18 /* more than a ring file has room for */ };

/* Of the stack; beyond the bound that of blocks without one. */
uint32_t infp_inside_sites_of(struct infp_inside_sites *sites, const struct infp_stack_found *found)
{
        const uint64_t *at = infp_map_get(&sites->by_stack, found->stack);
        struct infp_stack_found other = *found;

        if (at)
                return (uint32_t) *at;
        if (sites->n >= MOST_SITES && found->stack) {
                sites->n_others++;
                other.stack = 0;
                return infp_inside_sites_of(sites, &other);
        }
        if (!INFP_MAKE_ROOM(sites->list, sites->n, sites->cap, 64) ||
            infp_map_put(&sites->by_stack, found->stack, sites->n) < 0)
                return INFP_INSIDE_NO_SITE;
        sites->list[sites->n] = (struct infp_inside_site){ .found = *found };
        return sites->n++;
}

static double variance_of(const struct infp_inside_weighed *block)
{
        return block->weight * (block->weight - (double) block->size);
}

static double objects_of(const struct infp_inside_weighed *block)
{
        return block->size ? block->weight / (double) block->size : 0;
}

void infp_inside_sites_allocated(struct infp_inside_sites *sites, const struct infp_stack_found *found,
                                 struct infp_inside_weighed *block)
{
        struct infp_inside_site *site;

        /* Those whose stacks wait for unwind tables come later. */
        if (!sites->first_ns || (!sites->window && block->t_ns < sites->first_ns))
                sites->first_ns = sites->begin_ns = block->t_ns;
        block->window = sites->window;
        block->site = infp_inside_sites_of(sites, found);
        if (block->site == INFP_INSIDE_NO_SITE)
                return;
        site = &sites->list[block->site];
        site->has_changed = true;
        site->samples++;
        site->allocated += block->weight;
        site->allocated_variance += variance_of(block);
        site->allocations += objects_of(block);
}

void infp_inside_sites_held(struct infp_inside_sites *sites, const struct infp_inside_weighed *block)
{
        struct infp_inside_site *site;

        if (block->site == INFP_INSIDE_NO_SITE)
                return;
        site = &sites->list[block->site];
        site->live += block->weight;
        site->variance += variance_of(block);
        site->objects += objects_of(block);
        site->blocks++;
}

void infp_inside_sites_freed(struct infp_inside_sites *sites, const struct infp_inside_weighed *block)
{
        struct infp_inside_site *site;

        if (block->site == INFP_INSIDE_NO_SITE)
                return;
        site = &sites->list[block->site];
        site->has_changed = true;
        site->freed += block->weight;
        site->temporary += block->window == sites->window ? block->weight : 0;
        /* What rounding has left is nothing. */
        site->blocks--;
        site->live = site->blocks ? site->live - block->weight : 0;
        site->variance = site->blocks ? site->variance - variance_of(block) : 0;
        site->objects = site->blocks ? site->objects - objects_of(block) : 0;
        site->low = site->live < site->low ? site->live : site->low;
}

bool infp_inside_sites_is_due(const struct infp_inside_sites *sites, uint64_t now_ns)
{
        return sites->first_ns && now_ns >= sites->begin_ns + infp_heap_window_ns(sites->begin_ns - sites->first_ns);
}

void infp_inside_sites_end_begin(struct infp_inside_sites *sites)
{
        for (uint32_t i = 0; i < sites->n; i++) {
                sites->list[i].old = 0;
                sites->list[i].oldest_ns = UINT64_MAX;
        }
}

void infp_inside_sites_age(struct infp_inside_sites *sites, const struct infp_inside_weighed *block, uint64_t t_ns)
{
        struct infp_inside_site *site;

        if (block->site == INFP_INSIDE_NO_SITE)
                return;
        site = &sites->list[block->site];
        site->oldest_ns = block->t_ns < site->oldest_ns ? block->t_ns : site->oldest_ns;
        if (t_ns > sites->first_ns && block->t_ns < sites->first_ns + (t_ns - sites->first_ns) / 2)
                site->old += block->weight;
}

static int put_row(struct infp_stacks *stacks, const struct infp_inside_sites *sites,
                   const struct infp_inside_site *site, uint64_t t_ns, uint64_t mean_bytes, bool is_last)
{
        struct infp_row *row = &stacks->row;

        infp_row_begin(row, &infp_table_heap_windows, t_ns);
        if (site->found.process)
                infp_row_id(row, INFP_HEAP_WINDOWS_PROCESS, site->found.process);
        if (site->found.stack)
                infp_row_id(row, INFP_HEAP_WINDOWS_STACK, site->found.stack);
        infp_row_f64(row, INFP_HEAP_WINDOWS_SECONDS,
                     t_ns > sites->begin_ns ? (double) (t_ns - sites->begin_ns) / 1e9 : 0);
        infp_row_f64(row, INFP_HEAP_WINDOWS_ALLOCATED, site->allocated);
        infp_row_f64(row, INFP_HEAP_WINDOWS_ALLOCATED_VARIANCE, site->allocated_variance);
        infp_row_f64(row, INFP_HEAP_WINDOWS_ALLOCATIONS, site->allocations);
        infp_row_i64(row, INFP_HEAP_WINDOWS_SAMPLES, site->samples);
        infp_row_f64(row, INFP_HEAP_WINDOWS_FREED, site->freed);
        infp_row_f64(row, INFP_HEAP_WINDOWS_TEMPORARY, site->temporary);
        infp_row_f64(row, INFP_HEAP_WINDOWS_LIVE, site->live);
        infp_row_f64(row, INFP_HEAP_WINDOWS_VARIANCE, site->variance);
        infp_row_f64(row, INFP_HEAP_WINDOWS_LOW, site->low);
        infp_row_f64(row, INFP_HEAP_WINDOWS_OLD, site->old);
        infp_row_i64(row, INFP_HEAP_WINDOWS_BLOCKS, site->blocks);
        if (site->blocks)
                infp_row_i64(row, INFP_HEAP_WINDOWS_OLDEST_NS, (int64_t) site->oldest_ns);
        infp_row_i64(row, INFP_HEAP_WINDOWS_MEAN_BYTES, (int64_t) mean_bytes);
        infp_row_bool(row, INFP_HEAP_WINDOWS_IS_LAST, is_last);
        return infp_stack_put_row(stacks);
}

/* A row that finds no room comes with the next window, which then has the sums of both. */
void infp_inside_sites_end(struct infp_inside_sites *sites, struct infp_stacks *stacks, uint64_t t_ns,
                           uint64_t mean_bytes, bool is_last)
{
        bool has_row = false;

        for (uint32_t i = 0; i < sites->n; i++) {
                struct infp_inside_site *site = &sites->list[i];
                /* The last window says when it ended, even if nothing is in use any more. */
                const bool is_needed = is_last && (site->blocks || (!has_row && i == sites->n - 1));

                if (!site->has_changed && !is_needed)
                        continue;
                if (put_row(stacks, sites, site, t_ns, mean_bytes, is_last) < 0) {
                        stacks->counts.modes[INFP_STACK_HEAP].dropped++;
                        continue;
                }
                has_row = true;
                site->has_changed = false;
                site->samples = 0;
                site->allocated = site->allocated_variance = site->allocations = site->freed = site->temporary = 0;
                site->low = site->live;
        }
        sites->begin_ns = t_ns;
        sites->window++;
}

void infp_inside_sites_done(struct infp_inside_sites *sites)
{
        infp_map_done(&sites->by_stack);
        free(sites->list);
}
