#include "unwind/table.h"

#include <errno.h>

int64_t infp_unwind_table_row(const struct infp_unwind_table *table, uint64_t vaddr)
{
        const uint32_t *pcs = infp_unwind_table_pcs(table);
        const uint32_t *buckets = (const uint32_t *) ((const char *) table + table->buckets_at);
        const uint64_t pc = vaddr - table->base, bucket = pc >> table->bucket_shift;
        uint32_t low, high;

        if (vaddr < table->base)
                return -1;
        if (bucket + 1 >= table->n_buckets)
                return (int64_t) table->n_rows - 1;
        low = buckets[bucket];
        high = buckets[bucket + 1];
        if (low > table->n_rows || high > table->n_rows) /* damaged since it was checked */
                return -1;
        while (low < high) {
                const uint32_t middle = low + (high - low) / 2;

                if (pcs[middle] <= pc)
                        low = middle + 1;
                else
                        high = middle;
        }
        return (int64_t) low - 1;
}

unsigned infp_unwind_table_find(const struct infp_unwind_table *table, uint64_t vaddr)
{
        const int64_t row = infp_unwind_table_row(table, vaddr);

        return row < 0 ? INFP_RULE_NONE : infp_unwind_table_row_rules(table)[row];
}

bool infp_unwind_table_function(const struct infp_unwind_table *table, uint64_t vaddr, uint64_t *ret_begin,
                                uint64_t *ret_end)
{
        const uint32_t *functions = (const uint32_t *) ((const char *) table + table->functions_at);
        const uint16_t *rules = infp_unwind_table_row_rules(table);
        const uint64_t pc = vaddr - table->base;
        uint64_t end = UINT64_MAX - table->base;
        uint32_t low = 0, high = table->n_functions;
        int64_t row = infp_unwind_table_row(table, vaddr);

        if (row < 0 || rules[row] == INFP_RULE_NONE)
                return false;
        while (low < high) {
                const uint32_t middle = low + (high - low) / 2;

                if (functions[middle] <= pc)
                        low = middle + 1;
                else
                        high = middle;
        }
        if (low == 0)
                return false;
        if (low < table->n_functions)
                end = functions[low];
        /* Between two functions there is at most one row of no function, before the second; after the last there is one. */
        row = infp_unwind_table_row(table, table->base + end - 1);
        if (row >= 0 && rules[row] == INFP_RULE_NONE)
                end = infp_unwind_table_pcs(table)[row];
        if (end > UINT32_MAX || end <= pc)
                return false;
        *ret_begin = table->base + functions[low - 1];
        *ret_end = table->base + end;
        return true;
}

static bool has_array(const struct infp_unwind_table *t, uint32_t at, uint64_t n, uint64_t item)
{
        return at >= sizeof(*t) && at % 4 == 0 && at <= t->size && n * item <= t->size - at;
}

static bool are_rules_sound(const struct infp_unwind_table *t)
{
        const struct infp_unwind_rule *rules = infp_unwind_table_rules(t);
        const struct infp_unwind_save *saves = infp_unwind_table_saves(t);

        for (uint32_t i = 0; i < t->n_rules; i++)
                if (rules[i].cfa_kind > INFP_CFA_PLT || rules[i].cfa_register >= INFP_N_REGISTERS ||
                    rules[i].first_save > t->n_saves || rules[i].n_saves > t->n_saves - rules[i].first_save)
                        return false;
        for (uint32_t i = 0; i < t->n_saves; i++)
                if (saves[i].reg >= INFP_N_REGISTERS || saves[i].from >= INFP_N_REGISTERS ||
                    saves[i].kind > INFP_SAVE_REG_VALUE)
                        return false;
        return true;
}

int infp_unwind_table_check(const void *memory, uint64_t size, const struct infp_unwind_table **ret)
{
        const struct infp_unwind_table *t = memory;
        const uint32_t *buckets;

        if (size < sizeof(*t) || (uintptr_t) memory % 8 || t->magic != INFP_UNWIND_TABLE_MAGIC || t->size != size)
                return -EBADMSG;
        if (!has_array(t, t->rules_at, t->n_rules, sizeof(struct infp_unwind_rule)) ||
            !has_array(t, t->saves_at, t->n_saves, sizeof(struct infp_unwind_save)) ||
            !has_array(t, t->pcs_at, t->n_rows, 4) || !has_array(t, t->row_rules_at, t->n_rows, 2) ||
            !has_array(t, t->functions_at, t->n_functions, 4) || !has_array(t, t->buckets_at, t->n_buckets, 4) ||
            t->bucket_shift > 31 || t->n_rules < INFP_RULE_KNOWN || t->n_rows == 0 || !are_rules_sound(t))
                return -EBADMSG;
        for (uint32_t i = 0; i < t->n_rows; i++)
                if (infp_unwind_table_row_rules(t)[i] >= t->n_rules ||
                    (i && infp_unwind_table_pcs(t)[i] <= infp_unwind_table_pcs(t)[i - 1]))
                        return -EBADMSG;
        buckets = (const uint32_t *) ((const char *) t + t->buckets_at);
        for (uint32_t i = 0; i < t->n_buckets; i++)
                if (buckets[i] > t->n_rows)
                        return -EBADMSG;
        *ret = t;
        return 0;
}
