/* The processes of the tree, and the directories of those that are there to stay. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "base/time.h"
#include "record/rings_parts.h"

/* A process is asked about its directories, which costs about 0.1 ms, when it is this old: most of those that a shell starts never
 * are. Their files lie in the default directories, as a rule, which are watched. */
static const uint64_t ripe_ns = INFP_NS_PER_S;
static const uint64_t longest_pause_ns = 60 * INFP_NS_PER_S;
static const uint64_t members_pause_ns = 200 * INFP_NS_PER_MS;
enum { AT_ONCE = 32 };

struct ring_member *rings_member(struct infp_rings *rings, int32_t pid)
{
        size_t low = 0, high = rings->n_members;

        while (low < high) {
                const size_t middle = (low + high) / 2;

                if (rings->members[middle].target.pid < pid)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low < rings->n_members && rings->members[low].target.pid == pid ? &rings->members[low] : NULL;
}

struct ring_member *rings_member_of(struct infp_rings *rings, const struct infp_ring_name *name)
{
        for (size_t i = 0; i < rings->n_members; i++) {
                struct ring_member *m = &rings->members[i];

                if (m->target.start_ticks != name->start_ticks)
                        continue;
                if (!m->owner.pid && infp_ring_owner_read(rings->proc_fd, m->target.pid, &m->owner, NULL) < 0)
                        continue;
                if (m->owner.pid == name->pid && m->owner.start_ticks == name->start_ticks)
                        return m;
        }
        return NULL;
}

static int by_pid(const void *a, const void *b)
{
        const struct infp_target_member *one = a, *other = b;

        return one->pid < other->pid ? -1 : one->pid > other->pid;
}

static bool reserve(struct infp_rings *rings, size_t n)
{
        struct ring_member *members;
        struct infp_target_member *fresh;
        const size_t cap = n + n / 2 + 64;

        if (n <= rings->cap_members)
                return true;
        if (n > RINGS_MEMBERS) /* bound: checked by the caller */
                return false;
        members = reallocarray(rings->members, cap, sizeof(*members));
        if (!members)
                return false;
        rings->members = members;
        fresh = reallocarray(rings->fresh, cap, sizeof(*fresh));
        if (!fresh)
                return false;
        rings->fresh = fresh;
        rings->cap_members = cap;
        return true;
}

/* Since the boot, as start times count. */
static uint64_t age_ns(const struct infp_rings *rings, const struct infp_target_member *member)
{
        const uint64_t ticks = rings->options.env->ticks_per_s, since = infp_clock_ns(CLOCK_BOOTTIME),
                       start = member->start_ticks / ticks * INFP_NS_PER_S +
                               member->start_ticks % ticks * (INFP_NS_PER_S / ticks);

        return since > start ? since - start : 0;
}

static struct ring_member member_new(const struct infp_rings *rings, const struct infp_target_member *target)
{
        const uint64_t age = age_ns(rings, target);

        return (struct ring_member){ .target = *target,
                                     .look_ns = age < ripe_ns ? rings->now_ns + ripe_ns - age : 0,
                                     .pause_ns = ripe_ns };
}

static bool is_same(const struct ring_member *known, const struct infp_target_member *target)
{
        return known->target.pid == target->pid && known->target.start_ticks == target->start_ticks;
}

/* What is known of those that stay; true: there are new ones, or another program in one. */
static bool merge(struct infp_rings *rings, size_t n)
{
        struct ring_member *merged = calloc(n ? n : 1, sizeof(*merged));
        bool is_new = false;

        if (!merged)
                return false;
        for (size_t i = 0; i < n; i++) {
                const struct ring_member *known = rings_member(rings, rings->fresh[i].pid);

                if (known && is_same(known, &rings->fresh[i]) && known->target.image == rings->fresh[i].image) {
                        merged[i] = *known;
                        continue;
                }
                merged[i] = member_new(rings, &rings->fresh[i]);
                is_new = true;
        }
        if (n)
                memcpy(rings->members, merged, n * sizeof(*merged));
        free(merged);
        rings->n_members = n;
        return is_new;
}

static bool has_changed(const struct infp_rings *rings, size_t n)
{
        if (n != rings->n_members)
                return true;
        for (size_t i = 0; i < n; i++)
                if (!is_same(&rings->members[i], &rings->fresh[i]) ||
                    rings->members[i].target.image != rings->fresh[i].image)
                        return true;
        return false;
}

/* Its directories, watched from now on; looked for again, less and less often, while one that it would use does not exist. */
static void look_at(struct infp_rings *rings, struct ring_member *m)
{
        struct infp_ring_wish wish;

        m->look_ns = UINT64_MAX;
        if (!m->owner.pid && infp_ring_owner_read(rings->proc_fd, m->target.pid, &m->owner, NULL) < 0)
                return;
        if (infp_ring_directories(rings->proc_fd, m->target.pid, &m->owner, &wish, rings_add_place, rings, NULL) < 0)
                return;
        if (!wish.is_first_missing)
                return;
        m->look_ns = rings->now_ns + m->pause_ns;
        m->pause_ns = m->pause_ns < longest_pause_ns ? 2 * m->pause_ns : longest_pause_ns;
}

void rings_look_at_members(struct infp_rings *rings)
{
        struct infp_target *target = rings->options.env->target;
        size_t n;
        unsigned looks = 0;

        if (rings->mode == INFP_MODE_HOST || rings->now_ns < rings->members_ns)
                return;
        rings->members_ns = rings->now_ns + members_pause_ns;
        n = infp_target_members(target, rings->fresh, rings->cap_members);
        if (n > rings->cap_members) {
                if (!reserve(rings, n))
                        return;
                n = infp_target_members(target, rings->fresh, rings->cap_members);
                n = n < rings->cap_members ? n : rings->cap_members;
        }
        infp_sort(rings->fresh, n, sizeof(*rings->fresh), by_pid);
        if (has_changed(rings, n) && merge(rings, n))
                rings_look_again(rings);
        rings->ripe_ns = UINT64_MAX;
        for (size_t i = 0; i < rings->n_members; i++) {
                struct ring_member *m = &rings->members[i];

                if (m->look_ns <= rings->now_ns && looks < AT_ONCE) {
                        look_at(rings, m);
                        looks++;
                }
                rings->ripe_ns = m->look_ns < rings->ripe_ns ? m->look_ns : rings->ripe_ns;
        }
}

uint64_t rings_members_due_ns(const struct infp_rings *rings)
{
        return rings->ripe_ns > rings->members_ns ? rings->ripe_ns : rings->members_ns;
}
