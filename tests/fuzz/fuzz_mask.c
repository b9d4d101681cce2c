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

static void check(const uint8_t *data, size_t size, const char *secret, size_t secret_size)
{
        const size_t cap = 5 * (size + secret_size) + 100;
        infp_autofree char *line = malloc(size + secret_size), *whole = malloc(cap), *part = malloc(cap);
        size_t n, m;

        if (!line || !whole || !part)
                return;
        memcpy(line, data, size);
        memcpy(line + size, secret, secret_size);
        n = infp_mask_cmdline(line, size + secret_size, false, whole, cap);
        expect(n < cap);
        if (!memmem(line, size, "Geheimnis42", 11))
                expect(!memmem(whole, n, "Geheimnis42", 11));
        m = infp_mask_cmdline(line, size + secret_size, false, part, n / 2);
        expect(m <= n / 2 && memcmp(part, whole, m) == 0);
        m = infp_mask_cmdline(line, size, true, part, cap);
        expect(m < cap);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const struct {
                const char *text;
                size_t size;
        } secrets[] = {
#define SECRET(text) { text, sizeof(text) }
                SECRET("\0--password\0Geheimnis42"),
                SECRET("\0--bearer=Geheimnis42"),
                SECRET("\0-u\0alice:Geheimnis42"),
                SECRET("\0--user=alice:Geheimnis42"),
                SECRET("\0-b\0sid=Geheimnis42"),
                SECRET("\0-H\0X-Own: Geheimnis42"),
                SECRET("\0--dsn\0Server=h;Pwd=Geheimnis42;"),
                SECRET("\0https://hooks.slack.com/services/T/Geheimnis42"),
        };

        check(data, size, secrets[size % INFP_COUNT(secrets)].text, secrets[size % INFP_COUNT(secrets)].size);
        (void) infp_mask_is_secret_name((const char *) data, size);
        return 0;
}
