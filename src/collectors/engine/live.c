/* Tokens of llama.cpp while requests run. With /slots: what each slot has decoded so far; without: its steps times the slots that
 * were busy in them, which is too much by the steps of prompts. Build 10434 counts what a client had got that went away; of a
 * build that does not, it is left out here too in the end. */
#include "collectors/engine/live.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "collectors/engine/about.h"

const char *infp_engine_live_path(enum infp_engine_make make)
{
        return make == INFP_ENGINE_LLAMACPP ? "/slots" : NULL;
}

/* next_token is an object in older builds, an array of one in newer ones. */
static double decoded_of(const json_t *slot)
{
        const json_t *next = json_object_get(slot, "next_token");

        if (json_is_array(next))
                next = json_array_get(next, 0);
        return json_number_value(json_object_get(next, "n_decoded"));
}

static bool is_busy(const json_t *slot)
{
        const json_t *now = json_object_get(slot, "is_processing");

        return now ? json_is_true(now) : json_integer_value(json_object_get(slot, "state")) != 0;
}

int infp_engine_fields_slots(struct infp_engine_fields *fields, const char *body, size_t size, struct infp_err *err)
{
        struct infp_engine_live *live = &fields->live;
        json_error_t why;
        json_t *root, *slot;
        size_t i;

        live->has_slots = false;
        if (size > INFP_ABOUT_SIDE_BYTES)
                return infp_fail(err, -EBADMSG, "/slots has %zu bytes, more than %d", size, INFP_ABOUT_SIDE_BYTES);
        root = json_loadb(body, size, 0, &why);
        if (!json_is_array(root)) {
                json_decref(root);
                return infp_fail(err, -EBADMSG, "/slots is not a JSON array%s%s", root ? "" : ": ",
                                 root ? "" : why.text);
        }
        live->n_slots = (unsigned) json_array_size(root);
        live->n_busy = 0;
        json_array_foreach(root, i, slot)
        {
                if (!is_busy(slot))
                        continue;
                if (live->n_busy == INFP_ENGINE_SLOTS) { /* a sum of some would be taken for that of all */
                        json_decref(root);
                        return infp_fail(err, -E2BIG, "more than %d of the slots that /slots lists are busy",
                                         INFP_ENGINE_SLOTS);
                }
                live->busy[live->n_busy++] = (struct infp_engine_slot){
                        .id = json_integer_value(json_object_get(slot, "id")),
                        .task = json_integer_value(json_object_get(slot, "id_task")),
                        .n_decoded = fmax(0, decoded_of(slot)),
                };
        }
        live->has_slots = true;
        json_decref(root);
        return 0;
}

static const struct infp_engine_slot *slot_of(const struct infp_engine_slot *slots, unsigned n, int64_t id)
{
        for (unsigned i = 0; i < n; i++) {
                if (slots[i].id == id)
                        return &slots[i];
        }
        return NULL;
}

static bool is_same(const struct infp_engine_slot *a, const struct infp_engine_slot *b)
{
        return a && b && a->task == b->task && b->n_decoded >= a->n_decoded;
}

/* Tokens that busy slots added, and what had been counted of requests that are no longer there. */
static double between(const struct infp_engine_live *live, double *ret_ended)
{
        double added = 0;

        *ret_ended = 0;
        for (unsigned i = 0; i < live->n_busy; i++) {
                const struct infp_engine_slot *now = &live->busy[i];
                const struct infp_engine_slot *then = slot_of(live->busy_before, live->n_busy_before, now->id);

                added += now->n_decoded - (is_same(then, now) ? then->n_decoded : 0);
        }
        for (unsigned i = 0; i < live->n_busy_before; i++) {
                const struct infp_engine_slot *then = &live->busy_before[i];

                if (!is_same(then, slot_of(live->busy, live->n_busy, then->id)))
                        *ret_ended += then->n_decoded;
        }
        return added;
}

/* The page was read before /slots: a request that ended in between is not in this page's tokens and no longer in a slot; its
 * tokens come with the next page, and those of them that were counted while it ran are owed until then. A request that no page
 * ever counts looks the same, so that its tokens are taken off later ones: the rate dips, the counter never falls. */
static double with_slots(struct infp_engine_live *live, double finished)
{
        double ended, added = between(live, &ended), rest = finished - live->finished - ended - live->owed;

        live->owed = rest < 0 ? fmin(-rest, ended) : 0;
        return added + fmax(0, rest);
}

static void remember(struct infp_engine_live *live, const struct infp_engine_live_page *page)
{
        live->finished = page->finished;
        live->accepted = page->accepted;
        live->decodes = page->decodes;
        live->n_busy_before = live->has_slots ? live->n_busy : 0;
        memcpy(live->busy_before, live->busy, live->n_busy_before * sizeof(live->busy[0]));
        live->had_slots = live->has_slots;
}

static double sum_of_busy(const struct infp_engine_live *live)
{
        double sum = 0;

        for (unsigned i = 0; live->has_slots && i < live->n_busy; i++)
                sum += live->busy[i].n_decoded;
        return sum;
}

void infp_engine_live_page(struct infp_engine_live *live, const struct infp_engine_live_page *page)
{
        /* n_busy_slots_per_decode has six digits, so that the product may seem to fall: that would read as a new start. */
        double steps = fmax(page->steps, live->steps);

        if (!live->is_known || page->decodes < live->decodes || page->finished < live->finished) {
                live->is_known = true;
                live->owed = 0;
                live->steps = page->steps;
                live->total = page->finished + sum_of_busy(live);
                remember(live, page);
                return;
        }
        if (live->has_slots && live->had_slots) {
                live->total += with_slots(live, page->finished);
        } else {
                live->total += steps - live->steps + fmax(0, page->accepted - live->accepted);
                live->owed = 0;
        }
        live->total = fmax(live->total, page->finished);
        live->steps = steps;
        remember(live, page);
}
