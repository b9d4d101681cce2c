#include "agent/core/stack.h"

#include "agent/core/area.h"
#include "agent/core/memory.h"
#include "agent/core/tables.h"

bool infp_agent_stacks_begin(const char *tables)
{
        static bool is_begun;
        uint8_t byte;

        if (!is_begun)
                is_begun = infp_agent_tables_set_directory(tables) &&
                           infp_agent_memory_copy((uint64_t) (uintptr_t) tables, &byte, 1) == 1 &&
                           infp_agent_areas_make(sizeof(struct infp_agent_stack)) == 0 &&
                           infp_agent_moments_make() == 0;
        return is_begun;
}

void infp_agent_stacks_forked(void)
{
        infp_agent_areas_reset();
        infp_agent_tables_reset();
        infp_agent_moments_reset();
}

void infp_agent_stack_copy(struct infp_agent_moment *moment, size_t size)
{
        const ssize_t n = infp_agent_memory_copy(moment->registers[INFP_RSP], moment->dump, size);

        moment->dump_size = n > 0 ? (uint32_t) n : 0;
        moment->is_cut = n == (ssize_t) size;
}

static enum infp_unwind_end unwind(struct infp_agent_stack *stack, const struct infp_agent_moment *moment,
                                   const struct infp_unwind_space *space, const struct infp_unwind_dump *dump,
                                   uint32_t *ret_n)
{
        const struct infp_unwind_start start = {
                .space = space, .dumps = dump, .n_dumps = 1, .may_guess = true, .values = moment->registers
        };
        struct infp_unwind_result result;

        infp_unwind(&start, &stack->cache, stack->frames, INFP_WIRE_FRAMES, &result);
        *ret_n = result.n_frames;
        return result.end;
}

struct infp_agent_walk infp_agent_stack_walk(struct infp_agent_stack *stack, const struct infp_agent_moment *moment,
                                             bool is_live)
{
        struct infp_unwind_dump dump = { moment->dump, moment->registers[INFP_RSP], moment->dump_size, moment->is_cut };
        static const size_t more[] = { INFP_AGENT_DUMP, INFP_AGENT_STACK_MOST };
        struct infp_agent_walk ret = { .epoch = 0 };
        const struct infp_unwind_space *space = infp_agent_tables_begin(&ret.epoch);
        enum infp_unwind_end end = INFP_UNWIND_BROKEN;

        if (!stack->cache.entries)
                infp_unwind_cache_init(&stack->cache, stack->rules, INFP_AGENT_RULES);
        if (space)
                end = unwind(stack, moment, space, &dump, &ret.n);
        for (unsigned i = 0; end == INFP_UNWIND_TRUNCATED && is_live && i < sizeof(more) / sizeof(*more); i++) {
                const ssize_t n =
                        more[i] > moment->dump_size ? infp_agent_memory_copy(dump.begin, stack->dump, more[i]) : 0;

                if (n <= 0)
                        continue;
                dump = (struct infp_unwind_dump){ stack->dump, dump.begin, (uint64_t) n, n == (ssize_t) more[i] };
                end = unwind(stack, moment, space, &dump, &ret.n);
        }
        ret.has_tables = space;
        if (space)
                infp_agent_tables_end();
        if (!ret.n)
                stack->frames[ret.n++] = (struct infp_unwind_frame){ .pc = moment->registers[INFP_RIP] };
        if (end == INFP_UNWIND_TRUNCATED || end == INFP_UNWIND_TOO_DEEP)
                ret.flags = INFP_WIRE_TRUNCATED;
        else if (end != INFP_UNWIND_COMPLETE)
                ret.flags = INFP_WIRE_INCOMPLETE;
        ret.is_unmapped = end == INFP_UNWIND_NO_MAPPING;
        for (uint32_t i = 0; i < ret.n; i++) {
                stack->native[i] = stack->frames[i].pc;
                ret.is_python |= infp_agent_python_is_loop(stack->native[i] - (i > 0));
        }
        return ret;
}
