/* Lines of the text reports, which write nowhere else. Their text may come from a stranger's program, so all of it is escaped
 * here (infp_text_tame), and only infp_report_end ends a line. */
#include <stdarg.h>
#include <string.h>

#include "view/report/parts.h"

enum { LABEL_WIDTH = 12 };

void infp_report_put(struct infp_out *out, const char *format, ...)
{
        infp_autostr struct infp_str text = { 0 };
        va_list ap;

        va_start(ap, format);
        infp_str_vprintf(&text, format, ap);
        va_end(ap);
        out->is_tame = true;
        infp_text_tame(&out->text, text.data ? text.data : "", text.size);
        out->text.failed |= text.failed;
}

void infp_report_style(struct infp_out *out, const char *style)
{
        if (out->colour)
                infp_str_printf(&out->text, "\033[%sm", style);
}

void infp_report_end(struct infp_out *out)
{
        infp_str_putc(&out->text, '\n');
}

unsigned infp_report_width(const struct infp_out *out)
{
        const unsigned width = out->width ? out->width : 80;

        return width < 60 ? 60 : width > 140 ? 140 : width;
}

void infp_report_title(struct infp_out *out, const char *title)
{
        infp_report_end(out);
        infp_report_style(out, "1");
        infp_report_put(out, "%s", title);
        infp_report_style(out, "0");
        infp_report_end(out);
}

void infp_report_wrap(struct infp_out *out, const char *text, unsigned used, unsigned indent)
{
        const unsigned width = infp_report_width(out);
        infp_autostr struct infp_str tame = { 0 };

        infp_text_tame(&tame, text, strlen(text));
        for (const char *at = tame.data ? tame.data : ""; *at;) {
                const size_t word = strcspn(at, " ");
                const unsigned word_width = infp_text_width(at, word);

                if (used > indent && used + 1 + word_width > width) {
                        infp_report_end(out);
                        infp_report_put(out, "%*s", (int) indent, "");
                        used = indent;
                } else if (used > indent) {
                        infp_report_put(out, " ");
                        used++;
                }
                infp_report_put(out, "%.*s", (int) word, at);
                used += word_width;
                at += word;
                at += strspn(at, " ");
        }
        infp_report_end(out);
}

void infp_report_line(struct infp_out *out, const char *label, const char *format, ...)
{
        infp_autostr struct infp_str text = { 0 };
        va_list ap;

        va_start(ap, format);
        infp_str_vprintf(&text, format, ap);
        va_end(ap);
        out->text.failed |= text.failed;
        infp_report_put(out, "  %-*s%s", LABEL_WIDTH, label, strlen(label) >= LABEL_WIDTH ? " " : "");
        infp_report_wrap(out, text.data ? text.data : "", LABEL_WIDTH + 2, LABEL_WIDTH + 2);
}

void infp_report_put_padded(struct infp_out *out, const char *text, unsigned width, bool is_last)
{
        infp_autostr struct infp_str tame = { 0 };
        unsigned used;
        size_t size;

        infp_text_tame(&tame, text, strlen(text));
        size = infp_text_fit(tame.data ? tame.data : "", tame.size, width, &used);
        if (size < tame.size) {
                size = infp_text_fit(tame.data, tame.size, width - 3, &used);
                used += 3;
        }
        infp_report_put(out, "%.*s%s%*s", (int) size, tame.data ? tame.data : "", size < tame.size ? "..." : "",
                        is_last ? 0 : (int) (width - used), "");
}
