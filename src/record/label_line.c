#include "record/label_line.h"

#include <string.h>

#include "base/text.h"

/* MARK_SIZE without the 0. Of a line that is too long the newest KEPT bytes stay: enough for a label after a progress bar. */
static const char mark[] = "measure_label-", filename[] = "filename:";
enum { MARK_SIZE = sizeof mark - 1, FILENAME_SIZE = sizeof filename - 1, KEPT = 1024, MAX_DIGITS = 10 };

struct piece {
        const char *at;
        size_t size;
};

static bool is_blank(char c)
{
        return c == ' ' || c == '\t' || c == '\0';
}

static struct piece trim(struct piece p)
{
        while (p.size && is_blank(p.at[0]))
                p = (struct piece){ p.at + 1, p.size - 1 };
        while (p.size && is_blank(p.at[p.size - 1]))
                p.size--;
        return p;
}

static const char *find_last_mark(struct piece p)
{
        const char *ret = NULL, *at;

        while ((at = memmem(p.at, p.size, mark, MARK_SIZE))) {
                ret = at;
                p.size -= (size_t) (at + MARK_SIZE - p.at);
                p.at = at + MARK_SIZE;
        }
        return ret;
}

/* "1703462400.25": decimal digits of seconds and of their fraction, no sign, no exponent; exact to the nanosecond. */
static bool read_epoch(struct piece p, int64_t *ret_ns)
{
        int64_t seconds = 0, ns = 0, unit = 1000000000;
        size_t i = 0;

        while (i < p.size && p.at[i] >= '0' && p.at[i] <= '9') {
                if (i == MAX_DIGITS)
                        return false;
                seconds = 10 * seconds + (p.at[i++] - '0');
        }
        if (i == 0 || seconds > INT64_MAX / 1000000000 - 1)
                return false;
        if (i < p.size && p.at[i] == '.')
                for (i++; i < p.size && p.at[i] >= '0' && p.at[i] <= '9'; i++)
                        ns += (p.at[i] - '0') * (unit /= 10);
        *ret_ns = seconds * 1000000000 + ns;
        return i == p.size;
}

/* Cuts between two characters, never within one. */
static size_t cut_tag(struct piece p)
{
        size_t n = 0;

        if (p.size <= INFP_LABEL_TAG)
                return p.size;
        while (n < INFP_LABEL_TAG) {
                unsigned length = infp_utf8_length(p.at + n, p.size - n);

                length = length ? length : 1;
                if (n + length > INFP_LABEL_TAG)
                        break;
                n += length;
        }
        return n;
}

static void give(struct piece tag, struct infp_label *label, infp_label_found *found, void *context)
{
        tag = trim(tag);
        if (!tag.size)
                return;
        label->tag = tag.at;
        label->size = cut_tag(tag);
        found(context, label);
}

/* What follows the mark. */
static void read_label(struct piece rest, bool is_first, infp_label_found *found, void *context)
{
        struct infp_label label = { .epoch = INFP_LABEL_NO_TIME };
        const char *colon = memrchr(rest.at, ':', rest.size);
        struct piece tag = rest, value = { rest.at, 0 };

        if (is_first && rest.size >= FILENAME_SIZE && !memcmp(rest.at, filename, FILENAME_SIZE)) {
                label.is_filename = true;
                give((struct piece){ rest.at + FILENAME_SIZE, rest.size - FILENAME_SIZE }, &label, found, context);
                return;
        }
        if (colon) {
                tag.size = (size_t) (colon - rest.at);
                value = trim((struct piece){ colon + 1, rest.size - tag.size - 1 });
        }
        if (value.size)
                label.epoch = read_epoch(value, &label.unix_ns) ? INFP_LABEL_HAS_TIME : INFP_LABEL_BAD_TIME;
        if (is_first || label.epoch == INFP_LABEL_HAS_TIME)
                give(tag, &label, found, context);
}

/* The bytes after an ESC that belong to it: CSI up to its final byte, OSC up to BEL or ESC \, else the next byte. */
static size_t escape_size(struct piece p)
{
        size_t i = 1;

        if (p.size < 2)
                return p.size;
        if (p.at[1] == '[') {
                for (i = 2; i < p.size && (p.at[i] < 0x40 || p.at[i] > 0x7e); i++)
                        ;
                return i < p.size ? i + 1 : i;
        }
        if (p.at[1] == ']') {
                for (i = 2; i < p.size && p.at[i] != '\a' && p.at[i] != '\033'; i++)
                        ;
                if (i < p.size && p.at[i] == '\033' && i + 1 < p.size && p.at[i + 1] == '\\')
                        i++;
                return i < p.size ? i + 1 : i;
        }
        return 2;
}

static struct piece without_escapes(struct piece p, char *room)
{
        size_t n = 0;

        if (!memchr(p.at, '\033', p.size))
                return p;
        while (p.size) {
                size_t skip = p.at[0] == '\033' ? escape_size(p) : 0;

                if (!skip) {
                        room[n++] = p.at[0];
                        skip = 1;
                }
                p = (struct piece){ p.at + skip, p.size - skip };
        }
        return (struct piece){ room, n };
}

static struct piece newest(struct piece line)
{
        return line.size > KEPT ? (struct piece){ line.at + line.size - KEPT, KEPT } : line;
}

/* After other text of its line. */
static void read_behind(struct piece line, infp_label_found *found, void *context)
{
        const char *at = find_last_mark(line);

        if (at)
                read_label((struct piece){ at + MARK_SIZE, line.size - (size_t) (at + MARK_SIZE - line.at) }, false,
                           found, context);
}

/* The end of a line that is too long. */
static void read_tail(struct piece line, infp_label_found *found, void *context)
{
        char room[INFP_LABEL_LINE];

        read_behind(trim(without_escapes(newest(line), room)), found, context);
}

static void read_line(struct piece line, infp_label_found *found, void *context)
{
        char room[INFP_LABEL_LINE];

        if (line.size > sizeof room) {
                read_tail(line, found, context);
                return;
        }
        if (line.size < MARK_SIZE || !memmem(line.at, line.size, mark, MARK_SIZE))
                return;
        line = trim(without_escapes(line, room));
        if (line.size >= MARK_SIZE && !memcmp(line.at, mark, MARK_SIZE))
                read_label((struct piece){ line.at + MARK_SIZE, line.size - MARK_SIZE }, true, found, context);
        else
                read_behind(line, found, context);
}

/* At least the newest KEPT bytes of a line that is too long stay. */
static void keep(struct infp_label_lines *lines, struct piece p)
{
        if (lines->size + p.size > sizeof lines->line) {
                lines->is_cut = true;
                if (p.size > KEPT) {
                        p = (struct piece){ p.at + p.size - KEPT, KEPT };
                        lines->size = 0;
                } else if (lines->size > KEPT) {
                        memmove(lines->line, lines->line + lines->size - KEPT, KEPT);
                        lines->size = KEPT;
                }
        }
        memcpy(lines->line + lines->size, p.at, p.size);
        lines->size += p.size;
}

static void end_line(struct infp_label_lines *lines, struct piece line, infp_label_found *found, void *context)
{
        if (lines->size || lines->is_cut) {
                keep(lines, line);
                infp_label_lines_end(lines, found, context);
        } else {
                read_line(line, found, context);
        }
}

void infp_label_lines_feed(struct infp_label_lines *lines, const char *bytes, size_t size, infp_label_found *found,
                           void *context)
{
        const char *end = bytes + size;

        while (bytes < end) {
                const char *newline = memchr(bytes, '\n', (size_t) (end - bytes));
                const char *stop = newline ? newline : end, *carriage;

                while ((carriage = memchr(bytes, '\r', (size_t) (stop - bytes)))) {
                        end_line(lines, (struct piece){ bytes, (size_t) (carriage - bytes) }, found, context);
                        bytes = carriage + 1;
                }
                if (!newline) {
                        keep(lines, (struct piece){ bytes, (size_t) (stop - bytes) });
                        return;
                }
                end_line(lines, (struct piece){ bytes, (size_t) (stop - bytes) }, found, context);
                bytes = newline + 1;
        }
}

void infp_label_lines_end(struct infp_label_lines *lines, infp_label_found *found, void *context)
{
        if (lines->is_cut)
                read_tail((struct piece){ lines->line, lines->size }, found, context);
        else
                read_line((struct piece){ lines->line, lines->size }, found, context);
        lines->size = 0;
        lines->is_cut = false;
}
