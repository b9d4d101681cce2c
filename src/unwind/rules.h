/* The distinct rules of a table while it is built. */
#pragma once

#include <stdint.h>

#include "unwind/cfa.h"
#include "unwind/rule.h"

struct infp_rule_set {
        struct infp_unwind_rule *rules;
        struct infp_unwind_save *saves;
        uint32_t n_rules, max_rules, n_saves, max_saves;
        uint16_t *slots; /* open addressing; 0: free */
        uint32_t slot_mask;
};

/* Puts the rules that every table has into the set; the caller has set the pointers and limits. slot_mask + 1 is a power of two. */
void infp_rule_set_init(struct infp_rule_set *set);

/* The number of the rule for state. INFP_RULE_UNSUPPORTED's when it cannot be followed or the set is full. */
uint16_t infp_rule_set_add(struct infp_rule_set *set, const struct infp_cfa_state *state);

/* The rule that every table has for what is not supported. */
enum { INFP_RULE_NUMBER_END = 1, INFP_RULE_NUMBER_UNSUPPORTED = 2 };
