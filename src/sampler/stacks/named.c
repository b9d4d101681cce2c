/* Frames that have a name alone. */
#include <string.h>

#include "sampler/stacks/parts.h"

static const char object_name[] = "[kernel]", no_object[] = "", from[] = "proc";

enum { MAX_NAMED = 65536 };

/* Its name, once: a join of names and frames would count twice what has two. */
static bool put_symbol(struct infp_stacks *stacks, uint64_t t_ns, uint64_t frame, const char *name)
{
        if (infp_map_get(&stacks->named, frame))
                return true;
        if (stacks->named.n >= MAX_NAMED)
                return false;
        infp_row_begin(&stacks->row, &infp_table_symbols, t_ns);
        infp_row_id(&stacks->row, INFP_SYMBOLS_FRAME, frame);
        infp_row_i64(&stacks->row, INFP_SYMBOLS_LEVEL, 0);
        infp_row_bytes(&stacks->row, INFP_SYMBOLS_NAME, name, strlen(name));
        infp_row_str(&stacks->row, INFP_SYMBOLS_FROM, from);
        return infp_stack_put_row(stacks) == 0 && infp_map_put(&stacks->named, frame, 1) == 0;
}

static void put_frame(struct infp_stacks *stacks, uint64_t t_ns, uint64_t frame, enum infp_frame_kind kind,
                      const char *name)
{
        if (infp_seen_has(&stacks->seen, frame) || !put_symbol(stacks, t_ns, frame, name))
                return;
        infp_row_begin(&stacks->row, &infp_table_frames, t_ns);
        infp_row_id(&stacks->row, INFP_FRAMES_ID, frame);
        infp_row_str(&stacks->row, INFP_FRAMES_KIND, infp_frame_kind_name(kind));
        if (kind == INFP_FRAME_KERNEL)
                infp_row_str(&stacks->row, INFP_FRAMES_OBJECT, object_name);
        infp_row_bool(&stacks->row, INFP_FRAMES_IS_GUESSED, false);
        if (infp_stack_put_row(stacks) < 0)
                return;
        infp_seen_add(&stacks->seen, frame);
        stacks->counts.n_frame_rows++;
}

void infp_stacks_extend(struct infp_stacks *stacks, struct infp_stack_found *found, enum infp_frame_kind kind,
                        const char *name)
{
        const uint64_t frame =
                infp_named_frame_id(kind, kind == INFP_FRAME_KERNEL ? object_name : no_object, name, "", 0);
        const uint64_t node = infp_stack_id(found->stack, frame);
        const uint32_t depth = found->stack ? found->depth + 1 : 0;

        if (!infp_seen_has(&stacks->seen, node)) {
                put_frame(stacks, found->t_ns, frame, kind, name);
                infp_stack_put_node(stacks, found, node, found->stack, frame, depth);
        }
        found->stack = node;
        found->depth = depth;
}
