#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/command.h"

/* One write for the whole line: two processes that share stderr do not mix their words. */
void infp_say(const char *format, ...)
{
        char line[1024] = "infprof: ";
        size_t used = 9;
        va_list ap;
        int n;

        va_start(ap, format);
        n = vsnprintf(line + used, sizeof(line) - used - 1, format, ap);
        va_end(ap);
        if (n < 0)
                return;
        used += (size_t) n < sizeof(line) - used - 1 ? (size_t) n : sizeof(line) - used - 2;
        line[used++] = '\n';
        (void) !write(STDERR_FILENO, line, used);
}

int infp_say_failure(const struct infp_err *err)
{
        infp_say("%s", err->text);
        return INFP_EXIT_FAILURE;
}
