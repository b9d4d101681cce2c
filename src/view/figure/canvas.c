#include "view/figure/canvas.h"

#include <string.h>
#include <strings.h>

/* The series' colours also differ in brightness, for readers who cannot see colours (after Okabe and Ito). */
const uint32_t infp_ink_light[INFP_INKS] = {
        [INFP_INK_PAPER] = 0xffffff,      [INFP_INK_TEXT] = 0x1d232a,       [INFP_INK_SOFT] = 0x556270,
        [INFP_INK_GRID] = 0xe1e5ea,       [INFP_INK_SERIES] = 0x0064d9,     [INFP_INK_SERIES + 1] = 0xc35500,
        [INFP_INK_SERIES + 2] = 0x188918, [INFP_INK_SERIES + 3] = 0xba066c, [INFP_INK_SERIES + 4] = 0x5d36ff,
        [INFP_INK_SERIES + 5] = 0x0f828f, [INFP_INK_SERIES + 6] = 0x8d6e00, [INFP_INK_SERIES + 7] = 0x5b738b,
};
const uint32_t infp_ink_dark[INFP_INKS] = {
        [INFP_INK_PAPER] = 0x12171c,      [INFP_INK_TEXT] = 0xeaecee,       [INFP_INK_SOFT] = 0xa9b4be,
        [INFP_INK_GRID] = 0x2c3642,       [INFP_INK_SERIES] = 0x4db1ff,     [INFP_INK_SERIES + 1] = 0xffa24d,
        [INFP_INK_SERIES + 2] = 0x6dd674, [INFP_INK_SERIES + 3] = 0xff8ac7, [INFP_INK_SERIES + 4] = 0xb8a6ff,
        [INFP_INK_SERIES + 5] = 0x5fd6e0, [INFP_INK_SERIES + 6] = 0xf0c53a, [INFP_INK_SERIES + 7] = 0xa9bcd0,
};

const struct infp_canvas_kind *infp_canvas_find(const char *extension)
{
        static const struct infp_canvas_kind *const kinds[] = { &infp_canvas_svg, &infp_canvas_png };

        for (unsigned i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
                if (!strcasecmp(kinds[i]->extension, extension))
                        return kinds[i];
        return NULL;
}
