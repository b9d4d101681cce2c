/* For functions that stand in front of those of the next library. */
#pragma once

#include <dlfcn.h>
#include <stddef.h>

#pragma weak dlsym

/* NULL: nothing after this library defines it, or there is no dlsym. No tail call: dlsym asks who calls it. */
static inline void *infp_next(const char *name)
{
        void *found = dlsym ? dlsym(RTLD_NEXT, name) : NULL;

        __asm__ volatile("" : "+r"(found));
        return found;
}
