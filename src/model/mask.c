#include "model/mask.h"

#include <string.h>

#include "base/text.h"
#include "model/mask_text.h"

static bool looks_like_key(const struct infp_mask_argument *a)
{
        for (size_t i = 0; i < a->size; i++) {
                if (infp_mask_blank(a->s[i]) || strchr("/.:", a->s[i]))
                        return false;
        }
        return true;
}

/* Shows an argument, of which the part from `secret` on is masked; size: looks for secrets in it. */
static void show(const struct infp_mask_argument *a, bool keep, size_t secret, struct infp_mask_out *out)
{
        bool quoted = a->size == 0;

        for (size_t i = 0; i < a->size && !quoted; i++)
                quoted = infp_mask_blank(a->s[i]);
        if (quoted)
                infp_mask_put(out, "'", 1);
        if (keep || secret < a->size)
                infp_mask_put(out, a->s, keep ? a->size : secret);
        else
                infp_mask_argument(a, out);
        if (!keep && secret < a->size)
                infp_mask_put(out, INFP_MASK_STARS, 3);
        if (quoted)
                infp_mask_put(out, "'", 1);
}

/* Shows one argument; `before` is what the one before it said. Returns what this one says. */
static enum infp_mask_follow step(struct infp_mask_argument *a, enum infp_mask_follow before, struct infp_mask_out *out)
{
        const bool value = a->size > 0 && !infp_mask_is_option(a, 0);
        enum infp_mask_follow attached = MASK_PLAIN;
        size_t secret = a->size, at;

        if (value && (before == MASK_SECRET || before == MASK_FIRST_SECRET ||
                      (before == MASK_MORE_SECRETS && looks_like_key(a)))) {
                infp_mask_put(out, INFP_MASK_STARS, 3);
                return before == MASK_SECRET ? MASK_PLAIN : MASK_MORE_SECRETS;
        }
        if (value && before != MASK_MORE_SECRETS)
                secret = infp_mask_secret_at(before, a->s, a->size);
        at = infp_mask_attached(a, &attached);
        if (at && secret == a->size)
                secret = at + infp_mask_secret_at(attached, a->s + at, a->size - at);
        a->header = before == MASK_HEADER || attached == MASK_HEADER;
        a->script = before == MASK_SCRIPT;
        show(a, false, secret, out);
        return at ? MASK_PLAIN : infp_mask_option(a->s, a->size);
}

/* A process that changed its title leaves zeroes or blanks where its arguments were; they are no empty arguments. One or two
 * zeroes at the end can be an argument's end and an empty argument, but not after a title, which is one text. */
static size_t without_padding(const char *s, size_t size)
{
        size_t n = size;
        bool is_title;

        while (n > 0 && s[n - 1] == 0)
                n--;
        is_title = n < size && n > 0 && !memchr(s, 0, n);
        if (size - n <= (is_title ? 1 : 2) && !(is_title && s[n - 1] == ' '))
                return size;
        while (is_title && n > 1 && s[n - 1] == ' ')
                n--;
        return n;
}

/* Not half a character at the end. */
static size_t whole_characters(const char *s, size_t size)
{
        for (size_t back = 1; back <= 3 && back <= size; back++) {
                unsigned char c = (unsigned char) s[size - back];

                if ((c & 0xc0) == 0x80)
                        continue;
                return c >= 0xc0 && infp_utf8_length(s + size - back, back) == 0 ? size - back : size;
        }
        return size;
}

size_t infp_mask_cmdline(const char *arguments, size_t size, bool keep, char *ret, size_t cap)
{
        struct infp_mask_out out = { .at = ret, .cap = cap };
        enum infp_mask_follow before = MASK_PLAIN;

        size = without_padding(arguments, size);
        for (size_t i = 0; i < size && !out.cut;) {
                struct infp_mask_argument a = { .s = arguments + i, .size = strnlen(arguments + i, size - i) };

                if (i > 0)
                        infp_mask_put(&out, " ", 1);
                if (keep)
                        show(&a, true, a.size, &out);
                else
                        before = step(&a, before, &out);
                i += a.size + 1;
        }
        return out.cut ? whole_characters(ret, out.size) : out.size;
}

size_t infp_mask_text(const char *text, size_t size, char *ret, size_t cap)
{
        struct infp_mask_out out = { .at = ret, .cap = cap };

        infp_mask_argument(&(struct infp_mask_argument){ .s = text, .size = size }, &out);
        return out.cut ? whole_characters(ret, out.size) : out.size;
}
