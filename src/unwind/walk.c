#include "unwind/walk.h"

#include <string.h>

/* What a call may destroy; the rest the callee gives back. */
static const uint32_t kept_by_calls = 1 << INFP_RBX | 1 << INFP_RBP | 1 << INFP_RSP | 1 << INFP_R12 | 1 << INFP_R13 |
                                      1 << INFP_R14 | 1 << INFP_R15 | 1 << INFP_RIP;
#define ALL_REGISTERS ((UINT32_C(1) << INFP_N_REGISTERS) - 1)

/* Tables may lie in a file that was damaged since it was checked: registers that there are not must not lead elsewhere. */
enum { ROOM = 32 };
#define REGISTER(number) ((number) & (ROOM - 1))
#define N_SAVES(rule) ((rule)->n_saves < INFP_N_REGISTERS ? (rule)->n_saves : INFP_N_REGISTERS)

enum {
        ENTRY_BYTES = 64, /* _start ends a few instructions after its call */
        /* What guesses may look at and follow: in a walk, for a frame, one above the other, by frame pointers. */
        GUESS_WORDS = 1024,
        GUESS_TRIALS = 256,
        WORDS = 128,
        MAX_DEPTH = 4,
        MAX_CHAIN = 512,
        SAVED_WORDS = 12,       /* below a return address: 6 registers, and what OpenBLAS has above them */
        MAX_ALIGNED = 64 << 10, /* of a frame that is left by a register */
};

/* A stack that goes on does so nearby: what is farther was never a part of it. */
#define FAR (UINT64_C(1) << 32)

struct walk {
        const struct infp_unwind_start *start;
        struct infp_unwind_cache *cache;
        struct infp_unwind_frame *frames;
        uint32_t n_frames, max_frames;
        uint32_t flags;       /* of the frame that comes next */
        uint32_t valid;       /* bit r: values[r] is this frame's */
        uint32_t n_guesses;   /* on the way here, by looking for a return address */
        uint32_t seen;        /* all flags of frames */
        uint32_t words_left;  /* that guesses may still look at */
        uint32_t trials_left; /* that guesses may still follow */
        uint64_t address;
        uint64_t values[ROOM];
        uint64_t places[ROOM]; /* with a trail: where on the stack each value was; 0: a register of the start */
};

const char *infp_unwind_end_name(enum infp_unwind_end end)
{
        static const char *const names[] = { "complete", "truncated",   "too deep", "no mapping",
                                             "no table", "unsupported", "broken" };

        return (unsigned) end < sizeof(names) / sizeof(names[0]) ? names[end] : "unknown";
}

/* ---- from an address to its rule ---- */

static const struct infp_unwind_rule by_frame_pointer = { .cfa_kind = INFP_CFA_REGISTER,
                                                          .cfa_register = INFP_RBP,
                                                          .flags = INFP_RULE_FRAME_POINTER | INFP_RULE_PLAIN,
                                                          .n_saves = 2,
                                                          .cfa_offset = 16 };
static const struct infp_unwind_save by_frame_pointer_saves[] = { { INFP_RBP, INFP_SAVE_AT_CFA, 0, 0, -16 },
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

/* The number of the rule at vaddr. The table was checked; what is damaged since is as good as not there. */
static unsigned number_at(const struct infp_unwind_table *table, uint64_t vaddr)
{
        const unsigned number = infp_unwind_table_find(table, vaddr);
        const struct infp_unwind_rule *rule = &infp_unwind_table_rules(table)[number];

        return number < table->n_rules && rule->first_save <= table->n_saves &&
                               rule->n_saves <= table->n_saves - rule->first_save
                       ? number
                       : INFP_RULE_NONE;
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
                number = number_at(mapping->table, pc - mapping->bias);
        if (number == INFP_RULE_NONE) {
                *ret_end = INFP_UNWIND_NO_TABLE;
                *ret_saves = by_frame_pointer_saves;
                return mapping->flags & INFP_MAPPING_FRAME_POINTERS ? &by_frame_pointer : NULL;
        }
        rule = &infp_unwind_table_rules(mapping->table)[number];
        *ret_saves = infp_unwind_table_saves(mapping->table) + rule->first_save;
        return rule;
}

/* The rule for code at pc, through the cache. NULL: *ret_end says why not. */
static inline const struct infp_unwind_rule *find(struct walk *walk, uint64_t pc,
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

/* ---- what the walk depends on ---- */

static void leave_trail(struct walk *walk)
{
        if (walk->start->trail)
                walk->start->trail->is_whole = false;
}

/* It depends on a register's value. */
static void note(struct walk *walk, unsigned reg)
{
        struct infp_unwind_trail *trail = walk->start->trail;
        uint64_t place, at;

        if (!trail)
                return;
        place = walk->places[reg];
        at = place - walk->start->dumps->begin;
        if (!place) {
                trail->registers |= UINT32_C(1) << reg; /* the stack pointer of callers follows from the rest */
        } else if (reg == INFP_RSP || trail->n == INFP_UNWIND_TRAIL || at > UINT32_MAX) {
                trail->is_whole = false;
        } else {
                trail->at[trail->n] = (uint32_t) at;
                trail->words[trail->n++] = walk->values[reg];
        }
}

/* ---- from a frame to its caller ---- */

static enum infp_unwind_end read_elsewhere(const struct walk *walk, uint64_t address, uint64_t *ret)
{
        const struct infp_unwind_start *start = walk->start;
        enum infp_unwind_end end = INFP_UNWIND_BROKEN;

        for (uint32_t i = 0; i < start->n_dumps; i++) {
                const struct infp_unwind_dump *dump = &start->dumps[i];
                const uint64_t at = address - dump->begin;

                if (address < dump->begin)
                        continue;
                if (at < dump->size && dump->size - at >= sizeof(*ret)) {
                        memcpy(ret, dump->bytes + at, sizeof(*ret));
                        return INFP_UNWIND_COMPLETE;
                }
                if (dump->is_cut && at - dump->size < FAR)
                        end = INFP_UNWIND_TRUNCATED;
        }
        return end;
}

/* 8 bytes of the stack: COMPLETE, or what an unwind that needs them ends with. */
static enum infp_unwind_end read_word(const struct walk *walk, uint64_t address, uint64_t *ret)
{
        const struct infp_unwind_dump *dump = walk->start->dumps;
        const uint64_t at = address - dump->begin;

        if (__builtin_expect(dump->size >= sizeof(*ret) && at <= dump->size - sizeof(*ret), 1)) {
                memcpy(ret, dump->bytes + at, sizeof(*ret));
                return INFP_UNWIND_COMPLETE;
        }
        return read_elsewhere(walk, address, ret);
}

static enum infp_unwind_end find_cfa(struct walk *walk, const struct infp_unwind_rule *rule, uint64_t *ret)
{
        const uint64_t base = walk->values[REGISTER(rule->cfa_register)] + (uint64_t) (int64_t) rule->cfa_offset;
        enum infp_unwind_end end;

        if (!(walk->valid >> REGISTER(rule->cfa_register) & 1)) {
                walk->address = walk->values[INFP_RIP];
                return INFP_UNWIND_BROKEN;
        }
        note(walk, REGISTER(rule->cfa_register));
        switch (rule->cfa_kind) {
        case INFP_CFA_REGISTER:
                *ret = base;
                return INFP_UNWIND_COMPLETE;
        case INFP_CFA_PLT:
                *ret = base + ((walk->values[INFP_RIP] & 15) >= (uint64_t) (int64_t) rule->cfa_addend ? 8 : 0);
                return INFP_UNWIND_COMPLETE;
        default:
                leave_trail(walk);
                end = read_word(walk, base, ret);
                *ret += (uint64_t) (int64_t) rule->cfa_addend;
                if (end != INFP_UNWIND_COMPLETE)
                        walk->address = base;
                return end;
        }
}

/* One register of the caller. sp, old: the stack pointer and the registers of this frame. */
static enum infp_unwind_end restore(struct walk *walk, const struct infp_unwind_save *save, uint64_t cfa, uint64_t sp,
                                    const uint64_t *old)
{
        const bool is_from_cfa = save->kind <= INFP_SAVE_CFA_VALUE;
        const bool is_vital = save->reg == INFP_RIP || save->reg == INFP_RSP;
        const uint64_t place = (is_from_cfa ? cfa : old[REGISTER(save->from)]) + (uint64_t) (int64_t) save->offset;
        enum infp_unwind_end end;

        if (!is_from_cfa && !(walk->valid >> REGISTER(save->from) & 1)) {
                walk->address = old[INFP_RIP];
                return INFP_UNWIND_BROKEN;
        }
        if (save->kind == INFP_SAVE_CFA_VALUE || save->kind == INFP_SAVE_REG_VALUE) {
                walk->values[REGISTER(save->reg)] = place;
                walk->valid |= UINT32_C(1) << REGISTER(save->reg);
                return INFP_UNWIND_COMPLETE;
        }
        /* In the epilogue of a realigned frame GCC still says "at rbp" when rbp is the caller's again; so is the rest. */
        if (save->kind == INFP_SAVE_AT_REG && save->from == INFP_RBP && (place >= cfa || place < sp) && !is_vital)
                return INFP_UNWIND_COMPLETE;
        end = read_word(walk, place, &walk->values[REGISTER(save->reg)]);
        if (__builtin_expect(end == INFP_UNWIND_COMPLETE, 1)) {
                walk->valid |= UINT32_C(1) << REGISTER(save->reg);
                return end;
        }
        /* After the pops of an epilogue GCC still says where the registers were: they have their values again. */
        if (place < sp && !is_vital)
                return INFP_UNWIND_COMPLETE;
        walk->address = place;
        return end;
}

/* All registers of the caller, where all of them are on the stack below the CFA. */
static enum infp_unwind_end restore_plain(struct walk *walk, const struct infp_unwind_rule *rule,
                                          const struct infp_unwind_save *saves, uint64_t cfa, uint64_t sp)
{
        const struct infp_unwind_dump *dump = walk->start->dumps;
        const uint64_t from = cfa - dump->begin, limit = dump->size - 8;
        const unsigned n = N_SAVES(rule);
        unsigned i;

        for (i = 0; i < n && dump->size >= 8; i++) {
                const uint64_t at = from + (uint64_t) (int64_t) saves[i].offset;

                if (__builtin_expect(at > limit, 0))
                        break;
                memcpy(&walk->values[REGISTER(saves[i].reg)], dump->bytes + at, 8);
                walk->places[REGISTER(saves[i].reg)] = dump->begin + at;
                walk->valid |= UINT32_C(1) << REGISTER(saves[i].reg);
        }
        if (i < n)
                leave_trail(walk);
        for (; i < n; i++) {
                const enum infp_unwind_end end = restore(walk, &saves[i], cfa, sp, walk->values);

                if (end != INFP_UNWIND_COMPLETE)
                        return end;
        }
        return INFP_UNWIND_COMPLETE;
}

/* From a frame to its caller. */
static enum infp_unwind_end step(struct walk *walk, const struct infp_unwind_rule *rule,
                                 const struct infp_unwind_save *saves)
{
        const uint64_t sp = walk->values[INFP_RSP];
        const bool is_signal = rule->flags & INFP_RULE_SIGNAL;
        uint64_t copy[ROOM], cfa;
        const uint64_t *old = walk->values;
        enum infp_unwind_end end = find_cfa(walk, rule, &cfa);

        if (end != INFP_UNWIND_COMPLETE)
                return end;
        /* The caller of a signal handler may be on another stack. */
        if (cfa <= sp && !is_signal) {
                walk->address = cfa;
                return INFP_UNWIND_BROKEN;
        }
        if (__builtin_expect(rule->flags & INFP_RULE_PLAIN, 1)) {
                walk->values[INFP_RSP] = cfa;
                walk->valid &= kept_by_calls;
                return restore_plain(walk, rule, saves, cfa, sp);
        }
        leave_trail(walk);
        if (rule->flags & (INFP_RULE_FROM_REGISTER | INFP_RULE_SIGNAL)) {
                memcpy(copy, walk->values, sizeof(copy));
                old = copy;
        }
        walk->values[INFP_RSP] = cfa;
        for (unsigned i = 0; i < N_SAVES(rule); i++) {
                end = restore(walk, &saves[i], cfa, sp, old);
                if (__builtin_expect(end != INFP_UNWIND_COMPLETE, 0))
                        return end;
        }
        if (is_signal)
                walk->valid = ALL_REGISTERS;
        else
                walk->valid &= kept_by_calls;
        return INFP_UNWIND_COMPLETE;
}

static void add_frame(struct walk *walk, uint32_t mapping, uint32_t flags)
{
        walk->seen |= flags;
        walk->frames[walk->n_frames++] =
                (struct infp_unwind_frame){ walk->values[INFP_RIP], walk->values[INFP_RSP], mapping, flags };
}

static bool may_begin_in(const struct walk *walk, uint32_t mapping)
{
        return mapping != INFP_NO_MAPPING && (walk->start->space->mappings[mapping].flags & INFP_MAPPING_NO_TABLES);
}

/* _start is written by hand, and in musl it has no call frame information. */
static bool is_entry(const struct walk *walk, uint32_t mapping, uint64_t pc)
{
        const uint64_t entry = mapping == INFP_NO_MAPPING ? 0 : walk->start->space->mappings[mapping].entry;

        return entry && pc >= entry && pc - entry < ENTRY_BYTES;
}

/* ---- guesses ----
 * Code that was made at run time has no call frame information, and its memory comes and goes. Its caller mostly has: somewhere
 * above is the return address. A candidate counts only when the unwind from there reaches the outermost frame. */

static enum infp_unwind_end walk_on(struct walk *walk);

/* Whether the instruction before address is a call: E8 rel32, or FF /2 with any operand. */
static bool follows_call(const uint8_t *code, uint64_t n_before)
{
        if (n_before >= 5 && code[-5] == 0xe8)
                return true;
        for (unsigned size = 2; size <= 7; size++) {
                uint8_t operand, mode, low;
                unsigned wanted = 2;

                if (n_before < size || code[-(int) size] != 0xff)
                        continue;
                operand = code[1 - (int) size];
                mode = operand >> 6;
                low = operand & 7;
                if ((operand >> 3 & 7) != 2)
                        continue;
                if (mode != 3 && low == 4) {
                        wanted++;
                        if (n_before < size || size < 3)
                                continue;
                        if (mode == 0 && (code[2 - (int) size] & 7) == 5)
                                wanted += 4;
                }
                if (mode == 1)
                        wanted += 1;
                else if (mode == 2 || (mode == 0 && low == 5))
                        wanted += 4;
                if (wanted == size)
                        return true;
        }
        return false;
}

static bool may_return_to(struct walk *walk, uint64_t address)
{
        const struct infp_unwind_mapping *mapping;
        const struct infp_unwind_save *saves;
        enum infp_unwind_end end;
        uint32_t i = infp_unwind_find_mapping(walk->start->space, address);

        if (i == INFP_NO_MAPPING)
                return false;
        mapping = &walk->start->space->mappings[i];
        return mapping->table && mapping->code && address > mapping->begin &&
               follows_call(mapping->code + (address - mapping->begin), address - mapping->begin) &&
               (is_entry(walk, i, address) || find(walk, address - 1, &saves, &i, &end));
}

/* Goes on as if the caller were at pc with this stack and frame pointer. */
static bool follow(struct walk *walk, uint64_t pc, uint64_t sp, uint64_t frame_pointer)
{
        struct walk trial;

        if (walk->trials_left == 0)
                return false;
        walk->trials_left--;
        trial = *walk;
        trial.values[INFP_RIP] = pc;
        trial.values[INFP_RSP] = sp;
        trial.values[INFP_RBP] = frame_pointer;
        trial.valid = 1 << INFP_RBX | 1 << INFP_RBP | 1 << INFP_RSP | 1 << INFP_R12 | 1 << INFP_R13 | 1 << INFP_R14 |
                      1 << INFP_R15 | 1 << INFP_RIP;
        trial.flags = INFP_FRAME_GUESSED;
        trial.n_guesses++;
        if (walk_on(&trial) == INFP_UNWIND_COMPLETE) {
                *walk = trial;
                return true;
        }
        walk->words_left = trial.words_left;
        walk->trials_left = trial.trials_left;
        return false;
}

/* Most compilers at run time keep frame pointers, so that the frames between are found as well, and even the caller's registers
 * are right. Each of them must be code without a table, up to one that has one. */
static bool follow_frame_pointers(struct walk *walk)
{
        const uint32_t n_before = walk->n_frames;
        uint64_t sp = walk->values[INFP_RSP], frame = walk->values[INFP_RBP], outer, pc;

        for (unsigned i = 0; i < MAX_CHAIN; i++) {
                const struct infp_unwind_save *saves;
                enum infp_unwind_end end;
                uint32_t mapping;

                if (frame < sp || frame > UINT64_MAX - 16 || read_word(walk, frame, &outer) != INFP_UNWIND_COMPLETE ||
                    read_word(walk, frame + 8, &pc) != INFP_UNWIND_COMPLETE)
                        break;
                if (may_return_to(walk, pc)) {
                        if (!follow(walk, pc, frame + 16, outer))
                                break;
                        for (uint32_t k = n_before - 1; k <= n_before - 1 + i; k++)
                                walk->frames[k].flags |= INFP_FRAME_FRAME_POINTER;
                        return true;
                }
                if (walk->n_frames == walk->max_frames || find(walk, pc - 1, &saves, &mapping, &end) ||
                    mapping == INFP_NO_MAPPING)
                        break;
                sp = frame + 16;
                walk->frames[walk->n_frames++] = (struct infp_unwind_frame){ pc, sp, mapping, INFP_FRAME_GUESSED };
                frame = outer;
        }
        walk->n_frames = n_before;
        return false;
}

/* Code that uses the frame pointer for something else (oneDNN's kernels) has pushed its caller's below the return address, among
 * the registers that a function must keep. What only looks like one leads past frames: the longest way is the right one, for which one trial is kept. */
static bool follow_saved(struct walk *walk, uint64_t pc, uint64_t place)
{
        const uint64_t sp = walk->values[INFP_RSP];
        uint64_t frame, unused, best = 0;
        uint32_t most = 0;

        for (unsigned i = 1; i <= SAVED_WORDS && place - 8 * i >= sp && walk->trials_left > 1; i++) {
                struct walk before = *walk;

                if (read_word(walk, place - 8 * i, &frame) != INFP_UNWIND_COMPLETE || frame <= place || frame % 8 ||
                    read_word(walk, frame, &unused) != INFP_UNWIND_COMPLETE || !follow(walk, pc, place + 8, frame))
                        continue;
                if (walk->n_frames > most) {
                        most = walk->n_frames;
                        best = frame;
                }
                before.words_left = walk->words_left;
                before.trials_left = walk->trials_left;
                *walk = before;
        }
        return most && follow(walk, pc, place + 8, best);
}

/* missing: an address that should have been read and is not known. */
static bool guess_above(struct walk *walk, uint64_t sp, uint64_t *missing)
{
        uint64_t pc;

        for (uint64_t i = 0; i < WORDS && walk->words_left; i++) {
                const enum infp_unwind_end end = read_word(walk, sp + 8 * i, &pc);

                walk->words_left--;
                if (end == INFP_UNWIND_TRUNCATED)
                        *missing = sp + 8 * i;
                if (end != INFP_UNWIND_COMPLETE)
                        return false;
                if (may_return_to(walk, pc) &&
                    (follow(walk, pc, sp + 8 * i + 8, walk->values[INFP_RBP]) || follow_saved(walk, pc, sp + 8 * i)))
                        return true;
        }
        return false;
}

/* Where no table helps: looks for the caller on the stack. Complete when the walk then reached the outermost frame. */
static enum infp_unwind_end guess(struct walk *walk, enum infp_unwind_end without)
{
        const uint64_t sp = walk->values[INFP_RSP];
        uint64_t missing = 0;

        if (walk->n_guesses == MAX_DEPTH)
                return without;
        if (follow_frame_pointers(walk) || guess_above(walk, sp, &missing))
                return INFP_UNWIND_COMPLETE;
        /* Code that aligns its stack keeps the stack pointer of before in a register: OpenBLAS's kernels, of 28 KiB. */
        for (unsigned i = 0; i < INFP_RIP; i++) {
                const uint64_t before = walk->values[i];

                if ((walk->valid >> i & 1) && before > sp && before - sp < MAX_ALIGNED && before % 8 == 0 &&
                    guess_above(walk, before, &missing))
                        return INFP_UNWIND_COMPLETE;
        }
        if (!missing)
                return without;
        walk->address = missing;
        return INFP_UNWIND_TRUNCATED;
}

/* ---- the walk ---- */

static enum infp_unwind_end walk_on(struct walk *walk)
{
        for (;;) {
                const uint64_t pc = walk->values[INFP_RIP];
                const bool is_exact = walk->flags & INFP_FRAME_EXACT;
                const uint32_t guessed = walk->flags & INFP_FRAME_GUESSED;
                const struct infp_unwind_save *saves = NULL;
                const struct infp_unwind_rule *rule;
                enum infp_unwind_end end = INFP_UNWIND_COMPLETE;
                uint32_t mapping, flags = walk->flags;

                if (walk->n_frames == walk->max_frames)
                        return INFP_UNWIND_TOO_DEEP;
                rule = find(walk, pc - !is_exact, &saves, &mapping, &end);
                if (!rule || (rule->flags & INFP_RULE_UNSUPPORTED)) {
                        add_frame(walk, mapping, flags);
                        walk->address = pc;
                        if (is_entry(walk, mapping, pc))
                                return INFP_UNWIND_COMPLETE;
                        if (rule)
                                end = INFP_UNWIND_UNSUPPORTED;
                        /* Above a guess, what is no code shows that it was wrong. */
                        if (!walk->start->may_guess || (walk->n_guesses && mapping == INFP_NO_MAPPING))
                                return end;
                        leave_trail(walk);
                        end = guess(walk, end);
                        return !is_exact && may_begin_in(walk, mapping) ? INFP_UNWIND_COMPLETE : end;
                }
                if (rule->flags & INFP_RULE_SIGNAL)
                        flags |= INFP_FRAME_SIGNAL;
                if (rule->flags & INFP_RULE_FRAME_POINTER)
                        flags |= INFP_FRAME_FRAME_POINTER;
                add_frame(walk, mapping, flags);
                if (rule->flags & INFP_RULE_FRAME_POINTER)
                        note(walk, INFP_RBP);
                /* A frame pointer of 0 is the outermost: Go's scheduler clears it where it changes to its own stack. */
                if ((rule->flags & INFP_RULE_END) || ((rule->flags & INFP_RULE_FRAME_POINTER) &&
                                                      (walk->valid >> INFP_RBP & 1) && walk->values[INFP_RBP] == 0))
                        return INFP_UNWIND_COMPLETE;
                end = step(walk, rule, saves);
                if (end != INFP_UNWIND_COMPLETE)
                        return end;
                note(walk, INFP_RIP);
                /* Hand-written begins of threads end so, and whatever an old frame has left behind above a guess. */
                if (walk->values[INFP_RIP] == 0)
                        return walk->n_guesses ? INFP_UNWIND_BROKEN : INFP_UNWIND_COMPLETE;
                walk->flags = guessed | (rule->flags & INFP_RULE_SIGNAL ? INFP_FRAME_EXACT : 0) |
                              (rule->flags & INFP_RULE_FRAME_POINTER ? INFP_FRAME_GUESSED : 0);
        }
}

void infp_unwind(const struct infp_unwind_start *start, struct infp_unwind_cache *cache,
                 struct infp_unwind_frame *ret_frames, uint32_t max_frames, struct infp_unwind_result *ret)
{
        struct walk walk;

        walk.start = start;
        walk.cache = cache;
        walk.frames = ret_frames;
        walk.n_frames = 0;
        walk.max_frames = max_frames;
        walk.flags = INFP_FRAME_EXACT;
        walk.valid = ALL_REGISTERS & ~start->unknown;
        walk.n_guesses = 0;
        walk.seen = 0;
        walk.words_left = GUESS_WORDS;
        walk.trials_left = GUESS_TRIALS;
        walk.address = 0;
        memcpy(walk.values, start->values, INFP_N_REGISTERS * sizeof(walk.values[0]));
        memset(walk.values + INFP_N_REGISTERS, 0, (ROOM - INFP_N_REGISTERS) * sizeof(walk.values[0]));
        if (start->trail) {
                memset(walk.places, 0, sizeof(walk.places));
                start->trail->n = 0;
                start->trail->registers = 1 << INFP_RIP | 1 << INFP_RSP;
                start->trail->is_whole = start->n_dumps == 1 && !start->unknown;
        }
        ret->end = start->n_dumps ? walk_on(&walk) : INFP_UNWIND_TRUNCATED;
        ret->n_frames = walk.n_frames;
        ret->address = walk.address;
        ret->n_guessed = 0;
        for (uint32_t i = 0; (walk.seen & INFP_FRAME_GUESSED) && i < walk.n_frames; i++)
                ret->n_guessed += (ret_frames[i].flags & INFP_FRAME_GUESSED) != 0;
}
