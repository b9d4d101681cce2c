#include "view/flame/palette.h"

#include <math.h>

#include "base/mem.h"

/* In OKLCH (Ottosson 2020), where equal steps look equal: lightness 0..1, chroma, hue in degrees. */
struct shades {
        float hue, hue_spread, chroma, lightness, lightness_spread;
};

static const struct {
        const char *name;
        struct shades light;
        float dark_chroma;
} classes[INFP_FLAME_CLASSES] = {
        [INFP_FRAME_NATIVE] = { "native", { 66, 40, 0.098F, 0.855F, 0.05F }, 0.105F },
        [INFP_FRAME_CXX_RUNTIME] = { "C++ runtime", { 318, 16, 0.085F, 0.82F, 0.05F }, 0.095F },
        [INFP_FRAME_KERNEL] = { "kernel", { 250, 20, 0.085F, 0.81F, 0.06F }, 0.085F },
        [INFP_FRAME_PYTHON] = { "Python", { 148, 22, 0.105F, 0.85F, 0.06F }, 0.085F },
        [INFP_FRAME_GO] = { "Go", { 200, 12, 0.085F, 0.85F, 0.05F }, 0.07F },
        [INFP_FRAME_JIT] = { "JIT", { 2, 14, 0.095F, 0.80F, 0.05F }, 0.11F },
        [INFP_FRAME_VDSO] = { "vDSO", { 280, 10, 0.05F, 0.78F, 0.04F }, 0.05F },
        [INFP_FRAME_UNKNOWN] = { "unknown", { 250, 10, 0.008F, 0.80F, 0.05F }, 0.008F },
        [INFP_FLAME_GUESSED] = { "guessed", { 90, 10, 0.03F, 0.90F, 0.03F }, 0.025F },
};

static const struct shades themes[INFP_FLAME_THEMES] = {
        [INFP_FLAME_HOT] = { 58, 76, 0.135F, 0.80F, 0.13F },
        [INFP_FLAME_COLD] = { 222, 96, 0.09F, 0.81F, 0.10F },
        [INFP_FLAME_RAINBOW] = { 180, 330, 0.10F, 0.83F, 0.06F },
        [INFP_FLAME_MONO] = { 255, 6, 0.022F, 0.82F, 0.15F },
};

/* As the mission's second document has them, in light and dark alike. */
static const struct {
        double above;
        uint32_t colour;
} heats[INFP_FLAME_HEATS] = { { 10, 0xff3030 }, { 5, 0xff8000 }, { 2, 0xffaa00 }, { 1, 0xffcc00 }, { 0, 0xffff00 } };

unsigned infp_flame_heat(double percent)
{
        unsigned ret = 0;

        while (ret + 1 < INFP_FLAME_HEATS && !(percent > heats[ret].above))
                ret++;
        return ret;
}

double infp_flame_heat_above(unsigned heat)
{
        return heats[heat].above;
}

const char *infp_flame_class_name(unsigned class)
{
        return class < INFP_FLAME_CLASSES ? classes[class].name : "unknown";
}

unsigned infp_flame_class(const struct infp_flame_function *function)
{
        if (function->is_group)
                return INFP_FRAME_UNKNOWN;
        if (infp_flame_is_guessed(function))
                return INFP_FLAME_GUESSED;
        return (unsigned) function->kind < INFP_FRAME_KINDS ? (unsigned) function->kind : INFP_FRAME_UNKNOWN;
}

/* FNV-1a */
static uint32_t hash(const char *text)
{
        uint32_t h = 2166136261U;

        for (; text && *text; text++)
                h = (h ^ (unsigned char) *text) * 16777619U;
        return h ^ h >> 15;
}

/* Four hues, by the object: what comes from one library looks alike; three depths, by the name. */
unsigned infp_flame_shade(const struct infp_flame_function *function)
{
        return hash(function->object) % 4 * 3 + hash(function->name) % 3;
}

static uint32_t byte_of(double linear)
{
        const double v = linear <= 0.0031308 ? 12.92 * linear : 1.055 * pow(linear, 1 / 2.4) - 0.055;

        return v <= 0 ? 0 : v >= 1 ? 255 : (uint32_t) lround(v * 255);
}

static uint32_t colour(double lightness, double chroma, double hue)
{
        const double angle = hue * 3.14159265358979323846 / 180, a = chroma * cos(angle), b = chroma * sin(angle);
        const double l = pow(lightness + 0.3963377774 * a + 0.2158037573 * b, 3);
        const double m = pow(lightness - 0.1055613458 * a - 0.0638541728 * b, 3);
        const double s = pow(lightness - 0.0894841775 * a - 1.2914855480 * b, 3);

        return byte_of(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s) << 16 |
               byte_of(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s) << 8 |
               byte_of(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s);
}

uint32_t infp_flame_colour(enum infp_flame_theme theme, unsigned class, unsigned shade, bool is_dark)
{
        const bool is_by_kind = theme == INFP_FLAME_BY_KIND || (unsigned) theme >= INFP_FLAME_THEMES;
        const unsigned at = class < INFP_FLAME_CLASSES ? class : (unsigned) INFP_FRAME_UNKNOWN;
        const struct shades *shades = is_by_kind ? &classes[at].light : &themes[theme];
        /* Without classes the hue may spread over all shades. */
        const double across =
                is_by_kind ? (shade / 3) / 3.0 : (shade * 5 % INFP_FLAME_SHADES) / (INFP_FLAME_SHADES - 1.0);
        const double depth = (shade % 3) / 2.0;
        const double hue = shades->hue + shades->hue_spread * (across - 0.5);
        const double spread = shades->lightness_spread * (depth - 0.5);
        /* Yellow that is no lighter than orange is olive. */
        const double lift = 0.05 * exp(-pow((hue - 98) / 28, 2)) * (shades->chroma > 0.05F);

        if (theme == INFP_FLAME_HEAT)
                return heats[shade < INFP_FLAME_HEATS ? shade : INFP_FLAME_HEATS - 1].colour;
        if (is_dark)
                return colour(0.71 + spread + lift, is_by_kind ? classes[at].dark_chroma : 0.9 * shades->chroma, hue);
        return colour(shades->lightness + spread + lift, shades->chroma, hue);
}

uint32_t infp_flame_change_colour(int step, bool is_dark)
{
        const double share = fmin(1, fabs((double) step) / INFP_FLAME_STEPS);

        if (step == 0)
                return is_dark ? colour(0.60, 0.008, 250) : colour(0.915, 0.006, 250);
        if (is_dark)
                return colour(0.64 + 0.03 * share, 0.03 + 0.13 * share, step > 0 ? 30 : 248);
        return colour(0.90 - 0.20 * share, 0.035 + 0.12 * share, step > 0 ? 32 : 250);
}

int infp_flame_change_step(uint64_t k, uint64_t n, uint64_t before_k, uint64_t before_n, bool is_normalised)
{
        const double scale = is_normalised && before_n ? (double) n / (double) before_n : 1;
        const double now = (double) k, before = (double) before_k * scale;
        const double larger = fmax(now, before);
        /* Both are Poisson distributed: the variance of the difference is their sum. */
        const double sigma = sqrt(now + before * scale);
        double share;

        if (larger <= 0 || fabs(now - before) <= 1.959964 * sigma)
                return 0;
        share = (now - before) / larger;
        return (int) copysign(ceil(sqrt(fabs(share)) * INFP_FLAME_STEPS - 1e-9), share);
}
