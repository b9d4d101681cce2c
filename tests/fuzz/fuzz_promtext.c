/* Any bytes as a page of metrics: what is given out is readable to its last byte, complete and the same the second time; a page
 * that is cut at a line gives a beginning of what the whole gives, where nothing behind the cut changes its meaning. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/promtext/promtext.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
        uint64_t n, hash;
};

static void expect(bool truth)
{
        if (!truth)
                abort();
}

static void look_at(struct seen *seen, struct infp_prom_text text)
{
        expect(text.at != NULL);
        seen->hash = infp_hash64(text.at, text.size, seen->hash);
}

static int sample(void *context, const struct infp_prom_sample *s)
{
        struct seen *seen = context;

        seen->n++;
        expect(s->name.size > 0 && s->family.size > 0 && s->series.size > 0);
        expect(s->n_labels <= INFP_PROM_LABELS && infp_prom_type_name(s->type)[0] != 0);
        expect(isnan(s->le) == (s->part != INFP_PROM_BUCKET && s->part != INFP_PROM_QUANTILE));
        look_at(seen, s->name);
        look_at(seen, s->family);
        look_at(seen, s->unit);
        look_at(seen, s->help);
        look_at(seen, s->series);
        for (unsigned i = 0; i < s->n_labels; i++) {
                look_at(seen, s->labels[i].name);
                look_at(seen, s->labels[i].value);
        }
        seen->hash = infp_hash64(&s->value, sizeof(s->value), seen->hash + (s->has_time ? (uint64_t) s->unix_ns : 0));
        return 0;
}

static struct seen parse(struct infp_promtext *parser, const char *text, size_t size, bool header, int *ret_r)
{
        struct infp_prom_page page;
        struct seen seen = { 0 };

        *ret_r = infp_promtext_parse(parser, text, size, header, sample, &seen, &page, NULL);
        expect(*ret_r == 0 || *ret_r == -EBADMSG || *ret_r == -ENOMEM);
        expect(page.n_samples == seen.n);
        expect((page.n_bad_lines == 0) == (page.first_bad_line == 0));
        expect(!page.has_eof || page.is_openmetrics);
        for (const char *c = page.bad; *c; c++)
                expect((unsigned char) *c >= ' ' && *c != 0x7f);
        return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const char *text = (const char *) data;
        struct infp_promtext *parser = infp_promtext_new();
        struct seen first, second, part;
        const char *lf = size ? memrchr(text, '\n', size) : NULL;
        int r, again;

        expect(parser != NULL);
        first = parse(parser, text, size, true, &r);
        second = parse(parser, text, size, true, &again);
        expect(first.n == second.n && first.hash == second.hash && r == again);
        part = parse(parser, text, lf ? (size_t) (lf - text) : 0, true, &again);
        expect(r < 0 || part.n <= first.n);
        parse(parser, text, size, false, &r);
        infp_promtext_free(parser);
        return 0;
}
