#include "cli/nearest.h"

#include <string.h>

enum { MAX_WORD = 40 };

static unsigned least(unsigned a, unsigned b)
{
        return a < b ? a : b;
}

unsigned infp_edit_distance(const char *a, const char *b)
{
        unsigned rows[3][MAX_WORD + 1];
        const size_t n = strlen(a), m = strlen(b);

        if (n > MAX_WORD || m > MAX_WORD)
                return MAX_WORD;
        for (size_t j = 0; j <= m; j++)
                rows[0][j] = (unsigned) j;
        for (size_t i = 1; i <= n; i++) {
                const unsigned *above = rows[(i - 1) % 3], *two_above = rows[(i + 1) % 3];
                unsigned *row = rows[i % 3];

                row[0] = (unsigned) i;
                for (size_t j = 1; j <= m; j++) {
                        row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
                        if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                                row[j] = least(row[j], two_above[j - 2] + 1);
                }
        }
        return rows[n % 3][m];
}

/* At most two typos, and fewer in short words: `ls` is not `mark`. */
void infp_nearest_try(struct infp_nearest *nearest, const char *candidate)
{
        const unsigned distance = infp_edit_distance(nearest->word, candidate);

        if (distance > 2 || 2 * distance >= strlen(nearest->word))
                return;
        if (nearest->best && nearest->distance <= distance)
                return;
        nearest->best = candidate;
        nearest->distance = distance;
}
