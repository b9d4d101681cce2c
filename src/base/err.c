#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/debug.h"

static void write_text(struct infp_err *err, const char *format, va_list ap)
{
        if (err)
                vsnprintf(err->text, sizeof(err->text), format, ap);
}

/* Where the text goes; NULL: nobody wants it. */
static struct infp_err *wanted(struct infp_err *err, struct infp_err *own)
{
        return err || !infp_debug_is_on() ? err : own;
}

const char *infp_more_fds(void)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur < 1024)
                return "`ulimit -n 1024` allows more";
        return "`ulimit -n $(ulimit -Hn)` allows more";
}

int infp_fail(struct infp_err *err, int r, const char *format, ...)
{
        struct infp_err own = { "" };
        va_list ap;

        err = wanted(err, &own);
        va_start(ap, format);
        write_text(err, format, ap);
        va_end(ap);
        if (err)
                infp_debug("failed: %s", err->text);
        return r;
}

/* Of a name of thousands of bytes the end goes, not the reason behind it. */
static void append_reason(struct infp_err *err, const char *reason)
{
        const size_t cap = sizeof(err->text), length = strlen(err->text), size = strlen(reason) + 2;
        const bool fits = length + size < cap;

        snprintf(err->text + (fits ? length : cap - size - 4), fits ? cap - length : size + 4, "%s: %s",
                 fits ? "" : "...", reason);
}

int infp_fail_errno(struct infp_err *err, int r, const char *format, ...)
{
        struct infp_err own = { "" };
        char many[80];
        va_list ap;

        err = wanted(err, &own);
        va_start(ap, format);
        write_text(err, format, ap);
        va_end(ap);
        if (!err)
                return r;
        snprintf(many, sizeof(many), "Too many open files (%s)", infp_more_fds());
        append_reason(err, r == -EMFILE ? many : strerror(-r));
        infp_debug("failed: %s", err->text);
        return r;
}
