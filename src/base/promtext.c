#include "base/promtext.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/promtext_parts.h"
#include "base/text.h"

static const struct {
        const char *name;
        enum infp_prom_type type;
} types[] = {
        { "unknown", INFP_PROM_UNKNOWN },
        { "counter", INFP_PROM_COUNTER },
        { "gauge", INFP_PROM_GAUGE },
        { "histogram", INFP_PROM_HISTOGRAM },
        { "gaugehistogram", INFP_PROM_GAUGE_HISTOGRAM },
        { "summary", INFP_PROM_SUMMARY },
        { "info", INFP_PROM_INFO },
        { "stateset", INFP_PROM_STATESET },
        { "untyped", INFP_PROM_UNKNOWN },
};

const char *infp_prom_type_name(enum infp_prom_type type)
{
        return types[type].name;
}

struct infp_promtext *infp_promtext_new(void)
{
        return calloc(1, sizeof(struct infp_promtext));
}

struct infp_promtext *infp_promtext_free(struct infp_promtext *p)
{
        if (p) {
                free(p->families);
                free(p->slots);
                free(p->line_texts.data);
                free(p->family_texts.data);
                free(p);
        }
        return NULL;
}

int infp_prom_reserve(struct prom_buffer *buffer, size_t cap)
{
        char *data;

        if (cap <= buffer->cap)
                return 0;
        cap += cap / 2 + 256;
        data = realloc(buffer->data, cap);
        if (!data)
                return -ENOMEM;
        buffer->data = data;
        buffer->cap = cap;
        return 0;
}

struct infp_prom_text infp_prom_unescape(struct prom_buffer *buffer, const char *text, size_t size, bool quotes)
{
        char *start = buffer->data + buffer->size, *to = start;

        for (size_t i = 0; i < size; i++) {
                char next = text[i] == '\\' && i + 1 < size ? text[i + 1] : 0;

                if (next == '\\' || next == 'n' || (next == '"' && quotes)) {
                        *to++ = next == 'n' ? '\n' : next;
                        i++;
                } else {
                        *to++ = text[i];
                }
        }
        buffer->size += (size_t) (to - start);
        return (struct infp_prom_text){ start, (size_t) (to - start) };
}

static bool is_word(const char *at, const char *end, const char *word)
{
        size_t size = strlen(word);

        return (size_t) (end - at) == size && memcmp(at, word, size) == 0;
}

/* `# EOF` and nothing else. */
static bool is_eof_line(const char *at, const char *end)
{
        while (end > at && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
                end--;
        return is_word(at, end, "# EOF");
}

/* Units of time stamps and escapes of HELP depend on it: where they matter before the end is reached, the end is looked for. */
bool infp_prom_is_openmetrics(struct infp_promtext *p)
{
        const char *at = p->text;

        while (!p->is_decided) {
                const char *eof = memmem(at, (size_t) (p->text_end - at), "# EOF", 5), *end;

                if (!eof) {
                        p->is_decided = true;
                        break;
                }
                end = memchr(eof, '\n', (size_t) (p->text_end - eof));
                at = end ? end : p->text_end;
                if ((eof == p->text || eof[-1] == '\n') && is_eof_line(eof, at))
                        p->page.is_openmetrics = p->is_decided = true;
        }
        return p->page.is_openmetrics;
}

static void note_bad_line(struct infp_promtext *p, const char *at, const char *end)
{
        struct infp_prom_page *page = &p->page;
        size_t n, size = (size_t) (end - at);

        if (page->n_bad_lines++ > 0)
                return;
        page->first_bad_line = 1;
        for (const char *lf = p->text; (lf = memchr(lf, '\n', (size_t) (at - lf))); lf++)
                page->first_bad_line++;
        n = infp_text_escape(at, size < sizeof(page->bad) ? size : sizeof(page->bad), page->bad, sizeof(page->bad) - 1);
        for (size_t i = 0; i < n; i++)
                if ((unsigned char) page->bad[i] < ' ' || page->bad[i] == 0x7f)
                        page->bad[i] = '?';
        page->bad[n] = 0;
}

/* The name after HELP, TYPE, UNIT: plain or quoted. NULL: none. */
static const char *read_declared(const char *at, const char *end, struct infp_prom_text *ret)
{
        bool escapes;

        if (at < end && *at == '"') {
                at = infp_prom_quoted(at + 1, end, ret, &escapes);
        } else {
                ret->at = at;
                at = infp_prom_name_end(at, end);
                ret->size = (size_t) (at - ret->at);
        }
        return at && ret->size > 0 && (at == end || *at == ' ' || *at == '\t') ? at : NULL;
}

static bool declare(struct prom_family *f, char what, const char *at, const char *end)
{
        if (what == 'H') {
                f->help = at;
                f->help_size = (uint32_t) (end - at);
                return true;
        }
        while (end > at && (end[-1] == ' ' || end[-1] == '\t'))
                end--;
        if (what == 'U') {
                f->unit = at;
                f->unit_size = (uint32_t) (end - at);
                return true;
        }
        for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
                if (is_word(at, end, types[i].name)) {
                        f->type = types[i].type;
                        return true;
                }
        }
        return false;
}

/* HELP, TYPE, UNIT, EOF; all other comments are passed over. ret_is_good: it was one of those. */
static int read_comment(struct infp_promtext *p, const char *at, const char *end, bool *ret_is_good)
{
        const char *word = infp_prom_skip_blanks(at + 1, end), *word_end = word;
        struct infp_prom_text name;
        struct prom_family *f;
        bool is_full;

        while (word_end < end && *word_end != ' ' && *word_end != '\t')
                word_end++;
        *ret_is_good = false;
        if (is_word(word, word_end, "EOF") && infp_prom_skip_blanks(word_end, end) == end) {
                p->page.has_eof = p->page.is_openmetrics = p->is_decided = *ret_is_good = true;
                return 0;
        }
        if (!is_word(word, word_end, "HELP") && !is_word(word, word_end, "TYPE") && !is_word(word, word_end, "UNIT"))
                return 0;
        p->resolved = NULL;
        at = read_declared(infp_prom_skip_blanks(word_end, end), end, &name);
        if (!at) {
                note_bad_line(p, word, end);
                return 0;
        }
        f = infp_prom_family_get(p, name.at, name.size, &is_full);
        if (!f && !is_full)
                return -ENOMEM;
        *ret_is_good = f && declare(f, *word, infp_prom_skip_blanks(at, end), end);
        if (!*ret_is_good)
                note_bad_line(p, word, end);
        return 0;
}

/* One line without its line feed. ret_n_good counts lines that only such a page has. */
static int read_line(struct infp_promtext *p, const char *at, const char *end, uint64_t *ret_n_good,
                     int (*sample)(void *context, const struct infp_prom_sample *sample), void *context)
{
        bool is_good = false;
        int r = 0;

        at = infp_prom_skip_blanks(at, end);
        if (end > at && end[-1] == '\r')
                end--;
        if (at == end)
                return 0;
        if (p->page.has_eof) {
                note_bad_line(p, at, end);
                return 0;
        }
        if (*at == '#') {
                r = read_comment(p, at, end, &is_good);
                *ret_n_good += is_good;
                return r;
        }
        switch (infp_prom_line(p, at, end)) {
        case PROM_SAMPLE:
                p->page.n_samples++;
                ++*ret_n_good;
                return sample(context, &p->sample);
        case PROM_NATIVE:
                p->page.n_native++;
                ++*ret_n_good;
                return 0;
        case PROM_NO_MEMORY:
                return -ENOMEM;
        case PROM_BAD:
                break;
        }
        note_bad_line(p, at, end);
        return 0;
}

static int read_lines(struct infp_promtext *p, uint64_t *ret_n_good,
                      int (*sample)(void *context, const struct infp_prom_sample *sample), void *context)
{
        const char *at = p->text;

        while (at < p->text_end) {
                const char *lf = memchr(at, '\n', (size_t) (p->text_end - at));
                int r;

                /* Only the end mark is whole without its line feed: nothing may come after it. */
                p->page.ends_in_line = lf || is_eof_line(at, p->text_end);
                if (!p->page.ends_in_line)
                        break;
                r = read_line(p, at, lf ? lf : p->text_end, ret_n_good, sample, context);
                if (r != 0)
                        return r;
                at = lf ? lf + 1 : p->text_end;
        }
        return 0;
}

static void begin(struct infp_promtext *p, const char *text, size_t size, bool is_openmetrics)
{
        p->text = text;
        p->text_end = text + size;
        p->page = (struct infp_prom_page){ .is_openmetrics = is_openmetrics, .ends_in_line = true };
        p->is_decided = is_openmetrics;
        p->resolved = NULL;
        infp_prom_families_clear(p);
}

int infp_promtext_parse(struct infp_promtext *p, const char *text, size_t size, bool is_openmetrics_header,
                        int (*sample)(void *context, const struct infp_prom_sample *sample), void *context,
                        struct infp_prom_page *ret, struct infp_err *err)
{
        uint64_t n_good = 0;
        const char *nul = size ? memchr(text, 0, size) : NULL;
        int r;

        begin(p, text, size, is_openmetrics_header);
        if (nul) {
                *ret = p->page;
                return infp_fail(err, -EBADMSG, "this is not a metrics page: byte %zu is 0", (size_t) (nul - text));
        }
        r = read_lines(p, &n_good, sample, context);
        *ret = p->page;
        if (r == -ENOMEM)
                return infp_fail(err, r, "out of memory for the families of a metrics page");
        if (r != 0)
                return r;
        if (n_good == 0 && ret->n_bad_lines > 0)
                return infp_fail(err, -EBADMSG, "this is not a metrics page: line %u is \"%s\"", ret->first_bad_line,
                                 ret->bad);
        if (n_good == 0 && !ret->ends_in_line)
                return infp_fail(err, -EBADMSG, "this is not a metrics page: it has no whole line");
        return 0;
}
