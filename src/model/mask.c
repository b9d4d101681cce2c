#include "model/mask.h"

#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/text.h"
#include "model/mask_name.h"

#define STARS "***"

/* Where the masked text goes; what does not fit is dropped. */
struct mask_out {
        char *at;
        size_t size, cap;
        bool cut, bare; /* bare: no argument is put in quotes */
};

/* One argument while it is searched. */
struct mask_argument {
        const char *s;
        size_t size;
        bool header; /* it is the value of curl's -H, or JSON of headers */
        bool script; /* a shell's -c: many words in one argument */
};

/* What an argument says about the next one. */
enum mask_follow {
        MASK_PLAIN,
        MASK_SECRET,
        MASK_FIRST_SECRET,
        MASK_MORE_SECRETS,
        MASK_MAYBE,
        MASK_HEADER, /* NAME: SECRET */
        MASK_USER,   /* NAME:SECRET */
        MASK_COOKIE, /* NAME=SECRET */
        MASK_SCRIPT,
};

static bool is_blank(char c)
{
        return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_name_char(char c)
{
        return infp_mask_is_alnum(c) || c == '_' || c == '-' || c == '.';
}

static char char_at(const struct mask_argument *a, size_t i)
{
        return i < a->size ? a->s[i] : 0;
}

static bool starts(const struct mask_argument *a, size_t i, const char *text)
{
        size_t n = strlen(text);

        return i <= a->size && n <= a->size - i && memcmp(a->s + i, text, n) == 0;
}

static void put(struct mask_out *out, const char *s, size_t size)
{
        size_t n = size < out->cap - out->size ? size : out->cap - out->size;

        if (n > 0)
                memcpy(out->at + out->size, s, n);
        out->size += n;
        out->cut |= n < size;
}

/* Secrets that are known by their shape, wherever they stand: tokens of services, PEM blocks, addresses of webhooks. */

enum letters { ALNUM, DASHES /* - and _ too */, DOTS /* and the point */, CAPITALS };

/* After each prefix at least so many characters. A short one could be a file or a package. */
static const struct shape {
        const char *prefix;
        size_t least;
        enum letters letters;
} shapes[] = {
        { "hf_", 4, ALNUM },         { "sk-", 4, DASHES },     { "sk_live_", 10, ALNUM }, { "sk_test_", 10, ALNUM },
        { "rk_live_", 10, ALNUM },   { "gsk_", 20, ALNUM },    { "ghp_", 20, ALNUM },     { "gho_", 20, ALNUM },
        { "ghu_", 20, ALNUM },       { "ghs_", 20, ALNUM },    { "ghr_", 20, ALNUM },     { "github_pat_", 20, DASHES },
        { "glpat-", 16, DASHES },    { "nvapi-", 20, DASHES }, { "npm_", 20, ALNUM },     { "pypi-AgE", 20, DASHES },
        { "AIza", 30, DASHES },      { "ya29.", 20, DASHES },  { "AKIA", 16, CAPITALS },  { "ASIA", 16, CAPITALS },
        { "r8_", 20, ALNUM },        { "xai-", 20, DASHES },   { "pplx-", 20, ALNUM },    { "tgp_v1_", 20, DASHES },
        { "xoxa-", 10, DASHES },     { "xoxb-", 10, DASHES },  { "xoxp-", 10, DASHES },   { "xoxr-", 10, DASHES },
        { "xoxs-", 10, DASHES },     { "xapp-", 16, DASHES },  { "dop_v1_", 20, ALNUM },  { "doo_v1_", 20, ALNUM },
        { "dckr_pat_", 16, DASHES }, { "hvs.", 20, DASHES },   { "eyJ", 20, DOTS }, /* a JSON object in base64: a JWT */
};

static bool belongs(enum letters letters, char c)
{
        switch (letters) {
        case CAPITALS:
                return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        case DOTS:
                return is_name_char(c);
        case DASHES:
                return is_name_char(c) && c != '.';
        default:
                return infp_mask_is_alnum(c);
        }
}

static bool is_package(const char *s, size_t size)
{
        static const char *const packages[] = { "hf_transfer", "hf_xet", "hf_hub" };

        for (size_t p = 0; p < INFP_COUNT(packages); p++)
                if (size == strlen(packages[p]) && memcmp(s, packages[p], size) == 0)
                        return true;
        return false;
}

static size_t end_of(const struct mask_argument *a, size_t i, const struct shape *shape)
{
        const size_t from = i + strlen(shape->prefix);
        const char before = i > 0 ? a->s[i - 1] : 0;
        size_t end = from;
        char after, next;

        if (!starts(a, i, shape->prefix))
                return i;
        while (belongs(shape->letters, char_at(a, end)))
                end++;
        after = char_at(a, end);
        next = char_at(a, end + 1);
        if (end - from < shape->least ||
            (shape->letters == CAPITALS && (end - from > shape->least || infp_mask_is_letter(after))) ||
            is_package(a->s + i, end - i))
                return i;
        /* It must not touch a path: /hf_cache/x, sk-model.gguf; a point may end a sentence. */
        if (end - from < 20 && (before == '/' || before == '.' || (after && strchr("/_-", after)) ||
                                (after == '.' && infp_mask_is_alnum(next))))
                return i;
        return end;
}

/* A token that begins at i: where it ends; i: there is none. */
static size_t shape_end(const struct mask_argument *a, size_t i)
{
        for (size_t k = 0; k < INFP_COUNT(shapes); k++) {
                const size_t end = end_of(a, i, &shapes[k]);

                if (end > i)
                        return end;
        }
        return i;
}

static size_t find(const struct mask_argument *a, size_t from, const char *text)
{
        const char *at = from < a->size ? memmem(a->s + from, a->size - from, text, strlen(text)) : NULL;

        return at ? (size_t) (at - a->s) : a->size;
}

/* A PEM block at i: where its content begins, its end in *ret_end; i: there is none. */
static size_t pem(const struct mask_argument *a, size_t i, size_t *ret_end)
{
        size_t head, end;

        if (!starts(a, i, "-----BEGIN "))
                return i;
        head = find(a, i + strlen("-----BEGIN "), "-----");
        if (head == a->size)
                return i;
        head += 5;
        end = find(a, head, "-----END ");
        *ret_end = end == a->size ? end : find(a, end + strlen("-----END "), "-----");
        if (*ret_end < a->size)
                *ret_end += 5;
        return head;
}

/* A URL whose host begins there: where the secret of a webhook begins, and its end; 0: it is not one. Such an address is enough to
 * write there. */
static size_t webhook(const struct mask_argument *a, size_t host, size_t *ret_end)
{
        static const struct {
                const char *host; /* its beginning; "": any */
                const char *path;
        } hooks[] = {
                { "hooks.slack.com", "/services/" },
                { "hooks.slack.com", "/workflows/" },
                { "hooks.slack.com", "/triggers/" },
                { "api.telegram.org", "/bot" },
                { "", "/webhook/" },
                { "", "/webhooks/" },
                { "", "/webhookb2/" },
                { "", "/hooks/" },
        };
        size_t end = host;

        while (end < a->size && !is_blank(a->s[end]) && !strchr("?#&\"'<>`;", a->s[end]))
                end++;
        for (size_t k = 0; k < INFP_COUNT(hooks); k++) {
                const char *at = starts(a, host, hooks[k].host)
                                         ? memmem(a->s + host, end - host, hooks[k].path, strlen(hooks[k].path))
                                         : NULL;
                const size_t from = at ? (size_t) (at - a->s) + strlen(hooks[k].path) : end;

                if (from < end) {
                        *ret_end = end;
                        return from;
                }
        }
        return 0;
}

/* What options say about their values: --api-key VALUE, -u USER:PASSWORD, -H "NAME: VALUE", -b NAME=VALUE, sh -c SCRIPT. */

static const struct {
        const char *name;
        enum mask_follow follow;
} options[] = {
        { "-H", MASK_HEADER },
        { "--header", MASK_HEADER },
        { "--headers", MASK_HEADER },
        { "--proxy-header", MASK_HEADER },
        { "--extra-headers", MASK_HEADER },
        { "--default-headers", MASK_HEADER },
        { "-u", MASK_USER },
        { "-U", MASK_USER },
        { "--user", MASK_USER },
        { "--proxy-user", MASK_USER },
        { "--login", MASK_USER },
        { "--userpwd", MASK_USER },
        { "-b", MASK_COOKIE },
        { "--cookie", MASK_COOKIE },
        { "--cookies", MASK_COOKIE },
};

/* vLLM's --api-key takes several values. */
static bool takes_many(const char *name, size_t size)
{
        return (size >= 7 && strncasecmp(name + size - 7, "api-key", 7) == 0) ||
               (size >= 7 && strncasecmp(name + size - 7, "api_key", 7) == 0) ||
               (size >= 4 && strncasecmp(name + size - 4, "keys", 4) == 0);
}

/* What an option says about its value. */
static enum mask_follow option(const char *s, size_t size)
{
        size_t dashes = 0;

        for (size_t i = 0; i < INFP_COUNT(options); i++)
                if (size == strlen(options[i].name) && memcmp(s, options[i].name, size) == 0)
                        return options[i].follow;
        while (dashes < size && s[dashes] == '-')
                dashes++;
        if (dashes == 1 && size <= 5 && s[size - 1] == 'c') /* sh -c, bash -lc */
                return MASK_SCRIPT;
        for (size_t k = dashes; k < size; k++)
                if (!is_name_char(s[k]))
                        return MASK_PLAIN;
        switch (dashes ? infp_mask_name(s + dashes, size - dashes) : MASK_NO_SECRET) {
        case MASK_NO_SECRET:
                return MASK_PLAIN;
        case MASK_MAYBE_SECRET:
                return MASK_MAYBE;
        default:
                return takes_many(s + dashes, size - dashes) ? MASK_FIRST_SECRET : MASK_SECRET;
        }
}

/* --option=VALUE, -uVALUE: where VALUE begins; 0: it has none, or it needs no special look. */
static size_t attached_value(const struct mask_argument *a, enum mask_follow *ret)
{
        size_t end = 0;

        if (char_at(a, 0) != '-')
                return 0;
        if (char_at(a, 1) != '-') { /* -uUSER:PASSWORD */
                *ret = a->size > 2 ? option(a->s, 2) : MASK_PLAIN;
                return *ret == MASK_HEADER || *ret == MASK_USER || *ret == MASK_COOKIE ? 2 : 0;
        }
        while (end < a->size && a->s[end] != '=')
                end++;
        if (end == a->size)
                return 0;
        *ret = option(a->s, end);
        return *ret == MASK_PLAIN || *ret == MASK_SCRIPT ? 0 : end + 1;
}

/* USER:PASSWORD, but neither uid:gid nor a path, nor a URL. */
static size_t password_at(const char *s, size_t size)
{
        const char *colon = memchr(s, ':', size);
        const size_t name = colon ? (size_t) (colon - s) : 0, at = name + 1;

        if (!colon || at >= size || memchr(s, '/', name) || is_blank(s[at]) ||
            (size - at >= 2 && s[at] == '/' && s[at + 1] == '/') ||
            (infp_mask_is_digits(s, name) && infp_mask_is_digits(s + at, size - at)))
                return size;
        return at;
}

static size_t cookie_at(const char *s, size_t size)
{
        const char *sign = memchr(s, '=', size);

        return !sign || memchr(s, '/', (size_t) (sign - s)) ? size : (size_t) (sign - s) + 1;
}

/* docker -H tcp://h:1 and -H h:1 are no headers. */
static size_t header_at(const char *s, size_t size)
{
        size_t name = 0, at;

        while (name < size && is_name_char(s[name]))
                name++;
        if (name == 0 || name == size || s[name] != ':' || infp_mask_is_harmless_header(s, name))
                return size;
        for (at = name + 1; at < size && is_blank(s[at]); at++)
                ;
        if (at == name + 1 && infp_mask_name(s, name) == MASK_NO_SECRET &&
            ((size - at >= 2 && s[at] == '/' && s[at + 1] == '/') || infp_mask_is_digits(s + at, size - at)))
                return size;
        return at;
}

/* From where on a value is secret; size: nowhere. */
static size_t secret_at(enum mask_follow follow, const char *s, size_t size)
{
        switch (follow) {
        case MASK_SECRET:
        case MASK_FIRST_SECRET:
        case MASK_MORE_SECRETS:
                return 0;
        case MASK_MAYBE:
                return infp_mask_is_harmless_value(s, size) ? size : 0;
        case MASK_USER:
                return password_at(s, size);
        case MASK_COOKIE:
                return cookie_at(s, size);
        case MASK_HEADER:
                return header_at(s, size);
        default:
                return size;
        }
}

/* Finds secrets within one argument of a command line: name=value, headers, JSON, URLs, shapes. */

static bool quote(char c)
{
        return c == '"' || c == '\'' || c == '`';
}

/* The end of a value that begins at i, as a shell reads a word: quoted parts belong to it. `stop`: further characters
 * that end it. A quote that was open before the value ends it too. */
static size_t word_end(const struct mask_argument *a, size_t i, const char *stop, char open_quote)
{
        while (i < a->size && !is_blank(a->s[i]) && a->s[i] != open_quote && !strchr(stop, a->s[i])) {
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

/* The index after "name": or \"name\": of JSON. */
static size_t json_value_end(const struct mask_argument *a, size_t i)
{
        size_t back = 0;

        while (char_at(a, i + back) == '\\')
                back++;
        if (!quote(char_at(a, i + back)))
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
static size_t header_end(const struct mask_argument *a, size_t i, char open_quote)
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
static bool find_name(const struct mask_argument *a, size_t i, bool url, struct place *ret)
{
        size_t k, back = 0;

        *ret = (struct place){ .before = i > 0 ? a->s[i - 1] : 0, .url = url };
        while (char_at(a, i) == '-')
                i++;
        for (k = i; is_name_char(char_at(a, k)); k++)
                ;
        if (k == i)
                return false;
        ret->name = i;
        ret->name_end = k;
        if (quote(ret->before)) {
                while (char_at(a, k + back) == '\\')
                        back++;
                if (char_at(a, k + back) == ret->before) {
                        ret->json = ret->quoted = true;
                        k += back + 1;
                        if (char_at(a, k) == ']') /* os.environ["HF_TOKEN"] = "..." */
                                k++;
                        while (is_blank(char_at(a, k)))
                                k++;
                }
        }
        if (char_at(a, k) == '=' && char_at(a, k + 1) != '=') {
                ret->json = false; /* a quoted name or index of a script */
        } else if (char_at(a, k) == ':' &&
                   (ret->json || a->header || is_blank(char_at(a, k + 1)) ||
                    (ret->name_end - i >= 13 && strncasecmp(a->s + ret->name_end - 13, "authorization", 13) == 0))) {
                ret->colon = true;
        } else {
                return false;
        }
        for (k++; (ret->colon || ret->quoted) && is_blank(char_at(a, k)); k++)
                ;
        ret->value = k;
        return true;
}

static size_t value_end(const struct mask_argument *a, const struct place *p)
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
static bool is_secret(const struct mask_argument *a, const struct place *p, size_t *ret_end)
{
        const char *name = a->s + p->name;
        const size_t size = p->name_end - p->name;
        const char first = char_at(a, p->value);
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
        while (to > from + 1 && quote(char_at(a, from)) && a->s[to - 1] == a->s[from])
                from++, to--;
        return !infp_mask_is_harmless_value(a->s + from, to - from);
}

/* scheme://user:password@host: returns where the part before '@' ends, or `i` when there is none that is secret. i stands
 * after "://". Many services take a token as the user of an https URL; the user of ssh or a database is just a name. */
static size_t userinfo_end(const struct mask_argument *a, size_t i, bool web)
{
        size_t end = i;
        bool colon = false;

        for (size_t k = i; k < a->size && !is_blank(a->s[k]) && !strchr("/?#\"'<>`", a->s[k]); k++) {
                colon |= a->s[k] == ':' && end == i;
                if (a->s[k] == '@')
                        end = k;
        }
        return colon || web ? end : i;
}

/* --name or -x at i, not a value that begins with a dash. */
static bool is_option(const struct mask_argument *a, size_t i)
{
        return char_at(a, i) == '-' && ((char_at(a, i + 1) == '-' && infp_mask_is_letter(char_at(a, i + 2))) ||
                                        (infp_mask_is_letter(char_at(a, i + 1)) && !is_name_char(char_at(a, i + 2))));
}

/* "--api-key VALUE", "-u USER:VALUE" inside one argument: where VALUE begins, and in *ret_end its end; or 0. */
static size_t option_value(const struct mask_argument *a, size_t i, size_t *ret_end)
{
        size_t name = i, k, end, at;

        if (char_at(a, i) != '-')
                return 0;
        while (char_at(a, name) == '-')
                name++;
        for (k = name; is_name_char(char_at(a, k)); k++)
                ;
        end = k;
        while (is_blank(char_at(a, k)))
                k++;
        if (k == end || k >= a->size || is_option(a, k))
                return 0;
        *ret_end = word_end(a, k, ";&|()<>", 0);
        const enum mask_follow follow = option(a->s + i, end - i);

        if (*ret_end > k + 1 && quote(a->s[k]) && a->s[*ret_end - 1] == a->s[k] &&
            secret_at(follow, a->s + k, *ret_end - k) > 0)
                k++, --*ret_end; /* the quotes stay where a part of what they hold does */
        at = k + secret_at(follow, a->s + k, *ret_end - k);
        return at < *ret_end ? at : 0;
}

static bool bearer(const struct mask_argument *a, size_t i)
{
        return (starts(a, i, "Bearer ") || starts(a, i, "bearer ")) && i + 7 < a->size;
}

/* Masks from a word's beginning; returns where to go on, or i when nothing here is secret. */
static size_t mask_word(const struct mask_argument *a, size_t i, bool url, struct mask_out *out)
{
        size_t value = i, end = shape_end(a, i), name_end, option_end, option;
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
        put(out, a->s + i, value - i);
        put(out, STARS, 3);
        return end;
}

/* After "://": masks a user and his password. Returns where to go on. */
static size_t mask_user(const struct mask_argument *a, size_t i, struct mask_out *out)
{
        const bool web = i >= 4 && (strncasecmp(a->s + i - 4, "http", 4) == 0 ||
                                    (i >= 5 && strncasecmp(a->s + i - 5, "https", 5) == 0));
        const size_t end = userinfo_end(a, i + 3, web);

        put(out, "://", 3);
        if (end > i + 3)
                put(out, STARS, 3);
        return end;
}

/* Writes the argument with its secrets masked. */
static void mask_argument(const struct mask_argument *a, struct mask_out *out)
{
        size_t hook = 0, hook_end = 0;
        bool url = false;

        for (size_t i = 0; i < a->size;) {
                char before = i > 0 ? a->s[i - 1] : 0;
                size_t next = i, end = i, from = pem(a, i, &end);

                if (is_blank(a->s[i]) || quote(a->s[i]))
                        url = false;
                if (hook && i == hook) {
                        from = i;
                        end = hook_end;
                }
                if (from > i || (hook && i == hook)) {
                        put(out, a->s + i, from - i);
                        put(out, STARS, 3);
                        next = end;
                }
                if (next == i && (i == 0 || !is_name_char(before)))
                        next = mask_word(a, i, url, out);
                if (next == i && starts(a, i, "://")) {
                        url = true;
                        next = mask_user(a, i, out);
                        hook = webhook(a, next + (char_at(a, next) == '@'), &hook_end);
                }
                if (next == i)
                        put(out, a->s + next++, 1);
                i = next;
        }
}

static bool looks_like_key(const struct mask_argument *a)
{
        for (size_t i = 0; i < a->size; i++) {
                if (is_blank(a->s[i]) || strchr("/.:", a->s[i]))
                        return false;
        }
        return true;
}

/* Shows an argument, of which the part from `secret` on is masked; size: looks for secrets in it. */
static void show(const struct mask_argument *a, bool keep, size_t secret, struct mask_out *out)
{
        bool quoted = a->size == 0 && !out->bare;

        for (size_t i = 0; i < a->size && !quoted && !out->bare; i++)
                quoted = is_blank(a->s[i]);
        if (quoted)
                put(out, "'", 1);
        if (keep || secret < a->size)
                put(out, a->s, keep ? a->size : secret);
        else
                mask_argument(a, out);
        if (!keep && secret < a->size)
                put(out, STARS, 3);
        if (quoted)
                put(out, "'", 1);
}

/* Shows one argument; `before` is what the one before it said. Returns what this one says. */
static enum mask_follow step(struct mask_argument *a, enum mask_follow before, struct mask_out *out)
{
        const bool value = a->size > 0 && !is_option(a, 0);
        enum mask_follow attached = MASK_PLAIN;
        size_t secret = a->size, at;

        if (value && (before == MASK_SECRET || before == MASK_FIRST_SECRET ||
                      (before == MASK_MORE_SECRETS && looks_like_key(a)))) {
                put(out, STARS, 3);
                return before == MASK_SECRET ? MASK_PLAIN : MASK_MORE_SECRETS;
        }
        if (value && before != MASK_MORE_SECRETS)
                secret = secret_at(before, a->s, a->size);
        at = attached_value(a, &attached);
        if (at && secret == a->size)
                secret = at + secret_at(attached, a->s + at, a->size - at);
        a->header = before == MASK_HEADER || attached == MASK_HEADER;
        a->script = before == MASK_SCRIPT;
        show(a, false, secret, out);
        return at ? MASK_PLAIN : option(a->s, a->size);
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
        struct mask_out out = { .at = ret, .cap = cap };
        enum mask_follow before = MASK_PLAIN;

        size = without_padding(arguments, size);
        for (size_t i = 0; i < size && !out.cut;) {
                struct mask_argument a = { .s = arguments + i, .size = strnlen(arguments + i, size - i) };

                if (i > 0)
                        put(&out, " ", 1);
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
        struct mask_out out = { .at = ret, .cap = cap };

        mask_argument(&(struct mask_argument){ .s = text, .size = size }, &out);
        return out.cut ? whole_characters(ret, out.size) : out.size;
}

size_t infp_mask_next(unsigned *said, const char *text, size_t size, char *ret, size_t cap)
{
        struct mask_out out = { .at = ret, .cap = cap, .bare = true };

        *said = step(&(struct mask_argument){ .s = text, .size = size }, (enum mask_follow) * said, &out);
        return out.cut ? whole_characters(ret, out.size) : out.size;
}
