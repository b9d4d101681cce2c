#include "unwind/walk.h"

#include <string.h>

#include "unwind/walk_parts.h"

/* What a call may destroy; the rest the callee gives back. */
static const uint32_t kept_by_calls = 1 << INFP_RBX | 1 << INFP_RBP | 1 << INFP_RSP | 1 << INFP_R12 | 1 << INFP_R13 |
                                      1 << INFP_R14 | 1 << INFP_R15 | 1 << INFP_RIP;
#define ALL_REGISTERS ((UINT32_C(1) << INFP_N_REGISTERS) - 1)

enum { GUESS_WORDS = 1024, GUESS_TRIALS = 256, ENTRY_BYTES = 64 };

/* A stack that goes on does so nearby: what is farther was never a part of it. */
#define FAR (UINT64_C(1) << 32)

const char *infp_unwind_end_name(enum infp_unwind_end end)
{
        static const char *const names[] = { "complete", "truncated",   "too deep", "no mapping",
                                             "no table", "unsupported", "broken" };

        return (unsigned) end < sizeof(names) / sizeof(names[0]) ? names[end] : "unknown";
}

static enum infp_unwind_end read_elsewhere(const struct infp_walk *walk, uint64_t address, uint64_t *ret)
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

enum infp_unwind_end infp_walk_read(const struct infp_walk *walk, uint64_t address, uint64_t *ret)
{
        const struct infp_unwind_dump *dump = walk->start->dumps;
        const uint64_t at = address - dump->begin;

        if (__builtin_expect(dump->size >= sizeof(*ret) && at <= dump->size - sizeof(*ret), 1)) {
                memcpy(ret, dump->bytes + at, sizeof(*ret));
                return INFP_UNWIND_COMPLETE;
        }
        return read_elsewhere(walk, address, ret);
}

static enum infp_unwind_end find_cfa(struct infp_walk *walk, const struct infp_unwind_rule *rule, uint64_t *ret)
{
        const uint64_t base = walk->values[rule->cfa_register] + (uint64_t) (int64_t) rule->cfa_offset;
        enum infp_unwind_end end;

        if (!(walk->valid >> rule->cfa_register & 1)) {
                walk->address = walk->values[INFP_RIP];
                return INFP_UNWIND_BROKEN;
        }
        switch (rule->cfa_kind) {
        case INFP_CFA_REGISTER:
                *ret = base;
                return INFP_UNWIND_COMPLETE;
        case INFP_CFA_PLT:
                *ret = base + ((walk->values[INFP_RIP] & 15) >= (uint64_t) (int64_t) rule->cfa_addend ? 8 : 0);
                return INFP_UNWIND_COMPLETE;
        default:
                end = infp_walk_read(walk, base, ret);
                *ret += (uint64_t) (int64_t) rule->cfa_addend;
                if (end != INFP_UNWIND_COMPLETE)
                        walk->address = base;
                return end;
        }
}

/* One register of the caller. sp, old: the stack pointer and the registers of this frame. */
static enum infp_unwind_end restore(struct infp_walk *walk, const struct infp_unwind_save *save, uint64_t cfa,
                                    uint64_t sp, const uint64_t *old)
{
        const bool is_from_cfa = save->kind <= INFP_SAVE_CFA_VALUE;
        const bool is_vital = save->reg == INFP_RIP || save->reg == INFP_RSP;
        const uint64_t place = (is_from_cfa ? cfa : old[save->from]) + (uint64_t) (int64_t) save->offset;
        enum infp_unwind_end end;

        if (!is_from_cfa && !(walk->valid >> save->from & 1)) {
                walk->address = old[INFP_RIP];
                return INFP_UNWIND_BROKEN;
        }
        if (save->kind == INFP_SAVE_CFA_VALUE || save->kind == INFP_SAVE_REG_VALUE) {
                walk->values[save->reg] = place;
                walk->valid |= UINT32_C(1) << save->reg;
                return INFP_UNWIND_COMPLETE;
        }
        /* In the epilogue of a realigned frame GCC still says "at rbp" when rbp is the caller's again; so is the rest. */
        if (save->kind == INFP_SAVE_AT_REG && save->from == INFP_RBP && (place >= cfa || place < sp) && !is_vital)
                return INFP_UNWIND_COMPLETE;
        end = infp_walk_read(walk, place, &walk->values[save->reg]);
        if (__builtin_expect(end == INFP_UNWIND_COMPLETE, 1)) {
                walk->valid |= UINT32_C(1) << save->reg;
                return end;
        }
        /* After the pops of an epilogue GCC still says where the registers were: they have their values again. */
        if (place < sp && !is_vital)
                return INFP_UNWIND_COMPLETE;
        walk->address = place;
        return end;
}

/* All registers of the caller, where all of them are on the stack below the CFA. */
static enum infp_unwind_end restore_plain(struct infp_walk *walk, const struct infp_unwind_rule *rule,
                                          const struct infp_unwind_save *saves, uint64_t cfa, uint64_t sp)
{
        const struct infp_unwind_dump *dump = walk->start->dumps;
        const uint64_t from = cfa - dump->begin, limit = dump->size - 8;
        unsigned i;

        for (i = 0; i < rule->n_saves && dump->size >= 8; i++) {
                const uint64_t at = from + (uint64_t) (int64_t) saves[i].offset;

                if (__builtin_expect(at > limit, 0))
                        break;
                memcpy(&walk->values[saves[i].reg], dump->bytes + at, 8);
                walk->valid |= UINT32_C(1) << saves[i].reg;
        }
        for (; i < rule->n_saves; i++) {
                const enum infp_unwind_end end = restore(walk, &saves[i], cfa, sp, walk->values);

                if (end != INFP_UNWIND_COMPLETE)
                        return end;
        }
        return INFP_UNWIND_COMPLETE;
}

/* From a frame to its caller. */
static enum infp_unwind_end step(struct infp_walk *walk, const struct infp_unwind_rule *rule,
                                 const struct infp_unwind_save *saves)
{
        const uint64_t sp = walk->values[INFP_RSP];
        const bool is_signal = rule->flags & INFP_RULE_SIGNAL;
        uint64_t copy[INFP_N_REGISTERS], cfa;
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
        if (rule->flags & (INFP_RULE_FROM_REGISTER | INFP_RULE_SIGNAL)) {
                memcpy(copy, walk->values, sizeof(copy));
                old = copy;
        }
        walk->values[INFP_RSP] = cfa;
        for (unsigned i = 0; i < rule->n_saves; i++) {
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

static void add_frame(struct infp_walk *walk, uint32_t mapping, uint32_t flags)
{
        walk->seen |= flags;
        walk->frames[walk->n_frames++] =
                (struct infp_unwind_frame){ walk->values[INFP_RIP], walk->values[INFP_RSP], mapping, flags };
}

static bool may_begin_in(const struct infp_walk *walk, uint32_t mapping)
{
        return mapping != INFP_NO_MAPPING && (walk->start->space->mappings[mapping].flags & INFP_MAPPING_NO_TABLES);
}

bool infp_walk_is_entry(const struct infp_walk *walk, uint32_t mapping, uint64_t pc)
{
        const uint64_t entry = mapping == INFP_NO_MAPPING ? 0 : walk->start->space->mappings[mapping].entry;

        return entry && pc >= entry && pc - entry < ENTRY_BYTES;
}

enum infp_unwind_end infp_walk_on(struct infp_walk *walk)
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
                rule = infp_walk_find(walk, pc - !is_exact, &saves, &mapping, &end);
                if (!rule || (rule->flags & INFP_RULE_UNSUPPORTED)) {
                        add_frame(walk, mapping, flags);
                        walk->address = pc;
                        if (infp_walk_is_entry(walk, mapping, pc))
                                return INFP_UNWIND_COMPLETE;
                        if (rule)
                                end = INFP_UNWIND_UNSUPPORTED;
                        /* Above a guess, what is no code shows that it was wrong. */
                        if (!walk->start->may_guess || (walk->n_guesses && mapping == INFP_NO_MAPPING))
                                return end;
                        return infp_walk_guess(walk) || (!is_exact && may_begin_in(walk, mapping))
                                       ? INFP_UNWIND_COMPLETE
                                       : end;
                }
                if (rule->flags & INFP_RULE_SIGNAL)
                        flags |= INFP_FRAME_SIGNAL;
                if (rule->flags & INFP_RULE_FRAME_POINTER)
                        flags |= INFP_FRAME_FRAME_POINTER;
                add_frame(walk, mapping, flags);
                /* A frame pointer of 0 is the outermost: Go's scheduler clears it where it changes to its own stack. */
                if ((rule->flags & INFP_RULE_END) || ((rule->flags & INFP_RULE_FRAME_POINTER) &&
                                                      (walk->valid >> INFP_RBP & 1) && walk->values[INFP_RBP] == 0))
                        return INFP_UNWIND_COMPLETE;
                end = step(walk, rule, saves);
                if (end != INFP_UNWIND_COMPLETE)
                        return end;
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
        struct infp_walk walk;

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
        memcpy(walk.values, start->values, sizeof(walk.values));
        ret->end = start->n_dumps ? infp_walk_on(&walk) : INFP_UNWIND_TRUNCATED;
        ret->n_frames = walk.n_frames;
        ret->address = walk.address;
        ret->n_guessed = 0;
        for (uint32_t i = 0; (walk.seen & INFP_FRAME_GUESSED) && i < walk.n_frames; i++)
                ret->n_guessed += (ret_frames[i].flags & INFP_FRAME_GUESSED) != 0;
}
