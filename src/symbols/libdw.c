#include "symbols/libdw.h"

#include <dlfcn.h>
#include <stddef.h>

#include "symbols/symbols.h"

static struct infp_libdw functions;

static bool load(void)
{
        void *dw = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL), *elf = dlopen("libelf.so.1", RTLD_NOW | RTLD_LOCAL);
        bool has_all = dw && elf;

#define LOAD_DW(name) has_all = has_all && (*(void **) &functions.name = dlsym(dw, #name)) != NULL;
        INFP_LIBDW(LOAD_DW)
#undef LOAD_DW
#define LOAD_ELF(name) has_all = has_all && (*(void **) &functions.name = dlsym(elf, #name)) != NULL;
        INFP_LIBELF(LOAD_ELF)
#undef LOAD_ELF
        return has_all && functions.elf_version(EV_CURRENT) != EV_NONE;
}

const struct infp_libdw *infp_libdw(void)
{
        static enum { NEW, THERE, MISSING } state;

        if (state == NEW)
                state = load() ? THERE : MISSING;
        return state == THERE ? &functions : NULL;
}

bool infp_symbols_have_lines(void)
{
        return infp_libdw() != NULL;
}
