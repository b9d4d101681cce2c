#include "agent/core/stack.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "agent/core/area.h"
#include "agent/core/closing.h"
#include "agent/core/machine.h"
#include "agent/core/memory.h"
#include "agent/core/tables.h"

enum {
        FIRST_BYTES = 1024, /* are copied at least, to the end of a page, which costs as much as its bytes */
        BESIDE = 8,         /* ways that a stack pointer may have */
};

bool infp_agent_stacks_begin(const char *tables)
{
        static bool is_begun;
        uint8_t byte;

        if (is_begun)
                return true;
        is_begun = infp_agent_tables_set_directory(tables) &&
                   infp_agent_memory_copy((uint64_t) (uintptr_t) tables, &byte, 1) == 1 &&
                   infp_agent_areas_make(sizeof(struct infp_agent_stack)) == 0 && infp_agent_moments_make() == 0;
        if (is_begun)
                infp_agent_closing_begin();
        return is_begun;
}

void infp_agent_stacks_forked(void)
{
        infp_agent_areas_reset();
        infp_agent_tables_reset();
        infp_agent_moments_reset();
}

bool infp_agent_stack_keep(struct infp_agent_moment *moment)
{
        const ssize_t n = infp_agent_memory_copy(moment->registers[INFP_RSP], moment->dump, sizeof(moment->dump));

        moment->dump_size = n > 0 ? (uint32_t) n : 0;
        moment->is_cut = n == sizeof(moment->dump);
        return infp_agent_moment_keep(moment);
}

/* ---- where the stack of a thread ends ---- */

/* As the kernel has it, from Linux 6.11 on. */
struct map_query {
        uint64_t size, flags, address, begin, end, vma_flags, page_size, offset, inode;
        uint32_t device[2], name_size, build_id_size;
        uint64_t name, build_id;
};
#define MAP_QUERY _IOWR('f', 17, struct map_query)

/* Of the calling thread: what is mapped from begin to end belongs to its own stack, and stays as long as it runs on it. */
static _Thread_local struct {
        uint64_t begin, end;
} own __attribute__((tls_model("initial-exec")));
static _Atomic bool is_refused;

static bool query(uint64_t address, struct map_query *ret)
{
        const int fd = atomic_load(&is_refused) ? -1 : open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
        int r;

        *ret = (struct map_query){ .size = sizeof(*ret), .address = address };
        r = fd < 0 ? -1 : ioctl(fd, MAP_QUERY, ret);
        if (fd >= 0)
                close(fd);
        if (r < 0)
                atomic_store(&is_refused, true);
        return r == 0;
}

/* glibc's threads have what it knows of them at the upper end of their stack, in the same mapping, and the first one has there what the
 * kernel gave to the program. A stack that a program has made for a coroutine has neither: its mapping may go on into another one's, which
 * may be unmapped at any time. 0: it is none of these, or that cannot be told. */
static uint64_t end_of(uint64_t pointer)
{
        uint64_t ends[2];
        struct map_query map;

        if (pointer >= own.begin && pointer < own.end)
                return own.end;
        ends[0] = infp_agent_thread_pointer();
        ends[1] = getauxval(AT_RANDOM);
        own.begin = own.end = 0;
        if (!query(pointer, &map))
                return 0;
        for (unsigned i = 0; i < 2 && !own.end; i++)
                if (ends[i] > pointer && ends[i] < map.end) {
                        own.begin = map.begin;
                        own.end = ends[i];
                }
        return own.end;
}

/* ---- walks that were made ---- */

static struct infp_agent_way *beside(struct infp_agent_stack *stack, uint64_t pointer)
{
        return &stack->ways[(pointer / 16 * UINT64_C(0x9e3779b97f4a7c15) >> 32) % (INFP_AGENT_WAYS / BESIDE) * BESIDE];
}

static bool is_same(const struct infp_agent_way *way, const uint64_t registers[INFP_N_REGISTERS],
                    const struct infp_unwind_dump *dump)
{
        uint64_t word;

        if (way->reach > dump->size)
                return false;
        for (uint32_t left = way->trail.registers; left; left &= left - 1)
                if (way->registers[__builtin_ctz(left)] != registers[__builtin_ctz(left)])
                        return false;
        for (uint32_t i = 0; i < way->trail.n; i++) {
                memcpy(&word, dump->bytes + way->trail.at[i], sizeof(word));
                if (word != way->trail.words[i])
                        return false;
        }
        return true;
}

static struct infp_agent_way *recall(struct infp_agent_stack *stack, const struct infp_agent_moment *moment,
                                     uint32_t space, const struct infp_unwind_dump *dump)
{
        struct infp_agent_way *way = beside(stack, moment->registers[INFP_RSP]);

        for (unsigned i = 0; i < BESIDE; i++, way++)
                if (way->space == space && is_same(way, moment->registers, dump))
                        return way;
        return NULL;
}

/* The one whose trail the walk has left. */
static void keep_way(struct infp_agent_stack *stack, const struct infp_agent_moment *moment, uint32_t space,
                     struct infp_agent_walk *walked)
{
        struct infp_agent_way *way = walked->way;

        if (!way->trail.is_whole || walked->n > INFP_UNWIND_TRAIL) {
                walked->way = NULL;
                return;
        }
        stack->n_ways++;
        way->space = space;
        way->stack = way->reach = 0;
        for (uint32_t i = 0; i < way->trail.n; i++)
                if (way->trail.at[i] >= way->reach)
                        way->reach = way->trail.at[i] + (uint32_t) sizeof(*way->trail.words);
        way->walk = *walked;
        memcpy(way->registers, moment->registers, sizeof(way->registers));
        memcpy(way->native, stack->native, walked->n * sizeof(*way->native));
}

/* ---- a walk ---- */

/* ret->way: one that was the same, or one that takes the place of an older one and has no space yet. */
static enum infp_unwind_end unwind(struct infp_agent_stack *stack, const struct infp_agent_moment *moment,
                                   const struct infp_unwind_space *space, const struct infp_unwind_dump *dump,
                                   struct infp_agent_walk *ret)
{
        struct infp_unwind_start start = {
                .space = space, .dumps = dump, .n_dumps = 1, .may_guess = true, .values = moment->registers
        };
        struct infp_unwind_result result;

        if (moment->may_recur) {
                ret->way = recall(stack, moment, space->id, dump);
                if (ret->way)
                        return INFP_UNWIND_COMPLETE;
                ret->way = beside(stack, moment->registers[INFP_RSP]) + stack->n_ways % BESIDE;
                ret->way->space = 0;
                start.trail = &ret->way->trail;
        }
        infp_unwind(&start, &stack->cache, stack->frames, INFP_WIRE_FRAMES, &result);
        ret->n = result.n_frames;
        return result.end;
}

struct infp_agent_walk infp_agent_stack_walk(struct infp_agent_stack *stack, const struct infp_agent_moment *moment,
                                             bool is_live)
{
        const uint64_t pointer = moment->registers[INFP_RSP], stack_end = is_live ? end_of(pointer) : 0;
        const size_t page = INFP_AGENT_PAGE - pointer % INFP_AGENT_PAGE,
                     more[] = { page < FIRST_BYTES ? page + INFP_AGENT_PAGE : page, INFP_AGENT_DUMP,
                                INFP_AGENT_STACK_MOST };
        struct infp_unwind_dump dump = { moment->dump, pointer, is_live ? 0 : moment->dump_size,
                                         is_live || moment->is_cut };
        struct infp_agent_walk ret = { .epoch = 0 };
        const struct infp_unwind_space *space = infp_agent_tables_begin(&ret.epoch);
        const uint32_t space_id = space ? space->id : 0;
        enum infp_unwind_end end = INFP_UNWIND_BROKEN;

        if (!stack->cache.entries)
                infp_unwind_cache_init(&stack->cache, stack->rules, INFP_AGENT_RULES);
        if (stack_end)
                dump = (struct infp_unwind_dump){ (const void *) (uintptr_t) pointer, pointer, stack_end - pointer,
                                                  false };
        if (space && dump.size)
                end = unwind(stack, moment, space, &dump, &ret);
        for (unsigned i = 0;
             space && is_live && !stack_end && i < sizeof(more) / sizeof(*more) && (!i || end == INFP_UNWIND_TRUNCATED);
             i++) {
                const ssize_t n = infp_agent_memory_copy(pointer, stack->dump, more[i]);

                if (n <= 0)
                        continue;
                dump = (struct infp_unwind_dump){ stack->dump, pointer, (uint64_t) n, n == (ssize_t) more[i] };
                end = unwind(stack, moment, space, &dump, &ret);
        }
        if (space)
                infp_agent_tables_end();
        if (ret.way && ret.way->space) {
                memcpy(stack->native, ret.way->native, ret.way->walk.n * sizeof(*ret.way->native));
                return ret.way->walk;
        }
        ret.has_tables = space;
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
        if (ret.way)
                keep_way(stack, moment, space_id, &ret);
        return ret;
}
