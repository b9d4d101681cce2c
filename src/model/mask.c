#include "model/mask.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/text.h"

static const char stars[] = "***";

/* Where the masked text goes; what does not fit is dropped. */
struct out {
        char *at;
        size_t size, cap;
        bool cut;
};

static void put(struct out *out, const char *s, size_t size)
{
        size_t n = size < out->cap - out->size ? size : out->cap - out->size;

        if (n > 0)
                memcpy(out->at + out->size, s, n);
        out->size += n;
        out->cut |= n < size;
}

/* One argument while it is searched. */
struct argument {
        const char *s;
        size_t size;
        bool header; /* it is the value of curl's -H: what stands behind the first colon is the value */
        bool script; /* a shell's -c: many words in one argument */
};

static bool blank(char c)
{
        return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool quote(char c)
{
        return c == '"' || c == '\'' || c == '`';
}

static bool name_char(char c)
{
        return isalnum((unsigned char) c) || c == '_' || c == '-' || c == '.';
}

static char at(const struct argument *a, size_t i)
{
        return i < a->size ? a->s[i] : 0;
}

static bool starts(const struct argument *a, size_t i, const char *text)
{
        size_t n = strlen(text);

        return i <= a->size && n <= a->size - i && memcmp(a->s + i, text, n) == 0;
}

/* Secrets that are known by their shape, wherever they stand as a word. A short one could be a file or a package: it must
 * not touch a path (/hf_cache/x, sk-model.gguf). Returns where the secret ends, or i. */
static size_t shaped_end(const struct argument *a, size_t i)
{
        static const struct {
                const char *prefix;
                size_t least; /* characters behind it */
                bool dashes;  /* - and _ belong to it */
        } shapes[] = {
                { "hf_", 4, false },    { "sk-", 4, true },    { "gsk_", 20, false },       { "ghp_", 20, false },
                { "gho_", 20, false },  { "ghs_", 20, false }, { "github_pat_", 20, true }, { "glpat-", 16, true },
                { "nvapi-", 20, true }, { "xoxb-", 16, true },
        };
        static const char *const packages[] = { "hf_transfer", "hf_xet", "hf_hub" };
        char before = i > 0 ? a->s[i - 1] : 0;

        for (size_t k = 0; k < INFP_COUNT(shapes); k++) {
                size_t from = i + strlen(shapes[k].prefix), end = from;
                bool in_path;

                if (!starts(a, i, shapes[k].prefix))
                        continue;
                while (isalnum((unsigned char) at(a, end)) ||
                       (shapes[k].dashes && (at(a, end) == '-' || at(a, end) == '_')))
                        end++;
                in_path = before == '/' || before == '.' || at(a, end) == '/' || at(a, end) == '.' ||
                          at(a, end) == '_' || at(a, end) == '-';
                if (end - from < shapes[k].least || (in_path && end - from < 20))
                        return i;
                for (size_t p = 0; p < INFP_COUNT(packages); p++) {
                        if (end - i == strlen(packages[p]) && starts(a, i, packages[p]))
                                return i;
                }
                return end;
        }
        return i;
}

/* The end of a value that begins at i, as a shell reads a word: quoted parts belong to it. `stop`: further characters
 * that end it. A quote that was open before the value ends it too. */
static size_t word_end(const struct argument *a, size_t i, const char *stop, char open_quote)
{
        while (i < a->size && !blank(a->s[i]) && a->s[i] != open_quote && !strchr(stop, a->s[i])) {
                char c = a->s[i];

                if (c == '\\' && i + 1 < a->size) {
                        i += 2;
                } else if (quote(c)) {
                        const char *end = memchr(a->s + i + 1, c, a->size - i - 1);

                        i = end ? (size_t) (end - a->s) + 1 : a->size;
                } else {
                        i++;
                }
        }
        return i;
}

/* Behind "name": or \"name\": of JSON. */
static size_t json_value_end(const struct argument *a, size_t i)
{
        size_t back = 0;

        while (at(a, i + back) == '\\')
                back++;
        if (!quote(at(a, i + back)))
                return word_end(a, i, ",}]", 0);
        /* The same quote with as many backslashes before it ends the text; one more backslash belongs to it. */
        for (size_t k = i + back + 1, run = 0; k < a->size; k++) {
                if (a->s[k] == a->s[i + back] && run <= back)
                        return k + 1;
                run = a->s[k] == '\\' ? run + 1 : 0;
        }
        return a->size;
}

/* A header goes on to the end of its quotes, or of its line. */
static size_t header_end(const struct argument *a, size_t i, char open_quote)
{
        while (i < a->size && a->s[i] != open_quote && a->s[i] != '\n' && a->s[i] != '\r')
                i++;
        return i;
}

struct place {
        size_t name, name_end; /* without leading dashes */
        size_t value;          /* where the value begins */
        char before;           /* the character before the name (and its dashes), 0 at the beginning */
        bool json, url, colon;
};

/* name=value, name: value, "name": value at i? */
static bool find_name(const struct argument *a, size_t i, bool url, struct place *ret)
{
        size_t k, back = 0;

        *ret = (struct place){ .before = i > 0 ? a->s[i - 1] : 0, .url = url };
        while (at(a, i) == '-')
                i++;
        for (k = i; name_char(at(a, k)); k++)
                ;
        if (k == i)
                return false;
        ret->name = i;
        ret->name_end = k;
        if (quote(ret->before)) {
                while (at(a, k + back) == '\\')
                        back++;
                if (at(a, k + back) == ret->before) {
                        ret->json = true;
                        k += back + 1;
                        while (blank(at(a, k)))
                                k++;
                }
        }
        if (at(a, k) == '=' && at(a, k + 1) != '=') {
                ret->json = false;
        } else if (at(a, k) == ':' &&
                   (ret->json || a->header || blank(at(a, k + 1)) ||
                    (ret->name_end - i >= 13 && strncasecmp(a->s + ret->name_end - 13, "authorization", 13) == 0))) {
                ret->colon = true;
        } else {
                return false;
        }
        for (k++; (ret->colon || ret->json) && blank(at(a, k)); k++)
                ;
        ret->value = k;
        return true;
}

static bool is_name_secret(const struct argument *a, const struct place *p)
{
        const char *name = a->s + p->name;
        size_t size = p->name_end - p->name;

        /* Signed URLs of object stores. */
        if (p->url && ((size == 3 && strncasecmp(name, "sig", 3) == 0) ||
                       (size >= 9 && strncasecmp(name + size - 9, "signature", 9) == 0)))
                return true;
        return infp_mask_is_secret_name(name, size);
}

static size_t value_end(const struct argument *a, const struct place *p)
{
        char open_quote = quote(p->before) ? p->before : 0;

        if (p->json)
                return json_value_end(a, p->value);
        if (p->url)
                return word_end(a, p->value, "&#;\"'<>)", 0);
        if (p->colon)
                return header_end(a, p->value, open_quote);
        if (!a->script && p->before == 0)
                return a->size; /* the whole argument is name=value, blanks included */
        return word_end(a, p->value, a->script ? ";&|()<>" : ",;", open_quote);
}

/* scheme://user:password@host: returns where the part before '@' ends, or `i` when there is none that is secret. i stands
 * behind "://". Many services take a token as the user of an https URL; the user of ssh or a database is just a name. */
static size_t userinfo_end(const struct argument *a, size_t i, bool web)
{
        size_t end = i;
        bool colon = false;

        for (size_t k = i; k < a->size && !blank(a->s[k]) && !strchr("/?#\"'<>`", a->s[k]); k++) {
                colon |= a->s[k] == ':' && end == i;
                if (a->s[k] == '@')
                        end = k;
        }
        return colon || web ? end : i;
}

static bool option_like(const struct argument *a, size_t i)
{
        return at(a, i) == '-' && ((at(a, i + 1) == '-' && isalpha((unsigned char) at(a, i + 2))) ||
                                   (isalpha((unsigned char) at(a, i + 1)) && !name_char(at(a, i + 2))));
}

/* "--api-key VALUE" inside one argument: where VALUE begins, or 0. */
static size_t option_value(const struct argument *a, size_t i)
{
        size_t name = i, k;

        if (at(a, i) != '-')
                return 0;
        while (at(a, name) == '-')
                name++;
        for (k = name; name_char(at(a, k)); k++)
                ;
        if (!blank(at(a, k)) || !infp_mask_is_secret_name(a->s + name, k - name))
                return 0;
        while (blank(at(a, k)))
                k++;
        return k < a->size && !option_like(a, k) ? k : 0;
}

static bool bearer(const struct argument *a, size_t i)
{
        return (starts(a, i, "Bearer ") || starts(a, i, "bearer ")) && i + 7 < a->size;
}

/* Masks from a word's beginning; returns where to go on, or i when nothing here is secret. */
static size_t mask_word(const struct argument *a, size_t i, bool url, struct out *out)
{
        size_t value = i, end = shaped_end(a, i), behind_option;
        struct place p;

        if (end == i && find_name(a, i, url, &p) && is_name_secret(a, &p)) {
                value = p.value;
                end = value_end(a, &p);
        } else if (end == i && (behind_option = option_value(a, i)) > 0) {
                value = behind_option;
                end = word_end(a, value, ";&|()<>", 0);
        } else if (end == i && bearer(a, i)) {
                value = i + 7;
                end = word_end(a, value, "", 0);
        }
        if (end <= value)
                return i;
        put(out, a->s + i, value - i);
        put(out, stars, 3);
        return end;
}

static void mask_argument(const struct argument *a, struct out *out)
{
        bool url = false;

        for (size_t i = 0; i < a->size;) {
                char before = i > 0 ? a->s[i - 1] : 0;
                size_t next = i;

                if (blank(a->s[i]) || quote(a->s[i]))
                        url = false;
                if (i == 0 || !name_char(before))
                        next = mask_word(a, i, url, out);
                if (next == i && starts(a, i, "://")) {
                        bool web = i >= 4 && (strncasecmp(a->s + i - 4, "http", 4) == 0 ||
                                              (i >= 5 && strncasecmp(a->s + i - 5, "https", 5) == 0));
                        size_t end = userinfo_end(a, i + 3, web);

                        url = true;
                        put(out, "://", 3);
                        next = i + 3;
                        if (end > next) {
                                put(out, stars, 3);
                                next = end;
                        }
                }
                if (next == i)
                        put(out, a->s + next++, 1);
                i = next;
        }
}

/* What an argument says about the one behind it. */
enum follow { PLAIN, SECRET, FIRST_SECRET, MORE_SECRETS, HEADER, SCRIPT };

static bool is(const struct argument *a, const char *text)
{
        return a->size == strlen(text) && starts(a, 0, text);
}

/* vLLM's --api-key takes several values. */
static bool takes_many(const char *name, size_t size)
{
        return (size >= 7 && strncasecmp(name + size - 7, "api-key", 7) == 0) ||
               (size >= 7 && strncasecmp(name + size - 7, "api_key", 7) == 0) ||
               (size >= 4 && strncasecmp(name + size - 4, "keys", 4) == 0);
}

static enum follow follows(const struct argument *a)
{
        size_t dashes = 0;

        if (is(a, "-H") || is(a, "--header") || is(a, "--headers") || is(a, "--proxy-header"))
                return HEADER;
        while (at(a, dashes) == '-')
                dashes++;
        if (dashes == 1 && a->size <= 5 && a->s[a->size - 1] == 'c') /* sh -c, bash -lc */
                return SCRIPT;
        for (size_t k = dashes; k < a->size; k++) {
                if (!name_char(a->s[k]))
                        return PLAIN;
        }
        if (dashes == 0 || !infp_mask_is_secret_name(a->s + dashes, a->size - dashes))
                return PLAIN;
        return takes_many(a->s + dashes, a->size - dashes) ? FIRST_SECRET : SECRET;
}

static bool looks_like_key(const struct argument *a)
{
        for (size_t i = 0; i < a->size; i++) {
                if (blank(a->s[i]) || strchr("/.:", a->s[i]))
                        return false;
        }
        return true;
}

static void show(const struct argument *a, bool keep, struct out *out)
{
        bool quoted = a->size == 0;

        for (size_t i = 0; i < a->size && !quoted; i++)
                quoted = blank(a->s[i]);
        if (quoted)
                put(out, "'", 1);
        if (keep)
                put(out, a->s, a->size);
        else
                mask_argument(a, out);
        if (quoted)
                put(out, "'", 1);
}

/* Shows one argument; `before` is what the one before it said. Returns what this one says. */
static enum follow step(struct argument *a, enum follow before, struct out *out)
{
        bool value = a->size > 0 && !option_like(a, 0);

        if (value && (before == SECRET || before == FIRST_SECRET || (before == MORE_SECRETS && looks_like_key(a)))) {
                put(out, stars, 3);
                return before == SECRET ? PLAIN : MORE_SECRETS;
        }
        a->header = before == HEADER || (starts(a, 0, "-H") && a->size > 2);
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
        struct out out = { .at = ret, .cap = cap };
        enum follow before = PLAIN;

        size = without_padding(arguments, size);
        for (size_t i = 0; i < size && !out.cut;) {
                struct argument a = { .s = arguments + i, .size = strnlen(arguments + i, size - i) };

                if (i > 0)
                        put(&out, " ", 1);
                if (keep)
                        show(&a, true, &out);
                else
                        before = step(&a, before, &out);
                i += a.size + 1;
        }
        return out.cut ? whole_characters(ret, out.size) : out.size;
}
