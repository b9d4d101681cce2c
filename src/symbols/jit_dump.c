/* jitdump, as in the kernel's tools/perf/Documentation/jitdump-specification.txt: a header, then records, in the byte order of the
 * machine that wrote it. The program appends to it while it runs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "symbols/jit_symbols.h"
#include "symbols/name.h"

#define MAGIC UINT32_C(0x4a695444)
enum { HEAD = 40, PREFIX = 16, FLAG_ARCH_TIME = 1 };
enum { CODE_LOAD = 0, CODE_MOVE = 1, DEBUG_INFO = 2 };
/* Of a record so much is looked at: names and lines stand before the code. */
enum { MOST_RECORD = 4 << 20 };

struct record {
        const uint8_t *at; /* of `size` bytes */
        size_t size;
        bool is_swapped, is_short;
};

static uint32_t take_u32(struct record *r)
{
        uint32_t v = 0;

        if (r->size < sizeof(v)) {
                r->is_short = true;
                return 0;
        }
        memcpy(&v, r->at, sizeof(v));
        r->at += sizeof(v);
        r->size -= sizeof(v);
        return r->is_swapped ? __builtin_bswap32(v) : v;
}

static uint64_t take_u64(struct record *r)
{
        uint64_t v = 0;

        if (r->size < sizeof(v)) {
                r->is_short = true;
                return 0;
        }
        memcpy(&v, r->at, sizeof(v));
        r->at += sizeof(v);
        r->size -= sizeof(v);
        return r->is_swapped ? __builtin_bswap64(v) : v;
}

/* NULL: it does not end. */
static const char *take_text(struct record *r, size_t *ret_size)
{
        const uint8_t *end = r->size ? memchr(r->at, 0, r->size) : NULL;
        const char *text = (const char *) r->at;

        if (!end) {
                r->is_short = true;
                return NULL;
        }
        *ret_size = (size_t) (end - r->at);
        r->size -= *ret_size + 1;
        r->at = end + 1;
        return text;
}

static int64_t keep_text(struct infp_jit_symbols *jit, const char *text, size_t size)
{
        infp_symbol_text(&jit->made, text, size);
        return jit->made.failed ? -ENOMEM : infp_jit_text(jit, jit->made.data ? jit->made.data : "", jit->made.size);
}

/* 0, 1: it is no good, or a negative errno. */
static int take_code(struct infp_jit_symbols *jit, struct infp_jit_file *file, struct record *r, uint64_t t_ns)
{
        struct infp_jit_entry entry = { .t_ns = t_ns, .is_dump = true };
        uint64_t size;
        size_t name_size = 0;
        const char *text;
        int64_t name;

        take_u32(r); /* process */
        take_u32(r); /* thread */
        take_u64(r); /* virtual address: the same as the next in all writers */
        entry.begin = take_u64(r);
        size = take_u64(r);
        take_u64(r); /* number of the code */
        text = take_text(r, &name_size);
        if (r->is_short || !size || entry.begin + size < entry.begin)
                return 1;
        entry.end = entry.begin + size;
        entry.code = entry.begin;
        if (file->n_lines && file->code == entry.begin) {
                entry.line = file->line;
                entry.n_lines = file->n_lines;
        }
        file->n_lines = 0;
        name = keep_text(jit, text, name_size);
        if (name < 0)
                return (int) name;
        entry.name = (uint32_t) name;
        return infp_jit_add(jit, &entry);
}

enum { MOST_UNSORTED = 1 << 14 }; /* of a file that moves all of its code again and again */

/* The newest piece of code that begins there. */
static const struct infp_jit_entry *code_at(const struct infp_jit_symbols *jit, uint64_t address)
{
        const size_t n = infp_jit_up_to(jit, address);

        for (size_t i = jit->n; i > jit->n_sorted && jit->n - i < MOST_UNSORTED; i--)
                if (jit->entries[i - 1].begin == address)
                        return &jit->entries[i - 1];
        return n && jit->entries[n - 1].begin == address ? &jit->entries[n - 1] : NULL;
}

static int take_move(struct infp_jit_symbols *jit, struct record *r, uint64_t t_ns)
{
        struct infp_jit_entry entry;
        const struct infp_jit_entry *moved;
        uint64_t from, to, size;

        take_u32(r);
        take_u32(r);
        take_u64(r);
        from = take_u64(r);
        to = take_u64(r);
        size = take_u64(r);
        moved = code_at(jit, from);
        if (r->is_short || !moved || !size || to + size < to)
                return 1;
        entry = *moved;
        entry.begin = to;
        entry.end = to + size;
        entry.t_ns = t_ns;
        return infp_jit_add(jit, &entry);
}

static int add_line(struct infp_jit_symbols *jit, const struct infp_jit_line *line)
{
        if (jit->n_lines >= INFP_JIT_MAX_LINES) {
                jit->is_full = true;
                return -ENOSPC;
        }
        if (!INFP_MAKE_ROOM(jit->lines, jit->n_lines, jit->cap_lines, 256))
                return -ENOMEM;
        jit->lines[jit->n_lines++] = *line;
        return 0;
}

/* Node.js (20) writes memory that it has freed in place of the names of its files; entries after such a name are not valid. */
static bool is_path(const char *text, size_t size)
{
        size_t i = 0;

        while (i < size) {
                const unsigned n = infp_utf8_length(text + i, size - i);

                if (!n || (uint8_t) text[i] < ' ')
                        return false;
                i += n;
        }
        return size > 0;
}

/* Lines of the code that the next record loads. A name of one byte 0xff is that of the entry before. */
static int take_lines(struct infp_jit_symbols *jit, struct infp_jit_file *file, struct record *r)
{
        uint64_t n;
        int64_t name = -1;

        file->code = take_u64(r);
        n = take_u64(r);
        file->line = (uint32_t) jit->n_lines;
        file->n_lines = 0;
        for (uint64_t i = 0; i < n && !r->is_short; i++) {
                struct infp_jit_line line = { 0 };
                size_t size = 0;
                const char *text;
                bool is_new;

                line.address = take_u64(r); /* in this order: that of an initializer's parts is not specified */
                line.line = take_u32(r);
                take_u32(r); /* discriminator */
                text = take_text(r, &size);
                if (r->is_short)
                        return 1;
                is_new = name < 0 || !(size == 1 && (uint8_t) text[0] == 0xff);
                if (line.address < file->code || (is_new && !is_path(text, size))) {
                        jit->n_lines = file->line;
                        file->n_lines = 0;
                        return 0;
                }
                if (is_new)
                        name = keep_text(jit, text, size);
                if (name < 0)
                        return (int) name;
                line.file = (uint32_t) name;
                INFP_TRY(add_line(jit, &line));
                file->n_lines++;
        }
        return r->is_short;
}

static int take_record(struct infp_jit_symbols *jit, struct infp_jit_file *file, uint32_t id, uint64_t t_ns,
                       struct record *r)
{
        switch (id) {
        case CODE_LOAD:
                return take_code(jit, file, r, t_ns);
        case CODE_MOVE:
                return take_move(jit, r, t_ns);
        case DEBUG_INFO:
                return take_lines(jit, file, r);
        default: /* unwinding, close, and what is still to be invented */
                return 0;
        }
}

/* 1: more is to be read, 0: no whole record is left. */
static int read_record(struct infp_jit_symbols *jit, struct infp_jit_file *file, int fd, uint64_t size, uint8_t *buffer)
{
        struct record prefix = { .at = buffer, .size = PREFIX, .is_swapped = file->is_swapped }, r;
        uint32_t id, total;
        uint64_t t_ns;
        size_t looked;
        int result;

        if (size - file->at < PREFIX || pread(fd, buffer, PREFIX, (off_t) file->at) != PREFIX)
                return 0;
        id = take_u32(&prefix);
        total = take_u32(&prefix);
        t_ns = take_u64(&prefix);
        if (total < PREFIX) {
                file->is_broken = true;
                jit->n_rejected++;
                return 0;
        }
        if (total > size - file->at)
                return 0;
        looked = total - PREFIX < MOST_RECORD ? total - PREFIX : MOST_RECORD;
        if (id <= DEBUG_INFO) {
                if (pread(fd, buffer, looked, (off_t) (file->at + PREFIX)) != (ssize_t) looked)
                        return 0;
                r = (struct record){ .at = buffer, .size = looked, .is_swapped = file->is_swapped };
                result = take_record(jit, file, id, file->has_time ? t_ns : 0, &r);
                if (result < 0)
                        return result;
                jit->n_rejected += result > 0;
        }
        file->at += total;
        return 1;
}

static int read_head(struct infp_jit_file *file, int fd, uint64_t size, uint8_t *buffer)
{
        struct record r = { .at = buffer, .size = HEAD };
        uint32_t magic, total;

        if (size < HEAD || pread(fd, buffer, HEAD, 0) != HEAD)
                return 0; /* not written yet */
        magic = take_u32(&r);
        if (magic != MAGIC && magic != __builtin_bswap32(MAGIC))
                return -EBADMSG;
        file->is_swapped = r.is_swapped = magic != MAGIC;
        take_u32(&r); /* version */
        total = take_u32(&r);
        if (total < HEAD || total > size)
                return -EBADMSG;
        r.at += 20; /* machine, padding, process, time */
        r.size -= 20;
        file->has_time = !(take_u64(&r) & FLAG_ARCH_TIME); /* else by the CPU's counter, which we do not convert */
        file->at = total;
        return 0;
}

int infp_jit_symbols_read_jitdump(struct infp_jit_symbols *jit, int fd, struct infp_err *err)
{
        infp_autofree uint8_t *buffer = NULL;
        uint64_t size, left;
        struct infp_jit_file *file = infp_jit_file(jit, fd, &size);
        int r = 1, q;

        if (!file)
                return infp_fail(err, -EBADMSG, "a jitdump is not a file, or there are too many of them");
        left = size > file->at ? size - file->at : 0;
        buffer = malloc(left > HEAD ? left < MOST_RECORD ? left : MOST_RECORD : HEAD);
        if (!buffer)
                return infp_fail(err, -ENOMEM, "no memory to read a jitdump");
        if (!file->at && read_head(file, fd, size, buffer) < 0)
                return infp_fail(err, -EBADMSG, "the file mapped as a jitdump is not a valid one");
        while (file->at && !file->is_broken && r > 0)
                r = read_record(jit, file, fd, size, buffer);
        q = infp_jit_sort(jit);
        r = r == -ENOSPC ? 0 : r;
        r = r < 0 ? r : q;
        return r < 0 ? infp_fail_errno(err, r, "cannot read a jitdump") : 0;
}
