#include "record/notice.h"

#include <stdarg.h>
#include <stdio.h>

void infp_notice(const struct infp_notices *notices, const char *format, ...)
{
        char text[800];
        va_list ap;

        if (notices->stats)
                infp_stat_add(&notices->stats->notices, 1);
        if (!notices->say)
                return;
        va_start(ap, format);
        vsnprintf(text, sizeof text, format, ap);
        va_end(ap);
        notices->say(notices->context, text);
}
