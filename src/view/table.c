/* A table for people: aligned, numbers to the right. On a terminal wide texts are cut with an ellipsis; rows that cannot be
 * made to fit are shown one below the other, a line a column; and the first rows only are shown, the rest is counted. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "view/format.h"

enum {
        ROWS_FOR_WIDTHS = 1000, /* rows that are looked at before the widths are fixed */
        ROWS_ON_TERMINAL = 500,
        NARROWEST = 12, /* a text column is not cut below this */
        HELP_ROOM = 30, /* a help text that has less goes below its row */
        HELP_INDENT = 4,
};

#define BOLD "\033[1m"
#define DIM "\033[2m"
#define PLAIN "\033[0m"

struct cell {
        size_t at;
        unsigned size, width;
        bool absent;
};

struct state {
        struct infp_str texts;
        struct cell *cells; /* n_rows x n_columns */
        size_t cap_cells;
        unsigned n_columns;
        unsigned *widths;
        struct infp_str name; /* of the column that is being written */
        uint64_t n_rows;      /* waiting */
        uint64_t n_shown, n_hidden;
        bool is_laid_out, is_vertical, is_listing;
        unsigned help_at; /* of a listing on a terminal: where the last column begins; HELP_INDENT: below */
};

static void state_free(void *p)
{
        struct state *s = p;

        if (!s)
                return;
        infp_str_done(&s->texts);
        infp_str_done(&s->name);
        free(s->cells);
        free(s->widths);
        free(s);
}

static bool is_text(const struct infp_column *column)
{
        return column->type == INFP_STR || column->type == INFP_BOOL;
}

/* The author of a query chose the name. Valid until the next call. */
static const char *name_of(struct state *s, const struct infp_table *table, unsigned column)
{
        const char *name = infp_table_column(table, column)->name;

        infp_str_clear(&s->name);
        infp_text_tame(&s->name, name, strlen(name));
        return s->name.data ? s->name.data : "";
}

static int begin(struct infp_out *out, const struct infp_table *table)
{
        struct state *s = calloc(1, sizeof(*s));

        if (!s)
                return -ENOMEM;
        s->n_columns = infp_table_width(table);
        s->is_listing = out->is_listing;
        out->is_tame = true;
        s->widths = calloc(s->n_columns + 1, sizeof(*s->widths));
        out->state = s;
        out->state_free = state_free;
        if (!s->widths)
                return -ENOMEM;
        for (unsigned i = 0; i < s->n_columns; i++) {
                const char *name = name_of(s, table, i);

                s->widths[i] = infp_text_width(name, strlen(name));
        }
        return 0;
}

static int take_cell(struct state *s, const struct infp_batch *batch, unsigned column, uint32_t row, struct cell *cell)
{
        size_t size;
        const char *text;

        *cell = (struct cell){ .at = s->texts.size, .absent = !infp_batch_has(batch, column, row) };
        if (cell->absent) {
                infp_str_puts(&s->texts, s->is_listing ? "" : "null");
        } else if (infp_table_column(batch->table, column)->type == INFP_STR) {
                text = infp_batch_str(batch, column, row, &size);
                infp_text_tame(&s->texts, text, size);
        } else {
                infp_cell_text(&s->texts, batch, column, row);
        }
        if (s->texts.failed)
                return -ENOMEM;
        cell->size = (unsigned) (s->texts.size - cell->at);
        cell->width = cell->size ? infp_text_width(s->texts.data + cell->at, cell->size) : 0;
        return 0;
}

static int take_row(struct state *s, const struct infp_batch *batch, uint32_t row)
{
        const size_t need = (size_t) (s->n_rows + 1) * s->n_columns;

        if (need > s->cap_cells) {
                const size_t cap = need * 2 + 64;
                struct cell *cells = reallocarray(s->cells, cap, sizeof(*cells));

                if (!cells)
                        return -ENOMEM;
                s->cells = cells;
                s->cap_cells = cap;
        }
        for (unsigned i = 0; i < s->n_columns; i++) {
                struct cell *cell = &s->cells[s->n_rows * s->n_columns + i];
                const int r = take_cell(s, batch, i, row, cell);

                if (r < 0)
                        return r;
                if (!s->is_laid_out && cell->width > s->widths[i])
                        s->widths[i] = cell->width;
        }
        s->n_rows++;
        return 0;
}

/* The other columns keep their widths, and the help text gets the rest. False: those alone do not fit. */
static bool lay_out_help(const struct infp_out *out, struct state *s, const struct infp_table *table, uint64_t total)
{
        const unsigned last = s->n_columns - 1;
        const uint64_t before = total - s->widths[last];

        if (before > out->width + 2 || !is_text(infp_table_column(table, last)))
                return false;
        s->help_at = before + HELP_ROOM <= out->width ? (unsigned) before : HELP_INDENT;
        s->widths[last] = s->widths[last] < out->width - s->help_at ? s->widths[last] : out->width - s->help_at;
        return true;
}

/* Narrows the widest text column until the line fits, or fails. */
static void lay_out(struct infp_out *out, struct state *s, const struct infp_table *table)
{
        uint64_t total = 0;

        s->is_laid_out = true;
        for (unsigned i = 0; i < s->n_columns; i++)
                total += s->widths[i] + (i ? 2 : 0);
        if (!out->width)
                return;
        if (s->is_listing && lay_out_help(out, s, table, total))
                return;
        while (total > out->width) {
                unsigned widest = s->n_columns, second = NARROWEST;

                for (unsigned i = 0; i < s->n_columns; i++) {
                        if (!is_text(infp_table_column(table, i)) || s->widths[i] <= NARROWEST)
                                continue;
                        if (widest == s->n_columns || s->widths[i] > s->widths[widest]) {
                                second = widest == s->n_columns ? second : s->widths[widest];
                                widest = i;
                        } else if (s->widths[i] > second) {
                                second = s->widths[i];
                        }
                }
                if (widest == s->n_columns) {
                        s->is_vertical = true;
                        return;
                }
                const uint64_t excess = total - out->width;
                const unsigned down_to = second < s->widths[widest] ? second : s->widths[widest] - 1;
                const unsigned cut = s->widths[widest] - down_to;

                s->widths[widest] -= cut < excess ? cut : (unsigned) excess;
                total -= cut < excess ? cut : excess;
        }
}

static void put_blanks(struct infp_str *out, unsigned n)
{
        while (n--)
                infp_str_putc(out, ' ');
}

/* A text in `width` columns; the last column of a line gets no blanks after it. */
static void put_fitted(struct infp_out *out, const char *text, size_t size, unsigned text_width, unsigned width,
                       bool right, bool is_last)
{
        size_t n = size;

        if (text_width > width && out->width && !right) {
                n = infp_text_fit(text, size, width - 1, &text_width);
                text_width++;
        }
        if (right && text_width < width)
                put_blanks(&out->text, width - text_width);
        infp_str_put(&out->text, text, n);
        if (n < size)
                infp_str_puts(&out->text, "\u2026");
        if (!right && !is_last && text_width < width)
                put_blanks(&out->text, width - text_width);
}

static void put_header(struct infp_out *out, struct state *s, const struct infp_table *table)
{
        const unsigned n =
                s->help_at == HELP_INDENT ? s->n_columns - 1 : s->n_columns; /* what is below needs no name */

        if (out->colour)
                infp_str_puts(&out->text, BOLD);
        for (unsigned i = 0; i < n; i++) {
                const char *name = name_of(s, table, i);

                if (i)
                        infp_str_puts(&out->text, "  ");
                put_fitted(out, name, strlen(name), infp_text_width(name, strlen(name)), s->widths[i],
                           !is_text(infp_table_column(table, i)), i + 1 == n);
        }
        infp_str_puts(&out->text, out->colour ? PLAIN "\n" : "\n");
        for (unsigned i = 0; i < n; i++) {
                if (i)
                        infp_str_puts(&out->text, "  ");
                for (unsigned k = 0; k < s->widths[i]; k++)
                        infp_str_putc(&out->text, '-');
        }
        infp_str_putc(&out->text, '\n');
}

static void put_cell(struct infp_out *out, const struct state *s, const struct cell *cell, unsigned width, bool right,
                     bool is_last)
{
        if (out->colour && cell->absent)
                infp_str_puts(&out->text, DIM);
        put_fitted(out, s->texts.data + cell->at, cell->size, cell->width, width, right, is_last);
        if (out->colour && cell->absent)
                infp_str_puts(&out->text, PLAIN);
}

/* The last cell of a listing's row, wrapped at blanks; a word wider than the room overflows. */
static void put_help(struct infp_out *out, const struct state *s, const struct cell *cell, bool is_below)
{
        const char *at = s->texts.data + cell->at, *end = at + cell->size;
        unsigned used = s->help_at;

        if (is_below && cell->size)
                infp_str_printf(&out->text, "\n%*s", HELP_INDENT, "");
        while (at < end) {
                const char *blank = memchr(at, ' ', (size_t) (end - at));
                const size_t word = (size_t) ((blank ? blank : end) - at);
                const unsigned width = infp_text_width(at, word);

                if (used > s->help_at && used + 1 + width > out->width) {
                        infp_str_printf(&out->text, "\n%*s", (int) s->help_at, "");
                        used = s->help_at;
                } else if (used > s->help_at) {
                        infp_str_putc(&out->text, ' ');
                        used++;
                }
                infp_str_put(&out->text, at, word);
                used += width;
                at += word + (blank != NULL);
        }
}

static void put_line(struct infp_out *out, const struct state *s, const struct infp_table *table,
                     const struct cell *cells)
{
        const bool is_below = s->help_at == HELP_INDENT;

        for (unsigned i = 0; i < s->n_columns; i++) {
                const bool is_help = s->help_at && i + 1 == s->n_columns;

                if (i && !(is_help && is_below))
                        infp_str_puts(&out->text, "  ");
                if (is_help) {
                        put_help(out, s, &cells[i], is_below);
                        continue;
                }
                put_cell(out, s, &cells[i], s->widths[i], !is_text(infp_table_column(table, i)),
                         i + 1 + is_below == s->n_columns);
        }
        infp_str_putc(&out->text, '\n');
}

static void put_record(struct infp_out *out, struct state *s, const struct infp_table *table, const struct cell *cells)
{
        unsigned names = 0;

        for (unsigned i = 0; i < s->n_columns; i++) {
                const char *name = name_of(s, table, i);
                const unsigned width = infp_text_width(name, strlen(name));

                names = width > names ? width : names;
        }
        infp_str_printf(&out->text, "-- %llu\n", (unsigned long long) s->n_shown + 1);
        for (unsigned i = 0; i < s->n_columns; i++) {
                const char *name = name_of(s, table, i);
                const unsigned room = out->width > names + 10 ? out->width - names - 2 : 8;

                infp_str_puts(&out->text, out->colour ? BOLD : "");
                infp_str_puts(&out->text, name);
                infp_str_puts(&out->text, out->colour ? PLAIN : "");
                put_blanks(&out->text, names + 2 - infp_text_width(name, strlen(name)));
                put_cell(out, s, &cells[i], room, false, true);
                infp_str_putc(&out->text, '\n');
        }
}

static void show_waiting(struct infp_out *out, struct state *s, const struct infp_table *table)
{
        if (!s->is_laid_out) {
                lay_out(out, s, table);
                if (!s->is_vertical)
                        put_header(out, s, table);
        }
        for (uint64_t row = 0; row < s->n_rows && !out->error; row++) {
                const struct cell *cells = &s->cells[row * s->n_columns];

                if (s->is_vertical)
                        put_record(out, s, table, cells);
                else
                        put_line(out, s, table, cells);
                s->n_shown++;
                infp_out_drain(out);
        }
        s->n_rows = 0;
        infp_str_clear(&s->texts);
}

static int batch(struct infp_out *out, const struct infp_batch *rows)
{
        struct state *s = out->state;

        for (uint32_t row = 0; row < rows->n_rows && !out->error; row++) {
                if (out->width && s->n_rows + s->n_shown >= ROWS_ON_TERMINAL) {
                        s->n_hidden += rows->n_rows - row;
                        return 0;
                }
                const int r = take_row(s, rows, row);

                if (r < 0)
                        return r;
                if (s->n_rows >= ROWS_FOR_WIDTHS)
                        show_waiting(out, s, rows->table);
        }
        return out->error == -EPIPE ? 0 : out->error;
}

static int end(struct infp_out *out, const struct infp_table *table)
{
        struct state *s = out->state;

        show_waiting(out, s, table);
        if (s->n_hidden)
                infp_str_printf(&out->text, "(%llu more rows; -f csv, json or -o FILE gives all)\n",
                                (unsigned long long) s->n_hidden);
        state_free(s);
        out->state = NULL;
        infp_out_drain(out);
        return out->error == -EPIPE ? 0 : out->error;
}

const struct infp_format infp_format_table = {
        .name = "table",
        .extension = "txt",
        .help = "Aligned columns for people.",
        .begin = begin,
        .batch = batch,
        .end = end,
};
