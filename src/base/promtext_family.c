/* The families that a page declares, and what a name is of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/promtext_parts.h"

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

struct prom_family *infp_prom_family_get(struct infp_promtext *p, const char *name, size_t size, bool *ret_is_full)
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

void infp_prom_families_clear(struct infp_promtext *p)
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
        const unsigned types = bit(INFP_PROM_COUNTER) | bit(INFP_PROM_HISTOGRAM) | bit(INFP_PROM_SUMMARY);
        struct prom_family *f;
        char total[512];

        if (!ends_with(name, size, "_created", 8))
                return NULL;
        size -= 8;
        f = find(p, name, size);
        if (f && bit(f->type) & types)
                return f;
        if (size + 6 > sizeof(total))
                return NULL;
        memcpy(total, name, size);
        memcpy(total + size, "_total", 6);
        f = find(p, total, size + 6);
        return f && bit(f->type) & types ? f : NULL;
}

/* Buckets of a family without a type, and what belongs to them. */
static int undeclared(struct infp_promtext *p, const char *name, size_t size, bool has_le, struct prom_family **ret)
{
        bool is_full;

        if (has_le && ends_with(name, size, "_bucket", 7)) {
                *ret = infp_prom_family_get(p, name, size - 7, &is_full);
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
                return infp_prom_unescape(&p->family_texts, text, size, quotes);
        return (struct infp_prom_text){ size ? text : "", size };
}

int infp_prom_resolve(struct infp_promtext *p, const char *name, size_t size, bool has_le)
{
        struct infp_prom_sample *s = &p->sample;
        struct prom_family *f;

        p->resolved = NULL;
        if (find_family(p, name, size, has_le, &f) < 0)
                return -ENOMEM;
        p->family_texts.size = 0;
        if (infp_prom_reserve(&p->family_texts, size + (f ? (size_t) f->name_size + f->help_size : 0)) < 0)
                return -ENOMEM;
        s->name = plain(p, name, size, true);
        s->family = f ? plain(p, f->name, f->name_size, true) : s->name;
        s->help = (struct infp_prom_text){ "", 0 };
        if (f && f->help)
                s->help = plain(p, f->help, f->help_size,
                                memchr(f->help, '\\', f->help_size) && infp_prom_is_openmetrics(p));
        s->unit = f && f->unit ? (struct infp_prom_text){ f->unit, f->unit_size } : (struct infp_prom_text){ "", 0 };
        s->type = f ? f->type : INFP_PROM_UNKNOWN;
        p->resolved = name;
        p->resolved_size = size;
        return 0;
}
