/* What the files of the metrics page reader share: promtext.c (page, comments), promtext_line.c (a sample's line),
 * promtext_family.c (declared families), promtext_number.c. */
#pragma once

#include "base/promtext.h"

/* A hostile page may declare anything; what is beyond this is a bad line. */
enum { INFP_PROM_FAMILIES = 1 << 16 };

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
enum prom_line {
        PROM_BAD,
        PROM_SAMPLE,
        PROM_NATIVE,
        PROM_NO_MEMORY,
};

/* Reads one line (no line feed) that is not blank and no comment into p->sample. */
enum prom_line infp_prom_line(struct infp_promtext *p, const char *at, const char *end);
/* A quoted text: `at` after the opening quote; NULL, or the place after the closing one. ret: without the quotes, escapes in it. */
const char *infp_prom_quoted(const char *at, const char *end, struct infp_prom_text *ret, bool *ret_has_escapes);
static inline const char *infp_prom_skip_blanks(const char *at, const char *end)
{
        while (at < end && (*at == ' ' || *at == '\t'))
                at++;
        return at;
}

/* The end of a metric name's characters (a digit in front is no name: returns `at`). */
const char *infp_prom_name_end(const char *at, const char *end);

/* Finds or makes it. NULL: no memory or too many (ret_is_full). */
struct prom_family *infp_prom_family_get(struct infp_promtext *p, const char *name, size_t size, bool *ret_is_full);
void infp_prom_families_clear(struct infp_promtext *p);
/* Fills p->sample's name, family, unit, help, type and p->resolved_part. -ENOMEM. */
int infp_prom_resolve(struct infp_promtext *p, const char *name, size_t size, bool has_le);

/* -ENOMEM. */
int infp_prom_reserve(struct prom_buffer *buffer, size_t cap);
/* Appends to a buffer with room: \\ and \n, with `quotes` also \"; a backslash before anything else stays. */
struct infp_prom_text infp_prom_unescape(struct prom_buffer *buffer, const char *text, size_t size, bool quotes);
/* True when the page is OpenMetrics; looks at all of it when that is not known yet. */
bool infp_prom_is_openmetrics(struct infp_promtext *p);

/* A number that ends at `end`, at a blank or at a tab. NULL: none; else where it ends. Never rounds wrongly. */
const char *infp_prom_number(const char *at, const char *end, double *ret);
/* A time stamp: whole milliseconds, or (openmetrics) decimal seconds. */
const char *infp_prom_time(const char *at, const char *end, bool openmetrics, int64_t *ret_ns);
