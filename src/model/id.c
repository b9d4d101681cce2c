#include "model/id.h"

#include <string.h>

#include "base/hash.h"

enum { BOOT_ID = 36 };

static void put_le(unsigned char *at, uint64_t v, unsigned size)
{
        for (unsigned i = 0; i < size; i++)
                at[i] = (unsigned char) (v >> (8 * i));
}

/* The bytes are laid out by hand, not as a struct: ids lie in files and must be the same on every architecture. */
uint64_t infp_process_id(const char *boot_id, int32_t pid, uint64_t start_ticks)
{
        unsigned char bytes[BOOT_ID + 4 + 8] = { 0 };
        uint64_t id;

        memcpy(bytes, boot_id, strnlen(boot_id, BOOT_ID));
        put_le(bytes + BOOT_ID, (uint32_t) pid, 4);
        put_le(bytes + BOOT_ID + 4, start_ticks, 8);
        id = infp_hash64(bytes, sizeof(bytes), 0);
        return id ? id : 1;
}
