#include <stdio.h>
#include <stdlib.h>

#include "sampler/stacks/stack.h"

char *infp_stacks_cache_directory(void)
{
        const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
        char *path;
        int n;

        if (cache && cache[0] == '/')
                n = asprintf(&path, "%s/infprof/unwind", cache);
        else if (home && home[0] == '/')
                n = asprintf(&path, "%s/.cache/infprof/unwind", home);
        else
                return NULL;
        return n < 0 ? NULL : path;
}
