/* Secrets that are known by their shape, wherever they stand: tokens of services, PEM blocks, addresses of webhooks. */
#include "base/mem.h"
#include "model/mask_text.h"

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
                return infp_mask_name_char(c);
        case DASHES:
                return infp_mask_name_char(c) && c != '.';
        default:
                return infp_mask_alnum(c);
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

static size_t end_of(const struct infp_mask_argument *a, size_t i, const struct shape *shape)
{
        const size_t from = i + strlen(shape->prefix);
        const char before = i > 0 ? a->s[i - 1] : 0;
        size_t end = from;
        char after, next;

        if (!infp_mask_starts(a, i, shape->prefix))
                return i;
        while (belongs(shape->letters, infp_mask_at(a, end)))
                end++;
        after = infp_mask_at(a, end);
        next = infp_mask_at(a, end + 1);
        if (end - from < shape->least ||
            (shape->letters == CAPITALS && (end - from > shape->least || infp_mask_letter(after))) ||
            is_package(a->s + i, end - i))
                return i;
        /* It must not touch a path: /hf_cache/x, sk-model.gguf; a point may end a sentence. */
        if (end - from < 20 && (before == '/' || before == '.' || (after && strchr("/_-", after)) ||
                                (after == '.' && infp_mask_alnum(next))))
                return i;
        return end;
}

size_t infp_mask_shape_end(const struct infp_mask_argument *a, size_t i)
{
        for (size_t k = 0; k < INFP_COUNT(shapes); k++) {
                const size_t end = end_of(a, i, &shapes[k]);

                if (end > i)
                        return end;
        }
        return i;
}

static size_t find(const struct infp_mask_argument *a, size_t from, const char *text)
{
        const char *at = from < a->size ? memmem(a->s + from, a->size - from, text, strlen(text)) : NULL;

        return at ? (size_t) (at - a->s) : a->size;
}

size_t infp_mask_pem(const struct infp_mask_argument *a, size_t i, size_t *ret_end)
{
        size_t head, end;

        if (!infp_mask_starts(a, i, "-----BEGIN "))
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

/* Such an address is enough to write there. */
size_t infp_mask_webhook(const struct infp_mask_argument *a, size_t host, size_t *ret_end)
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

        while (end < a->size && !infp_mask_blank(a->s[end]) && !strchr("?#&\"'<>`;", a->s[end]))
                end++;
        for (size_t k = 0; k < INFP_COUNT(hooks); k++) {
                const char *at = infp_mask_starts(a, host, hooks[k].host)
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
