/* The width of a text on a terminal. Own tables, since wcwidth() follows the locale and fails in "C". */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "view/format.h"

struct range {
        uint32_t first, last;
};

/* Combining marks and joiners, which take no column: the blocks that occur in names and texts. */
static const struct range zero_wide[] = {
        { 0x0300, 0x036F }, { 0x0483, 0x0489 }, { 0x0591, 0x05BD }, { 0x0610, 0x061A }, { 0x064B, 0x065F },
        { 0x06D6, 0x06DC }, { 0x093C, 0x093C }, { 0x0941, 0x0948 }, { 0x094D, 0x094D }, { 0x0E31, 0x0E31 },
        { 0x0E34, 0x0E3A }, { 0x0E47, 0x0E4E }, { 0x1AB0, 0x1AFF }, { 0x1DC0, 0x1DFF }, { 0x200B, 0x200F },
        { 0x202A, 0x202E }, { 0x2060, 0x2064 }, { 0x20D0, 0x20FF }, { 0xFE00, 0xFE0F }, { 0xFE20, 0xFE2F },
        { 0xFEFF, 0xFEFF },
};

/* East Asian wide and full-width, emoji. */
static const struct range double_wide[] = {
        { 0x1100, 0x115F },   { 0x231A, 0x231B },   { 0x2329, 0x232A },   { 0x23E9, 0x23EC },   { 0x2E80, 0x303E },
        { 0x3041, 0x33FF },   { 0x3400, 0x4DBF },   { 0x4E00, 0x9FFF },   { 0xA000, 0xA4CF },   { 0xA960, 0xA97F },
        { 0xAC00, 0xD7A3 },   { 0xF900, 0xFAFF },   { 0xFE30, 0xFE6F },   { 0xFF00, 0xFF60 },   { 0xFFE0, 0xFFE6 },
        { 0x1F300, 0x1F64F }, { 0x1F680, 0x1F6FF }, { 0x1F900, 0x1F9FF }, { 0x1FA70, 0x1FAFF }, { 0x20000, 0x3FFFD },
};

static bool in_ranges(const struct range *ranges, size_t n, uint32_t c)
{
        for (size_t i = 0; i < n; i++)
                if (c <= ranges[i].last)
                        return c >= ranges[i].first;
        return false;
}

static uint32_t decode(const char *s, unsigned length)
{
        static const uint8_t mask[] = { 0, 0x7F, 0x1F, 0x0F, 0x07 };
        uint32_t c = (uint8_t) s[0] & mask[length];

        for (unsigned i = 1; i < length; i++)
                c = c << 6 | ((uint8_t) s[i] & 0x3F);
        return c;
}

static unsigned width_of(uint32_t c)
{
        if (c < 0x300)
                return 1;
        if (in_ranges(zero_wide, INFP_COUNT(zero_wide), c))
                return 0;
        return in_ranges(double_wide, INFP_COUNT(double_wide), c) ? 2 : 1;
}

size_t infp_text_fit(const char *text, size_t size, unsigned width, unsigned *ret_width)
{
        unsigned used = 0;
        size_t at = 0;

        while (at < size) {
                const unsigned length = infp_utf8_length(text + at, size - at);
                const unsigned w = length ? width_of(decode(text + at, length)) : 1;

                if (used + w > width)
                        break;
                used += w;
                at += length ? length : 1;
        }
        if (ret_width)
                *ret_width = used;
        return at;
}

unsigned infp_text_width(const char *text, size_t size)
{
        unsigned width;

        infp_text_fit(text, size, UINT32_MAX, &width);
        return width;
}

static void put_control(struct infp_str *out, const char *bytes, unsigned n)
{
        if (*bytes == '\n')
                infp_str_puts(out, "\\n");
        else if (*bytes == '\t')
                infp_str_puts(out, "\\t");
        else
                for (unsigned i = 0; i < n; i++)
                        infp_str_printf(out, "\\x%02X", (uint8_t) bytes[i]);
}

void infp_text_tame(struct infp_str *out, const char *text, size_t size)
{
        for (size_t at = 0; at < size;) {
                const unsigned length = infp_utf8_length(text + at, size - at), n = length ? length : 1;

                if (!length || infp_utf8_is_control(text + at, length))
                        put_control(out, text + at, n);
                else
                        infp_str_put(out, text + at, n);
                at += n;
        }
}

void infp_text_tame_lines(struct infp_str *out, const char *text, size_t size)
{
        for (size_t at = 0; at < size; at++) {
                size_t n = at;

                while (n < size && text[n] != '\n' && text[n] != '\t')
                        n++;
                infp_text_tame(out, text + at, n - at);
                if (n < size)
                        infp_str_putc(out, text[n]);
                at = n;
        }
}
