#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/time.h"
#include "store/run.h"

static void fill_random(uint8_t *ret, size_t size)
{
        uint64_t seed[2] = { infp_clock_ns(CLOCK_MONOTONIC), (uint64_t) getpid() };

        if (getrandom(ret, size, GRND_NONBLOCK) == (ssize_t) size)
                return;
        /* Early at boot, before the kernel's pool is ready: it must be unique, not secret. */
        for (size_t i = 0; i < size; i++)
                ret[i] = (uint8_t) infp_hash64(seed, sizeof(seed), i);
}

/* RFC 9562: 48 bits of Unix ms, then 12 bits of the fraction of the ms, so that runs of one ms sort too, then chance. */
void infp_uuid_make(char ret[37])
{
        uint64_t ns = infp_clock_ns(CLOCK_REALTIME), ms = ns / INFP_NS_PER_MS;
        unsigned fraction = (unsigned) ((ns % INFP_NS_PER_MS) * 4096 / INFP_NS_PER_MS);
        uint8_t chance[8];

        fill_random(chance, sizeof(chance));
        chance[0] = (uint8_t) ((chance[0] & 0x3f) | 0x80);
        snprintf(ret, 37, "%08x-%04x-7%03x-%02x%02x-%02x%02x%02x%02x%02x%02x", (unsigned) (ms >> 16),
                 (unsigned) (ms & 0xffff), fraction, chance[0], chance[1], chance[2], chance[3], chance[4], chance[5],
                 chance[6], chance[7]);
}

bool infp_uuid_check(const char *text)
{
        for (unsigned i = 0; i < 36; i++) {
                bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;

                if (is_dash ? text[i] != '-' : !text[i] || !strchr("0123456789abcdef", text[i]))
                        return false;
        }
        return text[36] == 0;
}

int64_t infp_uuid_unix_ms(const char *uuid)
{
        unsigned high, low;

        if (!infp_uuid_check(uuid) || uuid[14] != '7' || sscanf(uuid, "%8x-%4x", &high, &low) != 2)
                return 0;
        return (int64_t) ((uint64_t) high << 16 | low);
}
