#include <errno.h>
#include <string.h>

#include "unwind/entries.h"
#include "unwind/go_table.h"
#include "unwind/table.h"

enum { MAX_RULES = 32768, BUCKET_SHIFT = 10, PLT_ENTRY = 16 };

/* ---- the distinct rules of a table ---- */

/* The rules that every table has: none, and these. */
enum { RULE_END = 1, RULE_UNSUPPORTED = 2 };

struct rule_set {
        struct infp_unwind_rule *rules;
        struct infp_unwind_save *saves;
        uint32_t n_rules, max_rules, n_saves, max_saves;
        uint16_t *slots; /* open addressing; 0: free */
        uint32_t slot_mask;
};

enum { MAX_PROBES = 24 }; /* made-up rules that collide cannot make a build slow */

/* What an unwinder has to know in the caller: the registers that calls keep, and where they return to. */
static const uint32_t needed = 1 << INFP_RBX | 1 << INFP_RBP | 1 << INFP_RSP | 1 << INFP_R12 | 1 << INFP_R13 |
                               1 << INFP_R14 | 1 << INFP_R15 | 1 << INFP_RIP;

static const struct infp_unwind_rule known[INFP_RULE_KNOWN] = {
        { .flags = INFP_RULE_UNSUPPORTED },
        { .flags = INFP_RULE_END },
        { .flags = INFP_RULE_UNSUPPORTED },
};

/* Puts the rules that every table has into the set; the caller has set the pointers and limits. slot_mask + 1 is a power of two. */
static void rule_set_init(struct rule_set *set)
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

static bool is_equal(const struct rule_set *set, const struct infp_unwind_rule *a, const struct infp_unwind_rule *b,
                     const struct infp_unwind_save *saves)
{
        return memcmp(a, b, offsetof(struct infp_unwind_rule, first_save)) == 0 &&
               memcmp(&set->saves[a->first_save], saves, a->n_saves * sizeof(*saves)) == 0;
}

/* The number of the rule for state: RULE_UNSUPPORTED when it cannot be followed or the set is full. */
static uint16_t rule_set_add(struct rule_set *set, const struct infp_cfa_state *state)
{
        struct infp_unwind_save saves[INFP_N_REGISTERS];
        struct infp_unwind_rule rule;
        uint64_t hash;

        if (state->flags & INFP_RULE_END)
                return RULE_END;
        /* A return address that is nowhere saved would be its own caller. */
        if ((state->flags & INFP_RULE_UNSUPPORTED) || (state->unknown & needed) || !(state->saved >> INFP_RIP & 1))
                return RULE_UNSUPPORTED;
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
        return RULE_UNSUPPORTED;
}

/* ---- the table ---- */

/* Entries in the order of their addresses: where, and from what. */
struct entry {
        uint32_t begin, size;
        uint32_t from; /* offset in a section | section << 31; or FROM_GO + function; or FROM_PLT + linkage table */
};
#define FROM_GO (UINT32_C(1) << 30)
#define FROM_PLT UINT32_C(0xffffff00)

/* The arrays of a table while it is built, each at the size it may need. */
struct build {
        const struct infp_elf *elf;
        struct infp_unwind_table *table;
        struct infp_entries entries;
        struct infp_go go;
        bool is_assembly; /* of the Go function that is at work */
        bool has_rules;
        struct rule_set rules;
        uint32_t *pcs;
        uint16_t *row_rules;
        uint32_t *functions;
        struct entry *list, *scratch;
        uint32_t n_list, max_list, n_rows, max_rows;
        /* The entry that is at work may fill [begin, end). */
        uint64_t begin, end;
        bool is_plt;
};

static uint64_t align(uint64_t n)
{
        return (n + 7) & ~UINT64_C(7);
}

static uint64_t slots_for(uint32_t max_rules)
{
        uint64_t n = 64;

        while (n < 2 * (uint64_t) max_rules)
                n *= 2;
        return n;
}

static int count_value(void *context, uint64_t pc, int32_t value)
{
        (void) pc;
        (void) value;
        ++*(uint64_t *) context;
        return 0;
}

/* Entries and rows of a Go program's functions. */
static void measure_go(const struct infp_elf *elf, bool has_rules, uint64_t *n_entries, uint64_t *n_rows)
{
        struct infp_go_function function;
        struct infp_go go;

        if (infp_go_open(&go, elf) < 0)
                return;
        for (uint64_t i = 0; i < go.n_functions; i++) {
                if (!infp_go_function(&go, i, &function))
                        continue;
                ++*n_entries;
                *n_rows += 3;
                if (has_rules)
                        infp_go_values(&go, &function, function.stack, count_value, n_rows);
        }
}

static int measure(const struct infp_elf *elf, bool has_rules, struct infp_unwind_room *ret)
{
        struct infp_unwind_room room = { .has_rules = has_rules };
        struct infp_entries entries;
        struct infp_fde fde;
        uint64_t n = elf->n_plts, n_rows = 16 + 8 * (uint64_t) elf->n_plts;
        unsigned section;
        int r = infp_entries_open(&entries, elf);

        if (r < 0 && r != -ENODATA)
                return r;
        measure_go(elf, has_rules, &n, &n_rows);
        if (r < 0 && n == elf->n_plts)
                return r;
        while ((r = infp_entries_next(&entries, &fde, &section)) != 0) {
                if (r < 0)
                        continue;
                n++;
                /* A row takes an instruction that moves on and one that changes something. */
                n_rows += 3 + (has_rules ? (uint64_t) (fde.program_end - fde.program) / 2 : 0);
        }
        if (n_rows > UINT32_MAX / 32)
                return -EFBIG;
        room.n_entries = (uint32_t) n;
        room.max_rows = (uint32_t) n_rows;
        room.max_rules = !has_rules ? INFP_RULE_KNOWN : room.max_rows < MAX_RULES ? room.max_rows : MAX_RULES;
        room.max_saves = room.max_rules * 8 + 256;
        room.bytes = align(sizeof(struct infp_unwind_table)) + align(room.max_rules * sizeof(struct infp_unwind_rule)) +
                     align(room.max_saves * sizeof(struct infp_unwind_save)) + align(n_rows * 4) + align(n_rows * 2) +
                     align(n * 4) + align(n * sizeof(struct entry)) + align(slots_for(room.max_rules) * 2) +
                     align(n_rows * 8 + 256);
        if (room.bytes > UINT32_MAX)
                return -EFBIG;
        *ret = room;
        return 0;
}

int infp_unwind_table_measure(const struct infp_elf *elf, struct infp_unwind_room *ret)
{
        return measure(elf, true, ret);
}

int infp_unwind_table_measure_functions(const struct infp_elf *elf, struct infp_unwind_room *ret)
{
        return measure(elf, false, ret);
}

/* By address; entries of one address stay in their order. */
static void sort(struct build *b)
{
        struct entry *from = b->list, *into = b->scratch;

        for (unsigned shift = 0; shift < 32; shift += 8) {
                uint32_t at[256] = { 0 }, sum = 0;
                struct entry *swap;

                for (uint32_t i = 0; i < b->n_list; i++)
                        at[from[i].begin >> shift & 255]++;
                if (b->n_list && at[from[0].begin >> shift & 255] == b->n_list)
                        continue;
                for (unsigned i = 0; i < 256; i++) {
                        const uint32_t n = at[i];

                        at[i] = sum;
                        sum += n;
                }
                for (uint32_t i = 0; i < b->n_list; i++)
                        into[at[from[i].begin >> shift & 255]++] = from[i];
                swap = from;
                from = into;
                into = swap;
        }
        if (from != b->list)
                memcpy(b->list, from, b->n_list * sizeof(*from));
}

static void list_entry(struct build *b, uint64_t vaddr, uint64_t size, uint32_t from)
{
        const uint64_t begin = vaddr - b->table->base;

        if (!infp_elf_is_executable(b->elf, vaddr, size) || size == 0 || begin + size > UINT32_MAX)
                b->table->n_outside++;
        else if (b->n_list < b->max_list)
                b->list[b->n_list++] = (struct entry){ (uint32_t) begin, (uint32_t) size, from };
}

static void list_entries(struct build *b)
{
        struct infp_go_function function;
        struct infp_fde fde;
        unsigned section;
        int r;

        /* They lead: what .debug_frame says of them as well leaves out which switch stacks and which have no caller. */
        for (uint64_t i = 0; i < b->go.n_functions; i++)
                if (infp_go_function(&b->go, i, &function)) {
                        b->table->n_fdes++;
                        list_entry(b, function.begin, function.end - function.begin, FROM_GO + (uint32_t) i);
                }
        infp_entries_rewind(&b->entries);
        while ((r = infp_entries_next(&b->entries, &fde, &section)) != 0) {
                if (r < 0) {
                        b->table->n_bad++;
                        continue;
                }
                b->table->n_fdes++;
                list_entry(b, fde.begin, fde.size, (uint32_t) fde.offset | (uint32_t) section << 31);
        }
        b->table->is_cut_short = b->entries.is_cut_short;
        for (unsigned i = 0; i < b->elf->n_plts; i++)
                list_entry(b, b->elf->plts[i].vaddr, b->elf->plts[i].size, FROM_PLT + i);
        sort(b);
}

static int add_row(struct build *b, uint64_t pc, uint16_t rule)
{
        if (b->n_rows && b->pcs[b->n_rows - 1] == pc) {
                b->row_rules[b->n_rows - 1] = rule;
                return 0;
        }
        if (b->n_rows ? b->row_rules[b->n_rows - 1] == rule : rule == INFP_RULE_NONE)
                return 0;
        if (b->n_rows == b->max_rows)
                return -ENOSPC;
        b->pcs[b->n_rows] = (uint32_t) pc;
        b->row_rules[b->n_rows++] = rule;
        b->table->n_unsupported += rule == RULE_UNSUPPORTED;
        b->table->n_plt_rows += b->is_plt;
        return 0;
}

static int take_row(void *context, uint64_t vaddr, const struct infp_cfa_state *state)
{
        struct build *b = context;
        uint64_t pc = vaddr - b->table->base;

        if (pc >= b->end)
                return 0;
        return add_row(b, pc < b->begin ? b->begin : pc, rule_set_add(&b->rules, state));
}

/* Linkage tables that the linker left undescribed: what the code of their entries does is known. */
static int describe_plt(struct build *b, const struct infp_elf_plt *plt)
{
        struct infp_cfa_state state = { .cfa_register = INFP_RSP, .cfa_offset = 8, .saved = UINT32_C(1) << INFP_RIP };
        int r;

        state.saves[INFP_RIP] = (struct infp_unwind_save){ INFP_RIP, INFP_SAVE_AT_CFA, 0, 0, -8 };
        if (!plt->is_lazy || plt->size <= PLT_ENTRY)
                return take_row(b, plt->vaddr, &state);
        state.cfa_offset = 16; /* the first entry was jumped to by one that had pushed, and pushes again */
        r = take_row(b, plt->vaddr, &state);
        state.cfa_offset = 24;
        if (r == 0)
                r = take_row(b, plt->vaddr + 6, &state);
        state.cfa_kind = INFP_CFA_PLT;
        state.cfa_offset = 8;
        state.cfa_addend = 11;
        return r < 0 ? r : take_row(b, plt->vaddr + PLT_ENTRY, &state);
}

static int take_value(void *context, uint64_t pc, int32_t value)
{
        struct build *b = context;
        struct infp_cfa_state state = { .cfa_register = INFP_RSP,
                                        .cfa_offset = value + 8,
                                        .saved = UINT32_C(1) << INFP_RIP };

        if (value < 0 || value > INT32_MAX - 8)
                state.flags = INFP_RULE_UNSUPPORTED;
        state.saves[INFP_RIP] = (struct infp_unwind_save){ INFP_RIP, INFP_SAVE_AT_CFA, 0, 0, -8 };
        /* Where a function has a frame, its caller's frame pointer lies at the top of it. */
        if (value >= 8 && !b->is_assembly) {
                state.saves[INFP_RBP] = (struct infp_unwind_save){ INFP_RBP, INFP_SAVE_AT_CFA, 0, 0, -16 };
                state.saved |= UINT32_C(1) << INFP_RBP;
        }
        return take_row(b, pc, &state);
}

static int describe_go(struct build *b, uint32_t i)
{
        struct infp_go_function function;
        int r;

        if (!infp_go_function(&b->go, i, &function) || (function.flags & INFP_GO_SP_WRITTEN))
                return add_row(b, b->begin, INFP_RULE_NONE);
        if (function.flags & INFP_GO_TOP)
                return add_row(b, b->begin, RULE_END);
        b->is_assembly = function.flags & INFP_GO_ASSEMBLY;
        r = infp_go_values(&b->go, &function, function.stack, take_value, b);
        if (r != -EBADMSG)
                return r;
        b->table->n_bad++;
        return add_row(b, b->n_rows && b->pcs[b->n_rows - 1] > b->begin ? b->pcs[b->n_rows - 1] : b->begin,
                       INFP_RULE_NONE);
}

static int describe(struct build *b, const struct entry *entry)
{
        const struct infp_cached_cie *cie;
        struct infp_fde fde;
        const unsigned section = entry->from >> 31;
        int r;

        if (!b->has_rules)
                return add_row(b, b->begin, RULE_END);
        b->is_plt = entry->from >= FROM_PLT;
        if (b->is_plt)
                return describe_plt(b, &b->elf->plts[entry->from - FROM_PLT]);
        if (!section && (entry->from & FROM_GO))
                return describe_go(b, entry->from - FROM_GO);
        if (infp_entries_at(&b->entries, section, entry->from & INT32_MAX, &fde, &cie) != 1) { /* too many CIEs */
                b->table->n_bad++;
                return add_row(b, b->begin, RULE_UNSUPPORTED);
        }
        r = infp_cfa_run(&b->entries.sections[section], &cie->cie, &fde, &cie->begin, take_row, b);
        if (r == -EBADMSG || r == -ENOTSUP) {
                b->table->n_bad++;
                r = 0;
        }
        return r;
}

static int make_rows(struct build *b)
{
        uint64_t end = 0;

        for (uint32_t i = 0; i < b->n_list; i++) {
                const struct entry *entry = &b->list[i];
                const bool is_plt = entry->from >= FROM_PLT;
                int r = 0;

                b->begin = entry->begin > end ? entry->begin : end;
                b->end = (uint64_t) entry->begin + entry->size;
                if (is_plt && i + 1 < b->n_list && b->list[i + 1].begin < b->end)
                        b->end = b->list[i + 1].begin;
                b->table->n_overlapping += b->begin > entry->begin && !is_plt;
                if (b->begin >= b->end)
                        continue;
                b->is_plt = false;
                if (b->begin > end)
                        r = add_row(b, end, INFP_RULE_NONE);
                b->functions[b->table->n_functions++] = (uint32_t) b->begin;
                if (r == 0)
                        r = describe(b, entry);
                if (r < 0)
                        return r;
                end = b->end;
        }
        b->is_plt = false;
        if (b->n_rows == b->max_rows)
                return -ENOSPC;
        /* The last row, also where there is no other. */
        if (!b->n_rows || b->pcs[b->n_rows - 1] != end) {
                b->pcs[b->n_rows] = (uint32_t) end;
                b->row_rules[b->n_rows++] = INFP_RULE_NONE;
        } else {
                b->row_rules[b->n_rows - 1] = INFP_RULE_NONE;
        }
        return 0;
}

/* Moves an array down to the block's end. The arrays keep their order, so none is overwritten before it is moved. */
static uint32_t settle(struct infp_unwind_table *table, const void *array, uint64_t bytes)
{
        const uint64_t at = table->size;

        memmove((char *) table + at, array, bytes);
        table->size = align(at + bytes);
        return (uint32_t) at;
}

static void make_buckets(struct infp_unwind_table *table)
{
        const uint32_t *pcs = infp_unwind_table_pcs(table);
        uint32_t *buckets = (uint32_t *) ((char *) table + table->size), row = 0;

        table->bucket_shift = BUCKET_SHIFT;
        while ((pcs[table->n_rows - 1] >> table->bucket_shift) + UINT64_C(2) > 2 * (uint64_t) table->n_rows + 62)
                table->bucket_shift++;
        table->n_buckets = (pcs[table->n_rows - 1] >> table->bucket_shift) + 2;
        for (uint32_t i = 0; i < table->n_buckets; i++) {
                while (row < table->n_rows && pcs[row] < (uint64_t) i << table->bucket_shift)
                        row++;
                buckets[i] = row;
        }
        table->buckets_at = (uint32_t) table->size;
        table->size = align(table->size + table->n_buckets * UINT64_C(4));
}

static void pack(struct build *b)
{
        struct infp_unwind_table *t = b->table;

        t->size = align(sizeof(*t));
        t->n_rules = b->rules.n_rules;
        t->n_saves = b->rules.n_saves;
        t->n_rows = b->n_rows;
        t->rules_at = settle(t, b->rules.rules, t->n_rules * sizeof(*b->rules.rules));
        t->saves_at = settle(t, b->rules.saves, t->n_saves * sizeof(*b->rules.saves));
        t->pcs_at = settle(t, b->pcs, t->n_rows * sizeof(*b->pcs));
        t->row_rules_at = settle(t, b->row_rules, t->n_rows * sizeof(*b->row_rules));
        t->functions_at = settle(t, b->functions, t->n_functions * sizeof(*b->functions));
        make_buckets(t);
}

/* The lowest executable address. */
static uint64_t find_base(const struct infp_elf *elf)
{
        uint64_t base = UINT64_MAX;

        for (unsigned i = 0; i < elf->n_loads; i++)
                if (elf->loads[i].is_executable && elf->loads[i].vaddr < base)
                        base = elf->loads[i].vaddr;
        return base == UINT64_MAX ? 0 : base;
}

static void *take(char **at, uint64_t bytes)
{
        char *begin = *at;

        *at += align(bytes);
        return begin;
}

int infp_unwind_table_build(const struct infp_elf *elf, const struct infp_unwind_room *room, void *memory,
                            const struct infp_unwind_table **ret)
{
        struct build b = { .elf = elf, .table = memory, .max_list = room->n_entries, .max_rows = room->max_rows };
        char *at = memory;
        int r = infp_entries_open(&b.entries, elf);

        if (infp_go_open(&b.go, elf) < 0)
                b.go.n_functions = 0;
        if (r < 0 && (r != -ENODATA || !b.go.n_functions))
                return r;
        take(&at, sizeof(*b.table));
        *b.table = (struct infp_unwind_table){ .magic = INFP_UNWIND_TABLE_MAGIC, .base = find_base(elf) };
        b.has_rules = room->has_rules;
        b.rules.max_rules = room->max_rules;
        b.rules.max_saves = room->max_saves;
        b.rules.rules = take(&at, room->max_rules * sizeof(*b.rules.rules));
        b.rules.saves = take(&at, room->max_saves * sizeof(*b.rules.saves));
        b.pcs = take(&at, room->max_rows * sizeof(*b.pcs));
        b.row_rules = take(&at, room->max_rows * sizeof(*b.row_rules));
        b.functions = take(&at, room->n_entries * sizeof(*b.functions));
        b.list = take(&at, room->n_entries * sizeof(*b.list));
        b.scratch = (struct entry *) b.pcs; /* has three rows an entry at least, and none yet */
        list_entries(&b);
        b.rules.slots = (uint16_t *) at;
        b.rules.slot_mask = (uint32_t) slots_for(room->max_rules) - 1;
        rule_set_init(&b.rules);
        r = make_rows(&b);
        if (r < 0)
                return r;
        pack(&b);
        *ret = b.table;
        return 0;
}
