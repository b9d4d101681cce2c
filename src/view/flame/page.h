/* web/flame and web/flame_svg, joined: made by tools/embed when infprof is built. */
#pragma once

#include <stddef.h>

extern const char infp_flame_page_script[], infp_flame_page_style[];
extern const size_t infp_flame_page_script_size, infp_flame_page_style_size;
extern const char infp_flame_page_script_hash[], infp_flame_page_style_hash[];

extern const char infp_flame_svg_script[], infp_flame_svg_style[];
extern const size_t infp_flame_svg_script_size, infp_flame_svg_style_size;
extern const char infp_flame_svg_script_hash[], infp_flame_svg_style_hash[];
