#include "collectors/gpu/drm/drm.h"

#include <errno.h>

#include "collectors/gpu/account.h"
#include "collectors/gpu/bounds.h"

int infp_drm_open(struct drm *drm, const struct gpu_vendor *vendor, const struct infp_env *env, struct infp_err *err)
{
        int r;

        drm->cards = (struct gpu_cards){ .vendor = vendor };
        r = infp_gpu_cards_find(&drm->cards, env);
        if (r < 0)
                return infp_fail_errno(err, r, "cannot look for GPUs in /sys/class/drm");
        if (!drm->cards.n)
                return infp_fail(err, -ENODEV, "%s", vendor->none);
        drm->cards.found_ns = env->now_ns(env);
        infp_gpu_users_open(&drm->users, env);
        return 0;
}

static bool is_idle(const struct drm *drm, const struct gpu_card *card, const struct infp_row *row)
{
        const unsigned cell = drm->cards.vendor->idle_cell;

        return infp_row_has(row, cell) && row->cell[cell].i64 == 0 && !infp_gpu_card_is_used(&drm->users, card);
}

static void sample_card(struct drm *drm, struct gpu_card *card, const struct infp_env *env, struct infp_emit *emit)
{
        const struct gpu_vendor *vendor = drm->cards.vendor;
        const uint64_t t_ns = env->now_ns(env);
        struct infp_row *row;

        if (card->is_gone)
                return;
        row = infp_emit_begin(emit, vendor->table, t_ns);
        infp_gpu_card_put(card, row, vendor->name);
        if (card->state == GPU_AWAKE) {
                if (vendor->read(drm, card, emit, t_ns) == -ENODEV) {
                        card->is_gone = true;
                        return; /* the row is not committed */
                }
                infp_gpu_card_note_idle(card, is_idle(drm, card, row), t_ns);
        } else if (card->state == GPU_ASLEEP) {
                infp_gpu_energy_pause(&card->energy);
        }
        infp_gpu_bound(emit, card->uuid);
        infp_gpu_users_put(&drm->users, card, row);
        infp_emit_commit(emit);
        infp_gpu_users_emit(&drm->users, card, emit, vendor->processes, vendor->name, t_ns);
}

int infp_drm_sample(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        struct drm *drm = state;
        const struct gpu_vendor *vendor = drm->cards.vendor;
        const uint64_t now_ns = env->now_ns(env);

        (void) err;
        if (!infp_gpu_users_begin_cost(&drm->users, env, now_ns))
                return -EAGAIN;
        infp_gpu_cards_refresh(&drm->cards, env, now_ns); /* on failure the known cards stay; it is tried again */
        for (unsigned i = 0; i < drm->cards.n; i++)
                infp_gpu_card_look(drm->cards.list[i], now_ns);
        if (vendor->begin)
                vendor->begin(drm, env, now_ns);
        infp_gpu_users_begin(&drm->users, env);
        infp_gpu_clients_read(&drm->users, env, &drm->cards, now_ns);
        if (vendor->read_users)
                vendor->read_users(drm, env);
        infp_gpu_users_end(&drm->users, env);
        drm->users.is_account_due = infp_gpu_account_is_due(env, now_ns, &drm->users.account_ns);
        for (unsigned i = 0; i < drm->cards.n; i++) {
                sample_card(drm, drm->cards.list[i], env, emit);
                infp_gpu_card_say(drm->cards.list[i], emit, vendor->table);
        }
        infp_gpu_users_say(&drm->users, emit, vendor->processes);
        infp_gpu_users_end_cost(&drm->users, env);
        return 0;
}

void infp_drm_close(void *state)
{
        struct drm *drm = state;

        infp_gpu_users_done(&drm->users);
        infp_gpu_cards_done(&drm->cards);
}
