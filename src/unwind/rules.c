#include "unwind/rules.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { MAX_PROBES = 24 }; /* made-up rules that collide cannot make a build slow */

/* What an unwinder has to know in the caller: the registers that calls keep, and where they return to. */
static const uint32_t needed = 1 << INFP_RBX | 1 << INFP_RBP | 1 << INFP_RSP | 1 << INFP_R12 | 1 << INFP_R13 |
                               1 << INFP_R14 | 1 << INFP_R15 | 1 << INFP_RIP;

static const struct infp_unwind_rule known[INFP_RULE_KNOWN] = {
        { .flags = INFP_RULE_UNSUPPORTED },
        { .flags = INFP_RULE_END },
        { .flags = INFP_RULE_UNSUPPORTED },
};

void infp_rule_set_init(struct infp_rule_set *set)
{
        memcpy(set->rules, known, sizeof(known));
        set->n_rules = INFP_RULE_KNOWN;
        set->n_saves = 0;
        memset(set->slots, 0, (set->slot_mask + UINT64_C(1)) * sizeof(*set->slots));
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        return hash ^ hash >> 29;
}

static uint64_t word_of(const void *bytes)
{
        uint64_t word;

        memcpy(&word, bytes, sizeof(word));
        return word;
}

/* Fills rule, all but where its saves are, and the saves. */
static void condense(const struct infp_cfa_state *state, struct infp_unwind_rule *rule, struct infp_unwind_save *saves)
{
        rule->cfa_kind = state->cfa_kind;
        rule->cfa_register = state->cfa_register;
        rule->flags = state->flags;
        rule->cfa_offset = state->cfa_offset;
        rule->cfa_addend = state->cfa_addend;
        rule->first_save = 0;
        rule->n_saves = 0;
        if (!(state->flags & INFP_RULE_SIGNAL))
                rule->flags |= INFP_RULE_PLAIN;
        for (uint32_t left = state->saved; left; left &= left - 1) {
                const struct infp_unwind_save *save = &state->saves[__builtin_ctz(left)];

                if (save->kind != INFP_SAVE_AT_CFA)
                        rule->flags &= (uint8_t) ~INFP_RULE_PLAIN;
                if (save->kind >= INFP_SAVE_AT_REG)
                        rule->flags |= INFP_RULE_FROM_REGISTER;
                saves[rule->n_saves++] = *save;
        }
}

static bool is_equal(const struct infp_rule_set *set, const struct infp_unwind_rule *a,
                     const struct infp_unwind_rule *b, const struct infp_unwind_save *saves)
{
        return memcmp(a, b, offsetof(struct infp_unwind_rule, first_save)) == 0 &&
               memcmp(&set->saves[a->first_save], saves, a->n_saves * sizeof(*saves)) == 0;
}

uint16_t infp_rule_set_add(struct infp_rule_set *set, const struct infp_cfa_state *state)
{
        struct infp_unwind_save saves[INFP_N_REGISTERS];
        struct infp_unwind_rule rule;
        uint64_t hash;

        if (state->flags & INFP_RULE_END)
                return INFP_RULE_NUMBER_END;
        /* A return address that is nowhere saved would be its own caller. */
        if ((state->flags & INFP_RULE_UNSUPPORTED) || (state->unknown & needed) || !(state->saved >> INFP_RIP & 1))
                return INFP_RULE_NUMBER_UNSUPPORTED;
        condense(state, &rule, saves);
        hash = mix(word_of(&rule), (uint32_t) rule.cfa_addend);
        for (unsigned i = 0; i < rule.n_saves; i++)
                hash = mix(hash, word_of(&saves[i]));
        hash ^= hash >> 32;
        for (unsigned i = 0; i < MAX_PROBES; i++) {
                uint16_t *slot = &set->slots[(hash + i) & set->slot_mask];

                if (*slot && is_equal(set, &set->rules[*slot], &rule, saves))
                        return *slot;
                if (*slot)
                        continue;
                if (set->n_rules == set->max_rules || rule.n_saves > set->max_saves - set->n_saves)
                        break;
                rule.first_save = set->n_saves;
                memcpy(&set->saves[set->n_saves], saves, rule.n_saves * sizeof(*saves));
                set->n_saves += rule.n_saves;
                set->rules[set->n_rules] = rule;
                *slot = (uint16_t) set->n_rules;
                return (uint16_t) set->n_rules++;
        }
        return INFP_RULE_NUMBER_UNSUPPORTED;
}
