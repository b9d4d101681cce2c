#include "collectors/fields.h"

#include <stdio.h>
#include <string.h>

#include "base/number.h"

static uint8_t hash_of(const char *name, size_t size)
{
        uint32_t h = 2166136261u;

        for (size_t i = 0; i < size; i++)
                h = (h ^ (unsigned char) name[i]) * 16777619u;
        return (uint8_t) (h ^ h >> 8 ^ h >> 16 ^ h >> 24);
}

static void add(struct infp_fields *fields, const char *what, unsigned cell)
{
        struct infp_field *field = &fields->field[fields->n];
        size_t size = strlen(what);
        uint64_t word;
        uint8_t at;

        *field = (struct infp_field){ .cell = (uint8_t) cell };
        fields->n++;
        if (!infp_parse_u64(what, size, &word) && word < INFP_FIELD_WORDS) {
                field->word = (uint8_t) word;
                return;
        }
        field->name = what;
        field->name_size = (uint8_t) size;
        /* There are at most half as many columns as slots. */
        for (at = hash_of(what, size); fields->slot[at]; at++)
                ;
        fields->slot[at] = fields->n;
}

void infp_fields_init(struct infp_fields *fields, const struct infp_table *table, const char *tag, const char *path,
                      uint32_t ticks_per_s)
{
        size_t size = strlen(tag);

        *fields = (struct infp_fields){ .table = table, .path = path, .ticks_per_s = ticks_per_s };
        for (unsigned i = 0; i < table->n_columns; i++) {
                const char *key = table->columns[i].key;

                if (key && !strncmp(key, tag, size) && key[size] == ':')
                        add(fields, key + size + 1, table->n_keys + i);
        }
}

static const struct infp_column *column_of(const struct infp_fields *fields, unsigned cell)
{
        return infp_table_column(fields->table, INFP_FIXED_COLUMNS + cell);
}

/* Ticks to centiseconds, rounded down. A product beyond 64 bits has no value. */
static bool to_cs(uint64_t ticks, uint32_t ticks_per_s, uint64_t *ret)
{
        return !__builtin_mul_overflow(ticks, 100u, ret) && (*ret /= ticks_per_s, true);
}

static void set_raw(const struct infp_fields *fields, struct infp_row *row, unsigned cell, uint64_t raw)
{
        if (fields->ticks_per_s && fields->ticks_per_s != 100 && column_of(fields, cell)->unit == &infp_unit_cs &&
            !to_cs(raw, fields->ticks_per_s, &raw))
                return;
        infp_row_raw(row, cell, raw);
}

static void set(const struct infp_fields *fields, struct infp_row *row, unsigned cell, struct infp_span word)
{
        uint64_t raw;
        double v;

        if (!infp_span_u64(word, &raw))
                set_raw(fields, row, cell, raw);
        else if (column_of(fields, cell)->type == INFP_F64 && !infp_span_f64(word, &v))
                infp_row_f64(row, cell, v);
}

void infp_fields_named(const struct infp_fields *fields, struct infp_row *row, struct infp_span line)
{
        struct infp_span name = infp_span_word(&line);

        if (name.size && name.at[name.size - 1] == ':')
                name.size--;
        for (uint8_t at = hash_of(name.at, name.size); fields->slot[at]; at++) {
                const struct infp_field *field = &fields->field[fields->slot[at] - 1];

                /* Continues after a hit: two columns may share a key. */
                if (field->name_size == name.size && !memcmp(field->name, name.at, name.size)) {
                        struct infp_span rest = line;

                        set(fields, row, field->cell, infp_span_word(&rest));
                }
        }
}

void infp_fields_words(const struct infp_fields *fields, struct infp_row *row, const struct infp_span *words, size_t n)
{
        for (unsigned i = 0; i < fields->n; i++)
                if (!fields->field[i].name && fields->field[i].word < n)
                        set(fields, row, fields->field[i].cell, words[fields->field[i].word]);
}

void infp_fields_explain(const struct infp_fields *fields, struct infp_emit *emit, int r)
{
        char reason[128];

        for (unsigned i = 0; i < fields->n; i++) {
                unsigned cell = fields->field[i].cell;

                if (infp_row_has(&emit->row, cell))
                        continue;
                if (r < 0)
                        snprintf(reason, sizeof(reason), "%s: %s", fields->path, strerror(-r));
                else
                        snprintf(reason, sizeof(reason), "%s has no number for it", fields->path);
                infp_emit_source(emit, fields->table, (int) cell, NULL, r < 0 ? infp_source_state_of(r) : INFP_ABSENT,
                                 reason, NULL);
        }
}

void infp_fields_explain_derived(const struct infp_fields *fields, struct infp_emit *emit, unsigned cell, int r)
{
        char reason[128];

        if (infp_row_has(&emit->row, cell))
                return;
        if (r < 0)
                snprintf(reason, sizeof(reason), "%s: %s", fields->path, strerror(-r));
        else
                snprintf(reason, sizeof(reason), "%s lacks a value that it is computed from", fields->path);
        infp_emit_source(emit, fields->table, (int) cell, NULL, r < 0 ? infp_source_state_of(r) : INFP_ABSENT, reason,
                         NULL);
}

void infp_sums_line(struct infp_sums *sums, size_t n_words)
{
        sums->last_words = n_words;
        if (n_words > sums->most_words)
                sums->most_words = n_words;
}

bool infp_sums_is_cut(const struct infp_sums *sums, struct infp_span text, size_t fewest_words)
{
        size_t most = sums->most_words > fewest_words ? sums->most_words : fewest_words;
        struct infp_span kept = infp_whole_words(text);

        if (kept.size == text.size && (!text.size || text.at[text.size - 1] == '\n'))
                return false;
        /* The last word was dropped: its line had no other, or it was the last of a whole line. */
        return !kept.size || kept.at[kept.size - 1] == '\n' || sums->last_words + 1 < most;
}

void infp_sums_add(struct infp_sums *sums, const struct infp_fields *fields, const struct infp_span *words, size_t n)
{
        sums->n++;
        for (unsigned i = 0; i < fields->n; i++) {
                unsigned word = fields->field[i].word;
                uint64_t raw;

                if (word >= n || infp_span_u64(words[word], &raw) ||
                    __builtin_add_overflow(sums->total[i], raw, &sums->total[i]))
                        sums->is_unknown[i] = true;
        }
}

void infp_sums_row(const struct infp_sums *sums, const struct infp_fields *fields, bool is_cut, struct infp_row *row)
{
        for (unsigned i = 0; i < fields->n && !is_cut; i++)
                if (!sums->is_unknown[i])
                        set_raw(fields, row, fields->field[i].cell, sums->total[i]);
}

struct infp_span infp_whole_words(struct infp_span text)
{
        while (text.size && !strchr(" \t\n", text.at[text.size - 1]))
                text.size--;
        return text;
}
