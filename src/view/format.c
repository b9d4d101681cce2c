#include "view/format.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/number.h"

enum { DRAIN_BYTES = 256 * 1024 };

unsigned infp_terminal_width(int fd)
{
        const char *columns = getenv("COLUMNS");
        struct winsize size;
        uint64_t v;

        if (columns && !infp_parse_u64(columns, strlen(columns), &v) && v >= 20 && v <= 10000)
                return (unsigned) v;
        if (!ioctl(fd, TIOCGWINSZ, &size) && size.ws_col)
                return size.ws_col;
        return 80;
}

void infp_out_init(struct infp_out *out, int fd, const char *path)
{
        const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
        const bool tty = isatty(fd);

        *out = (struct infp_out){ .fd = fd, .path = path };
        if (!tty)
                return;
        out->width = infp_terminal_width(fd);
        out->colour = !(no_color && *no_color) && !(term && !strcmp(term, "dumb"));
}

/* Formats for programs write names as they are, and a terminal would obey escape sequences in them. */
static void tame_for_terminal(struct infp_out *out)
{
        struct infp_str tame = { 0 };

        infp_text_tame_lines(&tame, out->text.data, out->text.size);
        infp_str_done(&out->text);
        out->text = tame;
}

static void write_out(struct infp_out *out)
{
        if (out->width && !out->is_tame && out->text.size && !out->text.failed)
                tame_for_terminal(out);
        if (out->text.failed && !out->error)
                out->error = -ENOMEM;
        if (!out->error && out->text.size)
                out->error = infp_write_all(out->fd, out->text.data, out->text.size, NULL);
        if (out->text.failed)
                infp_str_done(&out->text);
        infp_str_clear(&out->text);
}

void infp_out_drain(struct infp_out *out)
{
        if (out->text.size >= DRAIN_BYTES || out->text.failed)
                write_out(out);
}

int infp_out_flush(struct infp_out *out, struct infp_err *err)
{
        write_out(out);
        if (!out->error || out->error == -EPIPE)
                return 0;
        return infp_fail_errno(err, out->error, "cannot write %s", out->path);
}

void infp_out_done(struct infp_out *out)
{
        if (out->state && out->state_free)
                out->state_free(out->state);
        out->state = NULL;
        infp_str_done(&out->text);
}

const struct infp_format *const *infp_formats(void)
{
        static const struct infp_format *const formats[] = {
                &infp_format_table,
                &infp_format_csv,
                &infp_format_tsv,
                &infp_format_json,
                &infp_format_jsonl,
                &infp_format_prom,
                NULL,
        };

        return formats;
}

const struct infp_format *infp_format_find(const char *name)
{
        for (const struct infp_format *const *f = infp_formats(); *f; f++)
                if (!strcmp((*f)->name, name))
                        return *f;
        return NULL;
}

int64_t infp_unix_ms(int64_t unix_ns)
{
        const int64_t ms = unix_ns / 1000000;

        return ms - (unix_ns % 1000000 < 0);
}

void infp_cell_text(struct infp_str *out, const struct infp_batch *batch, unsigned column, uint32_t row)
{
        size_t size;
        const char *text;

        if (!infp_batch_has(batch, column, row))
                return;
        switch (infp_table_column(batch->table, column)->type) {
        case INFP_I64:
                infp_str_i64(out, infp_batch_i64(batch, column, row));
                return;
        case INFP_U64:
        case INFP_ID64:
                infp_str_u64(out, infp_batch_u64(batch, column, row));
                return;
        case INFP_F64:
                infp_str_f64(out, infp_batch_f64(batch, column, row));
                return;
        case INFP_BOOL:
                infp_str_puts(out, infp_batch_bool(batch, column, row) ? "true" : "false");
                return;
        case INFP_TS_NS:
                infp_str_i64(out, infp_unix_ms(infp_batch_i64(batch, column, row)));
                return;
        case INFP_STR:
                text = infp_batch_str(batch, column, row, &size);
                infp_str_put(out, text, size);
                return;
        }
}
