#include "base/regex.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { MOST_OPEN = 1000, MOST_REPEATED = 10000, MOST_NODES = 500000 /* of 200 bytes each */ };

/* The larger bound of {m}, {m,}, {m,n}; at least 1. *at is left at its last character. */
static uint64_t repetitions(const char **at)
{
        uint64_t n = 0, most = 1;

        for (; (*at)[1] == ',' || ((*at)[1] >= '0' && (*at)[1] <= '9'); (*at)++) {
                n = (*at)[1] == ',' ? 0 : n < MOST_REPEATED ? 10 * n + (uint64_t) ((*at)[1] - '0') : n;
                most = n > most ? n : most;
        }
        return most;
}

/* glibc's expressions take gigabytes for a{255}{255}{255}, overflow the stack for 60,000 parentheses, and look for back-references,
 * which POSIX does not have in these, for hours. NULL: fine. */
static const char *why_too_large(const char *text)
{
        const size_t size = strlen(text);
        uint64_t n_repeated = 1;
        unsigned n_open = 0;

        for (const char *at = text; *at; at++) {
                if (*at == '\\' && at[1]) {
                        at++;
                        if (*at >= '1' && *at <= '9')
                                return "it has a back-reference";
                } else if (*at == '(' && ++n_open > MOST_OPEN) {
                        return "it has more than 1,000 parentheses";
                } else if (*at == '{') {
                        n_repeated *= repetitions(&at);
                        if (n_repeated > MOST_REPEATED)
                                return "its repetitions multiply to more than 10,000";
                }
        }
        return n_repeated * size > MOST_NODES ? "it is too long to be repeated so often" : NULL;
}

int infp_regex_compile(regex_t *ret, const char *text, struct infp_err *err)
{
        const char *too_large = why_too_large(text);
        char why[128];
        int r;

        if (too_large)
                return infp_fail(err, -EINVAL, "'%.100s' is not accepted as a regular expression: %s", text, too_large);
        r = regcomp(ret, text, REG_EXTENDED | REG_NOSUB);
        if (!r)
                return 0;
        regerror(r, ret, why, sizeof(why));
        return infp_fail(err, -EINVAL, "'%.100s' is not a regular expression: %s", text, why);
}
