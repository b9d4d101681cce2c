#include "view/markup.h"

#include <stddef.h>
#include <string.h>

#include "base/text.h"

const char *infp_markup_reference(char c)
{
        switch (c) {
        case '&':
                return "&amp;";
        case '<':
                return "&lt;";
        case '>':
                return "&gt;";
        case '"':
                return "&quot;";
        case '\'':
                return "&#39;";
        default:
                return NULL;
        }
}

/* U+202A to U+202E and U+2066 to U+2069 reverse text, so that a name can read as another. XML forbids U+FFFE and U+FFFF. */
static bool is_forbidden(const char *text, unsigned length, bool keeps_lines)
{
        const unsigned char *c = (const unsigned char *) text;

        if (length == 1)
                return (c[0] < ' ' || c[0] == 0x7f) && !(keeps_lines && (c[0] == '\n' || c[0] == '\t'));
        if (length == 2)
                return c[0] == 0xc2 && c[1] < 0xa0; /* control characters as well */
        if (length == 3 && c[0] == 0xe2)
                return (c[1] == 0x80 && c[2] >= 0xaa && c[2] <= 0xae) || (c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9);
        return length == 0 || (length == 3 && c[0] == 0xef && c[1] == 0xbf && c[2] >= 0xbe);
}

void infp_markup_text(struct infp_str *out, const char *text, size_t most, bool keeps_lines)
{
        const size_t size = text ? strlen(text) : 0;

        for (size_t i = 0; i < size;) {
                const unsigned length = infp_utf8_length(text + i, size - i);

                if (i >= most || length > most - i) {
                        infp_str_puts(out, "…");
                        return;
                }
                if (is_forbidden(text + i, length, keeps_lines))
                        infp_str_puts(out, "\xef\xbf\xbd");
                else if (infp_markup_reference(text[i]))
                        infp_str_puts(out, infp_markup_reference(text[i]));
                else
                        infp_str_put(out, text + i, length);
                i += length ? length : 1;
        }
}
