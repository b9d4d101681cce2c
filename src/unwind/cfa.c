#include "unwind/cfa.h"

#include <errno.h>

enum { MAX_REMEMBERED = 16 };

/* ---- the few expressions that compilers and hand-written assembly put into call frame information on x86-64 ---- */

enum {
        OP_DEREF = 0x06,
        OP_CONST1U = 0x08,
        OP_CONST1S = 0x09,
        OP_CONST2U = 0x0a,
        OP_CONST2S = 0x0b,
        OP_CONST4U = 0x0c,
        OP_CONST4S = 0x0d,
        OP_CONSTU = 0x10,
        OP_CONSTS = 0x11,
        OP_MINUS = 0x1c,
        OP_PLUS = 0x22,
        OP_PLUS_UCONST = 0x23,
        OP_LIT0 = 0x30,
        OP_BREG0 = 0x70,
        OP_BREGX = 0x92,
        FROM_CFA = 0xff,
};

/* A value of the shape *(base + offset) + addend, or base + offset. */
struct value {
        unsigned base; /* a register or FROM_CFA */
        int64_t offset, addend;
        bool is_read;
};

static bool read_constant(struct infp_cursor *c, uint8_t op, int64_t *ret)
{
        switch (op) {
        case OP_CONST1U:
                *ret = infp_cursor_u8(c);
                return true;
        case OP_CONST1S:
                *ret = (int8_t) infp_cursor_u8(c);
                return true;
        case OP_CONST2U:
                *ret = infp_cursor_u16(c);
                return true;
        case OP_CONST2S:
                *ret = (int16_t) infp_cursor_u16(c);
                return true;
        case OP_CONST4U:
                *ret = infp_cursor_u32(c);
                return true;
        case OP_CONST4S:
                *ret = (int32_t) infp_cursor_u32(c);
                return true;
        case OP_CONSTU:
                *ret = (int64_t) infp_cursor_uleb(c);
                return true;
        case OP_CONSTS:
                *ret = infp_cursor_sleb(c);
                return true;
        default:
                *ret = op - OP_LIT0;
                return op >= OP_LIT0 && op < OP_LIT0 + 32;
        }
}

/* Sums stay far from 64 bits: what exceeds 32 is refused at the end. */
static bool is_small(int64_t value)
{
        return value >= INT32_MIN && value <= INT32_MAX;
}

static bool add(struct value *v, int64_t n)
{
        int64_t *sum = v->is_read ? &v->addend : &v->offset;

        if (!is_small(n))
                return false;
        *sum += n;
        return is_small(*sum);
}

static bool evaluate(const uint8_t *bytes, uint64_t size, bool has_cfa, struct value *ret)
{
        struct infp_cursor c = infp_cursor(bytes, size);
        struct value v = { FROM_CFA, 0, 0, false };
        bool has_value = has_cfa;

        while (infp_cursor_left(&c)) {
                const uint8_t op = infp_cursor_u8(&c);
                int64_t n;

                if ((op >= OP_BREG0 && op < OP_BREG0 + 32) || op == OP_BREGX) {
                        const uint64_t base = op == OP_BREGX ? infp_cursor_uleb(&c) : (uint64_t) (op - OP_BREG0);

                        v = (struct value){ (unsigned) base, infp_cursor_sleb(&c), 0, false };
                        if (base >= INFP_N_REGISTERS || !is_small(v.offset))
                                return false;
                        has_value = true;
                } else if (op == OP_PLUS_UCONST) {
                        if (!has_value || !add(&v, (int64_t) infp_cursor_uleb(&c)))
                                return false;
                } else if (op == OP_DEREF) {
                        if (!has_value || v.is_read)
                                return false;
                        v.is_read = true;
                } else if (has_value && read_constant(&c, op, &n)) {
                        const uint8_t then = infp_cursor_u8(&c);

                        if ((then != OP_PLUS && then != OP_MINUS) || !is_small(n) || !add(&v, then == OP_PLUS ? n : -n))
                                return false;
                } else {
                        return false;
                }
        }
        *ret = v;
        return has_value && !c.is_bad;
}

/* breg7 8; breg16 0; lit15; and; litK; ge; lit3; shl; plus */
static bool is_plt(const uint8_t *bytes, uint64_t size, struct infp_cfa_state *state)
{
        static const uint8_t head[] = { 0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a }, tail[] = { 0x2a, 0x33, 0x24, 0x22 };

        if (size != sizeof(head) + 1 + sizeof(tail) || memcmp(bytes, head, sizeof(head)) != 0 ||
            memcmp(bytes + sizeof(head) + 1, tail, sizeof(tail)) != 0 || bytes[6] < OP_LIT0 || bytes[6] > OP_LIT0 + 15)
                return false;
        state->cfa_kind = INFP_CFA_PLT;
        state->cfa_register = INFP_RSP;
        state->cfa_offset = 8;
        state->cfa_addend = bytes[6] - OP_LIT0;
        return true;
}

/* An expression of size bytes as state's CFA. False: not supported. */
static bool parse_cfa(const uint8_t *bytes, uint64_t size, struct infp_cfa_state *state)
{
        struct value v;

        if (is_plt(bytes, size, state))
                return true;
        if (!evaluate(bytes, size, false, &v))
                return false;
        state->cfa_kind = v.is_read ? INFP_CFA_AT : INFP_CFA_REGISTER;
        state->cfa_register = (uint8_t) v.base;
        state->cfa_offset = (int32_t) v.offset;
        state->cfa_addend = (int32_t) v.addend;
        return true;
}

/* The same as the place (or, with is_value, the value) of a register. */
static bool parse_save(const uint8_t *bytes, uint64_t size, bool is_value, struct infp_unwind_save *save)
{
        struct value v;

        if (!evaluate(bytes, size, true, &v))
                return false;
        if (v.is_read) { /* a value that is read is the same as a place that is not */
                if (!is_value || v.addend)
                        return false;
                is_value = false;
        }
        if (v.base == FROM_CFA)
                save->kind = is_value ? INFP_SAVE_CFA_VALUE : INFP_SAVE_AT_CFA;
        else
                save->kind = is_value ? INFP_SAVE_REG_VALUE : INFP_SAVE_AT_REG;
        save->from = v.base == FROM_CFA ? 0 : (uint8_t) v.base;
        save->offset = (int32_t) v.offset;
        return true;
}

/* ---- programs ---- */

struct run {
        const struct infp_cfi_section *section;
        const struct infp_cie *cie;
        struct infp_cfa_state now;
        const struct infp_cfa_state *begin; /* what DW_CFA_restore restores; NULL in the CIE itself */
        struct infp_cfa_state remembered[MAX_REMEMBERED];
        unsigned n_remembered;
        uint64_t pc;
        bool has_changed; /* since the last row */
        infp_cfa_row *row;
        void *context;
};

static void set_unknown(struct run *run, uint64_t reg)
{
        if (reg >= INFP_N_REGISTERS)
                return; /* x87, SSE and so on: nothing that unwinding needs */
        run->now.saved &= ~(UINT32_C(1) << reg);
        run->now.unknown |= UINT32_C(1) << reg;
}

static void save(struct run *run, uint64_t reg, uint8_t kind, uint8_t from, int64_t offset)
{
        if (reg >= INFP_N_REGISTERS)
                return;
        if (offset < INT32_MIN || offset > INT32_MAX) {
                set_unknown(run, reg);
                return;
        }
        run->now.saves[reg] = (struct infp_unwind_save){ (uint8_t) reg, kind, from, 0, (int32_t) offset };
        run->now.saved |= UINT32_C(1) << reg;
        run->now.unknown &= ~(UINT32_C(1) << reg);
        if (reg == INFP_RIP)
                run->now.flags &= (uint8_t) ~INFP_RULE_END;
}

/* Offsets are multiplied in 64 bits without overflow being an error of C: the product of hostile numbers is some number. */
static int64_t factored(const struct run *run, uint64_t n)
{
        return (int64_t) (n * (uint64_t) run->cie->data_align);
}

static void keep(struct run *run, uint64_t reg)
{
        if (reg >= INFP_N_REGISTERS)
                return;
        run->now.saved &= ~(UINT32_C(1) << reg);
        run->now.unknown &= ~(UINT32_C(1) << reg);
}

static void restore(struct run *run, uint64_t reg)
{
        if (reg >= INFP_N_REGISTERS)
                return;
        keep(run, reg);
        if (run->begin && (run->begin->saved >> reg & 1)) {
                run->now.saves[reg] = run->begin->saves[reg];
                run->now.saved |= UINT32_C(1) << reg;
        }
        if (reg == INFP_RIP)
                run->now.flags = (uint8_t) ((run->now.flags & ~INFP_RULE_END) |
                                            (run->begin ? run->begin->flags & INFP_RULE_END : 0));
}

static void define_cfa(struct run *run, uint64_t reg, int64_t offset)
{
        struct infp_cfa_state *now = &run->now;

        now->flags &= (uint8_t) ~INFP_RULE_UNSUPPORTED;
        if (reg >= INFP_N_REGISTERS || offset < INT32_MIN || offset > INT32_MAX) {
                now->flags |= INFP_RULE_UNSUPPORTED;
                reg = INFP_RSP;
                offset = 0;
        }
        now->cfa_kind = INFP_CFA_REGISTER;
        now->cfa_register = (uint8_t) reg;
        now->cfa_offset = (int32_t) offset;
        now->cfa_addend = 0;
}

static void expression(struct run *run, struct infp_cursor *c, bool is_value)
{
        const uint64_t reg = infp_cursor_uleb(c), size = infp_cursor_uleb(c);
        const uint8_t *bytes = infp_cursor_take(c, size);
        struct infp_unwind_save found = { 0 };

        if (bytes && parse_save(bytes, size, is_value, &found))
                save(run, reg, found.kind, found.from, found.offset);
        else
                set_unknown(run, reg);
}

static void cfa_expression(struct run *run, struct infp_cursor *c)
{
        const uint64_t size = infp_cursor_uleb(c);
        const uint8_t *bytes = infp_cursor_take(c, size);

        run->now.flags &= (uint8_t) ~INFP_RULE_UNSUPPORTED;
        if (!bytes || !parse_cfa(bytes, size, &run->now))
                run->now.flags |= INFP_RULE_UNSUPPORTED;
}

/* The code before pc + delta is described. */
static int advance_to(struct run *run, uint64_t pc)
{
        int r = 0;

        if (pc < run->pc)
                return -EBADMSG;
        if (pc > run->pc && run->has_changed) {
                run->has_changed = false;
                r = run->row(run->context, run->pc, &run->now);
        }
        run->pc = pc;
        return r;
}

static int advance(struct run *run, uint64_t delta)
{
        const uint64_t step = delta * run->cie->code_align;

        return run->row ? advance_to(run, run->pc + step) : -EBADMSG; /* code in a CIE */
}

static int set_location(struct run *run, struct infp_cursor *c)
{
        uint64_t pc;
        int r = infp_cfi_pointer(c, run->cie->pointer_encoding,
                                 run->section->data.vaddr + (uint64_t) (c->at - run->section->data.bytes), 0, &pc);

        if (r < 0)
                return r;
        return run->row ? advance_to(run, pc) : -EBADMSG;
}

/* Instructions that only move on. Returns 1 when op is none of them. */
static int execute_move(struct run *run, struct infp_cursor *c, uint8_t op)
{
        switch (op) {
        case 0x01:
                return set_location(run, c);
        case 0x02:
                return advance(run, infp_cursor_u8(c));
        case 0x03:
                return advance(run, infp_cursor_u16(c));
        case 0x04:
                return advance(run, infp_cursor_u32(c));
        case 0x1d: /* DW_CFA_MIPS_advance_loc8 */
                return advance(run, infp_cursor_u64(c));
        case 0x00:
                return 0;
        case 0x2e: /* DW_CFA_GNU_args_size: what exceptions need */
                infp_cursor_uleb(c);
                return 0;
        default:
                return 1;
        }
}

/* Instructions on the CFA and the stack of states. Returns 1 when op is none of them. */
static int execute_cfa(struct run *run, struct infp_cursor *c, uint8_t op)
{
        uint64_t reg;

        switch (op) {
        case 0x0a:
                if (run->n_remembered == MAX_REMEMBERED)
                        return -ENOTSUP;
                run->remembered[run->n_remembered++] = run->now;
                return 0;
        case 0x0b:
                if (run->n_remembered == 0)
                        return -EBADMSG;
                run->now = run->remembered[--run->n_remembered];
                return 0;
        case 0x0c:
                reg = infp_cursor_uleb(c);
                define_cfa(run, reg, (int64_t) infp_cursor_uleb(c));
                return 0;
        case 0x0d:
                define_cfa(run, infp_cursor_uleb(c), run->now.cfa_offset);
                return 0;
        case 0x0e:
                define_cfa(run, run->now.cfa_register, (int64_t) infp_cursor_uleb(c));
                return 0;
        case 0x0f:
                cfa_expression(run, c);
                return 0;
        case 0x12:
                reg = infp_cursor_uleb(c);
                define_cfa(run, reg, factored(run, (uint64_t) infp_cursor_sleb(c)));
                return 0;
        case 0x13:
                define_cfa(run, run->now.cfa_register, factored(run, (uint64_t) infp_cursor_sleb(c)));
                return 0;
        default:
                return 1;
        }
}

static int execute_save(struct run *run, struct infp_cursor *c, uint8_t op)
{
        uint64_t reg, from;

        switch (op) {
        case 0x10:
        case 0x16:
                expression(run, c, op == 0x16);
                return 0;
        default:
                reg = infp_cursor_uleb(c);
        }
        switch (op) {
        case 0x05:
                save(run, reg, INFP_SAVE_AT_CFA, 0, factored(run, infp_cursor_uleb(c)));
                return 0;
        case 0x06:
                restore(run, reg);
                return 0;
        case 0x07:
                if (reg == INFP_RIP)
                        run->now.flags |= INFP_RULE_END;
                keep(run, reg);
                return 0;
        case 0x08:
                keep(run, reg);
                return 0;
        case 0x09:
                from = infp_cursor_uleb(c);
                if (from < INFP_N_REGISTERS)
                        save(run, reg, INFP_SAVE_REG_VALUE, (uint8_t) from, 0);
                else
                        set_unknown(run, reg);
                return 0;
        case 0x11:
                save(run, reg, INFP_SAVE_AT_CFA, 0, factored(run, (uint64_t) infp_cursor_sleb(c)));
                return 0;
        case 0x14:
                save(run, reg, INFP_SAVE_CFA_VALUE, 0, factored(run, infp_cursor_uleb(c)));
                return 0;
        case 0x15:
                save(run, reg, INFP_SAVE_CFA_VALUE, 0, factored(run, (uint64_t) infp_cursor_sleb(c)));
                return 0;
        case 0x2f: /* DW_CFA_GNU_negative_offset_extended */
                save(run, reg, INFP_SAVE_AT_CFA, 0, factored(run, 0 - infp_cursor_uleb(c)));
                return 0;
        default:
                return -ENOTSUP;
        }
}

static int execute(struct run *run, const uint8_t *program, const uint8_t *end)
{
        struct infp_cursor c = infp_cursor(program, (uint64_t) (end - program));

        while (infp_cursor_left(&c)) {
                const uint8_t op = infp_cursor_u8(&c);
                int r = 0;

                if (op >> 6 == 1) {
                        r = advance(run, op & 63);
                } else if (op >> 6 == 2) {
                        save(run, op & 63, INFP_SAVE_AT_CFA, 0, factored(run, infp_cursor_uleb(&c)));
                        run->has_changed = true;
                } else if (op >> 6 == 3) {
                        restore(run, op & 63);
                        run->has_changed = true;
                } else if ((r = execute_move(run, &c, op)) == 1) {
                        if ((r = execute_cfa(run, &c, op)) == 1)
                                r = execute_save(run, &c, op);
                        run->has_changed = true;
                }
                if (c.is_bad)
                        return -EBADMSG;
                if (r < 0)
                        return r;
        }
        return 0;
}

int infp_cfa_begin(const struct infp_cfi_section *section, const struct infp_cie *cie, struct infp_cfa_state *ret)
{
        struct run run;
        int r;

        run.section = section;
        run.cie = cie;
        run.begin = NULL;
        run.n_remembered = 0;
        run.row = NULL;
        memset(&run.now, 0, sizeof(run.now));
        run.now.flags = (uint8_t) (INFP_RULE_UNSUPPORTED | (cie->is_signal ? INFP_RULE_SIGNAL : 0));
        run.now.cfa_register = INFP_RSP;
        if (cie->ra_register != INFP_RIP)
                return -ENOTSUP;
        r = execute(&run, cie->program, cie->program_end);
        *ret = run.now;
        return r;
}

int infp_cfa_run(const struct infp_cfi_section *section, const struct infp_cie *cie, const struct infp_fde *fde,
                 const struct infp_cfa_state *begin, infp_cfa_row *row, void *context)
{
        struct run run;
        int r;

        run.section = section;
        run.cie = cie;
        run.now = *begin;
        run.begin = begin;
        run.n_remembered = 0;
        run.pc = fde->begin;
        run.has_changed = true;
        run.row = row;
        run.context = context;
        r = execute(&run, fde->program, fde->program_end);
        if (r < 0) { /* nothing is known of what follows */
                run.now.flags |= INFP_RULE_UNSUPPORTED;
                row(context, run.pc, &run.now);
                return r;
        }
        return run.has_changed ? row(context, run.pc, &run.now) : 0;
}
