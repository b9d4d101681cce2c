/* The text of /proc/PID/maps. */
#include <string.h>

#include "sampler/spaces/space.h"

/* A number in base 10 or 16 at *at, which moves after it. False: there is none, or it is too large. */
static bool take_number(char **at, unsigned base, uint64_t *ret)
{
        uint64_t value = 0;
        unsigned n = 0;

        for (;; n++, (*at)++) {
                const char c = **at;
                unsigned digit;

                if (c >= '0' && c <= '9')
                        digit = (unsigned) (c - '0');
                else if (base == 16 && c >= 'a' && c <= 'f')
                        digit = (unsigned) (c - 'a') + 10;
                else
                        break;
                if (n == 20 || value > (UINT64_MAX - digit) / base)
                        return false;
                value = value * base + digit;
        }
        *ret = value;
        return n > 0;
}

static bool take_char(char **at, char c)
{
        if (**at != c)
                return false;
        (*at)++;
        return true;
}

/* The kernel writes a newline in a path as \012, and nothing else so. */
static void restore_newlines(char *path)
{
        char *into = strstr(path, "\\012");

        for (const char *from = into; from && *from;) {
                const bool is_newline = strncmp(from, "\\012", 4) == 0;

                *into++ = is_newline ? '\n' : *from;
                from += is_newline ? 4 : 1;
        }
        if (into)
                *into = 0;
}

static bool read_line(char *at, struct infp_maps_line *ret)
{
        uint64_t major, minor;

        if (!take_number(&at, 16, &ret->begin) || !take_char(&at, '-') || !take_number(&at, 16, &ret->end) ||
            !take_char(&at, ' ') || strnlen(at, 5) < 5 || ret->begin >= ret->end)
                return false;
        ret->is_readable = at[0] == 'r';
        ret->is_executable = at[2] == 'x';
        at += 4;
        if (!take_char(&at, ' ') || !take_number(&at, 16, &ret->offset) || !take_char(&at, ' ') ||
            !take_number(&at, 16, &major) || !take_char(&at, ':') || !take_number(&at, 16, &minor) ||
            !take_char(&at, ' ') || !take_number(&at, 10, &ret->inode) || major > UINT32_MAX || minor > UINT32_MAX)
                return false;
        ret->major = (uint32_t) major;
        ret->minor = (uint32_t) minor;
        at += strspn(at, " ");
        restore_newlines(at);
        ret->path = at;
        return true;
}

bool infp_maps_next(char **text, struct infp_maps_line *ret)
{
        while (**text) {
                char *line = *text, *end = strchr(line, '\n');

                if (end)
                        *end = 0;
                *text = end ? end + 1 : line + strlen(line);
                if (read_line(line, ret))
                        return true;
        }
        return false;
}

void infp_maps_fill_hole(struct infp_maps_line *line, const struct infp_maps_line *before,
                         const struct infp_maps_line *after)
{
        const uint64_t from_before = before->offset + (before->end - before->begin),
                       from_after = after->offset - (line->end - line->begin);

        if (!line->is_executable || !infp_object_is_memory(line->path) || before->end != line->begin ||
            after->begin != line->end || !before->inode || before->inode != after->inode ||
            before->major != after->major || before->minor != after->minor || infp_object_is_memory(before->path))
                return;
        /* Parts that are no code may lie elsewhere in the file than in memory. */
        if (from_before != from_after && before->is_executable == after->is_executable)
                return;
        line->offset = before->is_executable ? from_before : from_after;
        line->inode = before->inode;
        line->major = before->major;
        line->minor = before->minor;
        line->path = before->path;
}
