/* One sample's line: name, labels, value, time stamp, exemplar. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/promtext_parts.h"

enum { NAME = 1, DIGIT = 2, COLON = 4 };

/* Bytes of names; a table, because ranges cost a branch each and a page is mostly names. */
static const unsigned char kinds[256] = {
        ['0' ... '9'] = DIGIT, ['a' ... 'z'] = NAME, ['A' ... 'Z'] = NAME, ['_'] = NAME, [':'] = COLON,
};

const char *infp_prom_name_end(const char *at, const char *end)
{
        if (at < end && kinds[(unsigned char) *at] & DIGIT)
                return at;
        while (at < end && kinds[(unsigned char) *at])
                at++;
        return at;
}

static const char *label_name_end(const char *at, const char *end)
{
        if (at < end && kinds[(unsigned char) *at] & DIGIT)
                return at;
        while (at < end && kinds[(unsigned char) *at] & (NAME | DIGIT))
                at++;
        return at;
}

/* The first quote or backslash, or `end`. Eight bytes at a time: values are what pages are long by. */
static const char *find_special(const char *at, const char *end)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        const uint64_t ones = UINT64_C(0x0101010101010101), tops = UINT64_C(0x8080808080808080);

        for (; end - at >= 8; at += 8) {
                uint64_t word, quote, backslash, found;

                memcpy(&word, at, 8);
                quote = word ^ ones * '"';
                backslash = word ^ ones * '\\';
                /* The top bit of each byte that became 0; those after the first may be wrong, which does not matter. */
                found = (((quote - ones) & ~quote) | ((backslash - ones) & ~backslash)) & tops;
                if (found)
                        return at + (__builtin_ctzll(found) >> 3);
        }
#endif
        while (at < end && *at != '"' && *at != '\\')
                at++;
        return at;
}

const char *infp_prom_quoted(const char *at, const char *end, struct infp_prom_text *ret, bool *ret_has_escapes)
{
        const char *start = at;

        *ret_has_escapes = false;
        for (;;) {
                at = find_special(at, end);
                if (at == end)
                        return NULL;
                if (*at == '"')
                        break;
                *ret_has_escapes = true;
                if (end - at < 2)
                        return NULL;
                at += 2;
        }
        ret->at = start;
        ret->size = (size_t) (at - start);
        return at + 1;
}

/* What is being read of a line. */
struct line {
        struct infp_promtext *p;
        const char *start, *end;
        struct infp_prom_text name; /* as it stands on the page */
        unsigned n_labels;
        int le, quantile;                          /* index of the label; -1 */
        uint64_t seen;                             /* which label names were met, coarsely */
        bool has_name, no_memory, is_native, keep; /* keep: labels of the sample, not of its exemplar */
};

static bool unescaped(struct line *l, struct infp_prom_text *text)
{
        struct prom_buffer *buffer = &l->p->line_texts;

        /* What was unescaped before of this line is pointed to: room for the whole line before the first. */
        if (buffer->size == 0 && infp_prom_reserve(buffer, (size_t) (l->end - l->start)) < 0) {
                l->no_memory = true;
                return false;
        }
        *text = infp_prom_unescape(buffer, text->at, text->size, true);
        return true;
}

static bool is_new(struct line *l, const struct infp_prom_text *name)
{
        unsigned first = name->size ? (unsigned char) name->at[0] : 0,
                 last = name->size ? (unsigned char) name->at[name->size - 1] : 0;
        uint64_t seen = UINT64_C(1) << ((first * 5 + last * 3 + name->size) & 63);
        bool maybe = l->seen & seen;

        l->seen |= seen;
        for (unsigned i = 0; maybe && i < l->n_labels; i++)
                if (l->p->labels[i].name.size == name->size &&
                    memcmp(l->p->labels[i].name.at, name->at, name->size) == 0)
                        return false;
        return true;
}

static bool add_label(struct line *l, const struct infp_prom_text *name, const struct infp_prom_text *value)
{
        if (!l->keep)
                return true;
        if (l->n_labels == INFP_PROM_LABELS || !is_new(l, name))
                return false;
        if (name->size == 2 && memcmp(name->at, "le", 2) == 0)
                l->le = (int) l->n_labels;
        else if (name->size == 8 && memcmp(name->at, "quantile", 8) == 0)
                l->quantile = (int) l->n_labels;
        l->p->labels[l->n_labels++] = (struct infp_prom_label){ *name, *value };
        return true;
}

/* A quoted text at the place of a label: the metric's name, or a label's name. Sets ret_is_name. */
static const char *quoted_name(struct line *l, const char *at, struct infp_prom_text *ret, bool *ret_is_name)
{
        const char *next;
        bool escapes;

        at = infp_prom_quoted(at, l->end, ret, &escapes);
        if (!at || ret->size == 0)
                return NULL;
        next = infp_prom_skip_blanks(at, l->end);
        *ret_is_name = next < l->end && *next != '=';
        if (*ret_is_name) {
                if (l->has_name || !l->keep)
                        return NULL;
                l->has_name = true;
                l->name = *ret;
                return at;
        }
        return escapes && !unescaped(l, ret) ? NULL : at;
}

static const char *read_label(struct line *l, const char *at)
{
        struct infp_prom_text name, value;
        bool is_name = false, escapes;

        if (*at == '"') {
                at = quoted_name(l, at + 1, &name, &is_name);
                if (!at || is_name)
                        return at;
        } else {
                name.at = at;
                at = label_name_end(at, l->end);
                name.size = (size_t) (at - name.at);
                if (name.size == 0)
                        return NULL;
        }
        at = infp_prom_skip_blanks(at, l->end);
        /* {count:1,sum:2...}: the value of a native histogram. */
        if (l->end - at >= 2 && *at == ':' && l->n_labels == 0 &&
            (kinds[(unsigned char) at[1]] == DIGIT || at[1] == '-'))
                l->is_native = true;
        if (at == l->end || *at != '=')
                return NULL;
        at = infp_prom_skip_blanks(at + 1, l->end);
        if (at == l->end || *at != '"')
                return NULL;
        at = infp_prom_quoted(at + 1, l->end, &value, &escapes);
        if (!at || (escapes && !unescaped(l, &value)))
                return NULL;
        return add_label(l, &name, &value) ? at : NULL;
}

/* `at` after the opening brace; NULL, or after the closing one. */
static const char *read_labels(struct line *l, const char *at)
{
        at = infp_prom_skip_blanks(at, l->end);
        while (at < l->end && *at != '}') {
                at = read_label(l, at);
                if (!at)
                        return NULL;
                at = infp_prom_skip_blanks(at, l->end);
                if (at == l->end || (*at != ',' && *at != '}'))
                        return NULL;
                if (*at == ',')
                        at = infp_prom_skip_blanks(at + 1, l->end);
        }
        return at < l->end ? at + 1 : NULL;
}

/* ` # {trace="x"} 0.5 1690000000.1`: it is checked, not given out. */
static bool read_exemplar(struct line *l, const char *at)
{
        double value;
        int64_t ns;

        l->keep = false;
        at = infp_prom_skip_blanks(at + 1, l->end);
        if (at == l->end || *at != '{')
                return false;
        at = read_labels(l, at + 1);
        if (!at)
                return false;
        at = infp_prom_number(infp_prom_skip_blanks(at, l->end), l->end, &value);
        if (!at)
                return false;
        at = infp_prom_skip_blanks(at, l->end);
        if (at < l->end && *at != '#')
                at = infp_prom_time(at, l->end, true, &ns);
        if (!at)
                return false;
        at = infp_prom_skip_blanks(at, l->end);
        return at == l->end || (*at == '#' && read_exemplar(l, at)); /* OpenMetrics 2.0 allows several */
}

/* What follows the value: time stamp, start time (st@...), exemplar. */
static bool read_tail(struct line *l, const char *at)
{
        struct infp_prom_sample *s = &l->p->sample;
        double start;

        s->has_time = false;
        at = infp_prom_skip_blanks(at, l->end);
        if (at < l->end && *at != '#' && *at != 's') {
                at = infp_prom_time(at, l->end, infp_prom_is_openmetrics(l->p), &s->unix_ns);
                if (!at)
                        return false;
                s->has_time = true;
                at = infp_prom_skip_blanks(at, l->end);
        }
        if (l->end - at > 3 && memcmp(at, "st@", 3) == 0) {
                at = infp_prom_number(at + 3, l->end, &start);
                if (!at)
                        return false;
                at = infp_prom_skip_blanks(at, l->end);
        }
        return at == l->end || (*at == '#' && read_exemplar(l, at));
}

static bool number_of_label(const struct line *l, int index, double *ret)
{
        const struct infp_prom_text *text;
        const char *end;

        if (index < 0)
                return false;
        text = &l->p->labels[index].value;
        end = text->at + text->size;
        return infp_prom_number(text->at, end, ret) == end && !isnan(*ret);
}

/* Name, family, part, le: what the name and the labels say together. */
static enum prom_line identify(struct line *l)
{
        struct infp_promtext *p = l->p;
        struct infp_prom_sample *s = &p->sample;

        if (!p->resolved || p->resolved_size != l->name.size || memcmp(p->resolved, l->name.at, l->name.size) != 0) {
                if (infp_prom_resolve(p, l->name.at, l->name.size, l->le >= 0) < 0)
                        return PROM_NO_MEMORY;
        }
        s->part = p->resolved_part;
        s->le = NAN;
        if (s->part == INFP_PROM_BUCKET)
                return number_of_label(l, l->le, &s->le) ? PROM_SAMPLE : PROM_BAD;
        if (s->part == INFP_PROM_VALUE && s->type == INFP_PROM_SUMMARY && l->quantile >= 0) {
                s->part = INFP_PROM_QUANTILE;
                return number_of_label(l, l->quantile, &s->le) ? PROM_SAMPLE : PROM_BAD;
        }
        return PROM_SAMPLE;
}

static const char *read_series(struct line *l, const char *at)
{
        l->name.at = at;
        at = infp_prom_name_end(at, l->end);
        l->name.size = (size_t) (at - l->name.at);
        l->has_name = l->name.size > 0;
        if (!l->has_name && *at != '{')
                return NULL;
        l->p->sample.series = l->name;
        if (at < l->end && *at != '{' && *at != ' ' && *at != '\t')
                return NULL;
        at = infp_prom_skip_blanks(at, l->end);
        if (at == l->end || *at != '{')
                return at;
        at = read_labels(l, at + 1);
        if (!at || !l->has_name)
                return NULL;
        l->p->sample.series = (struct infp_prom_text){ l->start, (size_t) (at - l->start) };
        return infp_prom_skip_blanks(at, l->end);
}

enum prom_line infp_prom_line(struct infp_promtext *p, const char *at, const char *end)
{
        struct infp_prom_sample *s = &p->sample;
        struct line l = { .p = p, .start = at, .end = end, .le = -1, .quantile = -1, .keep = true };

        p->line_texts.size = 0;
        at = read_series(&l, at);
        if (l.no_memory)
                return PROM_NO_MEMORY;
        if (!at)
                return l.is_native && l.has_name && memchr(l.start, '}', (size_t) (end - l.start)) ? PROM_NATIVE
                                                                                                   : PROM_BAD;
        if (at < end && *at == '{')
                return memchr(at, '}', (size_t) (end - at)) ? PROM_NATIVE : PROM_BAD;
        at = infp_prom_number(at, end, &s->value);
        if (!at)
                return PROM_BAD;
        s->labels = p->labels;
        s->n_labels = l.n_labels;
        if (!read_tail(&l, at))
                return l.no_memory ? PROM_NO_MEMORY : PROM_BAD;
        return identify(&l);
}
