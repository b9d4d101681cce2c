/* GPUs of AMD, by what their driver amdgpu shows in sysfs. A thread of its own: a file may wait for the card's firmware. */
#include "collectors/gpu/drm/amdgpu.h"

#include <errno.h>
#include <string.h>

#include "base/time.h"
#include "collectors/gpu/bounds.h"

static const char *const drivers[] = { "amdgpu", NULL };
enum { VENDOR_AMD = 0x1002 };
/* The firmware takes new readings no more often, and each reading takes some of its time. */
enum { FLOOR_MS = 100 };

static void anew(struct gpu_card *card)
{
        struct amdgpu_card *c = (struct amdgpu_card *) card;

        c->throttle = (struct amdgpu_throttle){ .has_last = false };
        c->slow = (struct amdgpu_slow){ .t_ns = 0 };
        infp_gpu_energy_pause(&c->energy);
}

static int amdgpu_open(void *state, const struct infp_env *env, struct infp_err *err)
{
        struct amdgpu *s = state;
        int r;

        s->cards = (struct gpu_cards){
                .drivers = drivers, .vendor_id = VENDOR_AMD, .card_size = sizeof(struct amdgpu_card), .anew = anew
        };
        r = infp_gpu_cards_find(&s->cards, env);
        if (r < 0)
                return infp_fail_errno(err, r, "the GPUs in /sys/class/drm cannot be looked for");
        if (!s->cards.n)
                return infp_fail(err, -ENODEV, "no GPU of AMD: the driver amdgpu has no card in /sys/class/drm");
        s->cards.found_ns = env->now_ns(env);
        infp_gpu_users_open(&s->users, env);
        return 0;
}

static void sample_card(struct amdgpu *s, struct amdgpu_card *card, const struct infp_env *env, struct infp_emit *emit)
{
        const uint64_t t_ns = env->now_ns(env);
        struct infp_row *row;

        if (card->card.is_gone)
                return;
        row = infp_emit_begin(emit, &infp_table_amdgpu, t_ns);
        infp_gpu_card_put(&card->card, row, "amd");
        if (card->card.state == GPU_AWAKE) {
                if (infp_amdgpu_read(s, card, emit, t_ns) == -ENODEV) {
                        card->card.is_gone = true;
                        return; /* a row that is not committed is none */
                }
                infp_gpu_card_note_idle(&card->card,
                                        infp_row_has(row, GPU_UTILIZATION_GPU) &&
                                                row->cell[GPU_UTILIZATION_GPU].i64 == 0 &&
                                                !infp_gpu_card_is_used(&s->users, &card->card),
                                        t_ns);
        } else {
                card->throttle.has_last = false;
        }
        if (card->card.state == GPU_ASLEEP)
                infp_gpu_energy_pause(&card->energy);
        infp_gpu_bound(emit, card->card.uuid);
        infp_gpu_users_put(&s->users, &card->card, row);
        infp_emit_commit(emit);
        infp_gpu_users_emit(&s->users, &card->card, emit, &infp_table_amdgpu_processes, "amd", t_ns);
}

static int amdgpu_sample(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        struct amdgpu *s = state;
        const uint64_t now_ns = env->now_ns(env);

        (void) err;
        if (!infp_gpu_users_begin_cost(&s->users, env, now_ns))
                return -EAGAIN;
        infp_gpu_cards_refresh(&s->cards, env,
                               now_ns); /* when it fails those that are known go on, and it is tried again */
        for (unsigned i = 0; i < s->cards.n; i++)
                infp_gpu_card_look(s->cards.list[i], now_ns);
        infp_amdgpu_kfd_find(s, env, now_ns);
        infp_gpu_users_begin(&s->users, env);
        infp_gpu_clients_read(&s->users, env, &s->cards, now_ns);
        infp_amdgpu_kfd_read(s, env);
        infp_gpu_users_end(&s->users, env);
        for (unsigned i = 0; i < s->cards.n; i++) {
                sample_card(s, (struct amdgpu_card *) s->cards.list[i], env, emit);
                infp_gpu_card_say(s->cards.list[i], emit, &infp_table_amdgpu);
        }
        infp_gpu_users_say(&s->users, emit, &infp_table_amdgpu_processes);
        infp_gpu_users_end_cost(&s->users, env);
        return 0;
}

static void amdgpu_close(void *state)
{
        struct amdgpu *s = state;

        infp_gpu_users_done(&s->users);
        infp_gpu_cards_done(&s->cards);
}

static const struct infp_table *const amdgpu_tables[] = { &infp_table_amdgpu, &infp_table_amdgpu_processes, NULL };

const struct infp_collector infp_collector_amdgpu = {
        .name = "amdgpu",
        .help = "GPUs of AMD: load, memory, power, clocks, processes.",
        .tables = amdgpu_tables,
        .floor_ms = FLOOR_MS,
        .flags = INFP_MAY_BLOCK,
        .state_size = sizeof(struct amdgpu),
        .open = amdgpu_open,
        .sample = amdgpu_sample,
        .close = amdgpu_close,
};
