#include "ring/where.h"

#include <string.h>

size_t infp_ring_append(char *ret, size_t cap, size_t at, const char *text)
{
        size_t size = strlen(text);

        if (at + size >= cap)
                return cap; /* from here on nothing fits */
        memcpy(ret + at, text, size + 1);
        return at + size;
}

size_t infp_ring_append_number(char *ret, size_t cap, size_t at, uint64_t number)
{
        char digits[21], *first = digits + sizeof digits - 1;

        *first = 0;
        do
                *--first = (char) ('0' + number % 10);
        while (number /= 10);
        return infp_ring_append(ret, cap, at, first);
}

int infp_ring_directory(unsigned index, uint32_t uid, const char *runtime_dir, char *ret, size_t cap)
{
        size_t at;

        switch (index) {
        case 0:
                at = infp_ring_append_number(ret, cap, infp_ring_append(ret, cap, 0, "/dev/shm/infprof-"), uid);
                break;
        case 1:
                if (!runtime_dir || runtime_dir[0] != '/')
                        return 0;
                at = infp_ring_append(ret, cap, infp_ring_append(ret, cap, 0, runtime_dir), "/infprof");
                break;
        case 2:
                at = infp_ring_append_number(ret, cap, infp_ring_append(ret, cap, 0, "/tmp/infprof-"), uid);
                break;
        default:
                return -1;
        }
        return at < cap ? (int) at : 0;
}
