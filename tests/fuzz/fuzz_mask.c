/* Any command line: nothing is written beyond the buffer, a smaller buffer shows the beginning of the same, and a secret
 * that stands behind it is masked all the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/mask.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool truth)
{
        if (!truth)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const char secret[] = "\0--password\0Geheimnis42";
        const size_t cap = 5 * size + 100;
        infp_autofree char *line = malloc(size + sizeof(secret)), *whole = malloc(cap), *part = malloc(cap);
        size_t n, m;

        if (!line || !whole || !part)
                return 0;
        memcpy(line, data, size);
        memcpy(line + size, secret, sizeof(secret));
        n = infp_mask_cmdline(line, size + sizeof(secret), false, whole, cap);
        expect(n < cap);
        if (!memmem(line, size, "Geheimnis42", 11))
                expect(!memmem(whole, n, "Geheimnis42", 11));
        m = infp_mask_cmdline(line, size + sizeof(secret), false, part, n / 2);
        expect(m <= n / 2 && memcmp(part, whole, m) == 0);
        m = infp_mask_cmdline(line, size, true, part, cap);
        expect(m < cap);
        (void) infp_mask_is_secret_name((const char *) data, size);
        return 0;
}
