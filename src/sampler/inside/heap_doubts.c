#include "sampler/inside/heap_doubts.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/human.h"
#include "ring/wire.h"

__attribute__((format(printf, 4, 5))) static void say(const struct infp_explain *explain, bool *said, int r,
                                                      const char *format, ...)
{
        char text[512];
        va_list ap;

        if (*said)
                return;
        *said = true;
        va_start(ap, format);
        vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        infp_explain_problem(explain, "heap", r, text);
}

static void say_state(bool *said, const struct infp_explain *explain, int32_t pid, uint64_t state)
{
        if (state == INFP_WIRE_HEAP_OTHER)
                say(explain, said, -ENOTSUP,
                    "the heap of process %d is not recorded: its program has an allocator of its own, linked "
                    "statically",
                    pid);
        else if (state == INFP_WIRE_HEAP_LEFT)
                say(explain, said, -EBUSY,
                    "process %d no longer counts its blocks: it was not read for a minute (was infprof stopped?)", pid);
        else if (state == INFP_WIRE_HEAP_FULL)
                say(explain, said, -ENOMEM,
                    "the heap of process %d is not recorded: it may not map as much memory as that needs", pid);
}

void infp_inside_heap_doubts(struct infp_inside_heap_said *said, const struct infp_explain *explain, int32_t pid,
                             const struct infp_ring_heap *counts, const struct infp_inside_sites *sites,
                             const struct infp_inside_exact *exact)
{
        if (sites->n_others)
                say(explain, &said->others, -ENOSPC,
                    "process %d allocates from more than %s stacks: heap_windows has the others as one without a stack",
                    pid, infp_count(sites->n).text);
        if (exact->other_blocks)
                say(explain, &said->others, -ENOSPC,
                    "process %d allocates from more stacks than its ring file has room for: their blocks are those of "
                    "one stack, [other stacks]",
                    pid);
        if (counts->kept)
                say(explain, &said->kept, -ENOSPC,
                    "blocks of process %d that were freed look as if they were in use: there was no room to say so",
                    pid);
        if (counts->is_exact && counts->missed)
                say(explain, &said->missed, -ENOSPC,
                    "blocks of process %d are in no sum: they were allocated in a signal handler, or there was no room "
                    "(column lost of table sampler says how many)",
                    pid);
        say_state(&said->state, explain, pid, counts->state);
}
