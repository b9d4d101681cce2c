/* The few DWARF expressions that compilers and hand-written assembly put into call frame information on x86-64. */
#include "unwind/cfa.h"

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

bool infp_cfa_expression(const uint8_t *bytes, uint64_t size, struct infp_cfa_state *state)
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

bool infp_save_expression(const uint8_t *bytes, uint64_t size, bool is_value, struct infp_unwind_save *save)
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
