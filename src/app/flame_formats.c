#include "app/flame_formats.h"

#include <string.h>

const struct infp_flame_format_is infp_flame_formats[INFP_FLAME_FORMATS] = {
        [INFP_FLAME_HTML] = { "html", ".html .htm", .is_tree = true, .is_picture = true },
        [INFP_FLAME_SVG] = { "svg", ".svg", .is_tree = true, .is_picture = true },
        [INFP_FLAME_FOLDED] = { "folded", ".folded .collapsed", .is_tree = true, .is_for_reading = true },
        [INFP_FLAME_PPROF] = { "pprof", ".pb.gz .pprof" },
        [INFP_FLAME_SPEEDSCOPE] = { "speedscope", ".speedscope.json" },
        [INFP_FLAME_CHROME] = { "chrome", ".trace.json" },
        [INFP_FLAME_PERF_SCRIPT] = { "perf-script", ".perf", .is_for_reading = true },
        [INFP_FLAME_TOP] = { "top", "", .is_tree = true, .is_for_reading = true },
};

int infp_flame_format_of(const char *path)
{
        const size_t size = strlen(path);

        for (int i = 0; i < INFP_FLAME_FORMATS; i++)
                for (const char *at = infp_flame_formats[i].extensions; *at;) {
                        const size_t n = strcspn(at, " ");

                        if (size > n && !memcmp(path + size - n, at, n))
                                return i;
                        at += n + (at[n] == ' ');
                }
        return -1;
}
