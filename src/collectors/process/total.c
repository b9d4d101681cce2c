#include "collectors/process/total.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "base/time.h"

/* A fall that lasts longer than a process can be between two places has no known cause: it is bridged, so that the total
 * continues from there. */
enum { MAX_BELOW = 2, MAX_STEPS = 1024 };

void process_total_done(struct process_total *total)
{
        free(total->live);
        free(total->ended);
        total->live = NULL;
        total->ended = NULL;
        total->n_live = total->cap_live = total->n_ended = total->cap_ended = 0;
}

/* Numbers of a broken kernel or fixture may be anything: their sums wrap. */
static int64_t plus(int64_t a, int64_t b)
{
        return (int64_t) ((uint64_t) a + (uint64_t) b);
}

static int64_t minus(int64_t a, int64_t b)
{
        return (int64_t) ((uint64_t) a - (uint64_t) b);
}

static void add(struct process_share *to, const struct process_share *share, unsigned first)
{
        for (unsigned i = first; i < COUNTER_N; i++)
                to->v[i] = plus(to->v[i], minus(share->v[i], share->base[i]));
}

static void gain_update(struct process_gain *gain, int64_t faults, int64_t ticks)
{
        gain->old_faults = gain->new_faults;
        gain->old_ticks = gain->new_ticks;
        gain->new_faults = gain->is_known ? minus(faults, gain->faults) : 0;
        gain->new_ticks = gain->is_known ? minus(ticks, gain->ticks) : 0;
        gain->faults = faults;
        gain->ticks = ticks;
        gain->is_known = true;
}

void process_total_begin(struct process_total *total, const struct infp_reaped *reaped)
{
        uint64_t tick_ns = INFP_NS_PER_S / total->ticks_per_s;

        total->sum = (struct process_share){ 0 };
        total->n_live = 0;
        total->reaped = total->is_ours_known ? *reaped : (struct infp_reaped){ 0 };
        gain_update(&total->ours, (int64_t) total->reaped.minor_faults,
                    (int64_t) ((total->reaped.user_ns + total->reaped.system_ns) / tick_ns));
}

int process_total_live(struct process_total *total, const struct infp_process *p, struct process_gain *gain,
                       const struct process_share *share)
{
        if (!INFP_MAKE_ROOM(total->live, total->n_live, total->cap_live, 64))
                return -ENOMEM;
        total->live[total->n_live++] = (struct live_process){ p->pid, p->ppid, p->start_ticks, gain };
        gain_update(gain, (int64_t) p->child_minor_faults, plus(p->cutime, p->cstime));
        add(&total->sum, share, 0);
        return 0;
}

int process_total_ended(struct process_total *total, const struct infp_process *p, const struct process_gain *gain,
                        const struct process_share *share)
{
        struct ended_process *e;

        if (!INFP_MAKE_ROOM(total->ended, total->n_ended, total->cap_ended, 64))
                return -ENOMEM;
        e = &total->ended[total->n_ended++];
        *e = (struct ended_process){
                .pid = p->pid,
                .ppid = p->ppid,
                .start_ticks = p->start_ticks,
                .faults = (int64_t) (p->minor_faults + p->child_minor_faults),
                .ticks = plus(share->v[COUNTER_USER], share->v[COUNTER_SYSTEM]),
                .is_final = p->last != NULL,
                .gain = *gain,
                .share = *share,
        };
        e->gain.is_known = true; /* for a process that was not seen before its end all is new */
        gain_update(&e->gain, (int64_t) p->child_minor_faults, plus(p->cutime, p->cstime));
        return 0;
}

/* Who had a pid when another process began: neither a later owner of the pid, nor that process itself. Both NULL: nobody that is known. */
struct owner {
        const struct live_process *live;
        struct ended_process *ended;
};

static struct owner find_owner(struct process_total *total, int32_t pid, uint64_t before_ticks,
                               const struct ended_process *self)
{
        const struct live_process *live = infp_find_i32(total->live, total->n_live, sizeof(*total->live), pid);
        struct owner ret = { live && live->start_ticks <= before_ticks ? live : NULL, NULL };

        /* An earlier owner of the pid of one that is older than the child had ended before. */
        for (size_t i = 0; !ret.live && i < total->n_ended; i++) {
                struct ended_process *e = &total->ended[i];

                if (e->pid == pid && e != self && e->start_ticks <= before_ticks &&
                    (!ret.ended || e->start_ticks > ret.ended->start_ticks))
                        ret.ended = e;
        }
        return ret;
}

/* Takes `what` out of a gain, first from its newer part. True when the older one was needed. */
static bool take(int64_t *newer, int64_t *older, int64_t what)
{
        int64_t rest = what > *newer ? minus(what, *newer) : 0;

        *newer = minus(*newer, minus(what, rest));
        *older = minus(*older, rest);
        return rest > 0;
}

/* Takes the use of the ended process out of the gain, if that is large enough: it is at least that when the gain contains it,
 * since both are sums that are rounded down. */
static bool match(struct process_total *total, struct process_gain *gain, const struct ended_process *e)
{
        bool was_double;

        if (plus(gain->old_faults, gain->new_faults) < e->faults || plus(gain->old_ticks, gain->new_ticks) < e->ticks)
                return false;
        was_double = take(&gain->new_faults, &gain->old_faults, e->faults);
        was_double |= take(&gain->new_ticks, &gain->old_ticks, e->ticks);
        /* It was waited for between its own read and its parent's: the last totals contain it twice. */
        for (unsigned i = 0; was_double && i < COUNTER_FIRST_SWITCH; i++)
                total->totals[i].excess = plus(total->totals[i].excess, e->share.v[i]);
        return true;
}

enum place { PLACE_PARENT, PLACE_OURS, PLACE_OPEN };

/* Finds who got the use of the process. A parent that has ended, too, passes on what it got; one that had not waited leaves
 * its children to us, or to an ancestor that asked for them. */
static enum place find_place(struct process_total *total, const struct ended_process *e)
{
        struct owner owner = find_owner(total, e->ppid, e->start_ticks, e);
        const bool has_lost_parent = !owner.live;
        unsigned n = 0;

        /* bound: a circle of reused pids must end */
        for (; n < MAX_STEPS && owner.ended; n++) {
                if (owner.ended->is_final && match(total, &owner.ended->gain, e))
                        return PLACE_PARENT;
                owner = find_owner(total, owner.ended->ppid, owner.ended->start_ticks, owner.ended);
        }
        for (; n < MAX_STEPS && owner.live; n++) { /* bound: a circle of reused pids must end */
                if (match(total, owner.live->gain, e))
                        return PLACE_PARENT;
                if (!has_lost_parent)
                        return PLACE_OPEN;
                owner = find_owner(total, owner.live->ppid, owner.live->start_ticks, NULL);
        }
        if (total->is_ours_known && match(total, &total->ours, e))
                return PLACE_OURS;
        return PLACE_OPEN;
}

/* True when its place is known now. */
static bool settle(struct process_total *total, const struct ended_process *e)
{
        enum place place = find_place(total, e);

        if (place == PLACE_OPEN && !e->is_old)
                return false;
        switch (place) {
        case PLACE_PARENT:
                add(&total->lost, &e->share, COUNTER_FIRST_SWITCH);
                /* The parent got all of it, including the use before we attached. */
                for (unsigned i = 0; i < COUNTER_FIRST_SWITCH; i++)
                        total->lost.v[i] = minus(total->lost.v[i], e->share.base[i]);
                break;
        case PLACE_OURS:
                add(&total->lost, &e->share, COUNTER_FIRST_IO);
                break;
        default:
                add(&total->lost, &e->share, 0);
                total->has_lost = total->has_lost || e->ticks > 0;
        }
        return true;
}

/* Parents first: what they pass on is theirs. */
static void settle_all(struct process_total *total)
{
        size_t n = 0;

        for (unsigned pass = 0; pass < 2; pass++)
                for (size_t i = 0; i < total->n_ended; i++) {
                        struct ended_process *e = &total->ended[i];
                        bool is_first = !find_owner(total, e->ppid, e->start_ticks, e).ended;

                        if (!e->is_done && (pass == 1 || is_first))
                                e->is_done = settle(total, e);
                }
        for (size_t i = 0; i < total->n_ended; i++)
                if (!total->ended[i].is_done) {
                        total->ended[n] = total->ended[i];
                        total->ended[n++].is_old = true;
                }
        total->n_ended = n;
}

static int64_t never_fall(struct never_falls *f, int64_t v)
{
        v = plus(v, f->offset);
        if (v >= f->last) {
                f->n_below = 0;
                f->excess = 0;
                f->last = v;
        } else if (minus(f->last, v) <= f->excess) {
                f->n_below = 0; /* it waits until the true value reaches it */
        } else if (++f->n_below > MAX_BELOW) {
                f->offset = plus(f->offset, minus(minus(f->last, v), f->excess));
                f->n_below = 0;
        }
        return f->last;
}

void process_total_end(struct process_total *total, struct process_share *ret)
{
        uint64_t tick_ns = INFP_NS_PER_S / total->ticks_per_s;
        const struct infp_reaped *reaped = &total->reaped;
        struct process_share ours = { .v = {
                                              [COUNTER_USER] = (int64_t) (reaped->user_ns / tick_ns),
                                              [COUNTER_SYSTEM] = (int64_t) (reaped->system_ns / tick_ns),
                                              [COUNTER_CPU_NS] = (int64_t) (reaped->user_ns + reaped->system_ns),
                                              [COUNTER_MINOR_FAULTS] = (int64_t) reaped->minor_faults,
                                              [COUNTER_MAJOR_FAULTS] = (int64_t) reaped->major_faults,
                                      } };

        settle_all(total);
        add(&total->sum, &total->lost, 0);
        for (size_t i = 0; i < total->n_ended; i++)
                add(&total->sum, &total->ended[i].share, 0);
        add(&total->sum, &ours, 0);
        for (unsigned i = 0; i < COUNTER_N; i++)
                ret->v[i] = never_fall(&total->totals[i], total->sum.v[i]);
}
