/* From an address to its rule. */
#include <string.h>

#include "unwind/walk_parts.h"

static const struct infp_unwind_rule frame_pointer = { .cfa_kind = INFP_CFA_REGISTER,
                                                       .cfa_register = INFP_RBP,
                                                       .flags = INFP_RULE_FRAME_POINTER | INFP_RULE_PLAIN,
                                                       .n_saves = 2,
                                                       .cfa_offset = 16 };
static const struct infp_unwind_save frame_pointer_saves[] = { { INFP_RBP, INFP_SAVE_AT_CFA, 0, 0, -16 },
                                                               { INFP_RIP, INFP_SAVE_AT_CFA, 0, 0, -8 } };

void infp_unwind_cache_init(struct infp_unwind_cache *cache, struct infp_unwind_cached *entries, uint32_t n)
{
        memset(entries, 0, n * sizeof(*entries));
        cache->entries = entries;
        cache->shift = 64 - (unsigned) __builtin_ctz(n);
        cache->n_missed = 0;
}

uint32_t infp_unwind_find_mapping(const struct infp_unwind_space *space, uint64_t address)
{
        uint32_t low = 0, high = space->n_mappings;

        while (low < high) {
                const uint32_t middle = low + (high - low) / 2;

                if (space->mappings[middle].begin <= address)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low > 0 && address < space->mappings[low - 1].end ? low - 1 : INFP_NO_MAPPING;
}

static const struct infp_unwind_rule *look_up(const struct infp_unwind_space *space, uint64_t pc,
                                              const struct infp_unwind_save **ret_saves, uint32_t *ret_mapping,
                                              enum infp_unwind_end *ret_end)
{
        const struct infp_unwind_mapping *mapping;
        const struct infp_unwind_rule *rule;
        unsigned number = INFP_RULE_NONE;

        *ret_mapping = infp_unwind_find_mapping(space, pc);
        *ret_end = INFP_UNWIND_NO_MAPPING;
        if (*ret_mapping == INFP_NO_MAPPING)
                return NULL;
        mapping = &space->mappings[*ret_mapping];
        if (mapping->table)
                number = infp_unwind_table_find(mapping->table, pc - mapping->bias);
        if (number == INFP_RULE_NONE) {
                *ret_end = INFP_UNWIND_NO_TABLE;
                *ret_saves = frame_pointer_saves;
                return mapping->flags & INFP_MAPPING_FRAME_POINTERS ? &frame_pointer : NULL;
        }
        rule = &infp_unwind_table_rules(mapping->table)[number];
        *ret_saves = infp_unwind_table_saves(mapping->table) + rule->first_save;
        return rule;
}

const struct infp_unwind_rule *infp_walk_find(struct infp_walk *walk, uint64_t pc,
                                              const struct infp_unwind_save **ret_saves, uint32_t *ret_mapping,
                                              enum infp_unwind_end *ret_end)
{
        const struct infp_unwind_space *space = walk->start->space;
        struct infp_unwind_cached *cached;
        const struct infp_unwind_rule *rule;

        if (!walk->cache)
                return look_up(space, pc, ret_saves, ret_mapping, ret_end);
        cached = &walk->cache->entries[pc * UINT64_C(0x9e3779b97f4a7c15) >> walk->cache->shift];
        if (cached->pc == pc && cached->space == space->id) {
                *ret_saves = cached->saves;
                *ret_mapping = cached->mapping;
                return cached->rule;
        }
        walk->cache->n_missed++;
        rule = look_up(space, pc, ret_saves, ret_mapping, ret_end);
        if (rule)
                *cached = (struct infp_unwind_cached){ pc, rule, *ret_saves, space->id, *ret_mapping };
        return rule;
}
