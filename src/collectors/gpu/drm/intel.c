/* GPUs of Intel, by what their drivers i915 and xe show in sysfs and of each process. A thread of its own, as a file may wait for
 * the card's firmware, and a client's fdinfo for work that is being ended. */
#include "collectors/gpu/drm/intel.h"

#include <errno.h>
#include <string.h>

#include "collectors/gpu/bounds.h"

static const char *const drivers[] = { "i915", "xe", NULL };
enum { VENDOR_INTEL = 0x8086, FLOOR_MS = 100 };

static void anew(struct gpu_card *card)
{
        struct intel_card *c = (struct intel_card *) card;

        c->energy_meter = 0;
        infp_gpu_energy_pause(&c->energy);
}

static int intel_open(void *state, const struct infp_env *env, struct infp_err *err)
{
        struct intel *s = state;
        int r;

        s->cards = (struct gpu_cards){
                .drivers = drivers, .vendor_id = VENDOR_INTEL, .card_size = sizeof(struct intel_card), .anew = anew
        };
        r = infp_gpu_cards_find(&s->cards, env);
        if (r < 0)
                return infp_fail_errno(err, r, "the GPUs in /sys/class/drm cannot be looked for");
        if (!s->cards.n)
                return infp_fail(err, -ENODEV, "no GPU of Intel: i915 and xe have no card in /sys/class/drm");
        s->cards.found_ns = env->now_ns(env);
        infp_gpu_users_open(&s->users, env);
        return 0;
}

static bool is_idle(const struct intel *s, const struct intel_card *card, const struct infp_row *row)
{
        return infp_row_has(row, GPU_CLOCK_GRAPHICS) && row->cell[GPU_CLOCK_GRAPHICS].i64 == 0 &&
               !infp_gpu_card_is_used(&s->users, &card->card);
}

static void sample_card(struct intel *s, struct intel_card *card, const struct infp_env *env, struct infp_emit *emit)
{
        const uint64_t t_ns = env->now_ns(env);
        struct infp_row *row;

        if (card->card.is_gone)
                return;
        row = infp_emit_begin(emit, &infp_table_intel, t_ns);
        infp_gpu_card_put(&card->card, row, "intel");
        if (card->card.state == GPU_AWAKE) {
                if (infp_intel_read(card, &s->users, emit, t_ns) == -ENODEV) {
                        card->card.is_gone = true;
                        return; /* a row that is not committed is none */
                }
                infp_gpu_card_note_idle(&card->card, is_idle(s, card, row), t_ns);
        } else if (card->card.state == GPU_ASLEEP) {
                infp_gpu_energy_pause(&card->energy);
        }
        infp_gpu_bound(emit, card->card.uuid);
        infp_gpu_users_put(&s->users, &card->card, row);
        infp_emit_commit(emit);
        infp_gpu_users_emit(&s->users, &card->card, emit, &infp_table_intel_processes, "intel", t_ns);
}

static int intel_sample(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        struct intel *s = state;
        const uint64_t now_ns = env->now_ns(env);

        (void) err;
        if (!infp_gpu_users_begin_cost(&s->users, env, now_ns))
                return -EAGAIN;
        infp_gpu_cards_refresh(&s->cards, env,
                               now_ns); /* when it fails those that are known go on, and it is tried again */
        for (unsigned i = 0; i < s->cards.n; i++)
                infp_gpu_card_look(s->cards.list[i], now_ns);
        infp_gpu_users_begin(&s->users, env);
        infp_gpu_clients_read(&s->users, env, &s->cards, now_ns);
        infp_gpu_users_end(&s->users, env);
        for (unsigned i = 0; i < s->cards.n; i++) {
                sample_card(s, (struct intel_card *) s->cards.list[i], env, emit);
                infp_gpu_card_say(s->cards.list[i], emit, &infp_table_intel);
        }
        infp_gpu_users_say(&s->users, emit, &infp_table_intel_processes);
        infp_gpu_users_end_cost(&s->users, env);
        return 0;
}

static void intel_close(void *state)
{
        struct intel *s = state;

        infp_gpu_users_done(&s->users);
        infp_gpu_cards_done(&s->cards);
}

static const struct infp_table *const intel_tables[] = { &infp_table_intel, &infp_table_intel_processes, NULL };

const struct infp_collector infp_collector_intel = {
        .name = "intel",
        .help = "GPUs of Intel: clocks, energy, and what processes use.",
        .tables = intel_tables,
        .floor_ms = FLOOR_MS,
        .flags = INFP_MAY_BLOCK,
        .state_size = sizeof(struct intel),
        .open = intel_open,
        .sample = intel_sample,
        .close = intel_close,
};
