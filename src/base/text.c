#include "base/text.h"

#include <errno.h>
#include <string.h>

static bool continues(const unsigned char *s, unsigned n)
{
        for (unsigned i = 1; i < n; i++) {
                if ((s[i] & 0xc0) != 0x80)
                        return false;
        }
        return true;
}

/* RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF: Arrow readers refuse a file that holds one of them. */
unsigned infp_utf8_length(const char *text, size_t size)
{
        const unsigned char *s = (const unsigned char *) text;

        if (size == 0)
                return 0;
        if (s[0] < 0x80)
                return 1;
        if (s[0] >= 0xc2 && s[0] <= 0xdf)
                return size >= 2 && continues(s, 2) ? 2 : 0;
        if (s[0] >= 0xe0 && s[0] <= 0xef) {
                if (size < 3 || !continues(s, 3))
                        return 0;
                if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f))
                        return 0;
                return 3;
        }
        if (s[0] >= 0xf0 && s[0] <= 0xf4) {
                if (size < 4 || !continues(s, 4))
                        return 0;
                if ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
                        return 0;
                return 4;
        }
        return 0;
}

size_t infp_utf8_cut(const char *s, size_t size, size_t max)
{
        if (size <= max)
                return size;
        while (max && ((unsigned char) s[max] & 0xc0) == 0x80)
                max--;
        return max;
}

bool infp_utf8_is_control(const char *text, unsigned length)
{
        const unsigned char *s = (const unsigned char *) text;

        if (length == 1)
                return s[0] < 0x20 || s[0] == 0x7f;
        if (length == 2)
                return s[0] == 0xc2 && s[1] < 0xa0; /* U+0080..9F */
        if (length != 3 || s[0] != 0xe2)
                return false;
        return s[1] == 0x80 ? s[2] >= 0xa8 && s[2] <= 0xae                  /* U+2028..202E */
                            : s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9; /* U+2066..2069 */
}

size_t infp_text_escape(const char *bytes, size_t size, char *ret, size_t cap)
{
        static const char hex[] = "0123456789ABCDEF";
        size_t n = 0;

        for (size_t i = 0; i < size;) {
                unsigned length = infp_utf8_length(bytes + i, size - i);
                unsigned char c = (unsigned char) bytes[i];
                size_t wanted = length == 0 ? 4 : c == '\\' ? 2 : length;

                if (wanted > cap - n)
                        break;
                if (length == 0) {
                        ret[n] = '\\';
                        ret[n + 1] = 'x';
                        ret[n + 2] = hex[c >> 4];
                        ret[n + 3] = hex[c & 15];
                } else if (c == '\\') {
                        ret[n] = ret[n + 1] = '\\';
                } else {
                        memcpy(ret + n, bytes + i, length);
                }
                n += wanted;
                i += length ? length : 1;
        }
        return n;
}

static int hex_digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        if (c >= 'A' && c <= 'F')
                return c - 'A' + 10;
        return -1;
}

ssize_t infp_text_unescape(const char *text, size_t size, char *ret, size_t cap)
{
        size_t n = 0;

        for (size_t i = 0; i < size;) {
                char c = text[i];
                size_t taken = 1;

                if (c == '\\') {
                        if (size - i >= 2 && text[i + 1] == '\\') {
                                taken = 2;
                        } else if (size - i >= 4 && text[i + 1] == 'x' && hex_digit(text[i + 2]) >= 0 &&
                                   hex_digit(text[i + 3]) >= 0) {
                                c = (char) (hex_digit(text[i + 2]) << 4 | hex_digit(text[i + 3]));
                                taken = 4;
                        } else {
                                return -EBADMSG;
                        }
                }
                if (n >= cap)
                        return -ENOSPC;
                ret[n++] = c;
                i += taken;
        }
        return (ssize_t) n;
}

const char *infp_base_name(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash && slash[1] ? slash + 1 : path;
}
