#include "agent/core/closing.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>

#include "agent/core/preload.h"
#include "agent/core/tables.h"
#include "ring/writer.h"

enum { OBJECTS = 512 }; /* of a program with more some are not seen to go */

struct objects {
        uint32_t n;
        struct object {
                uint64_t begin, end;
        } list[OBJECTS];
};

static struct object object_of(const struct dl_phdr_info *info)
{
        struct object ret = { .begin = UINT64_MAX };

        for (unsigned i = 0; i < info->dlpi_phnum; i++) {
                const uint64_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr,
                               end = begin + info->dlpi_phdr[i].p_memsz;

                if (info->dlpi_phdr[i].p_type != PT_LOAD)
                        continue;
                ret.begin = begin < ret.begin ? begin : ret.begin;
                ret.end = end > ret.end ? end : ret.end;
        }
        return ret;
}

static int add(struct dl_phdr_info *info, size_t size, void *context)
{
        struct objects *objects = context;

        (void) size;
        if (objects->n < OBJECTS)
                objects->list[objects->n++] = object_of(info);
        return 0;
}

static int take_out(struct dl_phdr_info *info, size_t size, void *context)
{
        const struct object object = object_of(info);
        struct objects *objects = context;

        (void) size;
        for (uint32_t i = 0; i < objects->n; i++)
                if (objects->list[i].begin == object.begin) {
                        objects->list[i] = objects->list[--objects->n];
                        break;
                }
        return 0;
}

/* dlclose may close none, or others with it. */
static int close_library(void *handle, int (*next)(void *handle))
{
        struct objects objects = { .n = 0 };
        bool is_known = false;
        int result;

        dl_iterate_phdr(add, &objects);
        result = next(handle);
        dl_iterate_phdr(take_out, &objects);
        for (uint32_t i = 0; i < objects.n; i++)
                is_known |= infp_agent_tables_forget(objects.list[i].begin, objects.list[i].end);
        if (is_known && infp_writer_head())
                atomic_fetch_add(&infp_writer_head()->tables_closed, 1);
        return result;
}

void infp_agent_closing_begin(void)
{
        infp_preload_close_fn *_Atomic *hook = dlsym(RTLD_DEFAULT, INFP_PRELOAD_CLOSE_HOOK);

        if (hook)
                atomic_store(hook, close_library);
}
