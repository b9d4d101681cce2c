/* Reads a page as the engine collector does: the make by most samples, then each sample into the fields and the identity. For unit
 * tests only. */
#pragma once

#include "machine.h"

#include "collectors/engine/about.h"
#include "collectors/engine/vllm.h"

struct page {
        char *text;
        size_t size;
        unsigned samples[INFP_ENGINE_N];
        enum infp_engine_make make;
        struct infp_engine_fields *fields; /* NULL: not wanted */
        struct infp_engine_about *about;   /* likewise */
};

/* Below tests/fixtures/engines, else below ../shared/fixtures/engines; the caller frees. */
static inline char *page_text(const char *name, size_t *ret_size)
{
        char path[PATH_MAX];
        const char *top = getenv("INFP_FIXTURES");
        FILE *f;
        char *text = NULL;
        long size;

        snprintf(path, sizeof(path), "%s/engines/%s", top ? top : "tests/fixtures", name);
        if (access(path, F_OK))
                snprintf(path, sizeof(path), "%s/../../../shared/fixtures/engines/%s", top ? top : "tests/fixtures",
                         name);
        f = fopen(path, "r");
        if (!f)
                fail_msg("%s: %s", path, strerror(errno));
        assert_int_equal(fseek(f, 0, SEEK_END), 0);
        size = ftell(f);
        rewind(f);
        text = malloc((size_t) size + 1);
        assert_non_null(text);
        assert_int_equal(fread(text, 1, (size_t) size, f), size);
        text[size] = 0;
        fclose(f);
        *ret_size = (size_t) size;
        return text;
}

static inline int page_count(void *context, const struct infp_prom_sample *sample)
{
        struct page *p = context;

        p->samples[infp_engine_make_of(sample->name.at, sample->name.size)]++;
        return 0;
}

static inline int page_feed(void *context, const struct infp_prom_sample *sample)
{
        struct page *p = context;
        const struct infp_engine_alias *feeds[INFP_ENGINE_FEEDS];
        size_t n = infp_engine_alias_find(p->make, sample, feeds);

        for (size_t i = 0; p->fields && i < n; i++)
                infp_engine_fields_add(p->fields, feeds[i], sample->value);
        if (p->about)
                infp_engine_about_sample(p->about, sample);
        return 0;
}

static inline void page_parse(struct page *p, int (*sample)(void *context, const struct infp_prom_sample *sample))
{
        struct infp_promtext *parser = infp_promtext_new();
        struct infp_prom_page result;
        struct infp_err err = { "" };

        assert_non_null(parser);
        if (infp_promtext_parse(parser, p->text, p->size, false, sample, p, &result, &err) < 0)
                fail_msg("%s", err.text);
        assert_int_equal(result.n_bad_lines, 0);
        infp_promtext_free(parser);
}

/* Consumes nothing: text stays the caller's. Leaves the row in `emit` uncommitted. */
static inline enum infp_engine_make page_read(const char *text, size_t size, struct infp_engine_fields *fields,
                                              struct infp_engine_about *about)
{
        struct page p = { .text = (char *) text, .size = size, .fields = fields, .about = about };

        page_parse(&p, page_count);
        for (enum infp_engine_make m = INFP_ENGINE_VLLM; m < INFP_ENGINE_N; m++) {
                if (p.samples[m] > (p.make ? p.samples[p.make] : 0))
                        p.make = m;
        }
        if (about)
                infp_engine_about_make(about, p.make);
        if (fields)
                infp_engine_fields_begin(fields);
        page_parse(&p, page_feed);
        return p.make;
}
