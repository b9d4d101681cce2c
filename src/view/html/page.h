/* web/report, joined: made by tools/embed when infprof is built. */
#pragma once

#include <stddef.h>

extern const char infp_page_script[], infp_page_style[]; /* what stands between the tags, byte by byte */
extern const size_t infp_page_script_size, infp_page_style_size;
extern const char infp_page_script_hash[],
        infp_page_style_hash[]; /* "sha256-...", as a Content-Security-Policy has it */
