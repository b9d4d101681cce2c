/* What cli prints besides tables, reports and help: one line per call. It contains names, paths and answers of servers, so it
 * is escaped here. */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/time.h"
#include "cli/command.h"
#include "view/format.h"

static int print_error;

/* One write per line, so that two processes that share stderr do not mix their messages. */
static void put(int fd, const char *before, const char *format, va_list ap, const char *after, unsigned columns)
{
        infp_autostr struct infp_str text = { 0 }, tame = { 0 }, line = { 0 };
        int r;

        infp_str_vprintf(&text, format, ap);
        infp_text_tame(&tame, text.data ? text.data : "", text.size);
        infp_str_puts(&line, before);
        infp_str_put(&line, tame.data, infp_text_fit(tame.data, tame.size, columns, NULL));
        infp_str_puts(&line, after);
        r = tame.failed || line.failed ? -ENOMEM : infp_write_all(fd, line.data, line.size, NULL);
        if (r < 0 && fd == STDOUT_FILENO)
                print_error = r;
}

int infp_print_error(void)
{
        return print_error;
}

static bool is_progress_shown;

void infp_end_progress(void)
{
        static const char erase[] = "\r\033[K";

        if (is_progress_shown)
                infp_write_all(STDERR_FILENO, erase, strlen(erase), NULL);
        is_progress_shown = false;
}

void infp_say(const char *format, ...)
{
        va_list ap;

        infp_end_progress();
        va_start(ap, format);
        put(STDERR_FILENO, "infprof: ", format, ap, "\n", UINT_MAX);
        va_end(ap);
}

static void say_notice(void *context, const char *text)
{
        (void) context;
        infp_say("%s", text);
}

static void say_progress(void *context, const char *text)
{
        (void) context;
        infp_say_progress("%s", text);
}

const struct infp_notices infp_said = { .say = say_notice, .progress = say_progress };

void infp_say_progress(const char *format, ...)
{
        static const uint64_t pause_ns = 100 * INFP_NS_PER_MS;
        static uint64_t shown_ns;
        const uint64_t now = infp_clock_ns(CLOCK_MONOTONIC);
        va_list ap;

        if (now - shown_ns < pause_ns || !isatty(STDERR_FILENO))
                return;
        shown_ns = now;
        is_progress_shown = true;
        va_start(ap, format);
        /* A line that wraps cannot be removed. */
        put(STDERR_FILENO, "\r", format, ap, "\033[K", infp_terminal_width(STDERR_FILENO) - 1);
        va_end(ap);
}

void infp_print(const char *format, ...)
{
        va_list ap;

        infp_end_progress();
        va_start(ap, format);
        put(STDOUT_FILENO, "", format, ap, "\n", UINT_MAX);
        va_end(ap);
}

int infp_say_failure(const struct infp_err *err)
{
        infp_say("%s", err->text);
        return INFP_EXIT_FAILURE;
}

int infp_say_sql_failure(const struct infp_err *err)
{
        infp_autostr struct infp_str text = { 0 };

        infp_end_progress();
        infp_str_puts(&text, "infprof: ");
        infp_text_tame_lines(&text, err->text, strlen(err->text));
        infp_str_putc(&text, '\n');
        if (!text.failed)
                infp_write_all(STDERR_FILENO, text.data, text.size, NULL);
        return INFP_EXIT_FAILURE;
}
