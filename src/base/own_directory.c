#include "base/own_directory.h"

#include <string.h>
#include <sys/types.h>
#include <unistd.h>

void infp_own_directory(char *ret, size_t cap)
{
        const ssize_t n = readlink("/proc/self/exe", ret, cap);
        char *slash;

        ret[n > 0 && (size_t) n < cap ? n : 0] = 0;
        slash = strrchr(ret, '/');
        if (slash)
                *slash = 0;
}
