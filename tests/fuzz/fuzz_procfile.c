/* Kernel text: lines, words, cuts and numbers of any bytes stay inside them and together are the whole text. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"
#include "base/procfile.h"
#include "base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool truth)
{
        if (!truth)
                abort();
}

static void inside(struct infp_span part, struct infp_span whole)
{
        expect(part.at >= whole.at && part.size <= whole.size &&
               (size_t) (part.at - whole.at) <= whole.size - part.size);
}

/* What was read as a number comes back when it is written. */
static void number(struct infp_span word)
{
        infp_autostr struct infp_str s = { 0 };
        uint64_t u = 0, u_again;
        int64_t i = 0, i_again;
        double f = 0, f_again;
        int r = infp_span_u64(word, &u);

        expect(r <= 0);
        if (r == 0) {
                infp_str_u64(&s, u);
                expect(infp_parse_u64(s.data, s.size, &u_again) == 0 && u == u_again);
                expect(infp_span_f64(word, &f) < 0 || f == (double) u);
        }
        if (infp_span_i64(word, &i) == 0) {
                infp_str_clear(&s);
                infp_str_i64(&s, i);
                expect(infp_parse_i64(s.data, s.size, &i_again) == 0 && i == i_again);
        }
        if (infp_span_f64(word, &f) == 0) {
                infp_str_clear(&s);
                infp_str_f64(&s, f);
                expect(isfinite(f) && infp_parse_f64(s.data, s.size, &f_again) == 0 &&
                       memcmp(&f, &f_again, sizeof(f)) == 0);
        }
}

static void words(struct infp_span line)
{
        struct infp_span w[8], left = line, rest, part;
        size_t n = infp_span_words(line, w, INFP_COUNT(w));

        expect(n <= INFP_COUNT(w));
        for (size_t i = 0; i < INFP_COUNT(w); i++) {
                struct infp_span next = infp_span_word(&left);

                expect(w[i].at && w[i].at == next.at && w[i].size == next.size);
                expect((w[i].size > 0) == (i < n));
                inside(w[i], line);
                number(w[i]);
                expect(!memchr(w[i].at, ' ', w[i].size));
        }
        part = infp_span_cut(line, ':', &rest);
        inside(part, line);
        inside(rest, line);
        expect(part.size + rest.size == line.size || part.size + 1 + rest.size == line.size);
        part = infp_span_trim(line);
        inside(part, line);
        part = infp_span_trim(part);
        expect(infp_span_starts(line, "") && infp_span_is(part, "") == (part.size == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const struct infp_span whole = { .at = (const char *) data, .size = size };
        struct infp_span text = whole, line;
        size_t seen = 0;
        char copy[64];
        uint64_t v;

        while (infp_span_line(&text, &line)) {
                inside(line, whole);
                seen += line.size;
                if (seen < size) {
                        expect(line.at[line.size] == '\n');
                        seen++;
                }
                words(line);
        }
        expect(seen == size);
        if (size < sizeof(copy)) {
                memcpy(copy, data, size);
                copy[size] = 0;
                (void) infp_parse_duration(copy, &v);
                (void) infp_parse_size(copy, &v);
        }
        return 0;
}
