/* The frame of the page: its head, and what reads without script. */
#include "view/html/html.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "base/human.h"
#include "base/mem.h"
#include "base/time.h"
#include "view/flame/page.h"
#include "view/html/page.h"
#include "view/html/parts.h"
#include "view/markup.h"

/* A page of an hour stays below 2 MB: at 1 Hz, with stacks at 99 Hz. CODE_BYTES: of these. */
enum { PAGE_BYTES = 1480 * 1000, CODE_BYTES = 440 * 1000 };

void infp_html_text(struct infp_str *out, const char *text)
{
        infp_markup_text(out, text, SIZE_MAX, true);
}

/* "2026-11-28 10:41:40 UTC" */
static void put_moment(struct infp_str *out, int64_t unix_ns)
{
        const time_t seconds = (time_t) (unix_ns / (int64_t) INFP_NS_PER_S);
        struct tm tm;

        if (gmtime_r(&seconds, &tm))
                infp_str_printf(out, "%04d-%02d-%02d %02d:%02d:%02d UTC", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
                                tm.tm_hour, tm.tm_min, tm.tm_sec);
}

/* The command, else the attached process, else the machine. */
static const char *target_of(const struct infp_run_info *info)
{
        if (info->command && *info->command)
                return info->command;
        if (info->target_command && *info->target_command)
                return info->target_command;
        if (info->target_name && *info->target_name)
                return info->target_name;
        return info->hostname && *info->hostname ? info->hostname : "the machine";
}

/* The policy: the page runs nothing and requests nothing but what it contains. */
void infp_html_head(struct infp_str *out, const char *title, const struct infp_html_own *own)
{
        infp_str_puts(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                           "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src '");
        infp_str_puts(out, own->script_hash);
        infp_str_puts(out, "'; style-src '");
        infp_str_puts(out, own->style_hash);
        if (own->inner_style_hash)
                infp_str_printf(out, "' '%s", own->inner_style_hash);
        infp_str_puts(
                out,
                "'; img-src data:; base-uri 'none'; form-action 'none'\">\n"
                "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                "<meta name=\"color-scheme\" content=\"light dark\"><meta name=\"referrer\" content=\"no-referrer\">\n"
                "<title>");
        infp_html_text(out, title);
        infp_str_puts(out, " · infprof</title>\n<style>");
        infp_str_put(out, own->style, own->style_size);
        infp_str_puts(out, "</style></head>\n<body>\n");
}

static void put_head(struct infp_str *out, const struct infp_report *report, bool has_code)
{
        const struct infp_html_own own = { infp_page_script_hash, infp_page_style_hash,
                                           has_code ? infp_flame_page_style_hash : NULL, infp_page_style,
                                           infp_page_style_size };

        infp_html_head(out, target_of(&report->run->info), &own);
        infp_str_puts(out, "<a class=\"skip\" href=\"#main\">Skip to the report</a>\n");
}

static void put_top(struct infp_str *out, const struct infp_report *report)
{
        infp_str_puts(out, "<header class=\"top\"><p class=\"brand\">infprof</p><h1>");
        infp_html_text(out, target_of(&report->run->info));
        infp_str_puts(out, "</h1><p class=\"when\">");
        put_moment(out, report->from_unix_ns);
        infp_str_puts(out, ", ");
        infp_human_seconds(out, report->wall_s);
        if (report->is_part)
                infp_str_puts(out, " of the run");
        if (report->run->info.hostname && *report->run->info.hostname) {
                infp_str_puts(out, ", host ");
                infp_html_text(out, report->run->info.hostname);
        }
        if (report->is_cut)
                infp_str_puts(out, ", incomplete: the recording was interrupted");
        infp_str_puts(out, "</p></header>\n");
}

int infp_report_html(struct infp_out *out, const struct infp_report *report, struct infp_timeline *timeline)
{
        const size_t fixed = infp_page_script_size + infp_page_style_size;
        infp_cleanup(infp_html_code_done) struct infp_html_code code = { .n = 0 };
        size_t before;
        int r;

        INFP_TRY(infp_html_code_make(&code, timeline, CODE_BYTES, NULL));
        put_head(&out->text, report, infp_html_code_has(&code));
        put_top(&out->text, report);
        infp_str_puts(&out->text, "<main id=\"main\" tabindex=\"-1\">\n");
        infp_html_summary(&out->text, report);
        infp_html_labels(&out->text, report);
        INFP_TRY(infp_html_functions(&out->text, report, &code));
        infp_html_gil(&out->text, report);
        infp_html_tasks(&out->text, report);
        infp_html_lag(&out->text, report);
        infp_html_torch(&out->text, report);
        infp_html_program_spans(&out->text, report);
        infp_str_puts(&out->text, "<noscript><p class=\"notice\">Charts need JavaScript. The figures above are "
                                  "complete; the others are in <code>infprof report</code>.</p></noscript>\n"
                                  "<div id=\"page\"></div>\n"
                                  "</main>\n"
                                  "<footer>written by infprof " INFP_VERSION ", ");
        put_moment(&out->text, (int64_t) infp_clock_ns(CLOCK_REALTIME));
        infp_str_puts(&out->text, "</footer>\n");
        before = fixed + out->text.size;
        infp_html_code_scripts(&out->text, &code);
        infp_str_puts(&out->text, "<script type=\"application/json\" id=\"data\">");
        r = infp_html_data(&out->text, report, timeline, before < PAGE_BYTES ? PAGE_BYTES - before : 0);
        infp_str_puts(&out->text, "</script>\n<script>");
        infp_str_put(&out->text, infp_page_script, infp_page_script_size);
        infp_str_puts(&out->text, "</script>\n</body></html>\n");
        if (r < 0 || out->text.failed)
                return -ENOMEM;
        return out->error == -EPIPE ? 0 : out->error;
}
