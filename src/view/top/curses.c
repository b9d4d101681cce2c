#include "view/top/curses.h"

#include <dlfcn.h>
#include <errno.h>

int infp_curses_load(struct infp_curses *ret, struct infp_err *err)
{
        static const char name[] = "libncursesw.so.6";
        void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL); /* stays loaded */

        if (!library)
                return infp_fail(
                        err, -ENOPKG,
                        "the live view needs %s (Debian: apt-get install libncursesw6); -b prints without it: %s", name,
                        dlerror());
#define X(function, type, arguments)                           \
        *(void **) &ret->function = dlsym(library, #function); \
        if (!ret->function)                                    \
                return infp_fail(err, -ENOPKG, "%s has no function " #function "; -b prints without it", name);
        INFP_CURSES_FUNCTIONS(X)
#undef X
        *(void **) &ret->stdscr = dlsym(library, "stdscr");
        return ret->stdscr ? 0 : infp_fail(err, -ENOPKG, "%s has no stdscr; -b prints without it", name);
}
