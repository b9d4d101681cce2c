/* Finds secrets within one argument of a command line: name=value, headers, JSON, URLs, shapes. */
#include <strings.h>

#include "model/mask_text.h"

void infp_mask_put(struct infp_mask_out *out, const char *s, size_t size)
{
        size_t n = size < out->cap - out->size ? size : out->cap - out->size;

        if (n > 0)
                memcpy(out->at + out->size, s, n);
        out->size += n;
        out->cut |= n < size;
}

static bool quote(char c)
{
        return c == '"' || c == '\'' || c == '`';
}

/* The end of a value that begins at i, as a shell reads a word: quoted parts belong to it. `stop`: further characters
 * that end it. A quote that was open before the value ends it too. */
static size_t word_end(const struct infp_mask_argument *a, size_t i, const char *stop, char open_quote)
{
        while (i < a->size && !infp_mask_blank(a->s[i]) && a->s[i] != open_quote && !strchr(stop, a->s[i])) {
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
static size_t json_value_end(const struct infp_mask_argument *a, size_t i)
{
        size_t back = 0;

        while (infp_mask_at(a, i + back) == '\\')
                back++;
        if (!quote(infp_mask_at(a, i + back)))
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
static size_t header_end(const struct infp_mask_argument *a, size_t i, char open_quote)
{
        while (i < a->size && a->s[i] != open_quote && a->s[i] != '\n' && a->s[i] != '\r')
                i++;
        return i;
}

struct place {
        size_t name, name_end; /* without leading dashes */
        size_t value;          /* where the value begins */
        char before;           /* the character before the name (and its dashes), 0 at the beginning */
        bool quoted;           /* the name alone stands in quotes */
        bool json, url, colon;
};

/* name=value, name: value, "name": value at i? */
static bool find_name(const struct infp_mask_argument *a, size_t i, bool url, struct place *ret)
{
        size_t k, back = 0;

        *ret = (struct place){ .before = i > 0 ? a->s[i - 1] : 0, .url = url };
        while (infp_mask_at(a, i) == '-')
                i++;
        for (k = i; infp_mask_name_char(infp_mask_at(a, k)); k++)
                ;
        if (k == i)
                return false;
        ret->name = i;
        ret->name_end = k;
        if (quote(ret->before)) {
                while (infp_mask_at(a, k + back) == '\\')
                        back++;
                if (infp_mask_at(a, k + back) == ret->before) {
                        ret->json = ret->quoted = true;
                        k += back + 1;
                        if (infp_mask_at(a, k) == ']') /* os.environ["HF_TOKEN"] = "..." */
                                k++;
                        while (infp_mask_blank(infp_mask_at(a, k)))
                                k++;
                }
        }
        if (infp_mask_at(a, k) == '=' && infp_mask_at(a, k + 1) != '=') {
                ret->json = false; /* a quoted name or index of a script */
        } else if (infp_mask_at(a, k) == ':' &&
                   (ret->json || a->header || infp_mask_blank(infp_mask_at(a, k + 1)) ||
                    (ret->name_end - i >= 13 && strncasecmp(a->s + ret->name_end - 13, "authorization", 13) == 0))) {
                ret->colon = true;
        } else {
                return false;
        }
        for (k++; (ret->colon || ret->quoted) && infp_mask_blank(infp_mask_at(a, k)); k++)
                ;
        ret->value = k;
        return true;
}

static size_t value_end(const struct infp_mask_argument *a, const struct place *p)
{
        char open_quote = quote(p->before) && !p->quoted ? p->before : 0;

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

static bool is(const char *name, size_t size, const char *text)
{
        return size == strlen(text) && strncasecmp(name, text, size) == 0;
}

/* Whether name=value at p is secret; *ret_end: where the value ends. */
static bool is_secret(const struct infp_mask_argument *a, const struct place *p, size_t *ret_end)
{
        const char *name = a->s + p->name;
        const size_t size = p->name_end - p->name;
        const char first = infp_mask_at(a, p->value);
        size_t from = p->value, to;

        *ret_end = to = value_end(a, p);
        /* Signed URLs of object stores, sessions. */
        if (p->url && (is(name, size, "sig") || is(name, size, "sid") || is(name, size, "session") ||
                       (size >= 9 && strncasecmp(name + size - 9, "signature", 9) == 0)))
                return true;
        if (a->header && p->json && !infp_mask_is_harmless_header(name, size))
                return true;
        if (is(name, size, "pwd")) /* of a database: the shell's is a directory */
                return !p->colon && first && !strchr("/$~.", first);
        switch (infp_mask_name(name, size)) {
        case MASK_NO_SECRET:
                return false;
        case MASK_MAYBE_SECRET:
                break;
        default:
                return true;
        }
        if (p->colon && !p->json) /* prose */
                return false;
        while (to > from + 1 && quote(infp_mask_at(a, from)) && a->s[to - 1] == a->s[from])
                from++, to--;
        return !infp_mask_is_harmless_value(a->s + from, to - from);
}

/* scheme://user:password@host: returns where the part before '@' ends, or `i` when there is none that is secret. i stands
 * after "://". Many services take a token as the user of an https URL; the user of ssh or a database is just a name. */
static size_t userinfo_end(const struct infp_mask_argument *a, size_t i, bool web)
{
        size_t end = i;
        bool colon = false;

        for (size_t k = i; k < a->size && !infp_mask_blank(a->s[k]) && !strchr("/?#\"'<>`", a->s[k]); k++) {
                colon |= a->s[k] == ':' && end == i;
                if (a->s[k] == '@')
                        end = k;
        }
        return colon || web ? end : i;
}

bool infp_mask_is_option(const struct infp_mask_argument *a, size_t i)
{
        return infp_mask_at(a, i) == '-' &&
               ((infp_mask_at(a, i + 1) == '-' && infp_mask_letter(infp_mask_at(a, i + 2))) ||
                (infp_mask_letter(infp_mask_at(a, i + 1)) && !infp_mask_name_char(infp_mask_at(a, i + 2))));
}

/* "--api-key VALUE", "-u USER:VALUE" inside one argument: where VALUE begins, and in *ret_end its end; or 0. */
static size_t option_value(const struct infp_mask_argument *a, size_t i, size_t *ret_end)
{
        size_t name = i, k, end, at;

        if (infp_mask_at(a, i) != '-')
                return 0;
        while (infp_mask_at(a, name) == '-')
                name++;
        for (k = name; infp_mask_name_char(infp_mask_at(a, k)); k++)
                ;
        end = k;
        while (infp_mask_blank(infp_mask_at(a, k)))
                k++;
        if (k == end || k >= a->size || infp_mask_is_option(a, k))
                return 0;
        *ret_end = word_end(a, k, ";&|()<>", 0);
        const enum infp_mask_follow follow = infp_mask_option(a->s + i, end - i);

        if (*ret_end > k + 1 && quote(a->s[k]) && a->s[*ret_end - 1] == a->s[k] &&
            infp_mask_secret_at(follow, a->s + k, *ret_end - k) > 0)
                k++, --*ret_end; /* the quotes stay where a part of what they hold does */
        at = k + infp_mask_secret_at(follow, a->s + k, *ret_end - k);
        return at < *ret_end ? at : 0;
}

static bool bearer(const struct infp_mask_argument *a, size_t i)
{
        return (infp_mask_starts(a, i, "Bearer ") || infp_mask_starts(a, i, "bearer ")) && i + 7 < a->size;
}

/* Masks from a word's beginning; returns where to go on, or i when nothing here is secret. */
static size_t mask_word(const struct infp_mask_argument *a, size_t i, bool url, struct infp_mask_out *out)
{
        size_t value = i, end = infp_mask_shape_end(a, i), name_end, option_end, option;
        struct place p;

        if (end == i && find_name(a, i, url, &p) && is_secret(a, &p, &name_end)) {
                value = p.value;
                end = name_end;
        } else if (end == i && (option = option_value(a, i, &option_end)) > 0) {
                value = option;
                end = option_end;
        } else if (end == i && bearer(a, i)) {
                value = i + 7;
                end = word_end(a, value, "", 0);
        }
        if (end <= value)
                return i;
        infp_mask_put(out, a->s + i, value - i);
        infp_mask_put(out, INFP_MASK_STARS, 3);
        return end;
}

/* After "://": masks a user and his password. Returns where to go on. */
static size_t mask_user(const struct infp_mask_argument *a, size_t i, struct infp_mask_out *out)
{
        const bool web = i >= 4 && (strncasecmp(a->s + i - 4, "http", 4) == 0 ||
                                    (i >= 5 && strncasecmp(a->s + i - 5, "https", 5) == 0));
        const size_t end = userinfo_end(a, i + 3, web);

        infp_mask_put(out, "://", 3);
        if (end > i + 3)
                infp_mask_put(out, INFP_MASK_STARS, 3);
        return end;
}

void infp_mask_argument(const struct infp_mask_argument *a, struct infp_mask_out *out)
{
        size_t hook = 0, hook_end = 0;
        bool url = false;

        for (size_t i = 0; i < a->size;) {
                char before = i > 0 ? a->s[i - 1] : 0;
                size_t next = i, end, from = infp_mask_pem(a, i, &end);

                if (infp_mask_blank(a->s[i]) || quote(a->s[i]))
                        url = false;
                if (hook && i == hook) {
                        from = i;
                        end = hook_end;
                }
                if (from > i || (hook && i == hook)) {
                        infp_mask_put(out, a->s + i, from - i);
                        infp_mask_put(out, INFP_MASK_STARS, 3);
                        next = end;
                }
                if (next == i && (i == 0 || !infp_mask_name_char(before)))
                        next = mask_word(a, i, url, out);
                if (next == i && infp_mask_starts(a, i, "://")) {
                        url = true;
                        next = mask_user(a, i, out);
                        hook = infp_mask_webhook(a, next + (infp_mask_at(a, next) == '@'), &hook_end);
                }
                if (next == i)
                        infp_mask_put(out, a->s + next++, 1);
                i = next;
        }
}
