/* Code that was made at run time has no call frame information, and its memory comes and goes. Its caller mostly has: somewhere
 * above is the return address. A candidate counts only when the unwind from there reaches the outermost frame. */
#include "unwind/walk_parts.h"

enum { WORDS = 128, MAX_DEPTH = 4, MAX_CHAIN = 512, CALLEE_SAVED = 6 };

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

static bool may_return_to(struct infp_walk *walk, uint64_t address)
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
               (infp_walk_is_entry(walk, i, address) || infp_walk_find(walk, address - 1, &saves, &i, &end));
}

/* Goes on as if the caller were at pc with this stack and frame pointer. */
static bool follow(struct infp_walk *walk, uint64_t pc, uint64_t sp, uint64_t frame_pointer)
{
        struct infp_walk trial;

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
        if (infp_walk_on(&trial) == INFP_UNWIND_COMPLETE) {
                *walk = trial;
                return true;
        }
        walk->words_left = trial.words_left;
        walk->trials_left = trial.trials_left;
        return false;
}

/* Most compilers at run time keep frame pointers, so that the frames between are found as well, and even the caller's registers
 * are right. Each of them must be code without a table, up to one that has one. */
static bool follow_frame_pointers(struct infp_walk *walk)
{
        const uint32_t n_before = walk->n_frames;
        uint64_t sp = walk->values[INFP_RSP], frame = walk->values[INFP_RBP], outer, pc;

        for (unsigned i = 0; i < MAX_CHAIN; i++) {
                const struct infp_unwind_save *saves;
                enum infp_unwind_end end;
                uint32_t mapping;

                if (frame < sp || frame > UINT64_MAX - 16 ||
                    infp_walk_read(walk, frame, &outer) != INFP_UNWIND_COMPLETE ||
                    infp_walk_read(walk, frame + 8, &pc) != INFP_UNWIND_COMPLETE)
                        break;
                if (may_return_to(walk, pc)) {
                        if (!follow(walk, pc, frame + 16, outer))
                                break;
                        for (uint32_t k = n_before - 1; k <= n_before - 1 + i; k++)
                                walk->frames[k].flags |= INFP_FRAME_FRAME_POINTER;
                        return true;
                }
                if (walk->n_frames == walk->max_frames || infp_walk_find(walk, pc - 1, &saves, &mapping, &end) ||
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
static bool follow_saved(struct infp_walk *walk, uint64_t pc, uint64_t place)
{
        const uint64_t sp = walk->values[INFP_RSP];
        uint64_t frame, unused, best = 0;
        uint32_t most = 0;

        for (unsigned i = 1; i <= CALLEE_SAVED && place - 8 * i >= sp && walk->trials_left > 1; i++) {
                struct infp_walk before = *walk;

                if (infp_walk_read(walk, place - 8 * i, &frame) != INFP_UNWIND_COMPLETE || frame <= place ||
                    frame % 8 || infp_walk_read(walk, frame, &unused) != INFP_UNWIND_COMPLETE ||
                    !follow(walk, pc, place + 8, frame))
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

bool infp_walk_guess(struct infp_walk *walk)
{
        const uint64_t sp = walk->values[INFP_RSP];
        uint64_t pc;

        if (walk->n_guesses == MAX_DEPTH)
                return false;
        if (follow_frame_pointers(walk))
                return true;
        for (uint64_t i = 0; i < WORDS && walk->words_left; i++) {
                walk->words_left--;
                if (infp_walk_read(walk, sp + 8 * i, &pc) != INFP_UNWIND_COMPLETE)
                        return false;
                if (may_return_to(walk, pc) &&
                    (follow(walk, pc, sp + 8 * i + 8, walk->values[INFP_RBP]) || follow_saved(walk, pc, sp + 8 * i)))
                        return true;
        }
        return false;
}
