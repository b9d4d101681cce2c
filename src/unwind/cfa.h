/* Runs the program of a CIE and an FDE: each stretch of code and the rule that holds there. */
#pragma once

#include <stdint.h>

#include "unwind/cfi.h"
#include "unwind/rule.h"

/* What holds at an address while a program runs. */
struct infp_cfa_state {
        uint8_t cfa_kind, cfa_register, flags;
        int32_t cfa_offset, cfa_addend;
        uint32_t saved; /* bit r: saves[r] holds */
        struct infp_unwind_save saves[INFP_N_REGISTERS];
        uint32_t unknown; /* bit r: saved in a way that is not supported */
};

/* From pc on, state holds. Not called twice for one pc. A negative result ends the run with it. */
typedef int infp_cfa_row(void *context, uint64_t pc, const struct infp_cfa_state *state);

/* Runs cie's initial instructions: the state at the begin of its FDEs. 0, -ENOTSUP or -EBADMSG. */
int infp_cfa_begin(const struct infp_cfi_section *section, const struct infp_cie *cie, struct infp_cfa_state *ret);

/* Runs fde's program from begin. 0, or -ENOTSUP or -EBADMSG: the last row is then
 * INFP_RULE_UNSUPPORTED and what row() was told before is right. */
int infp_cfa_run(const struct infp_cfi_section *section, const struct infp_cie *cie, const struct infp_fde *fde,
                 const struct infp_cfa_state *begin, infp_cfa_row *row, void *context);
