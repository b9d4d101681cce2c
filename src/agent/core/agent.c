/* The agent: what the stub loads into a process that has a Python interpreter, or whose heap is sampled. Its parts are told what to do by the environment that
 * `infprof record` sets for the command. */
#include <stdlib.h>
#include <string.h>

#include "agent/core/preload.h"
#include "agent/heap/heap.h"
#include "agent/heap/hooks.h"
#include "agent/sampler/sampler.h"

/* "99", "99.5": libc's own functions follow the locale. 0: no number. */
static double number_of(const char *text)
{
        double ret = 0, unit = 0.1;

        for (; *text >= '0' && *text <= '9'; text++)
                ret = ret * 10 + (*text - '0');
        if (*text == '.')
                for (text++; *text >= '0' && *text <= '9'; text++, unit /= 10)
                        ret += (*text - '0') * unit;
        return ret;
}

/* After the writer's own constructor, which reads the environment, too. */
__attribute__((constructor(102))) static void begin_agent(void)
{
        const char *hz = secure_getenv(INFP_AGENT_ENV_HZ), *tables = secure_getenv(INFP_AGENT_ENV_TABLES),
                   *heap = secure_getenv(INFP_AGENT_ENV_HEAP);
        const char *most = heap ? strchr(heap, '-') : NULL;
        const struct infp_agent_sampler_options sampler = { .hz = hz ? number_of(hz) : 0, .tables = tables };

        if (heap && number_of(heap) >= 1 && tables)
                infp_agent_heap_announce((uint64_t) number_of(heap));
        if (sampler.hz >= 1 && tables)
                infp_agent_sampler_begin(&sampler);
        if (heap && number_of(heap) >= 1 && tables)
                infp_agent_heap_begin((uint64_t) number_of(heap), (uint64_t) number_of(most ? most + 1 : heap), tables);
}
