#include "base/hash.h"

#include <xxhash.h>

uint64_t infp_hash64(const void *data, size_t size, uint64_t seed)
{
        return XXH64(data, size, seed);
}
