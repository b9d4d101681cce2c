#include "record/jit_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned infp_jit_names_variables(struct infp_jit_names *memory, const char **ret)
{
        static const char node_option[] = "--perf-basic-prof-only-functions";
        const char *node = getenv("NODE_OPTIONS");
        unsigned n = 0;

        /* oneDNN knows both names; 2 is a perf map. */
        if (!getenv("ONEDNN_JIT_PROFILE") && !getenv("DNNL_JIT_PROFILE"))
                ret[n++] = "ONEDNN_JIT_PROFILE=2";
        if (!getenv("DOTNET_PerfMapEnabled") && !getenv("COMPlus_PerfMapEnabled"))
                ret[n++] = "DOTNET_PerfMapEnabled=1";
        if (!node || !strstr(node, "--perf-")) {
                const int size = snprintf(memory->node, sizeof(memory->node), "NODE_OPTIONS=%s%s%s", node ? node : "",
                                          node && *node ? " " : "", node_option);

                if (size > 0 && (size_t) size < sizeof(memory->node)) /* else the user's stays whole */
                        ret[n++] = memory->node;
        }
        return n;
}
