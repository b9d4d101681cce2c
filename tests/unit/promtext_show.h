/* Metric pages as text, for the tests of their reader. */
#pragma once

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/promtext/promtext.h"
#include "base/str.h"

static const char *const parts[] = { "value", "sum", "count", "bucket", "quantile", "created" };

static inline void put(struct infp_str *s, struct infp_prom_text text)
{
        infp_str_put(s, text.at, text.size);
}

/* name{label=value,...} type/part value, then where they say something: le, time, family, unit, help. */
static inline int show(void *context, const struct infp_prom_sample *sample)
{
        struct infp_str *s = context;

        put(s, sample->name);
        for (unsigned i = 0; i < sample->n_labels; i++) {
                infp_str_putc(s, i ? ',' : '{');
                put(s, sample->labels[i].name);
                infp_str_putc(s, '=');
                put(s, sample->labels[i].value);
        }
        infp_str_printf(s, "%s %s/%s ", sample->n_labels ? "}" : "", infp_prom_type_name(sample->type),
                        parts[sample->part]);
        infp_str_f64(s, sample->value);
        if (!isnan(sample->le)) {
                infp_str_puts(s, " le ");
                infp_str_f64(s, sample->le);
        }
        if (sample->has_time) {
                infp_str_puts(s, " at ");
                infp_str_i64(s, sample->unix_ns);
        }
        if (sample->family.size != sample->name.size) {
                infp_str_puts(s, " of ");
                put(s, sample->family);
        }
        if (sample->unit.size) {
                infp_str_puts(s, " in ");
                put(s, sample->unit);
        }
        if (sample->help.size) {
                infp_str_puts(s, " help ");
                put(s, sample->help);
        }
        infp_str_putc(s, '\n');
        return 0;
}

/* The page in memory of exactly its size, so that the sanitizer sees a byte too many. */
static inline int parse(const char *text, size_t size, bool header, struct infp_str *ret_shown,
                        struct infp_prom_page *ret, struct infp_err *err)
{
        struct infp_promtext *parser = infp_promtext_new();
        infp_autofree char *exact = malloc(size ? size : 1);
        int r;

        assert_non_null(parser);
        assert_non_null(exact);
        memcpy(exact, text, size);
        r = infp_promtext_parse(parser, exact, size, header, show, ret_shown, ret, err);
        infp_promtext_free(parser);
        return r;
}
