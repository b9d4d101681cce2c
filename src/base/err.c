#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void write_text(struct infp_err *err, const char *format, va_list ap)
{
        if (err)
                vsnprintf(err->text, sizeof(err->text), format, ap);
}

int infp_fail(struct infp_err *err, int r, const char *format, ...)
{
        va_list ap;

        va_start(ap, format);
        write_text(err, format, ap);
        va_end(ap);
        return r;
}

int infp_fail_errno(struct infp_err *err, int r, const char *format, ...)
{
        va_list ap;
        size_t length;

        va_start(ap, format);
        write_text(err, format, ap);
        va_end(ap);
        if (err) {
                length = strlen(err->text);
                snprintf(err->text + length, sizeof(err->text) - length, ": %s", strerror(-r));
        }
        return r;
}
