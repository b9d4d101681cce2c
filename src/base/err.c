#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/debug.h"

static void write_text(struct infp_err *err, const char *format, va_list ap)
{
        struct infp_err unwanted;

        if (!err && !infp_debug_is_on())
                return;
        err = err ? err : &unwanted;
        vsnprintf(err->text, sizeof(err->text), format, ap);
        infp_debug("failed: %s", err->text);
}

int infp_fail(struct infp_err *err, int r, const char *format, ...)
{
        va_list ap;

        va_start(ap, format);
        write_text(err, format, ap);
        va_end(ap);
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
        va_list ap;

        va_start(ap, format);
        write_text(err, format, ap);
        va_end(ap);
        if (err)
                append_reason(err, r == -EMFILE ? "Too many open files (" INFP_MORE_FDS ")" : strerror(-r));
        return r;
}
