/* /proc/PID/smaps, with any bytes and cut anywhere: rows add up, and their names are within the text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "collectors/memory/smaps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool truth)
{
        if (!truth)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static struct infp_smaps smaps;
        struct infp_smaps_row rows[INFP_SMAPS_MOST_ROWS];
        const size_t step = size ? data[0] + 1u : 1;
        uint64_t bytes, sum = 0;
        char *text = malloc(size ? size : 1);
        unsigned n;

        expect(text != NULL);
        if (size)
                memcpy(text, data, size);
        infp_smaps_begin(&smaps);
        smaps.stack_bytes = (uint64_t) (size > 1 ? data[1] : 0) << 12;
        for (size_t i = 0; i < size; i += step)
                infp_smaps_add(&smaps, text + i, size - i < step ? size - i : step);
        free(text);                                        /* names are copies */
        for (uint32_t i = 0; i < smaps.n_joined; i += 2) { /* what pagemap says may be of another moment */
                smaps.joined[i].has_stack = true;
                smaps.joined[i].stack = smaps.joined[i].begin;
        }
        n = infp_smaps_end(&smaps, rows, &bytes);
        expect(n <= INFP_SMAPS_MOST_ROWS);
        if (n && rows[n - 1].kind == INFP_MEMORY_SWAP)
                n--;
        for (unsigned i = 0; i < n; i++) {
                expect(rows[i].bytes > 0 && rows[i].kind < INFP_MEMORY_UNEXPLAINED);
                expect(!rows[i].size || (rows[i].name && memchr(rows[i].name, '\n', rows[i].size) == NULL));
                sum += rows[i].bytes;
        }
        expect(sum == bytes);
        return 0;
}
