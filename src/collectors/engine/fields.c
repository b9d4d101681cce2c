#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "collectors/engine/about.h"
#include "collectors/engine/engine.h"
#include "collectors/engine/vllm.h"

/* The page's figures: tokens of finished requests, n_decode_total, slot-steps, accepted tokens of drafts (0 where the page
 * has none). Sets live->total, which falls only when the engine restarted, and live->steps likewise. */
struct live_page {
        double finished, decodes, steps, accepted;
};

/* Tokens of llama.cpp while requests run. With /slots: what each slot has decoded so far; without: its steps times the slots
 * that were busy in them, which is too much by the steps of prompts. Build 10434 counts the tokens of clients that went away;
 * for a build that does not, they are left out here, too, in the end. */

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

/* Tokens that busy slots added, and those that were counted for requests that have ended. */
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
 * tokens come with the next page, and those that were counted while it ran are owed until then. A request that no page ever
 * counts looks the same, so that its tokens are subtracted from later ones: the rate dips, the counter never falls. */
static double with_slots(struct infp_engine_live *live, double finished)
{
        double ended, added = between(live, &ended), rest = finished - live->finished - ended - live->owed;

        live->owed = rest < 0 ? fmin(-rest, ended) : 0;
        return added + fmax(0, rest);
}

static void remember(struct infp_engine_live *live, const struct live_page *page)
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

static void follow_live_page(struct infp_engine_live *live, const struct live_page *page)
{
        /* n_busy_slots_per_decode has six digits, so that the product may seem to fall: that would look like a restart. */
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

/* The `vllm` row of a scrape: samples by the alias table, then what follows from them. */

static const double fullest = 1.05; /* some count a block more than they have */

void infp_engine_fields_begin(struct infp_engine_fields *fields)
{
        memset(fields->rank, 0, sizeof(fields->rank));
        memset(fields->bad, 0, sizeof(fields->bad));
        fields->live.has_slots = false;
}

static bool has_bit(const uint64_t bits[2], unsigned cell)
{
        return bits[cell / 64] >> cell % 64 & 1;
}

static void set_bit(uint64_t bits[2], unsigned cell, bool on)
{
        uint64_t bit = UINT64_C(1) << cell % 64;

        bits[cell / 64] = on ? bits[cell / 64] | bit : bits[cell / 64] & ~bit;
}

static bool has(const struct infp_engine_fields *fields, unsigned cell)
{
        return fields->rank[cell] && !has_bit(fields->bad, cell);
}

static void set(struct infp_engine_fields *fields, unsigned cell, double value)
{
        fields->value[cell] = value;
        fields->rank[cell] = 1;
        set_bit(fields->bad, cell, !isfinite(value));
}

void infp_engine_fields_add(struct infp_engine_fields *fields, const struct infp_engine_alias *alias, double value)
{
        uint8_t rank = (uint8_t) (alias->rank + 1);
        unsigned cell = (unsigned) alias->cell;
        double v = alias->factor != 0 ? value * alias->factor : value;

        if (alias->cell < 0 || (fields->rank[cell] && fields->rank[cell] < rank))
                return;
        if (fields->rank[cell] != rank) {
                fields->rank[cell] = rank;
                fields->value[cell] = v;
                set_bit(fields->bad, cell, false);
        } else if (alias->join == INFP_ENGINE_MAX) {
                fields->value[cell] = fmax(fields->value[cell], v);
        } else {
                fields->value[cell] += v;
        }
        if (!isfinite(v))
                set_bit(fields->bad, cell, true);
}

static void derive_llamacpp(struct infp_engine_fields *f)
{
        double cached = f->value[INFP_VLLM_PROMPT_CACHED], decodes = f->value[INFP_VLLM_STEPS], steps;
        bool has_cached = has(f, INFP_VLLM_PROMPT_CACHED);

        /* Builds that count cached tokens count them separately; where that number is not valid, the sum is not known either. */
        if (f->rank[INFP_VLLM_PROMPT] && f->rank[INFP_VLLM_PROMPT_CACHED]) {
                set(f, INFP_VLLM_PROMPT, has_cached ? f->value[INFP_VLLM_PROMPT] + cached : NAN);
                set(f, INFP_VLLM_PREFIX_QUERIES, f->value[INFP_VLLM_PROMPT]);
        }
        if (f->live.has_slots)
                set(f, INFP_VLLM_SLOTS, f->live.n_slots);
        /* A mean of no steps is not a number. */
        if (!has(f, INFP_VLLM_STEPS) || (decodes != 0 && !has(f, INFP_VLLM_BATCH)) || !has(f, INFP_VLLM_GENERATION))
                return;
        steps = decodes != 0 ? round(decodes * f->value[INFP_VLLM_BATCH]) : 0;
        follow_live_page(&f->live,
                         &(struct live_page){
                                 .finished = f->value[INFP_VLLM_GENERATION],
                                 .decodes = decodes,
                                 .steps = steps,
                                 .accepted = has(f, INFP_VLLM_SPEC_ACCEPTED) ? f->value[INFP_VLLM_SPEC_ACCEPTED] : 0,
                         });
        set(f, INFP_VLLM_SLOT_STEPS, f->live.steps);
        set(f, INFP_VLLM_LIVE, f->live.total);
}

/* A version of LMDeploy adds the tokens of each step twice. While nothing runs its counter must equal the tokens of finished
 * requests; until it was seen idle only those are certain. Never changed once known, so that the field does not jump. */
static void derive_lmdeploy(struct infp_engine_fields *f)
{
        double counted = f->value[INFP_VLLM_GENERATION], finished = f->value[INFP_VLLM_SIZE_GENERATION_SUM];
        bool is_idle = has(f, INFP_VLLM_RUNNING) && has(f, INFP_VLLM_WAITING) && f->value[INFP_VLLM_RUNNING] == 0 &&
                       f->value[INFP_VLLM_WAITING] == 0;

        if (!has(f, INFP_VLLM_GENERATION) || !has(f, INFP_VLLM_SIZE_GENERATION_SUM))
                return;
        if (f->doubling == INFP_TOKENS_UNSURE && is_idle && finished > 0)
                f->doubling = counted >= 1.9 * finished ? INFP_TOKENS_DOUBLED : INFP_TOKENS_RIGHT;
        if (f->doubling == INFP_TOKENS_DOUBLED)
                set(f, INFP_VLLM_GENERATION, counted / 2);
        else if (f->doubling == INFP_TOKENS_UNSURE)
                set(f, INFP_VLLM_GENERATION, finished);
        if (f->doubling != INFP_TOKENS_UNSURE)
                set(f, INFP_VLLM_LIVE, f->value[INFP_VLLM_GENERATION]);
}

/* The zero of a counter that misses most of what it should count. */
static bool is_silent_zero(const struct infp_engine_fields *f, enum infp_engine_make make)
{
        return (make == INFP_ENGINE_VLLM || make == INFP_ENGINE_RAY_SERVE) && has(f, INFP_VLLM_ABORTED) &&
               f->value[INFP_VLLM_ABORTED] == 0;
}

static void derive(struct infp_engine_fields *f, enum infp_engine_make make)
{
        switch (make) {
        case INFP_ENGINE_LLAMACPP:
                derive_llamacpp(f);
                break;
        case INFP_ENGINE_LMDEPLOY:
                derive_lmdeploy(f);
                break;
        case INFP_ENGINE_VLLM:
        case INFP_ENGINE_RAY_SERVE: /* of a vLLM on its page */
                if (has(f, INFP_VLLM_GENERATION))
                        set(f, INFP_VLLM_LIVE, f->value[INFP_VLLM_GENERATION]);
                break;
        default:
                break;
        }
}

/* The fields that a make can have at all: from a series, or because they follow from others. */
static void given_by(enum infp_engine_make make, uint64_t ret[2])
{
        size_t n;
        const struct infp_engine_alias *lines = infp_engine_aliases(make, &n);

        ret[0] = ret[1] = 0;
        for (size_t i = 0; i < n; i++) {
                if (lines[i].cell >= 0)
                        set_bit(ret, (unsigned) lines[i].cell, true);
        }
        if (make == INFP_ENGINE_LLAMACPP) {
                set_bit(ret, INFP_VLLM_PREFIX_QUERIES, true);
                set_bit(ret, INFP_VLLM_SLOT_STEPS, true);
                set_bit(ret, INFP_VLLM_SLOTS, true);
        }
        if (make == INFP_ENGINE_LLAMACPP || make == INFP_ENGINE_VLLM || make == INFP_ENGINE_LMDEPLOY)
                set_bit(ret, INFP_VLLM_LIVE, true);
}

static void append(char *text, size_t cap, const char *more)
{
        size_t size = strlen(text);

        snprintf(text + size, cap - size, "%s", more);
}

static void list(char *text, size_t cap, const struct infp_engine_fields *f, const uint64_t given[2], bool can_give,
                 const char *lead)
{
        for (unsigned cell = INFP_VLLM_ENGINE + 1; cell < INFP_VLLM_N; cell++) {
                if (f->rank[cell] || has_bit(given, cell) != can_give || has_bit(f->said, cell))
                        continue;
                append(text, cap, lead);
                append(text, cap, infp_table_column(&infp_table_vllm, INFP_FIXED_COLUMNS + cell)->name);
                lead = ", ";
        }
}

/* One sentence for all, since most columns belong to other makes. */
static void say_missing(const struct infp_engine_fields *f, enum infp_engine_make make, const char *instance,
                        struct infp_emit *emit)
{
        char text[3072] = "";
        uint64_t given[2];

        given_by(make, given);
        list(text, sizeof(text), f, given, false, "this make never gives ");
        list(text, sizeof(text), f, given, true, "; not on this page, though other versions or settings give it: ");
        /* Seen in 2.60: 9 batches of 1, 6 of 2 and 2 of up to 4 have the sum 9 * 0.5 + 6 * 1.5 + 2 * 3. */
        if (make == INFP_ENGINE_RAY_SERVE)
                append(text, sizeof(text), "; sums of Ray's histograms are estimates: it adds the middles of buckets");
        infp_emit_source(emit, &infp_table_vllm, -1, instance, *text ? INFP_ABSENT : INFP_OK, *text ? text : NULL,
                         NULL);
}

/* Why a column has no value, or what is odd about it. */
struct word {
        enum infp_source_state state;
        const char *reason;
};

/* Engines count and measure nothing negative. */
static bool cannot_be(const struct infp_engine_fields *f, unsigned cell)
{
        const bool is_share = cell == INFP_VLLM_KV_USAGE || cell == INFP_VLLM_KV_CPU_USAGE;

        return has(f, cell) && (f->value[cell] < 0 || (is_share && f->value[cell] > fullest));
}

static struct word word_of(const struct infp_engine_fields *f, unsigned cell, enum infp_engine_make make)
{
        if (f->rank[cell] && !has(f, cell))
                return (struct word){ INFP_BROKEN, "the page has a value that is not a finite number" };
        if (cannot_be(f, cell))
                return (struct word){ INFP_BROKEN, f->value[cell] < 0
                                                           ? "the page has a negative value, which is impossible"
                                                           : "the page has a share above 100 %, which is impossible" };
        if (cell == INFP_VLLM_ABORTED && is_silent_zero(f, make))
                return (struct word){ INFP_ABSENT,
                                      "vLLM reports 0, but it does not count clients that disconnect: 0 does "
                                      "not mean that nothing was aborted" };
        if (cell != INFP_VLLM_GENERATION || make != INFP_ENGINE_LMDEPLOY)
                return (struct word){ INFP_OK, NULL };
        if (f->doubling == INFP_TOKENS_DOUBLED)
                return (struct word){ INFP_BROKEN, "its counter adds each token twice: half of it is shown" };
        if (f->doubling == INFP_TOKENS_UNSURE)
                return (struct word){ INFP_LATE,
                                      "its counter may add each token twice: until it is seen idle once, the "
                                      "tokens of finished requests are shown" };
        return (struct word){ INFP_OK, NULL };
}

static void say(struct infp_engine_fields *f, struct infp_emit *emit, unsigned cell, const char *instance,
                struct word word)
{
        if (word.state == INFP_OK && !has_bit(f->said, cell))
                return;
        infp_emit_source(emit, &infp_table_vllm, (int) cell, instance, word.state, word.reason, NULL);
        set_bit(f->said, cell, word.state != INFP_OK);
}

void infp_engine_fields_row(struct infp_engine_fields *f, enum infp_engine_make make, const char *instance,
                            struct infp_emit *emit)
{
        derive(f, make);
        for (unsigned cell = INFP_VLLM_ENGINE + 1; cell < INFP_VLLM_N; cell++) {
                struct word word = word_of(f, cell, make);

                if (has(f, cell) && word.state != INFP_ABSENT && !cannot_be(f, cell))
                        infp_row_f64(&emit->row, cell, f->value[cell]);
                say(f, emit, cell, instance, word);
        }
        say_missing(f, make, instance, emit);
}
