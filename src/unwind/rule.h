/* How to get from one frame's registers to its caller's: what a row of an unwind table names. */
#pragma once

#include <stdint.h>

/* Registers by their DWARF numbers. */
enum {
        INFP_RAX = 0,
        INFP_RDX = 1,
        INFP_RCX = 2,
        INFP_RBX = 3,
        INFP_RSI = 4,
        INFP_RDI = 5,
        INFP_RBP = 6,
        INFP_RSP = 7,
        INFP_R8 = 8,
        INFP_R9 = 9,
        INFP_R10 = 10,
        INFP_R11 = 11,
        INFP_R12 = 12,
        INFP_R13 = 13,
        INFP_R14 = 14,
        INFP_R15 = 15,
        INFP_RIP = 16,
        INFP_N_REGISTERS = 17,
};

/* The canonical frame address: the stack pointer before the call. */
enum infp_cfa_kind {
        INFP_CFA_REGISTER, /* reg + offset */
        INFP_CFA_AT,       /* *(reg + offset) + addend: realigned stacks, signal frames */
        INFP_CFA_PLT,      /* reg + offset + ((rip & 15) >= addend) * 8: entries of the procedure linkage table */
};

enum {
        INFP_RULE_SIGNAL = 1,         /* the caller was interrupted: its rip is the instruction, not a return address */
        INFP_RULE_END = 2,            /* the return address is undefined: there is no caller */
        INFP_RULE_UNSUPPORTED = 4,    /* an expression that is not one of those above */
        INFP_RULE_FROM_REGISTER = 8,  /* some save counts from a register, not from the CFA */
        INFP_RULE_PLAIN = 32,         /* all saves are INFP_SAVE_AT_CFA and it is no signal frame: what is fast */
        INFP_RULE_FRAME_POINTER = 16, /* no table said it: see INFP_MAPPING_FRAME_POINTERS */
};

/* Numbers of rules that every table has. */
enum {
        INFP_RULE_NONE = 0,  /* no function is here */
        INFP_RULE_KNOWN = 3, /* the first of the table's own: 1 and 2 are END and UNSUPPORTED */
};

struct infp_unwind_rule {
        uint8_t cfa_kind, cfa_register, flags, n_saves;
        int32_t cfa_offset, cfa_addend;
        uint32_t first_save;
};

enum infp_save_kind {
        INFP_SAVE_AT_CFA,    /* *(CFA + offset) */
        INFP_SAVE_CFA_VALUE, /* CFA + offset */
        INFP_SAVE_AT_REG,    /* *(from + offset), with from's value in this frame */
        INFP_SAVE_REG_VALUE, /* from + offset */
};

/* Where the caller's value of a register is. Registers without a save kept their value. */
struct infp_unwind_save {
        uint8_t reg, kind, from, zero;
        int32_t offset;
};
