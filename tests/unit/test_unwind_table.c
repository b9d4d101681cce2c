/* Every row of our tables against elfutils, for the libraries of this machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>

#include "skip_because.h"
#include "unwind_space.h"

#ifdef HAVE_LIBDW
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <gelf.h>

/* What elfutils says of one register, or of the CFA, in our words. */
struct said {
        enum { SAME, SAVED, VALUE, UNDEFINED, ODD } kind;
        int base; /* a register, or -1 for the CFA */
        int64_t offset, addend;
        bool is_read;
};

static struct said say(const Dwarf_Op *ops, size_t n, bool is_place)
{
        struct said said = { is_place ? SAVED : VALUE, -1, 0, 0, false };

        for (size_t i = 0; i < n; i++) {
                const Dwarf_Op *op = &ops[i];
                int64_t *sum = said.is_read ? &said.addend : &said.offset;

                if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31) {
                        said.base = op->atom - DW_OP_breg0;
                        said.offset = (int64_t) op->number;
                } else if (op->atom == DW_OP_bregx) {
                        said.base = (int) op->number;
                        said.offset = (int64_t) op->number2;
                } else if (op->atom == DW_OP_call_frame_cfa) {
                        said.base = -1;
                } else if (op->atom == DW_OP_plus_uconst) {
                        *sum += (int64_t) op->number;
                } else if (op->atom == DW_OP_deref) {
                        said.is_read = true;
                } else if (op->atom == DW_OP_stack_value) {
                        said.kind = VALUE;
                } else if (op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31) {
                        said.kind = VALUE;
                        said.base = op->atom - DW_OP_reg0;
                } else if (op->atom == DW_OP_regx) {
                        said.kind = VALUE;
                        said.base = (int) op->number;
                } else {
                        said.kind = ODD;
                }
        }
        return said;
}

static bool is_plt(const Dwarf_Op *ops, size_t n)
{
        static const unsigned atoms[] = { DW_OP_breg7, DW_OP_breg16, DW_OP_lit15, DW_OP_and, 0,
                                          DW_OP_ge,    DW_OP_lit3,   DW_OP_shl,   DW_OP_plus };

        for (size_t i = 0; i < n && n == 9; i++)
                if (i != 4 && ops[i].atom != atoms[i])
                        return false;
        return n == 9;
}

static bool is_cfa_equal(Dwarf_Frame *frame, const struct infp_unwind_rule *rule)
{
        Dwarf_Op *ops;
        size_t n;
        struct said said;

        if (dwarf_frame_cfa(frame, &ops, &n) != 0)
                return false;
        if (is_plt(ops, n))
                return rule->cfa_kind == INFP_CFA_PLT &&
                       rule->cfa_addend == (int32_t) (ops[4].atom - (unsigned) DW_OP_lit0);
        said = say(ops, n, true);
        return said.kind == SAVED && said.base == rule->cfa_register && said.offset == rule->cfa_offset &&
               said.is_read == (rule->cfa_kind == INFP_CFA_AT) && (!said.is_read || said.addend == rule->cfa_addend);
}

static bool is_register_equal(Dwarf_Frame *frame, const struct infp_unwind_table *table,
                              const struct infp_unwind_rule *rule, int reg)
{
        const struct infp_unwind_save *save = NULL;
        Dwarf_Op memory[3], *ops = NULL;
        size_t n = 0;
        struct said said = { SAME, -1, 0, 0, false };

        for (unsigned i = 0; i < rule->n_saves; i++)
                if (infp_unwind_table_saves(table)[rule->first_save + i].reg == reg)
                        save = &infp_unwind_table_saves(table)[rule->first_save + i];
        if (dwarf_frame_register(frame, reg, memory, &ops, &n) != 0)
                return false;
        if (n == 0 && ops == memory)
                said.kind = UNDEFINED;
        else if (n > 0 || ops)
                said = say(ops, n, true);
        if (!save) /* volatile registers that are "undefined" need no rule */
                return said.kind == SAME || said.kind == UNDEFINED;
        return said.base == (save->kind <= INFP_SAVE_CFA_VALUE ? -1 : save->from) && said.offset == save->offset &&
               said.kind ==
                       (save->kind == INFP_SAVE_AT_CFA || save->kind == INFP_SAVE_AT_REG ? (int) SAVED : (int) VALUE);
}

static bool is_undefined(Dwarf_Frame *frame, int reg)
{
        Dwarf_Op memory[3], *ops = NULL;
        size_t n = 0;

        return dwarf_frame_register(frame, reg, memory, &ops, &n) == 0 && n == 0 && ops == memory;
}

/* 1 equal, 0 different, -1 elfutils has nothing there. */
static int compare_row(Dwarf_CFI *cfi, const struct infp_unwind_table *table, uint64_t vaddr, unsigned number)
{
        static const int registers[] = { INFP_RBX, INFP_RBP, INFP_R12, INFP_R13, INFP_R14, INFP_R15, INFP_RIP };
        const struct infp_unwind_rule *rule = &infp_unwind_table_rules(table)[number];
        Dwarf_Frame *frame;
        bool is_signal, is_equal;

        if (dwarf_cfi_addrframe(cfi, vaddr, &frame) != 0)
                return -1;
        dwarf_frame_info(frame, NULL, NULL, &is_signal);
        if (rule->flags & INFP_RULE_END) {
                is_equal = is_undefined(frame, INFP_RIP);
        } else {
                is_equal = is_cfa_equal(frame, rule) && is_signal == !!(rule->flags & INFP_RULE_SIGNAL);
                for (unsigned i = 0; is_equal && i < sizeof(registers) / sizeof(registers[0]); i++)
                        is_equal = is_register_equal(frame, table, rule, registers[i]);
        }
        free(frame);
        return is_equal;
}

static void compare(const char *path, struct unwind_file *file)
{
        Elf *elf;
        Dwarf_CFI *cfi;
        uint64_t n_equal = 0, n_different = 0, n_missing = 0, n_unsupported = 0, n_gaps = 0, n_filled = 0, stride;

        elf_version(EV_CURRENT);
        elf = elf_memory((char *) (uintptr_t) file->bytes, file->size);
        cfi = dwarf_getcfi_elf(elf);
        assert_non_null(cfi);
        /* All rows of what a process uses; of the largest libraries each n-th. */
        stride = file->table->n_rows / 150000 + 1;
        for (uint32_t i = 0; i + 1 < file->table->n_rows; i += (uint32_t) stride) {
                const uint64_t vaddr = file->table->base + infp_unwind_table_pcs(file->table)[i];
                const unsigned number = infp_unwind_table_row_rules(file->table)[i];
                int r;

                if (number == INFP_RULE_NONE) { /* nor has elfutils one there */
                        n_gaps += compare_row(cfi, file->table, vaddr, number) < 0;
                        n_filled += compare_row(cfi, file->table, vaddr, number) >= 0;
                        continue;
                }
                if (infp_unwind_table_rules(file->table)[number].flags & INFP_RULE_UNSUPPORTED) {
                        n_unsupported++;
                        continue;
                }
                r = compare_row(cfi, file->table, vaddr, number);
                n_equal += r == 1;
                n_different += r == 0;
                n_missing += r < 0;
                if (r != 1)
                        print_message("  %s %#" PRIx64 ": %s\n", path, vaddr, r ? "elfutils has none" : "differs");
                if (n_different + n_missing > 20)
                        break;
        }
        print_message("%s: %" PRIu64 " rows equal, %" PRIu64 " differ, %" PRIu64 " only ours, %" PRIu64
                      " unsupported; %u rules, %u functions, %.1f bytes a row; %u bad, %u overlapping, %u outside\n",
                      path, n_equal, n_different, n_missing, n_unsupported, file->table->n_rules,
                      file->table->n_functions, (double) file->table->size / file->table->n_rows, file->table->n_bad,
                      file->table->n_overlapping, file->table->n_outside);
        assert_true(n_equal > 10);
        assert_true(n_gaps > 0);
        assert_int_equal(n_filled, 0);
        assert_true((n_different + n_missing + n_unsupported) * 10000 <= n_equal + 9999);
        dwarf_cfi_end(cfi);
        elf_end(elf);
}

static void test_rows(void **state)
{
        static const char *const paths[] = {
                "/lib/x86_64-linux-gnu/libc.so.6",
                "/lib/x86_64-linux-gnu/libstdc++.so.6",
                "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
                "/usr/bin/python3",
                "/lib64/ld-linux-x86-64.so.2",
                "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
                "/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1",
                "/proc/self/exe",
        };
        struct unwind_file file;
        unsigned n = 0;

        (void) state;
        for (unsigned i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
                if (access(paths[i], R_OK) != 0 || (i == 2 && access(paths[1], R_OK) == 0))
                        continue;
                assert_int_equal(unwind_open(&file, paths[i]), 0);
                compare(paths[i], &file);
                munmap((void *) (uintptr_t) file.table, file.room);
                munmap((void *) (uintptr_t) file.bytes, file.size);
                n++;
        }
        assert_true(n >= 3);
        if (unwind_open_vdso(&file) == 0)
                compare("[vdso]", &file);
}
#else
static void test_rows(void **state)
{
        (void) state;
        SKIP_BECAUSE("libdw-dev is not installed: no rows to compare with");
}
#endif

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_rows) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
