/* Which names say that a value is secret. Names are split into words at - _ . and at capitals, so that `monkey`,
 * `--tokenizer` and `--keep` are what they are; the last word says what the value is (a key, a file with the key, the
 * number of tokens), the words before it which kind. */
#include "model/mask.h"

#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "model/mask_name.h"

enum { MAX_WORDS = 16, MAX_WORD = 24 };

struct words {
        char text[MAX_WORDS][MAX_WORD]; /* lower case, cut */
        size_t n;
};

static bool upper(char c)
{
        return c >= 'A' && c <= 'Z';
}

static bool lower(char c)
{
        return c >= 'a' && c <= 'z';
}

/* "apiKey", "APIKey", "HFToken": a word begins at a capital after a small letter, and at the last capital of several. */
static bool begins_word(const char *name, size_t size, size_t i)
{
        if (i == 0 || !upper(name[i]))
                return false;
        return lower(name[i - 1]) || (upper(name[i - 1]) && i + 1 < size && lower(name[i + 1]));
}

/* TOKEN2 and token_2 are tokens; base64 becomes base. */
static void end_word(char *word, size_t length)
{
        size_t letters = length;

        while (letters > 0 && word[letters - 1] >= '0' && word[letters - 1] <= '9')
                letters--;
        word[letters ? letters : length] = 0;
}

static void split(const char *name, size_t size, struct words *ret)
{
        size_t length = 0;

        ret->n = 0;
        for (size_t i = 0; i <= size; i++) {
                bool in_word = i < size && infp_mask_is_alnum(name[i]);

                if (length > 0 && (!in_word || begins_word(name, size, i))) {
                        end_word(ret->text[ret->n], length < MAX_WORD ? length : MAX_WORD - 1);
                        /* Of a very long name the end counts. */
                        if (++ret->n == MAX_WORDS) {
                                memmove(ret->text[0], ret->text[1], sizeof(ret->text) - sizeof(ret->text[0]));
                                ret->n--;
                        }
                        length = 0;
                }
                if (in_word) {
                        if (length < MAX_WORD - 1)
                                ret->text[ret->n][length] = (char) (upper(name[i]) ? name[i] + ('a' - 'A') : name[i]);
                        length++;
                }
        }
}

static bool among(const char *word, const char *const *list)
{
        for (; *list; list++) {
                if (strcmp(word, *list) == 0)
                        return true;
        }
        return false;
}

#define AMONG(word, ...) among(word, (const char *const[]){ __VA_ARGS__, NULL })

static bool any_among(const struct words *w, size_t n, const char *const *list)
{
        for (size_t i = 0; i < n; i++) {
                if (among(w->text[i], list))
                        return true;
        }
        return false;
}

static bool is_number(const char *word)
{
        return strspn(word, "0123456789") == strlen(word);
}

/* The words after a secret that leave it one: API_KEY_2, CLIENT_SECRET_VALUE, SIGNING_KEY_BASE64. But key_value is a pair. */
static size_t without_tail(const struct words *w)
{
        size_t n = w->n;

        while ((n > 1 && is_number(w->text[n - 1])) ||
               (n > 2 && AMONG(w->text[n - 1], "value", "string", "base", "b", "hex", "plain")))
                n--;
        return n;
}

/* Tokens of a model and its tokenizer, not of a user. */
static const char *const model_token[] = {
        "bos",       "eos",         "pad",       "unk",       "sep",    "cls",    "mask",        "special", "stop",
        "eot",       "eom",         "nl",        "fim",       "image",  "audio",  "video",       "start",   "end",
        "begin",     "think",       "thinking",  "reasoning", "draft",  "per",    "first",       "last",    "next",
        "max",       "min",         "num",       "n",         "prompt", "output", "input",       "suffix",  "middle",
        "prefix",    "each",        "every",     "by",        "single", "tool",   "placeholder", "trigger", "newline",
        "generated", "speculative", "delimiter", "separator", NULL,
};
/* Keys of data, not of doors. */
static const char *const data_key[] = {
        "primary", "foreign", "sort",   "partition", "group", "cache",  "row",   "map",    "hot",         "lookup",
        "dict",    "index",   "object", "routing",   "shard", "prefix", "hash",  "public", "by",          "metadata",
        "config",  "json",    "join",   "order",     "ssl",   "tls",    "label", "column", "idempotency", NULL,
};
/* What is said about a secret is none: where it lies, how long it is, how it is made. */
static const char *const about[] = {
        "file",   "path",   "dir",    "directory", "folder",  "name",     "url",     "uri",     "endpoint",  "type",
        "format", "length", "len",    "size",      "count",   "expiry",   "ttl",     "timeout", "algorithm", "rotation",
        "mode",   "var",    "policy", "prompt",    "manager", "provider", "backend", "store",   "parser",    NULL,
};
static const char *const door[] = { "api",     "access", "auth",   "bearer",  "refresh",    "secret",
                                    "private", "admin",  "master", "signing", "encryption", NULL };

static bool ends_in_file(const char *word)
{
        size_t n = strlen(word);

        return n >= 4 && (strcmp(word + n - 4, "file") == 0 || strcmp(word + n - 4, "path") == 0);
}

static bool secret_last(const struct words *w, size_t n)
{
        const char *last = w->text[n - 1];
        size_t before = n - 1;

        if (strcmp(last, "token") == 0)
                return !any_among(w, before, model_token);
        if (strcmp(last, "key") == 0)
                return !any_among(w, before, data_key);
        if (AMONG(last, "keys", "tokens"))
                return any_among(w, before, door) && !any_among(w, before, model_token);
        if (strcmp(last, "id") == 0) /* AWS_ACCESS_KEY_ID, but not eos_token_id; Vault's secret_id */
                return n >= 2 && (AMONG(w->text[n - 2], "secret") ||
                                  (n >= 3 && strcmp(w->text[n - 2], "key") == 0 && among(w->text[n - 3], door)));
        if (strcmp(last, "pass") == 0)
                return n == 1 || AMONG(w->text[n - 2], "db", "user", "admin", "root", "http", "proxy", "smtp", "redis");
        if (strcmp(last, "pwd") == 0) /* MYSQL_PWD; PWD and OLDPWD are directories */
                return n > 1;
        return AMONG(last, "authorization", "apikey", "authkey", "accesskey", "secretkey", "privatekey", "apitoken",
                     "authtoken", "accesstoken", "hftoken");
}

/* PGPASSWORD, but not compass. */
static bool strong(const char *word)
{
        size_t n = strlen(word);

        return AMONG(word, "secret", "secrets", "passwords", "passphrase") ||
               (n >= 8 && strcmp(word + n - 8, "password") == 0) || (n >= 6 && strcmp(word + n - 6, "passwd") == 0);
}

/* --auth S and --auth basic; what is switched on or off has no value. */
static bool maybe_last(const struct words *w)
{
        const char *last = w->text[w->n - 1];

        if (AMONG(w->text[0], "no", "disable", "enable", "use", "with", "without", "require", "skip", "allow"))
                return false;
        return AMONG(last, "auth", "bearer", "credential", "credentials", "creds", "pat", "jwt", "cookie", "cookies",
                     "sessionid") ||
               (w->n > 1 && AMONG(last, "id") && AMONG(w->text[w->n - 2], "session"));
}

enum infp_mask_name infp_mask_name(const char *name, size_t size)
{
        struct words w;

        split(name, size, &w);
        if (w.n == 0 || among(w.text[w.n - 1], about) || ends_in_file(w.text[w.n - 1]))
                return MASK_NO_SECRET;
        for (size_t i = 0; i < w.n; i++) {
                if (strong(w.text[i]))
                        return MASK_IS_SECRET;
        }
        if (secret_last(&w, without_tail(&w)))
                return MASK_IS_SECRET;
        return maybe_last(&w) ? MASK_MAYBE_SECRET : MASK_NO_SECRET;
}

bool infp_mask_is_secret_name(const char *name, size_t size)
{
        return infp_mask_name(name, size) != MASK_NO_SECRET;
}

/* Headers that hold no secret, whatever they say. Of all others nobody knows. */
static const char *const harmless_headers[] = { "accept",
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
                                                "x-requested-with" };

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

static bool is_among(const char *s, size_t size, const char *const *list, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (strlen(list[i]) == size && strncasecmp(s, list[i], size) == 0)
                        return true;
        return false;
}

bool infp_mask_is_harmless_header(const char *name, size_t size)
{
        return is_among(name, size, harmless_headers, INFP_COUNT(harmless_headers));
}

bool infp_mask_is_harmless_value(const char *s, size_t size)
{
        if (size == 0 || strchr("/.~$<@", s[0]) || memmem(s, size, "://", 3) ||
            (size < 7 && infp_mask_is_digits(s, size)) || is_among(s, size, harmless_words, INFP_COUNT(harmless_words)))
                return true;
        for (size_t i = 0; i < INFP_COUNT(file_ends); i++) {
                const size_t n = strlen(file_ends[i]);

                if (size > n && strncasecmp(s + size - n, file_ends[i], n) == 0)
                        return true;
        }
        return false;
}
