/* /tmp/perf-PID.map: a line a function, "begin size name", the first two in hexadecimal. The program appends to it while it runs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "symbols/jit_symbols.h"
#include "symbols/name.h"

enum { CHUNK = 1 << 18, MOST_LINE = 1 << 16 };

static int hex_digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        c |= 32;
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A number and the blank after it. */
static bool take_hex(const char **text, const char *end, uint64_t *ret)
{
        const char *s = *text;
        uint64_t number = 0;
        unsigned n = 0;

        while (s < end && (*s == ' ' || *s == '\t'))
                s++;
        if (end - s > 2 && s[0] == '0' && (s[1] | 32) == 'x')
                s += 2;
        for (; s < end && hex_digit(*s) >= 0; s++, n++)
                number = number << 4 | (uint64_t) hex_digit(*s);
        if (n == 0 || n > 16 || s == end || (*s != ' ' && *s != '\t'))
                return false;
        *ret = number;
        *text = s + 1;
        return true;
}

/* 0, 1: it is no entry, or a negative errno. */
static int take_line(struct infp_jit_symbols *jit, const char *line, const char *end)
{
        struct infp_jit_entry entry = { 0 };
        uint64_t size;
        int64_t name;
        int r;

        while (end > line && (end[-1] == '\r' || end[-1] == ' '))
                end--;
        if (!take_hex(&line, end, &entry.begin) || !take_hex(&line, end, &size) || !size ||
            entry.begin + size < entry.begin)
                return 1;
        while (line < end && (*line == ' ' || *line == '\t'))
                line++;
        if (line == end)
                return 1;
        entry.end = entry.begin + size;
        infp_symbol_text(&jit->made, line, (size_t) (end - line));
        if (jit->made.failed)
                return -ENOMEM;
        name = infp_jit_text(jit, jit->made.data, jit->made.size);
        if (name < 0)
                return (int) name;
        entry.name = (uint32_t) name;
        r = infp_jit_add(jit, &entry);
        return r;
}

/* All whole lines of a piece; *ret_used: so much was taken. */
static int take_lines(struct infp_jit_symbols *jit, const char *text, size_t size, size_t *ret_used)
{
        const char *at = text, *end = text + size, *line_end;
        int r;

        while ((line_end = memchr(at, '\n', (size_t) (end - at)))) {
                r = take_line(jit, at, line_end);
                if (r < 0)
                        return r;
                if (r > 0 && line_end > at)
                        jit->n_rejected++;
                at = line_end + 1;
        }
        *ret_used = (size_t) (at - text);
        return 0;
}

/* What stands in the file's last line without an end is left for the next time. */
static int read_on(struct infp_jit_symbols *jit, struct infp_jit_file *file, int fd, char *chunk)
{
        for (;;) {
                const ssize_t n = pread(fd, chunk, CHUNK, (off_t) file->at);
                size_t used = 0;

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : 0;
                INFP_TRY(take_lines(jit, chunk, (size_t) n, &used));
                if (!used && n <= MOST_LINE)
                        return 0;
                if (!used) { /* no line is that long */
                        jit->n_rejected++;
                        used = (size_t) n;
                }
                file->at += used;
        }
}

int infp_jit_symbols_read_perf_map(struct infp_jit_symbols *jit, int fd, struct infp_err *err)
{
        infp_autofree char *chunk = malloc(CHUNK);
        uint64_t size;
        struct infp_jit_file *file = infp_jit_file(jit, fd, &size);
        int r, q;

        if (!file)
                return infp_fail(err, -EBADMSG, "a perf map is not a file, or there are too many of them");
        if (!chunk)
                return infp_fail(err, -ENOMEM, "no memory to read a perf map");
        r = read_on(jit, file, fd, chunk);
        q = infp_jit_sort(jit);
        if (r == -ENOSPC) /* counted: what was read is good */
                r = 0;
        r = r < 0 ? r : q;
        return r < 0 ? infp_fail_errno(err, r, "cannot read a perf map") : 0;
}
