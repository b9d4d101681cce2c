/* CSV (RFC 4180, but lines end in \n) and TSV: the same with tabs, quoted by the same rule, so that a CSV reader reads
 * TSV, and every cell is the same string in both. Absent is an empty field; a text that is empty is "" in quotes. */
#include <errno.h>
#include <string.h>

#include "base/number.h"
#include "view/format.h"

static bool needs_quotes(const char *text, size_t size, char separator)
{
        if (!size)
                return true;
        /* Some readers strip blanks at the ends of unquoted fields. */
        if (text[0] == ' ' || text[size - 1] == ' ')
                return true;
        for (size_t i = 0; i < size; i++)
                if (text[i] == separator || text[i] == '"' || text[i] == '\n' || text[i] == '\r')
                        return true;
        return false;
}

/* Spreadsheets compute texts that begin like this and are not numbers. */
static bool is_formula(const char *text, size_t size)
{
        double number;

        return size && strchr("=+-@\t\r\n", text[0]) && infp_parse_f64(text, size, &number) < 0;
}

static void put_text(struct infp_out *to, const char *text, size_t size, char separator)
{
        struct infp_str *out = &to->text;
        const bool is_disarmed = to->is_csv_safe && is_formula(text, size);

        if (!is_disarmed && !needs_quotes(text, size, separator)) {
                infp_str_put(out, text, size);
                return;
        }
        infp_str_puts(out, is_disarmed ? "\"'" : "\"");
        for (const char *quote; (quote = memchr(text, '"', size));) {
                const size_t n = (size_t) (quote - text) + 1;

                infp_str_put(out, text, n);
                infp_str_putc(out, '"');
                text += n;
                size -= n;
        }
        infp_str_put(out, text, size);
        infp_str_putc(out, '"');
}

static int begin(struct infp_out *out, const struct infp_table *table, char separator)
{
        for (unsigned i = 0; i < infp_table_width(table); i++) {
                const char *name = infp_table_column(table, i)->name;

                if (i)
                        infp_str_putc(&out->text, separator);
                put_text(out, name, strlen(name), separator);
        }
        infp_str_putc(&out->text, '\n');
        return out->error;
}

static void put_cell(struct infp_out *out, const struct infp_batch *batch, unsigned column, uint32_t row,
                     char separator)
{
        size_t size;
        const char *text;

        if (infp_table_column(batch->table, column)->type != INFP_STR) {
                infp_cell_text(&out->text, batch, column, row);
        } else if (infp_batch_has(batch, column, row)) {
                text = infp_batch_str(batch, column, row, &size);
                put_text(out, text, size, separator);
        }
}

static int put_batch(struct infp_out *out, const struct infp_batch *batch, char separator)
{
        const unsigned width = infp_table_width(batch->table);

        for (uint32_t row = 0; row < batch->n_rows && !out->error; row++) {
                for (unsigned i = 0; i < width; i++) {
                        if (i)
                                infp_str_putc(&out->text, separator);
                        put_cell(out, batch, i, row, separator);
                }
                /* Many readers skip empty lines. */
                if (width == 1 && !infp_batch_has(batch, 0, row))
                        infp_str_puts(&out->text, "\"\"");
                infp_str_putc(&out->text, '\n');
                infp_out_drain(out);
        }
        return out->error == -EPIPE ? 0 : out->error;
}

static int end(struct infp_out *out, const struct infp_table *table)
{
        (void) table;
        infp_out_drain(out);
        return out->error == -EPIPE ? 0 : out->error;
}

static int csv_begin(struct infp_out *out, const struct infp_table *table)
{
        return begin(out, table, ',');
}

static int csv_batch(struct infp_out *out, const struct infp_batch *batch)
{
        return put_batch(out, batch, ',');
}

static int tsv_begin(struct infp_out *out, const struct infp_table *table)
{
        return begin(out, table, '\t');
}

static int tsv_batch(struct infp_out *out, const struct infp_batch *batch)
{
        return put_batch(out, batch, '\t');
}

const struct infp_format infp_format_csv = {
        .name = "csv",
        .extension = "csv",
        .help = "Comma-separated values with a header line; absent is an empty field.",
        .begin = csv_begin,
        .batch = csv_batch,
        .end = end,
};

const struct infp_format infp_format_tsv = {
        .name = "tsv",
        .extension = "tsv",
        .help = "Tab-separated values with a header line, quoted like CSV.",
        .begin = tsv_begin,
        .batch = tsv_batch,
        .end = end,
};
