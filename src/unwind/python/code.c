#include "unwind/python/code.h"

#include <errno.h>
#include <string.h>

enum { NO_LINE = -128 };

static uint64_t word_at(const uint8_t *bytes, unsigned offset)
{
        uint64_t word;

        memcpy(&word, bytes + offset, sizeof(word));
        return word;
}

static uint32_t u32_at(const uint8_t *bytes, unsigned offset)
{
        uint32_t word;

        memcpy(&word, bytes + offset, sizeof(word));
        return word;
}

/* ---- texts ---- */

/* Writes a character; 0: there is no room. Halves of pairs stand for bytes that were no text (PEP 383), or for nothing. */
static unsigned put_character(char *into, size_t room, uint32_t c)
{
        static const char digits[] = "0123456789abcdef";
        unsigned n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

        if (c == 0 || (c >= 0xdc80 && c <= 0xdcff)) {
                if (room < 4)
                        return 0;
                memcpy(into, "\\x", 2);
                into[2] = digits[c >> 4 & 15];
                into[3] = digits[c & 15];
                return 4;
        }
        if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) {
                c = 0xfffd;
                n = 3;
        }
        if (room < n)
                return 0;
        if (n == 1) {
                into[0] = (char) c;
                return 1;
        }
        for (unsigned i = n; --i; c >>= 6)
                into[i] = (char) (0x80 | (c & 0x3f));
        into[0] = (char) ((0xf00 >> n & 0xff) | c);
        return n;
}

static void put_text(const uint8_t *data, unsigned kind, uint64_t length, char *ret)
{
        size_t n = 0;

        for (uint64_t i = 0; i < length; i++) {
                uint32_t c = 0;
                unsigned written;

                memcpy(&c, data + i * kind, kind); /* the lowest byte is the first */
                written = put_character(ret + n, INFP_PYTHON_TEXT - 1 - n, c);
                if (!written)
                        break;
                n += written;
        }
        ret[n] = 0;
}

int infp_python_text_read(const struct infp_python_layout *l, const struct infp_python_memory *memory, uint64_t address,
                          char *ret)
{
        uint8_t head[INFP_PYTHON_MAX_HEAD], data[4 * INFP_PYTHON_TEXT];
        const unsigned most = l->str_state > l->str_length ? l->str_state : l->str_length;
        uint64_t length;
        unsigned kind, is_compact, is_ascii;

        if (!address)
                return -EBADMSG;
        if (memory->read(memory->context, address, head, most + 8) < 0)
                return -EFAULT;
        length = word_at(head, l->str_length);
        kind = u32_at(head, l->str_state) >> l->str_kind_shift;
        is_compact = kind >> 3 & 1;
        is_ascii = kind >> 4 & 1;
        kind &= 7;
        if (!is_compact || (kind != 1 && kind != 2 && kind != 4) || (is_ascii && kind != 1) || length >> 63)
                return -EBADMSG;
        if (length > INFP_PYTHON_TEXT)
                length = INFP_PYTHON_TEXT;
        if (length && memory->read(memory->context, address + (is_ascii ? l->str_ascii : l->str_compact), data,
                                   length * kind) < 0)
                return -EFAULT;
        put_text(data, kind, length, ret);
        return 0;
}

/* ---- the object ---- */

static int read_line_table(const struct infp_python_layout *l, const struct infp_python_memory *memory,
                           uint64_t address, struct infp_python_code *ret)
{
        uint64_t size;

        if (!address)
                return -EBADMSG;
        if (memory->read(memory->context, address + l->bytes_size, &size, sizeof(size)) < 0)
                return -EFAULT;
        if (size >> 63)
                return -EBADMSG;
        ret->lines.table = size <= INFP_PYTHON_LINE_TABLE ? ret->line_table : NULL;
        ret->lines.table_size = ret->lines.table ? (uint32_t) size : 0;
        if (ret->lines.table_size &&
            memory->read(memory->context, address + l->bytes_data, ret->line_table, ret->lines.table_size) < 0)
                return -EFAULT;
        return 0;
}

static void read_places(const struct infp_python_layout *l, const uint8_t *bytes, uint64_t address,
                        struct infp_python_lines *ret)
{
        ret->first_line = u32_at(bytes, l->code_first_line);
        if (l->code_units == INFP_PYTHON_ABSENT) {
                ret->bytes = word_at(bytes, l->code_bytes) + l->bytes_data;
                ret->bytes_size = 0;
        } else {
                ret->bytes = address + l->code_bytes;
                ret->bytes_size = 2 * (word_at(bytes, l->code_units) & UINT32_MAX);
        }
}

int infp_python_code_read(const struct infp_python_layout *layout, const struct infp_python_memory *memory,
                          uint64_t type, uint64_t address, struct infp_python_code *ret)
{
        const struct infp_python_layout *l = layout;
        uint8_t bytes[INFP_PYTHON_MAX_CODE];
        uint64_t name;
        int r;

        if (!address)
                return -EBADMSG;
        if (memory->read(memory->context, address, bytes, l->code_size) < 0)
                return -EFAULT;
        if (type && word_at(bytes, l->object_type) != type)
                return -EBADMSG;
        read_places(l, bytes, address, &ret->lines);
        name = word_at(bytes, l->code_qualname != INFP_PYTHON_ABSENT ? l->code_qualname : l->code_name);
        r = infp_python_text_read(l, memory, word_at(bytes, l->code_file), ret->file);
        if (r == 0)
                r = infp_python_text_read(l, memory, name, ret->function);
        if (r == 0)
                r = read_line_table(l, memory, word_at(bytes, l->code_line_table), ret);
        return r;
}

/* ---- lines ---- */

/* Up to 3.9: pairs of bytes, how far the next line's code is and how many lines it is further. */
static int64_t line_by_lnotab(const struct infp_python_lines *lines, int64_t at)
{
        int64_t line = lines->first_line, address = 0;

        for (uint32_t i = 0; i + 1 < lines->table_size; i += 2) {
                address += lines->table[i];
                if (address > at)
                        break;
                line += (int8_t) lines->table[i + 1];
        }
        return line;
}

/* 3.10: pairs of bytes, how far a stretch of code reaches and how many lines it is further; -128: it has none. */
static int64_t line_by_pairs(const struct infp_python_lines *lines, int64_t at)
{
        int64_t line = lines->first_line, end = 0;

        for (uint32_t i = 0; i + 1 < lines->table_size; i += 2) {
                const int delta = (int8_t) lines->table[i + 1];

                end += lines->table[i];
                line += delta == NO_LINE ? 0 : delta;
                if (at < end)
                        return delta == NO_LINE ? 0 : line;
        }
        return 0;
}

/* A number of 6 bits a byte, the lowest first; bit 6: there are more. Moves *at after it. */
static uint64_t take_number(const struct infp_python_lines *lines, uint32_t *at)
{
        uint64_t number = 0;

        for (unsigned shift = 0; *at < lines->table_size; shift += 6) {
                const uint8_t byte = lines->table[(*at)++];

                if (shift < 60)
                        number |= (uint64_t) (byte & 63) << shift;
                if (!(byte & 64))
                        break;
        }
        return number;
}

static int64_t take_signed(const struct infp_python_lines *lines, uint32_t *at)
{
        const uint64_t number = take_number(lines, at);

        return number & 1 ? -(int64_t) (number >> 1) : (int64_t) (number >> 1);
}

/* From 3.11 on: entries of a first byte, which has bit 7, its kind, and its length in units of 2 bytes. */
static int64_t line_by_locations(const struct infp_python_lines *lines, int64_t at)
{
        int64_t line = lines->first_line, end = 0;

        for (uint32_t i = 0; i < lines->table_size;) {
                const uint8_t first = lines->table[i++];
                const unsigned kind = first >> 3 & 15;

                end += 2 * ((first & 7) + 1);
                if (kind == 13 || kind == 14)
                        line += take_signed(lines, &i);
                else if (kind >= 10 && kind <= 12)
                        line += kind - 10;
                if (line < 0 || line > UINT32_MAX)
                        return 0;
                if (at < end)
                        return kind == 15 ? 0 : line;
                while (i < lines->table_size && !(lines->table[i] & 0x80)) /* columns */
                        i++;
        }
        return 0;
}

uint32_t infp_python_code_line(const struct infp_python_layout *layout, const struct infp_python_lines *lines,
                               uint64_t instruction)
{
        const bool is_address = !layout->instruction_unit;
        int64_t at = (int64_t) (is_address ? instruction - lines->bytes : instruction), line;

        if (at < -2 || at >= (is_address ? (int64_t) lines->bytes_size : INT32_MAX)) /* not in this code */
                return 0;
        if (at < 0) /* it has not begun */
                return lines->first_line;
        if (!lines->table)
                return 0;
        if (!is_address)
                at *= layout->instruction_unit;
        if (layout->line_table_form == INFP_PYTHON_LNOTAB)
                line = line_by_lnotab(lines, at);
        else if (layout->line_table_form == INFP_PYTHON_PAIRS)
                line = line_by_pairs(lines, at);
        else
                line = line_by_locations(lines, at);
        return line > 0 && line <= UINT32_MAX ? (uint32_t) line : 0;
}
