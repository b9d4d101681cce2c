/* Python frames in the place of the interpreter's own. */
#include <string.h>

#include "sampler/stacks/parts.h"

/* Frames of the user's stack, as the merge wants them. */
static uint32_t list_native(struct infp_stacks *stacks, const struct infp_unwound *unwound)
{
        const struct infp_unwind_frame *frames = stacks->frames + unwound->n_kernel;
        const uint32_t n = unwound->result.n_frames;

        for (uint32_t i = 0; i < n; i++) {
                stacks->merge.pcs[i] = frames[i].pc;
                stacks->merge.is_exact[i] = frames[i].flags & INFP_FRAME_EXACT;
        }
        return n;
}

static void put_merged(struct infp_stacks *stacks, struct infp_unwound *unwound,
                       const struct infp_python_moment *python, uint32_t n_merged)
{
        struct infp_unwind_frame *frames = stacks->frames + unwound->n_kernel;
        uint32_t n = 0;

        for (uint32_t i = 0; i < n_merged; i++) {
                const uint32_t at = stacks->merge.order[i];
                const uint64_t id = at & INFP_PYTHON_IS_PYTHON ? python->ids[at & ~INFP_PYTHON_IS_PYTHON] : 0;

                if (!(at & INFP_PYTHON_IS_PYTHON))
                        stacks->merge.frames[n++] = frames[at];
                else if (id)
                        stacks->merge.frames[n++] = (struct infp_unwind_frame){ .pc = id,
                                                                                .mapping = INFP_NO_MAPPING,
                                                                                .flags = INFP_FRAME_OF_PYTHON };
        }
        memcpy(frames, stacks->merge.frames, n * sizeof(*frames));
        unwound->result.n_frames = n;
}

/* There is no native stack. */
static void put_alone(struct infp_stacks *stacks, struct infp_unwound *unwound, const struct infp_python_moment *python,
                      struct infp_stack_counts *counts)
{
        uint32_t n = 0;

        if (python->end != INFP_PYTHON_WHOLE && python->end != INFP_PYTHON_TOO_DEEP) {
                counts->python_torn++;
                return;
        }
        for (uint32_t i = 0; i < python->n && n < stacks->max_depth; i++)
                if (python->frames[i].code)
                        stacks->merge.order[n++] = i | INFP_PYTHON_IS_PYTHON;
        if (!n)
                return;
        counts->python_alone++;
        unwound->result.end = python->end == INFP_PYTHON_TOO_DEEP ? INFP_UNWIND_TOO_DEEP : INFP_UNWIND_COMPLETE;
        put_merged(stacks, unwound, python, n);
}

void infp_stack_merge(struct infp_stacks *stacks, struct infp_unwound *unwound, const struct infp_python_moment *python,
                      struct infp_stack_counts *counts)
{
        const uint32_t n_native = list_native(stacks, unwound), most = stacks->max_depth;
        const bool is_cut = unwound->result.end != INFP_UNWIND_COMPLETE,
                   is_whole = python->has_frames &&
                              (python->end == INFP_PYTHON_WHOLE || python->end == INFP_PYTHON_TOO_DEEP);
        uint32_t n;

        if (!n_native) {
                if (python->is_alone && python->has_frames)
                        put_alone(stacks, unwound, python, counts);
                return;
        }
        /* Without Python frames it fails where the interpreter's loop was at work. */
        n = infp_python_merge(stacks->merge.pcs, stacks->merge.is_exact, n_native, is_cut, python->ranges,
                              python->n_ranges, python->frames, is_whole ? python->n : 0,
                              is_whole && python->end == INFP_PYTHON_TOO_DEEP, stacks->merge.order, most);
        if (!python->has_frames) {
                counts->python_missed += !n;
                return;
        }
        if (!is_whole) {
                counts->python_torn++;
                return;
        }
        if (!n) {
                counts->python_unmerged++;
                return;
        }
        counts->python_merged++;
        if ((n == most || python->end == INFP_PYTHON_TOO_DEEP) && !is_cut)
                unwound->result.end = INFP_UNWIND_TOO_DEEP;
        put_merged(stacks, unwound, python, n);
}
