#include "sampler/inside/exact.h"

#include <stdlib.h>

#include "base/mem.h"
#include "ring/wire.h"
#include "sampler/stacks/parts.h"

enum { MOST_SITES = 1 << 18, TRIES = 4 /* windows that a stack may wait for its code to be known */ };

struct infp_inside_exact_site {
        uint32_t id, site; /* site: in the sums by stack; INFP_INSIDE_NO_SITE: not found yet */
        unsigned tries;
        struct infp_ring_site last; /* as the window before ended */
};

static uint64_t in_use(const struct infp_ring_site *site)
{
        return site->allocated > site->freed ? site->allocated - site->freed : 0;
}

static uint64_t blocks_in_use(const struct infp_ring_site *site)
{
        return site->allocations > site->frees ? site->allocations - site->frees : 0;
}

static uint64_t more(uint64_t now, uint64_t before)
{
        return now > before ? now - before : 0;
}

/* ---- sites ---- */

/* The list is the process's own memory: it may lead anywhere. */
static void take_new_sites(struct infp_inside_exact *exact, struct infp_inside_sites *sites,
                           const struct infp_inside_exact_reader *reader)
{
        struct infp_ring_site site;

        for (uint32_t id = (uint32_t) reader->counts->sites; id && exact->n < MOST_SITES; id = site.previous) {
                if (infp_map_get(&exact->known, id) || infp_ring_site(reader->ring, id, &site) < 0 ||
                    !INFP_MAKE_ROOM(exact->list, exact->n, exact->cap, 256) ||
                    infp_map_put(&exact->known, id, exact->n) < 0)
                        return;
                exact->list[exact->n++] = (struct infp_inside_exact_site){ .id = id, .site = INFP_INSIDE_NO_SITE };
                if (!sites->first_ns || site.t_ns < sites->first_ns)
                        sites->first_ns = sites->begin_ns = site.t_ns;
        }
}

static void find(struct infp_inside_exact_site *site, struct infp_inside_sites *sites,
                 const struct infp_inside_exact_reader *reader, const struct infp_ring_site *now, bool is_last)
{
        struct infp_stack_found found;
        struct infp_ring_stack stack;
        const bool has_stack = now->stack && infp_ring_stack(reader->ring, now->stack, &stack) == 0;

        if (has_stack && stack.is_incomplete && reader->is_stale && !is_last && ++site->tries < TRIES)
                return; /* maybe for the same reason */
        if (!reader->find(reader->context, now->t_ns, now->tid, has_stack ? &stack : NULL, &found) &&
            ++site->tries < TRIES && !is_last)
                return;
        if (!has_stack)
                infp_stacks_extend(reader->stacks, &found, INFP_FRAME_UNKNOWN, "[other stacks]");
        site->site = infp_inside_sites_of(sites, &found);
}

void infp_inside_exact_find(struct infp_inside_exact *exact, struct infp_inside_sites *sites,
                            const struct infp_inside_exact_reader *reader)
{
        take_new_sites(exact, sites, reader);
        for (uint32_t i = 0; i < exact->n; i++) {
                struct infp_inside_exact_site *site = &exact->list[i];
                struct infp_ring_site now;

                if (site->site == INFP_INSIDE_NO_SITE && infp_ring_site(reader->ring, site->id, &now) == 0 &&
                    now.allocations)
                        find(site, sites, reader, &now, false);
        }
}

/* ---- a window ---- */

static uint64_t low_of(const struct infp_inside_exact_site *site, const struct infp_ring_site *now, uint32_t window)
{
        const uint64_t begin = in_use(&site->last), end = in_use(now), least = begin < end ? begin : end,
                       low = now->low & ((UINT64_C(1) << INFP_WIRE_HEAP_LOW) - 1);

        return now->low >> INFP_WIRE_HEAP_LOW == window && low < least ? low : least;
}

static uint64_t begin_of(const struct infp_inside_exact *exact, const struct infp_inside_sites *sites, uint64_t window)
{
        return window < exact->n_begins ? exact->begins_ns[window] : sites->first_ns;
}

static void add_site(const struct infp_inside_exact *exact, struct infp_inside_exact_site *site,
                     struct infp_inside_sites *sites, struct infp_ring_site *now, bool is_aged)
{
        struct infp_inside_site *sum = &sites->list[site->site];
        const uint64_t allocations = more(now->allocations, site->last.allocations), live = in_use(now);

        if (!is_aged) { /* nobody allocated or freed since the window began */
                now->old = site->last.old;
                now->oldest = site->last.oldest;
        }
        now->old = now->old < live ? now->old : live;
        sum->has_changed |= allocations || now->frees != site->last.frees;
        sum->samples += (uint32_t) allocations;
        sum->allocated += (double) more(now->allocated, site->last.allocated);
        sum->allocations += (double) allocations;
        sum->freed += (double) more(now->freed, site->last.freed);
        sum->temporary += (double) more(now->temporary, site->last.temporary);
        sum->live += (double) live;
        sum->blocks += (uint32_t) blocks_in_use(now);
        sum->objects += (double) blocks_in_use(now);
        sum->low += (double) low_of(site, now, sites->window);
        sum->old += (double) now->old;
        if (blocks_in_use(now)) {
                /* Blocks that came since the ages were added up. */
                const uint64_t oldest_ns =
                        begin_of(exact, sites, now->oldest < sites->window ? now->oldest : sites->window);

                sum->oldest_ns = oldest_ns < sum->oldest_ns ? oldest_ns : sum->oldest_ns;
        }
        site->last = *now;
}

static void add_sites(struct infp_inside_exact *exact, struct infp_inside_sites *sites,
                      const struct infp_inside_exact_reader *reader, bool is_last)
{
        const bool is_aged = reader->counts->aged == sites->window;

        infp_inside_sites_end_begin(sites);
        for (uint32_t i = 0; i < sites->n; i++) {
                struct infp_inside_site *sum = &sites->list[i];

                sum->live = sum->objects = sum->low = 0;
                sum->blocks = 0;
        }
        exact->other_blocks = 0;
        for (uint32_t i = 0; i < exact->n; i++) {
                struct infp_inside_exact_site *site = &exact->list[i];
                struct infp_ring_site now;

                if (infp_ring_site(reader->ring, site->id, &now) < 0)
                        continue;
                exact->other_blocks += now.stack ? 0 : now.allocations;
                if (site->site == INFP_INSIDE_NO_SITE && now.allocations)
                        find(site, sites, reader, &now, is_last);
                if (site->site != INFP_INSIDE_NO_SITE)
                        add_site(exact, site, sites, &now, is_aged);
        }
}

static void put_samples(struct infp_stacks *stacks, const struct infp_inside_site *site, enum infp_stack_mode mode,
                        uint64_t t_ns, double bytes, double blocks)
{
        struct infp_stack_found found = site->found;

        found.t_ns = t_ns;
        found.mode = mode;
        found.cpu = -1;
        found.samples = (uint32_t) blocks;
        found.objects = blocks;
        infp_stacks_put(stacks, &found, bytes, NULL);
}

/* The numbers of the next window, and of the first that did not end in the first half of the time. */
static void begin_window(struct infp_inside_exact *exact, const struct infp_inside_sites *sites, struct infp_ring *ring,
                         uint64_t now_ns)
{
        const uint64_t middle_ns = sites->first_ns + (now_ns - sites->first_ns) / 2;
        uint32_t half = 0;

        for (; exact->n_begins <= sites->window; exact->n_begins++) {
                if (!INFP_MAKE_ROOM(exact->begins_ns, exact->n_begins, exact->cap_begins, 64))
                        return;
                exact->begins_ns[exact->n_begins] = exact->n_begins ? now_ns : sites->first_ns;
        }
        while (half + 1 < exact->n_begins && exact->begins_ns[half + 1] <= middle_ns)
                half++;
        infp_ring_begin_window(ring, sites->window, half);
}

static void end_window(struct infp_inside_exact *exact, struct infp_inside_sites *sites,
                       const struct infp_inside_exact_reader *reader, uint64_t t_ns, bool is_last)
{
        add_sites(exact, sites, reader, is_last);
        for (uint32_t i = 0; i < sites->n; i++)
                if (sites->list[i].samples)
                        put_samples(reader->stacks, &sites->list[i], INFP_STACK_HEAP_ALLOCATED, t_ns,
                                    sites->list[i].allocated, sites->list[i].samples);
        infp_inside_sites_end(sites, reader->stacks, t_ns, 0, is_last);
        if (sites->window > INFP_WIRE_HEAP_WINDOWS)
                sites->window = INFP_WIRE_HEAP_WINDOWS;
        if (!is_last)
                begin_window(exact, sites, reader->ring, t_ns);
}

void infp_inside_exact_turn(struct infp_inside_exact *exact, struct infp_inside_sites *sites,
                            const struct infp_inside_exact_reader *reader, uint64_t now_ns)
{
        if (!sites->first_ns)
                take_new_sites(exact, sites, reader);
        if (!infp_inside_sites_is_due(sites, now_ns))
                return;
        take_new_sites(exact, sites, reader);
        end_window(exact, sites, reader, now_ns, false);
}

/* ---- the end ---- */

/* What was in use by stack when the process had the most, as it saw that; where it has more at the end (by less than a step of its looks) that. */
static void put_peak(const struct infp_inside_exact *exact, const struct infp_inside_sites *sites,
                     const struct infp_inside_exact_reader *reader, uint64_t t_ns)
{
        infp_autofree struct infp_inside_site *peak = calloc(sites->n ? sites->n : 1, sizeof(*peak));
        double sum = 0, at_end = 0;
        bool is_end;

        for (uint32_t i = 0; i < exact->n && peak; i++) {
                const struct infp_inside_exact_site *site = &exact->list[i];

                if (site->site == INFP_INSIDE_NO_SITE)
                        continue;
                peak[site->site].live += (double) site->last.peak;
                peak[site->site].objects += (double) site->last.peak_blocks;
                sum += (double) site->last.peak;
                at_end += (double) in_use(&site->last);
        }
        is_end = at_end > sum;
        for (uint32_t i = 0; i < sites->n && peak; i++) {
                const struct infp_inside_site *site = is_end ? &sites->list[i] : &peak[i];

                if (site->objects > 0)
                        put_samples(reader->stacks, &sites->list[i], INFP_STACK_HEAP_PEAK,
                                    is_end ? t_ns : reader->counts->peak_ns, site->live, site->objects);
        }
}

void infp_inside_exact_end(struct infp_inside_exact *exact, struct infp_inside_sites *sites,
                           const struct infp_inside_exact_reader *reader, uint64_t t_ns)
{
        take_new_sites(exact, sites, reader);
        if (!sites->first_ns)
                return;
        end_window(exact, sites, reader, t_ns, true);
        for (uint32_t i = 0; i < sites->n; i++)
                if (sites->list[i].blocks)
                        put_samples(reader->stacks, &sites->list[i], INFP_STACK_HEAP, t_ns, sites->list[i].live,
                                    sites->list[i].objects);
        put_peak(exact, sites, reader, t_ns);
}

void infp_inside_exact_done(struct infp_inside_exact *exact)
{
        infp_map_done(&exact->known);
        free(exact->list);
        free(exact->begins_ns);
}
