/* Names of code made at run time, by what programs write about it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/sort.h"
#include "base/str.h"
#include "base/text.h"
#include "symbols/name.h"
#include "symbols/symbols.h"

enum {
        MAX_ENTRIES = 1 << 20,
        MAX_TEXT = 128 << 20,
        MAX_LINES = 4 << 20,
        MAX_NAME = 4096,
        MAX_FILES = 64,
};

struct jit_entry {
        uint64_t begin, end, t_ns;
        uint32_t order;         /* a later one is newer */
        uint32_t name;          /* in text */
        uint32_t line, n_lines; /* in lines; 0: none */
        uint64_t code;          /* where `lines` say that it begins: it may have been moved since */
        bool is_dump;
};
struct jit_line {
        uint64_t address;
        uint32_t line, file; /* in text */
};

/* How far a file was read. */
struct jit_file {
        uint64_t device, inode, at;
        bool is_swapped, has_time, is_broken;
        uint32_t line, n_lines; /* of the last debug record: they belong to the next piece of code */
        uint64_t code;
};

struct infp_jit_symbols {
        struct jit_entry *entries; /* by begin, then order, once sorted */
        uint64_t *most;            /* of entries: the greatest end of it and all before */
        struct jit_line *lines;
        size_t n, cap, n_lines, cap_lines, n_sorted;
        struct infp_str text, made; /* texts, each with a 0 after it; what the last look-up shows */
        struct jit_file files[MAX_FILES];
        unsigned n_files;
        uint64_t n_rejected;
        bool is_full;
};

int infp_jit_symbols_new(struct infp_jit_symbols **ret)
{
        *ret = calloc(1, sizeof(**ret));
        return *ret ? 0 : -ENOMEM;
}

struct infp_jit_symbols *infp_jit_symbols_free(struct infp_jit_symbols *jit)
{
        if (!jit)
                return NULL;
        free(jit->entries);
        free(jit->most);
        free(jit->lines);
        infp_str_done(&jit->text);
        infp_str_done(&jit->made);
        free(jit);
        return NULL;
}

void infp_jit_symbols_counts(const struct infp_jit_symbols *jit, struct infp_jit_counts *ret)
{
        *ret = (struct infp_jit_counts){ jit->n, jit->n_rejected, jit->is_full };
}

/* One that became shorter, or another one in its place, is read from its begin. */
static struct jit_file *jit_file(struct infp_jit_symbols *jit, int fd, uint64_t *ret_size)
{
        struct jit_file *file = NULL;
        struct stat st;

        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return NULL;
        for (unsigned i = 0; i < jit->n_files && !file; i++)
                if (jit->files[i].inode == (uint64_t) st.st_ino && jit->files[i].device == (uint64_t) st.st_dev)
                        file = &jit->files[i];
        if (!file && jit->n_files == MAX_FILES)
                return NULL;
        if (!file) {
                file = &jit->files[jit->n_files++];
                *file = (struct jit_file){ .device = (uint64_t) st.st_dev, .inode = (uint64_t) st.st_ino };
        }
        *ret_size = (uint64_t) st.st_size;
        if (file->at > *ret_size)
                *file = (struct jit_file){ .device = file->device, .inode = file->inode };
        return file;
}

/* Where the text is, or -ENOSPC, -ENOMEM. */
static int64_t add_text(struct infp_jit_symbols *jit, const char *text, size_t size)
{
        const size_t at = jit->text.size;

        if (size > MAX_NAME)
                size = MAX_NAME;
        if (at + size + 1 > MAX_TEXT) {
                jit->is_full = true;
                return -ENOSPC;
        }
        if (!infp_str_reserve(&jit->text, size + 1))
                return -ENOMEM;
        infp_str_put(&jit->text, text, strnlen(text, size));
        infp_str_putc(&jit->text, 0);
        return (int64_t) at;
}

/* Consumes nothing; -ENOSPC when there are too many. */
static int add_entry(struct infp_jit_symbols *jit, const struct jit_entry *entry)
{
        if (jit->n >= MAX_ENTRIES) {
                jit->is_full = true;
                return -ENOSPC;
        }
        if (!INFP_MAKE_ROOM(jit->entries, jit->n, jit->cap, 256))
                return -ENOMEM;
        jit->entries[jit->n] = *entry;
        jit->entries[jit->n].order = (uint32_t) jit->n;
        jit->n++;
        return 0;
}

static int by_begin(const void *left, const void *right)
{
        const struct jit_entry *a = left, *b = right;

        if (a->begin != b->begin)
                return a->begin < b->begin ? -1 : 1;
        return a->order < b->order ? -1 : a->order > b->order;
}

/* Makes what was added findable. */
static int sort_entries(struct infp_jit_symbols *jit)
{
        uint64_t *most;

        if (jit->n == jit->n_sorted)
                return 0;
        most = realloc(jit->most, jit->n * sizeof(*most));
        if (!most)
                return -ENOMEM;
        jit->most = most;
        infp_sort(jit->entries, jit->n, sizeof(*jit->entries), by_begin);
        for (size_t i = 0; i < jit->n; i++)
                most[i] = i && most[i - 1] > jit->entries[i].end ? most[i - 1] : jit->entries[i].end;
        jit->n_sorted = jit->n;
        return 0;
}

/* How many of the sorted entries begin at this address or before it. */
static size_t up_to(const struct infp_jit_symbols *jit, uint64_t address)
{
        size_t low = 0, high = jit->n_sorted;

        while (low < high) {
                const size_t middle = low + (high - low) / 2;

                if (jit->entries[middle].begin <= address)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

/* ---- jitdump ----
 * As in the kernel's tools/perf/Documentation/jitdump-specification.txt: a header, then records, in the byte order of the machine that
 * wrote it. The program appends to it while it runs. */

#define MAGIC UINT32_C(0x4a695444)
/* Of the file, and of each record. */
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
        return jit->made.failed ? -ENOMEM : add_text(jit, jit->made.data ? jit->made.data : "", jit->made.size);
}

/* 0, 1: it is no good, or a negative errno. */
static int take_code(struct infp_jit_symbols *jit, struct jit_file *file, struct record *r, uint64_t t_ns)
{
        struct jit_entry entry = { .t_ns = t_ns, .is_dump = true };
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
        return add_entry(jit, &entry);
}

enum { MOST_UNSORTED = 1 << 14 }; /* of a file that moves all of its code again and again */

/* The newest piece of code that begins there. */
static const struct jit_entry *code_at(const struct infp_jit_symbols *jit, uint64_t address)
{
        const size_t n = up_to(jit, address);

        for (size_t i = jit->n; i > jit->n_sorted && jit->n - i < MOST_UNSORTED; i--)
                if (jit->entries[i - 1].begin == address)
                        return &jit->entries[i - 1];
        return n && jit->entries[n - 1].begin == address ? &jit->entries[n - 1] : NULL;
}

static int take_move(struct infp_jit_symbols *jit, struct record *r, uint64_t t_ns)
{
        struct jit_entry entry;
        const struct jit_entry *moved;
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
        return add_entry(jit, &entry);
}

static int add_line(struct infp_jit_symbols *jit, const struct jit_line *line)
{
        if (jit->n_lines >= MAX_LINES) {
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
static int take_lines(struct infp_jit_symbols *jit, struct jit_file *file, struct record *r)
{
        uint64_t n;
        int64_t name = -1;

        file->code = take_u64(r);
        n = take_u64(r);
        file->line = (uint32_t) jit->n_lines;
        file->n_lines = 0;
        for (uint64_t i = 0; i < n && !r->is_short; i++) {
                struct jit_line line = { 0 };
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

static int take_record(struct infp_jit_symbols *jit, struct jit_file *file, uint32_t id, uint64_t t_ns,
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
static int read_record(struct infp_jit_symbols *jit, struct jit_file *file, int fd, uint64_t size, uint8_t *buffer)
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

static int read_head(struct jit_file *file, int fd, uint64_t size, uint8_t *buffer)
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
        struct jit_file *file = jit_file(jit, fd, &size);
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
        q = sort_entries(jit);
        r = r == -ENOSPC ? 0 : r;
        r = r < 0 ? r : q;
        return r < 0 ? infp_fail_errno(err, r, "cannot read a jitdump") : 0;
}

/* ---- /tmp/perf-PID.map ----
 * A line a function, "begin size name", the first two in hexadecimal. The program appends to it while it runs. */

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
static int take_map_line(struct infp_jit_symbols *jit, const char *line, const char *end)
{
        struct jit_entry entry = { 0 };
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
        name = add_text(jit, jit->made.data, jit->made.size);
        if (name < 0)
                return (int) name;
        entry.name = (uint32_t) name;
        r = add_entry(jit, &entry);
        return r;
}

/* All whole lines of a piece; *ret_used: so much was taken. */
static int take_map_lines(struct infp_jit_symbols *jit, const char *text, size_t size, size_t *ret_used)
{
        const char *at = text, *end = text + size, *line_end;
        int r;

        while ((line_end = memchr(at, '\n', (size_t) (end - at)))) {
                r = take_map_line(jit, at, line_end);
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
static int read_map_on(struct infp_jit_symbols *jit, struct jit_file *file, int fd, char *chunk)
{
        for (;;) {
                const ssize_t n = pread(fd, chunk, CHUNK, (off_t) file->at);
                size_t used = 0;

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : 0;
                INFP_TRY(take_map_lines(jit, chunk, (size_t) n, &used));
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
        struct jit_file *file = jit_file(jit, fd, &size);
        int r, q;

        if (!file)
                return infp_fail(err, -EBADMSG, "a perf map is not a file, or there are too many of them");
        if (!chunk)
                return infp_fail(err, -ENOMEM, "no memory to read a perf map");
        r = read_map_on(jit, file, fd, chunk);
        q = sort_entries(jit);
        if (r == -ENOSPC) /* counted: what was read is good */
                r = 0;
        r = r < 0 ? r : q;
        return r < 0 ? infp_fail_errno(err, r, "cannot read a perf map") : 0;
}

/* ---- look-ups ---- */

/* A later entry wins, and one that knows its time must have been there by then. */
static bool is_better(const struct jit_entry *entry, const struct jit_entry *than, uint64_t t_ns)
{
        if (entry->is_dump && t_ns && entry->t_ns > t_ns)
                return false;
        if (!than)
                return true;
        if (entry->is_dump && than->is_dump && entry->t_ns != than->t_ns)
                return entry->t_ns > than->t_ns;
        return entry->order > than->order;
}

enum { MOST_STEPS = 1 << 16 };

/* In good files few entries have an address: those that took the place of others. Hostile ones cost MOST_STEPS. */
static const struct jit_entry *find(const struct infp_jit_symbols *jit, uint64_t address, uint64_t t_ns)
{
        const struct jit_entry *found = NULL;
        size_t low = up_to(jit, address);

        for (size_t i = 0; i < MOST_STEPS && low > 0 && jit->most[low - 1] > address; i++) {
                low--;
                if (address < jit->entries[low].end && is_better(&jit->entries[low], found, t_ns))
                        found = &jit->entries[low];
        }
        return found;
}

static const struct jit_line *find_line(const struct infp_jit_symbols *jit, const struct jit_entry *entry,
                                        uint64_t address)
{
        const uint64_t at = address - entry->begin + entry->code;
        const struct jit_line *found = NULL;

        for (uint32_t i = 0; i < entry->n_lines; i++) {
                const struct jit_line *line = &jit->lines[entry->line + i];

                if (line->address <= at && (!found || line->address >= found->address))
                        found = line;
        }
        return found;
}

bool infp_jit_symbols_at(const struct infp_jit_symbols *jit, uint64_t address, uint64_t t_ns, struct infp_symbol *ret)
{
        const struct jit_entry *entry = find(jit, address, t_ns);
        const struct jit_line *line = entry ? find_line(jit, entry, address) : NULL;

        if (!entry)
                return false;
        *ret = (struct infp_symbol){ .name = jit->text.data + entry->name,
                                     .file = line ? jit->text.data + line->file : NULL,
                                     .line = line ? line->line : 0,
                                     .from = entry->is_dump ? "jitdump" : "perf map" };
        return true;
}
