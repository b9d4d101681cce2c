#include "finish/say.h"

#include <stdarg.h>
#include <stdio.h>

void infp_finish_say(const struct infp_finish_notices *notices, const char *format, ...)
{
        char text[1024];
        va_list ap;

        if (!notices || !notices->say)
                return;
        va_start(ap, format);
        vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        notices->say(notices->context, text);
}
