/* One stack of a native and a Python stack of the same moment. The frames of the interpreter's loop are replaced by the Python frames
 * that it ran: from the innermost outwards, each loop takes the Python frames up to and including its entry frame.
 *
 * Stacks that were read at different moments are never merged: 4 in 10 would be wrong. */
#pragma once

#include "unwind/python/walk.h"

/* Code of the interpreter's loop: the symbol, its parts that the compiler moved elsewhere, handlers of a tail-call interpreter. */
struct infp_python_range {
        uint64_t begin, end;
        bool is_handler; /* of a tail-call interpreter: it is called by the loop's own frame, and counts with it as one */
};

enum { INFP_PYTHON_IS_PYTHON = UINT32_C(1) << 31 };

/* Native frames are given as program counters, the innermost first; exact[i]: pc i is no return address. ret has for each frame of the
 * merged stack an index into native, or one into frames with INFP_PYTHON_IS_PYTHON; shims are left out. Returns how many, at most max.
 *
 * In its first and last instructions a loop has no frame: the innermost one, where it alone is one too many, stays a native frame.
 *
 * 0: the number of loops and of entry frames differ: both stacks are to be shown apart, and counted as unmerged. A stack that was cut
 * (native_is_cut) may have fewer loops than entry frames: the Python frames that are left are its outermost then. Of a walk that was
 * too deep (frames_are_cut) the loops that are left stay native frames. One that is torn is not for merging. */
uint32_t infp_python_merge(const uint64_t *native, const bool *exact, uint32_t n_native, bool native_is_cut,
                           const struct infp_python_range *ranges, uint32_t n_ranges, /* sorted, disjoint */
                           const struct infp_python_frame *frames, uint32_t n_frames, bool frames_are_cut,
                           uint32_t *ret, uint32_t max);
