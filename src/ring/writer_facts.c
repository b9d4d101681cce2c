#include "ring/writer_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int infp_writer_read(const char *path, char *ret, size_t cap)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        ssize_t n;

        if (fd < 0)
                return -errno;
        n = read(fd, ret, cap - 1);
        if (n < 0)
                n = -errno;
        close(fd);
        ret[n > 0 ? n : 0] = 0;
        return (int) n;
}

size_t infp_writer_append(char *ret, size_t cap, size_t at, const char *text)
{
        size_t size = strlen(text);

        if (at >= cap || size >= cap - at)
                return cap;
        memcpy(ret + at, text, size + 1);
        return at + size;
}

size_t infp_writer_number(char *ret, size_t cap, size_t at, uint64_t number)
{
        char digits[21], *first = digits + sizeof digits - 1;

        *first = 0;
        do
                *--first = (char) ('0' + number % 10);
        while (number /= 10);
        return infp_writer_append(ret, cap, at, first);
}

uint64_t infp_writer_parse(const char **text)
{
        uint64_t number = 0;

        for (; **text >= '0' && **text <= '9'; ++*text)
                number = number > UINT64_MAX / 10 - 1 ? UINT64_MAX / 10 - 1 : number * 10 + (uint64_t) (**text - '0');
        return number;
}

uint64_t infp_writer_start_ticks(const char *stat_path)
{
        char text[1024];
        const char *at;

        if (infp_writer_read(stat_path, text, sizeof text) <= 0 || !(at = strrchr(text, ')')))
                return 0;
        for (unsigned field = 2; field < 22 && at;
             field++) /* a name may hold blanks and brackets: the last one ends it */
                at = strchr(at + 1, ' ');
        if (!at)
                return 0;
        at++;
        return infp_writer_parse(&at);
}

void infp_writer_boot_id(uint8_t ret[16])
{
        char text[64];
        unsigned n = 0;

        memset(ret, 0, 16);
        if (infp_writer_read("/proc/sys/kernel/random/boot_id", text, sizeof text) <= 0)
                return;
        for (const char *at = text; *at && n < 32; at++) {
                unsigned c = (unsigned char) *at;
                unsigned digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;

                if (digit < 16) {
                        ret[n / 2] = (uint8_t) (ret[n / 2] << 4 | digit);
                        n++;
                }
        }
}

uint64_t infp_writer_pid_namespace(void)
{
        struct stat st;

        return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}
