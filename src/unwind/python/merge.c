#include "unwind/python/merge.h"

struct merge {
        const struct infp_python_frame *frames;
        uint32_t n_frames, next;
        uint32_t *ret;
        uint32_t n, max;
};

static void put(struct merge *m, uint32_t item)
{
        if (m->n < m->max)
                m->ret[m->n++] = item;
}

/* The frames of one loop, up to and including its entry. False: it has none. */
static bool take_loop(struct merge *m)
{
        while (m->next < m->n_frames) {
                const struct infp_python_frame *frame = &m->frames[m->next++];

                if (frame->code)
                        put(m, (m->next - 1) | INFP_PYTHON_IS_PYTHON);
                if (frame->is_entry)
                        return true;
        }
        return false;
}

static const struct infp_python_range *range_of(const struct infp_python_range *ranges, uint32_t n, uint64_t pc)
{
        uint32_t low = 0, high = n;

        while (low < high) {
                const uint32_t middle = low + (high - low) / 2;

                if (ranges[middle].end <= pc)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low < n && ranges[low].begin <= pc ? &ranges[low] : NULL;
}

/* Whether frames are left that no loop has claimed. The thread state's own frame, without code, counts for none. */
static bool has_more(const struct merge *m)
{
        for (uint32_t i = m->next; i < m->n_frames; i++)
                if (m->frames[i].code || m->frames[i].is_entry)
                        return true;
        return false;
}

/* From native frame `begin` on. */
static uint32_t merge_from(uint32_t begin, const uint64_t *native, const bool *exact, uint32_t n_native,
                           bool native_is_cut, const struct infp_python_range *ranges, uint32_t n_ranges,
                           const struct infp_python_frame *frames, uint32_t n_frames, bool frames_are_cut,
                           uint32_t *ret, uint32_t max)
{
        struct merge m = { .frames = frames, .n_frames = n_frames, .ret = ret, .max = max };
        bool is_out = false; /* the frames that were read do not reach further */
        uint32_t from;

        for (uint32_t i = 0; i < begin; i++)
                put(&m, i);
        for (uint32_t i = begin; i < n_native; i++) {
                const struct infp_python_range *range = range_of(ranges, n_ranges, native[i] - !exact[i]), *caller;

                if (range && range->is_handler && i + 1 < n_native) {
                        caller = range_of(ranges, n_ranges, native[i + 1] - !exact[i + 1]);
                        if (caller && !caller->is_handler)
                                continue; /* the loop's own frame comes next */
                }
                if (!range || is_out) {
                        put(&m, i);
                        continue;
                }
                from = m.next;
                if (take_loop(&m))
                        continue;
                if (!frames_are_cut)
                        return 0;
                if (m.next == from)
                        put(&m, i);
                is_out = true;
        }
        if (has_more(&m) && !native_is_cut)
                return 0;
        while (m.next < n_frames)
                take_loop(&m);
        return m.n;
}

uint32_t infp_python_merge(const uint64_t *native, const bool *exact, uint32_t n_native, bool native_is_cut,
                           const struct infp_python_range *ranges, uint32_t n_ranges,
                           const struct infp_python_frame *frames, uint32_t n_frames, bool frames_are_cut,
                           uint32_t *ret, uint32_t max)
{
        const uint32_t n = merge_from(0, native, exact, n_native, native_is_cut, ranges, n_ranges, frames, n_frames,
                                      frames_are_cut, ret, max);
        const struct infp_python_range *innermost;

        if (n || !n_native || !n_frames || !exact[0] || native_is_cut || frames_are_cut)
                return n;
        /* All other loops are at a call, and so have a frame. */
        innermost = range_of(ranges, n_ranges, native[0]);
        return innermost && !innermost->is_handler ? merge_from(1, native, exact, n_native, false, ranges, n_ranges,
                                                                frames, n_frames, false, ret, max)
                                                   : 0;
}
