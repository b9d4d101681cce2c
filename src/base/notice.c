#include "base/notice.h"

#include <stdarg.h>
#include <stdio.h>

void infp_notice(const struct infp_notices *notices, const char *format, ...)
{
        char text[1024];
        va_list ap;

        if (!notices)
                return;
        if (notices->n)
                __atomic_fetch_add(notices->n, 1, __ATOMIC_RELAXED);
        if (!notices->say)
                return;
        va_start(ap, format);
        vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        notices->say(notices->context, text);
}

void infp_progress(const struct infp_notices *notices, const char *format, ...)
{
        char text[256];
        va_list ap;

        if (!notices || !notices->progress)
                return;
        va_start(ap, format);
        vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        notices->progress(notices->context, text);
}
