#include "model/mask.h"

#include <strings.h>

#include "base/text.h"
#include "model/mask_text.h"

/* What an argument says about the one behind it. */
enum follow { PLAIN, SECRET, FIRST_SECRET, MORE_SECRETS, HEADER, SCRIPT };

static bool is(const struct infp_mask_argument *a, const char *text)
{
        return a->size == strlen(text) && infp_mask_starts(a, 0, text);
}

/* vLLM's --api-key takes several values. */
static bool takes_many(const char *name, size_t size)
{
        return (size >= 7 && strncasecmp(name + size - 7, "api-key", 7) == 0) ||
               (size >= 7 && strncasecmp(name + size - 7, "api_key", 7) == 0) ||
               (size >= 4 && strncasecmp(name + size - 4, "keys", 4) == 0);
}

static enum follow follows(const struct infp_mask_argument *a)
{
        size_t dashes = 0;

        if (is(a, "-H") || is(a, "--header") || is(a, "--headers") || is(a, "--proxy-header"))
                return HEADER;
        while (infp_mask_at(a, dashes) == '-')
                dashes++;
        if (dashes == 1 && a->size <= 5 && a->s[a->size - 1] == 'c') /* sh -c, bash -lc */
                return SCRIPT;
        for (size_t k = dashes; k < a->size; k++) {
                if (!infp_mask_name_char(a->s[k]))
                        return PLAIN;
        }
        if (dashes == 0 || !infp_mask_is_secret_name(a->s + dashes, a->size - dashes))
                return PLAIN;
        return takes_many(a->s + dashes, a->size - dashes) ? FIRST_SECRET : SECRET;
}

static bool looks_like_key(const struct infp_mask_argument *a)
{
        for (size_t i = 0; i < a->size; i++) {
                if (infp_mask_blank(a->s[i]) || strchr("/.:", a->s[i]))
                        return false;
        }
        return true;
}

static void show(const struct infp_mask_argument *a, bool keep, struct infp_mask_out *out)
{
        bool quoted = a->size == 0;

        for (size_t i = 0; i < a->size && !quoted; i++)
                quoted = infp_mask_blank(a->s[i]);
        if (quoted)
                infp_mask_put(out, "'", 1);
        if (keep)
                infp_mask_put(out, a->s, a->size);
        else
                infp_mask_argument(a, out);
        if (quoted)
                infp_mask_put(out, "'", 1);
}

/* Shows one argument; `before` is what the one before it said. Returns what this one says. */
static enum follow step(struct infp_mask_argument *a, enum follow before, struct infp_mask_out *out)
{
        bool value = a->size > 0 && !infp_mask_is_option(a, 0);

        if (value && (before == SECRET || before == FIRST_SECRET || (before == MORE_SECRETS && looks_like_key(a)))) {
                infp_mask_put(out, INFP_MASK_STARS, 3);
                return before == SECRET ? PLAIN : MORE_SECRETS;
        }
        a->header = before == HEADER || (infp_mask_starts(a, 0, "-H") && a->size > 2);
        a->script = before == SCRIPT;
        show(a, false, out);
        return follows(a);
}

/* A process that changed its title leaves zeroes where its arguments were; they are no empty arguments. One or two zeroes
 * at the end can be an argument's end and an empty argument. */
static size_t without_padding(const char *s, size_t size)
{
        size_t n = size;

        while (n > 0 && s[n - 1] == 0)
                n--;
        return size - n > 2 ? n : size;
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
        enum follow before = PLAIN;

        size = without_padding(arguments, size);
        for (size_t i = 0; i < size && !out.cut;) {
                struct infp_mask_argument a = { .s = arguments + i, .size = strnlen(arguments + i, size - i) };

                if (i > 0)
                        infp_mask_put(&out, " ", 1);
                if (keep)
                        show(&a, true, &out);
                else
                        before = step(&a, before, &out);
                i += a.size + 1;
        }
        return out.cut ? whole_characters(ret, out.size) : out.size;
}
