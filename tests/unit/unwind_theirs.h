/* elfutils' own unwinder, on the registers and the memory that ours gets. */
#pragma once

#include <elfutils/libdwfl.h>
#include <string.h>

#include "unwind/walk.h"

enum { THEIRS_FRAMES = 512 };

/* What elfutils reads, and what it finds. */
struct theirs {
        const struct infp_unwind_dump *dump;
        const uint64_t *values;
        uint64_t pcs[THEIRS_FRAMES];
        unsigned n;
};

static inline pid_t theirs_thread(Dwfl *dwfl, void *context, void **ret)
{
        if (*ret)
                return 0;
        *ret = context;
        return dwfl_pid(dwfl);
}

static inline bool theirs_memory(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *ret, void *context)
{
        const struct infp_unwind_dump *dump = ((struct theirs *) context)->dump;

        (void) dwfl;
        if (address < dump->begin || dump->size < 8 || address - dump->begin > dump->size - 8)
                return false;
        memcpy(ret, dump->bytes + (address - dump->begin), 8);
        return true;
}

static inline bool theirs_registers(Dwfl_Thread *thread, void *context)
{
        Dwarf_Word values[INFP_N_REGISTERS];

        memcpy(values, ((struct theirs *) context)->values, sizeof(values));
        return dwfl_thread_state_registers(thread, 0, INFP_N_REGISTERS, values);
}

static inline int theirs_frame(Dwfl_Frame *frame, void *context)
{
        struct theirs *theirs = context;
        Dwarf_Addr pc;

        if (!dwfl_frame_pc(frame, &pc, NULL) || theirs->n == THEIRS_FRAMES)
                return DWARF_CB_ABORT;
        theirs->pcs[theirs->n++] = pc;
        return DWARF_CB_OK;
}

/* The process as its mappings are now; dwfl_end() it. */
static inline Dwfl *theirs_open(pid_t pid, struct theirs *theirs)
{
        static const Dwfl_Callbacks find = { .find_elf = dwfl_linux_proc_find_elf,
                                             .find_debuginfo = dwfl_standard_find_debuginfo };
        static const Dwfl_Thread_Callbacks callbacks = { .next_thread = theirs_thread,
                                                         .memory_read = theirs_memory,
                                                         .set_initial_registers = theirs_registers };
        Dwfl *dwfl = dwfl_begin(&find);

        assert_non_null(dwfl);
        assert_int_equal(dwfl_linux_proc_report(dwfl, pid), 0);
        assert_int_equal(dwfl_report_end(dwfl, NULL, NULL), 0);
        assert_true(dwfl_attach_state(dwfl, NULL, pid, &callbacks, theirs));
        return dwfl;
}

/* The frames of a moment. False: elfutils stopped before the outermost. */
static inline bool theirs_unwind(Dwfl *dwfl, pid_t pid, struct theirs *theirs, const struct infp_unwind_dump *dump,
                                 const uint64_t *values)
{
        theirs->dump = dump;
        theirs->values = values;
        theirs->n = 0;
        return dwfl_getthread_frames(dwfl, pid, theirs_frame, theirs) == 0;
}
