/* What options say about their values: --api-key VALUE, -u USER:PASSWORD, -H "NAME: VALUE", -b NAME=VALUE, sh -c SCRIPT. */
#include <strings.h>

#include "base/mem.h"
#include "model/mask_text.h"

static const struct {
        const char *name;
        enum infp_mask_follow follow;
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

/* Headers that hold no secret, whatever they say. Of all others nobody knows. */
static const char *const harmless_headers[] = {
        "accept",
        "accept-charset",
        "accept-encoding",
        "accept-language",
        "accept-ranges",
        "cache-control",
        "connection",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-length",
        "content-type",
        "date",
        "dnt",
        "expect",
        "host",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-range",
        "keep-alive",
        "origin",
        "pragma",
        "range",
        "te",
        "traceparent",
        "transfer-encoding",
        "upgrade",
        "user-agent",
        "via",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
        "x-real-ip",
        "x-request-id",
        "x-requested-with",
};

/* The value of --auth and the like when it is no secret: a method. */
static const char *const harmless_words[] = {
        "true",     "false",    "yes",    "no",      "on",        "off",         "none",    "null",
        "default",  "auto",     "basic",  "bearer",  "digest",    "negotiate",   "ntlm",    "gssapi",
        "kerberos", "ldap",     "oauth",  "oauth2",  "oidc",      "saml",        "sso",     "jwt",
        "token",    "password", "apikey", "api-key", "anonymous", "disabled",    "enabled", "required",
        "optional", "trust",    "peer",   "include", "omit",      "same-origin", "md5",     "scram-sha-256",
};
static const char *const file_ends[] = { ".json", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf",
                                         ".env",  ".txt",  ".pem", ".crt",  ".key", ".py" };

static bool among(const char *s, size_t size, const char *const *list, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (strlen(list[i]) == size && strncasecmp(s, list[i], size) == 0)
                        return true;
        return false;
}

static bool all_digits(const char *s, size_t size)
{
        for (size_t i = 0; i < size; i++)
                if (s[i] < '0' || s[i] > '9')
                        return false;
        return size > 0;
}

bool infp_mask_is_harmless_header(const char *name, size_t size)
{
        return among(name, size, harmless_headers, INFP_COUNT(harmless_headers));
}

bool infp_mask_is_harmless_value(const char *s, size_t size)
{
        if (size == 0 || strchr("/.~$<@", s[0]) || memmem(s, size, "://", 3) || (size < 7 && all_digits(s, size)) ||
            among(s, size, harmless_words, INFP_COUNT(harmless_words)))
                return true;
        for (size_t i = 0; i < INFP_COUNT(file_ends); i++) {
                const size_t n = strlen(file_ends[i]);

                if (size > n && strncasecmp(s + size - n, file_ends[i], n) == 0)
                        return true;
        }
        return false;
}

/* vLLM's --api-key takes several values. */
static bool takes_many(const char *name, size_t size)
{
        return (size >= 7 && strncasecmp(name + size - 7, "api-key", 7) == 0) ||
               (size >= 7 && strncasecmp(name + size - 7, "api_key", 7) == 0) ||
               (size >= 4 && strncasecmp(name + size - 4, "keys", 4) == 0);
}

enum infp_mask_follow infp_mask_option(const char *s, size_t size)
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
                if (!infp_mask_name_char(s[k]))
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

size_t infp_mask_attached(const struct infp_mask_argument *a, enum infp_mask_follow *ret)
{
        size_t end = 0;

        if (infp_mask_at(a, 0) != '-')
                return 0;
        if (infp_mask_at(a, 1) != '-') { /* -uUSER:PASSWORD */
                *ret = a->size > 2 ? infp_mask_option(a->s, 2) : MASK_PLAIN;
                return *ret == MASK_HEADER || *ret == MASK_USER || *ret == MASK_COOKIE ? 2 : 0;
        }
        while (end < a->size && a->s[end] != '=')
                end++;
        if (end == a->size)
                return 0;
        *ret = infp_mask_option(a->s, end);
        return *ret == MASK_PLAIN || *ret == MASK_SCRIPT ? 0 : end + 1;
}

/* USER:PASSWORD, but neither uid:gid nor a path, nor a URL. */
static size_t password_at(const char *s, size_t size)
{
        const char *colon = memchr(s, ':', size);
        const size_t name = colon ? (size_t) (colon - s) : 0, at = name + 1;

        if (!colon || at >= size || memchr(s, '/', name) || infp_mask_blank(s[at]) ||
            (size - at >= 2 && s[at] == '/' && s[at + 1] == '/') ||
            (all_digits(s, name) && all_digits(s + at, size - at)))
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

        while (name < size && infp_mask_name_char(s[name]))
                name++;
        if (name == 0 || name == size || s[name] != ':' || infp_mask_is_harmless_header(s, name))
                return size;
        for (at = name + 1; at < size && infp_mask_blank(s[at]); at++)
                ;
        if (at == name + 1 && infp_mask_name(s, name) == MASK_NO_SECRET &&
            ((size - at >= 2 && s[at] == '/' && s[at + 1] == '/') || all_digits(s + at, size - at)))
                return size;
        return at;
}

size_t infp_mask_secret_at(enum infp_mask_follow follow, const char *s, size_t size)
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
