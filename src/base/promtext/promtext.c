#include "base/promtext/promtext.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/promtext/scan.h"
#include "base/text.h"

struct prom_family {
        const char *name, *help, *unit; /* as they stand on the page (escapes too); NULL when not declared */
        uint32_t name_size, help_size, unit_size;
        uint32_t hash;
        enum infp_prom_type type;
        bool has_buckets; /* no TYPE line, but buckets were met */
};

struct prom_buffer {
        char *data;
        size_t size, cap;
};

struct infp_promtext {
        struct prom_family *families;
        uint32_t n_families, cap_families;
        uint32_t *slots; /* index + 1 of a family, 0 free; n_slots is a power of two */
        uint32_t n_slots;
        struct prom_buffer line_texts;   /* unescaped label texts of the line; never moves within one */
        struct prom_buffer family_texts; /* unescaped name, family, help of the resolved name */
        struct infp_prom_label labels[INFP_PROM_LABELS];
        struct infp_prom_sample sample;

        /* The page. */
        const char *text, *text_end;
        struct infp_prom_page page;
        bool is_decided;      /* page.is_openmetrics is known */
        const char *resolved; /* the name for which sample.family, type, part ... stand; NULL: none */
        size_t resolved_size;
        enum infp_prom_part resolved_part;
};

/* What is made of a line. */
enum prom_line { PROM_BAD, PROM_SAMPLE, PROM_NATIVE, PROM_NO_MEMORY };

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

static int reserve(struct prom_buffer *buffer, size_t cap)
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

static struct infp_prom_text unescape(struct prom_buffer *buffer, const char *text, size_t size, bool quotes)
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
static bool find_format(struct infp_promtext *p)
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

/* The families that a page declares, and what a name is of them. */

static bool same(const struct prom_family *f, uint32_t hash, const char *name, size_t size)
{
        return f->hash == hash && f->name_size == size && memcmp(f->name, name, size) == 0;
}

static uint32_t hash_of(const char *name, size_t size)
{
        return (uint32_t) infp_hash64(name, size, 0);
}

static struct prom_family *find(const struct infp_promtext *p, const char *name, size_t size)
{
        uint32_t hash = hash_of(name, size);

        if (p->n_slots == 0)
                return NULL;
        for (uint32_t i = hash & (p->n_slots - 1); p->slots[i]; i = (i + 1) & (p->n_slots - 1))
                if (same(&p->families[p->slots[i] - 1], hash, name, size))
                        return &p->families[p->slots[i] - 1];
        return NULL;
}

static void put_slot(uint32_t *slots, uint32_t n_slots, uint32_t hash, uint32_t index)
{
        uint32_t i = hash & (n_slots - 1);

        while (slots[i])
                i = (i + 1) & (n_slots - 1);
        slots[i] = index + 1;
}

static int grow(struct infp_promtext *p)
{
        uint32_t cap = p->cap_families ? 2 * p->cap_families : 64, n_slots = 2 * cap;
        struct prom_family *families = realloc(p->families, cap * sizeof(*families));
        uint32_t *slots;

        if (!families)
                return -ENOMEM;
        p->families = families;
        slots = calloc(n_slots, sizeof(*slots));
        if (!slots)
                return -ENOMEM;
        for (uint32_t i = 0; i < p->n_families; i++)
                put_slot(slots, n_slots, families[i].hash, i);
        free(p->slots);
        p->slots = slots;
        p->n_slots = n_slots;
        p->cap_families = cap;
        return 0;
}

static struct prom_family *family_get(struct infp_promtext *p, const char *name, size_t size, bool *ret_is_full)
{
        struct prom_family *f = find(p, name, size);

        *ret_is_full = !f && p->n_families == INFP_PROM_FAMILIES;
        if (f || *ret_is_full)
                return f;
        if (p->n_families == p->cap_families && grow(p) < 0)
                return NULL;
        f = &p->families[p->n_families];
        *f = (struct prom_family){ .name = name, .name_size = (uint32_t) size, .hash = hash_of(name, size) };
        put_slot(p->slots, p->n_slots, f->hash, p->n_families++);
        return f;
}

static void families_clear(struct infp_promtext *p)
{
        if (p->n_slots)
                memset(p->slots, 0, p->n_slots * sizeof(*p->slots));
        p->n_families = 0;
}

static unsigned bit(enum infp_prom_type type)
{
        return 1u << type;
}

/* What a suffix means, and of which families. */
static const struct {
        const char *suffix;
        unsigned size;
        enum infp_prom_part part;
        unsigned types;
} suffixes[] = {
        { "_bucket", 7, INFP_PROM_BUCKET, 1u << INFP_PROM_HISTOGRAM | 1u << INFP_PROM_GAUGE_HISTOGRAM },
        { "_sum", 4, INFP_PROM_SUM, 1u << INFP_PROM_HISTOGRAM | 1u << INFP_PROM_SUMMARY },
        { "_count", 6, INFP_PROM_COUNT, 1u << INFP_PROM_HISTOGRAM | 1u << INFP_PROM_SUMMARY },
        { "_gsum", 5, INFP_PROM_SUM, 1u << INFP_PROM_GAUGE_HISTOGRAM },
        { "_gcount", 7, INFP_PROM_COUNT, 1u << INFP_PROM_GAUGE_HISTOGRAM },
        { "_total", 6, INFP_PROM_VALUE, 1u << INFP_PROM_COUNTER },
        { "_info", 5, INFP_PROM_VALUE, 1u << INFP_PROM_INFO },
};

static bool ends_with(const char *name, size_t size, const char *suffix, size_t suffix_size)
{
        return size > suffix_size && memcmp(name + size - suffix_size, suffix, suffix_size) == 0;
}

/* The family whose birth X_created gives: X or X_total (the text format of Python's client keeps _total in the name). */
static struct prom_family *created_of(struct infp_promtext *p, const char *name, size_t size)
{
        const unsigned born = bit(INFP_PROM_COUNTER) | bit(INFP_PROM_HISTOGRAM) | bit(INFP_PROM_SUMMARY);
        struct prom_family *f;
        char total[512];

        if (!ends_with(name, size, "_created", 8))
                return NULL;
        size -= 8;
        f = find(p, name, size);
        if (f && bit(f->type) & born)
                return f;
        if (size + 6 > sizeof(total))
                return NULL;
        memcpy(total, name, size);
        memcpy(total + size, "_total", 6);
        f = find(p, total, size + 6);
        return f && bit(f->type) & born ? f : NULL;
}

/* Buckets of a family without a type, and what belongs to them. */
static int undeclared(struct infp_promtext *p, const char *name, size_t size, bool has_le, struct prom_family **ret)
{
        bool is_full;

        if (has_le && ends_with(name, size, "_bucket", 7)) {
                *ret = family_get(p, name, size - 7, &is_full);
                if (!*ret)
                        return is_full ? 0 : -ENOMEM;
                (*ret)->has_buckets = true;
                p->resolved_part = INFP_PROM_BUCKET;
                return 0;
        }
        for (unsigned i = 1; i <= 2; i++) { /* _sum, _count */
                if (!ends_with(name, size, suffixes[i].suffix, suffixes[i].size))
                        continue;
                *ret = find(p, name, size - suffixes[i].size);
                if (*ret && !(*ret)->has_buckets)
                        *ret = NULL;
                if (*ret)
                        p->resolved_part = suffixes[i].part;
        }
        return 0;
}

/* The family of the name and p->resolved_part; NULL: it is declared nowhere. */
static int find_family(struct infp_promtext *p, const char *name, size_t size, bool has_le, struct prom_family **ret)
{
        struct prom_family *f = find(p, name, size), *created;

        p->resolved_part = INFP_PROM_VALUE;
        *ret = f;
        if (f && f->type != INFP_PROM_GAUGE && f->type != INFP_PROM_UNKNOWN)
                return 0;
        created = created_of(p, name, size);
        if (created) {
                p->resolved_part = INFP_PROM_CREATED;
                *ret = created;
                return 0;
        }
        if (f)
                return 0;
        for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
                if (!ends_with(name, size, suffixes[i].suffix, suffixes[i].size))
                        continue;
                f = find(p, name, size - suffixes[i].size);
                if (!f || !(bit(f->type) & suffixes[i].types))
                        continue;
                p->resolved_part = suffixes[i].part;
                *ret = f;
                return 0;
        }
        return undeclared(p, name, size, has_le, ret);
}

static struct infp_prom_text plain(struct infp_promtext *p, const char *text, size_t size, bool quotes)
{
        if (size && memchr(text, '\\', size))
                return unescape(&p->family_texts, text, size, quotes);
        return (struct infp_prom_text){ size ? text : "", size };
}

static int resolve(struct infp_promtext *p, const char *name, size_t size, bool has_le)
{
        struct infp_prom_sample *s = &p->sample;
        struct prom_family *f;

        p->resolved = NULL;
        if (find_family(p, name, size, has_le, &f) < 0)
                return -ENOMEM;
        p->family_texts.size = 0;
        if (reserve(&p->family_texts, size + (f ? (size_t) f->name_size + f->help_size : 0)) < 0)
                return -ENOMEM;
        s->name = plain(p, name, size, true);
        s->family = f ? plain(p, f->name, f->name_size, true) : s->name;
        s->help = (struct infp_prom_text){ "", 0 };
        if (f && f->help)
                s->help = plain(p, f->help, f->help_size, memchr(f->help, '\\', f->help_size) && find_format(p));
        s->unit = f && f->unit ? (struct infp_prom_text){ f->unit, f->unit_size } : (struct infp_prom_text){ "", 0 };
        s->type = f ? f->type : INFP_PROM_UNKNOWN;
        p->resolved = name;
        p->resolved_size = size;
        return 0;
}

/* One sample's line: name, labels, value, time stamp, exemplar. */

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
        if (buffer->size == 0 && reserve(buffer, (size_t) (l->end - l->start)) < 0) {
                l->no_memory = true;
                return false;
        }
        *text = unescape(buffer, text->at, text->size, true);
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
                at = infp_prom_label_end(at, l->end);
                name.size = (size_t) (at - name.at);
                if (name.size == 0)
                        return NULL;
        }
        at = infp_prom_skip_blanks(at, l->end);
        /* {count:1,sum:2...}: the value of a native histogram. */
        if (l->end - at >= 2 && *at == ':' && l->n_labels == 0 && ((at[1] >= '0' && at[1] <= '9') || at[1] == '-'))
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
                at = infp_prom_time(at, l->end, find_format(l->p), &s->unix_ns);
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
                if (resolve(p, l->name.at, l->name.size, l->le >= 0) < 0)
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

static enum prom_line parse_line(struct infp_promtext *p, const char *at, const char *end)
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
        f = family_get(p, name.at, name.size, &is_full);
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
        switch (parse_line(p, at, end)) {
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
        families_clear(p);
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
