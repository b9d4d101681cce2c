/* The `vllm` row of a scrape: samples by the alias table, then what follows from them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "collectors/engine/alias/alias.h"
#include "collectors/engine/live.h"

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

        /* Builds that count cached tokens count them apart; where that number is not one, the sum is not known either. */
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
        infp_engine_live_page(
                &f->live, &(struct infp_engine_live_page){
                                  .finished = f->value[INFP_VLLM_GENERATION],
                                  .decodes = decodes,
                                  .steps = steps,
                                  .accepted = has(f, INFP_VLLM_SPEC_ACCEPTED) ? f->value[INFP_VLLM_SPEC_ACCEPTED] : 0,
                          });
        set(f, INFP_VLLM_SLOT_STEPS, f->live.steps);
        set(f, INFP_VLLM_LIVE, f->live.total);
}

/* A version of LMDeploy adds the tokens of each step twice. While nothing runs its counter must equal the tokens of finished
 * requests; until it was seen idle those are what is certain. Never changed once known, so that the field does not jump. */
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

/* The zero of a counter that does not see most of what it counts. */
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

/* The fields that a make can give at all: by a series, or because they follow from others. */
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

/* One sentence for all, since most columns are those of other makes. */
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

/* Nothing that engines count or measure is negative. */
static bool cannot_be(const struct infp_engine_fields *f, unsigned cell)
{
        const bool is_share = cell == INFP_VLLM_KV_USAGE || cell == INFP_VLLM_KV_CPU_USAGE;

        return has(f, cell) && (f->value[cell] < 0 || (is_share && f->value[cell] > fullest));
}

static struct word word_of(const struct infp_engine_fields *f, unsigned cell, enum infp_engine_make make)
{
        if (f->rank[cell] && !has(f, cell))
                return (struct word){ INFP_BROKEN, "the page gives a value that is not a finite number" };
        if (cannot_be(f, cell))
                return (struct word){ INFP_BROKEN, f->value[cell] < 0
                                                           ? "the page gives a negative value, which cannot be"
                                                           : "the page gives a share of more than all of it, which "
                                                             "cannot be" };
        if (cell == INFP_VLLM_ABORTED && is_silent_zero(f, make))
                return (struct word){ INFP_ABSENT, "vLLM says 0, but it counts clients that disconnect nowhere: 0 does "
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
