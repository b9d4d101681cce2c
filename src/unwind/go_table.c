#include "unwind/go_table.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "unwind/cursor.h"

enum {
        HEAD = 8, /* magic, two zeros, the smallest instruction, the size of a pointer */
        MOST_FUNCTIONS = 1 << 24,
        /* struct moduledata of Go's runtime, in words: the table, its names, ..., the begin of all code. */
        MODULE_NAMES = 1,
        MODULE_TEXT = 22,
        INLINED = 2, /* PCDATA_InlTreeIndex */
        MOST_TEXT = 4096,
        FLAG_OFFSET = 41, /* of a function since 1.20: ten words and its id come before */
};

/* The bytes of the address that a function begins with; then come fields of 4 bytes: name, size of arguments, where deferred calls
 * return to, values of the stack pointer, of files, of lines, number of further values, and since 1.16 the compilation. */
#define GO_FIRST(go) ((go)->version >= 18 ? UINT64_C(4) : UINT64_C(8))

/* size bytes at an offset of the table. */
static bool read_number(const struct infp_go *go, uint64_t at, uint64_t size, uint64_t *ret)
{
        *ret = 0;
        if (at > go->size || size > go->size - at)
                return false;
        memcpy(ret, go->bytes + at, size);
        return true;
}

static unsigned version_of(const uint8_t *bytes, uint64_t size)
{
        static const struct {
                uint32_t magic;
                unsigned version;
        } known[] = { { 0xfffffffb, 2 }, { 0xfffffffa, 16 }, { 0xfffffff0, 18 }, { 0xfffffff1, 20 } };
        uint32_t magic;

        if (size < HEAD + 8 || bytes[4] || bytes[5] || bytes[6] != 1 || bytes[7] != 8)
                return 0;
        memcpy(&magic, bytes, sizeof(magic));
        for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
                if (known[i].magic == magic)
                        return known[i].version;
        return 0;
}

/* The parts of the table. */
static bool read_head(struct infp_go *go)
{
        const unsigned skipped = go->version >= 18; /* where code begins; since 1.26 it is not said here */
        uint64_t *const parts[] = { &go->names, &go->units, &go->files, &go->values, &go->functions };
        uint64_t word;

        if (!read_number(go, HEAD, 8, &go->n_functions) || !go->n_functions || go->n_functions > MOST_FUNCTIONS)
                return false;
        if (go->version == 2) {
                go->entries = HEAD + 8;
                return read_number(go, go->entries + (2 * go->n_functions + 1) * 8, 4, &go->files);
        }
        if (skipped && read_number(go, HEAD + 16, 8, &word))
                go->text = word;
        for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
                if (!read_number(go, HEAD + (2 + skipped + i) * 8, 8, parts[i]) || *parts[i] >= go->size)
                        return false;
        go->entries = go->functions;
        return true;
}

/* In a file that is relocated when it is loaded the words of moduledata are in relocations. */
static bool find_relocated_text(const struct infp_elf *elf, uint64_t table, uint64_t names, uint64_t *ret)
{
        const struct infp_elf_bytes *all = &elf->relocations;
        uint64_t module = 0;
        Elf64_Rela r, next;

        for (uint64_t i = 0; i + 2 * sizeof(r) <= all->size && !module; i += sizeof(r)) {
                memcpy(&r, all->bytes + i, sizeof(r));
                memcpy(&next, all->bytes + i + sizeof(r), sizeof(next));
                if ((uint64_t) r.r_addend == table && next.r_offset == r.r_offset + MODULE_NAMES * 8 &&
                    (uint64_t) next.r_addend == names)
                        module = r.r_offset;
        }
        for (uint64_t i = 0; module && i + sizeof(r) <= all->size; i += sizeof(r)) {
                memcpy(&r, all->bytes + i, sizeof(r));
                *ret = (uint64_t) r.r_addend;
                if (r.r_offset == module + MODULE_TEXT * 8)
                        return true;
        }
        return false;
}

/* The runtime's description of the module names the table and says where code begins. */
static bool find_text(const struct infp_elf *elf, uint64_t table, uint64_t names, uint64_t *ret)
{
        const uint64_t wanted[] = { table, names };

        for (unsigned i = 0; i < elf->n_loads; i++) {
                const struct infp_elf_load *load = &elf->loads[i];
                const uint8_t *bytes = elf->bytes + load->offset;

                if (!load->is_writable)
                        continue;
                for (uint64_t at = -load->vaddr & 7; at + (MODULE_TEXT + 1) * UINT64_C(8) <= load->file_size; at += 8)
                        if (memcmp(bytes + at, wanted, sizeof(wanted)) == 0) {
                                memcpy(ret, bytes + at + MODULE_TEXT * 8, sizeof(*ret));
                                return true;
                        }
        }
        return find_relocated_text(elf, table, names, ret);
}

void infp_elf_search_go_table(struct infp_elf *elf)
{
        for (unsigned i = 0; i < elf->n_loads; i++) {
                const struct infp_elf_load *load = &elf->loads[i];

                for (uint64_t at = -load->vaddr & 7; !load->is_executable && at + HEAD + 8 <= load->file_size;
                     at += 8) {
                        struct infp_go go = { .bytes = elf->bytes + load->offset + at, .size = load->file_size - at };

                        go.version = version_of(go.bytes, go.size);
                        if (!go.version || !read_head(&go))
                                continue;
                        elf->go_table = (struct infp_elf_bytes){ go.bytes, go.size, load->vaddr + at };
                        return;
                }
        }
}

static bool read_entry(const struct infp_go *go, uint64_t i, uint64_t *ret_begin, uint64_t *ret_at)
{
        const uint64_t size = GO_FIRST(go), at = go->entries + i * 2 * size;

        if (!read_number(go, at, size, ret_begin))
                return false;
        *ret_begin += go->text;
        return !ret_at || read_number(go, at + size, size, ret_at);
}

int infp_go_open(struct infp_go *go, const struct infp_elf *elf)
{
        const struct infp_elf_bytes *table = &elf->go_table;
        uint64_t text;

        *go = (struct infp_go){ .bytes = table->bytes, .size = table->size, .work_left = 4 * table->size + 65536 };
        if (!table->bytes)
                return -ENODATA;
        go->version = version_of(table->bytes, table->size);
        if (!go->version || !read_head(go))
                return -EBADMSG;
        if (go->version >= 18 && find_text(elf, table->vaddr, table->vaddr + go->names, &text))
                go->text = text;
        if (!read_entry(go, 0, &go->begin, NULL) || !read_entry(go, go->n_functions, &go->end, NULL) ||
            go->begin >= go->end || !infp_elf_is_executable(elf, go->begin, go->end - go->begin))
                return -EBADMSG;
        return 0;
}

bool infp_go_function(const struct infp_go *go, uint64_t i, struct infp_go_function *ret)
{
        const uint64_t first = GO_FIRST(go);
        uint64_t begin, end, at, name, stack, flags = 0;

        if (i >= go->n_functions || !read_entry(go, i, &begin, &at) || !read_entry(go, i + 1, &end, NULL) ||
            begin < go->begin || end > go->end || begin >= end || at > go->size - go->functions)
                return false;
        at += go->functions;
        if (!read_number(go, at + first, 4, &name) || !read_number(go, at + first + 12, 4, &stack))
                return false;
        if (go->version >= 20 && !read_number(go, at + FLAG_OFFSET, 1, &flags))
                return false;
        /* Since 1.17, which has the layout of 1.16, whose byte is zero. */
        if (go->version < 20 && go->version >= 16 && !read_number(go, at + first + 33, 1, &flags))
                return false;
        *ret = (struct infp_go_function){
                .begin = begin,
                .end = end,
                .at = at,
                .name = (uint32_t) name,
                .stack = (uint32_t) stack,
                .flags = flags & (INFP_GO_TOP | INFP_GO_SP_WRITTEN | INFP_GO_ASSEMBLY),
        };
        return true;
}

bool infp_go_find(const struct infp_go *go, uint64_t address, struct infp_go_function *ret)
{
        uint64_t low = 0, high = go->n_functions, begin;

        if (address < go->begin || address >= go->end)
                return false;
        while (low < high) {
                const uint64_t middle = low + (high - low) / 2;

                if (!read_entry(go, middle, &begin, NULL))
                        return false;
                if (begin <= address)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low && infp_go_function(go, low - 1, ret) && address < ret->end;
}

/* Pairs of how much the value changes and for how many bytes of code it then holds; a change of 0 ends them. */
int infp_go_values(struct infp_go *go, const struct infp_go_function *function, uint32_t values, infp_go_value *value,
                   void *context)
{
        const uint64_t at = go->values + values;
        struct infp_cursor c;
        uint64_t pc = function->begin;
        int32_t now = -1;

        if (!values || at >= go->size)
                return -EBADMSG;
        c = infp_cursor(go->bytes + at, go->size - at);
        while (pc < function->end) {
                const uint32_t change = (uint32_t) infp_cursor_uleb(&c);
                int r;

                if (c.is_bad || go->work_left == 0)
                        return -EBADMSG;
                go->work_left--;
                if (!change && pc != function->begin)
                        return 0;
                now = (int32_t) ((uint32_t) now + (change >> 1 ^ -(change & 1)));
                r = value(context, pc, now);
                if (r < 0)
                        return r;
                pc += (uint32_t) infp_cursor_uleb(&c);
        }
        return c.is_bad ? -EBADMSG : 0;
}

const uint8_t *infp_go_names(const struct infp_go *go, uint64_t *ret_size)
{
        *ret_size = go->size - go->names;
        return go->bytes + go->names;
}

/* ---- where in the source a function, and an instruction of it, is ---- */

/* The value that holds at an address. */
struct search {
        uint64_t address;
        int32_t value;
};

static int seek(void *context, uint64_t pc, int32_t value)
{
        struct search *search = context;

        if (pc > search->address)
                return -1; /* it was the one before */
        search->value = value;
        return 0;
}

static int32_t value_at(struct infp_go *go, const struct infp_go_function *function, uint64_t field, uint64_t address)
{
        struct search search = { address, -1 };
        uint64_t values;

        if (read_number(go, function->at + field, 4, &values))
                infp_go_values(go, function, (uint32_t) values, seek, &search);
        return search.value;
}

static const char *text_at(const struct infp_go *go, uint64_t at)
{
        const uint64_t room = at < go->size ? go->size - at : 0;

        return room && memchr(go->bytes + at, 0, room < MOST_TEXT ? room : MOST_TEXT) ? (const char *) go->bytes + at
                                                                                      : NULL;
}

/* Files have numbers; since 1.16 each compilation has its own. */
static const char *file_of(const struct infp_go *go, const struct infp_go_function *function, int32_t number)
{
        const uint64_t first = GO_FIRST(go);
        uint64_t unit = 0, at;

        if (number < 0)
                return NULL;
        if (go->version == 2)
                return read_number(go, go->files + (uint64_t) number * 4, 4, &at) ? text_at(go, at) : NULL;
        if (!read_number(go, function->at + first + 28, 4, &unit) ||
            !read_number(go, go->units + (unit + (uint64_t) number) * 4, 4, &at))
                return NULL;
        return text_at(go, go->files + at);
}

bool infp_go_place(struct infp_go *go, uint64_t address, struct infp_go_place *ret)
{
        const uint64_t first = GO_FIRST(go), data = first + (go->version == 2 ? 32 : go->version == 20 ? 40 : 36);
        struct infp_go_function function;
        uint64_t n_data, line;

        *ret = (struct infp_go_place){ 0 };
        go->work_left = go->size; /* of one function: it is asked for a line at a time */
        if (!infp_go_find(go, address, &function))
                return false;
        ret->file = file_of(go, &function, value_at(go, &function, first + 16, function.begin));
        if (go->version == 20 && read_number(go, function.at + 36, 4, &line))
                ret->function_line = (int32_t) line;
        /* The line of what was inlined is of another function, and often of another file. */
        if (go->version == 2 || !read_number(go, function.at + first + 24, 4, &n_data) ||
            (n_data > INLINED && value_at(go, &function, data + INLINED * 4, address) >= 0))
                return ret->file != NULL;
        ret->line = value_at(go, &function, first + 20, address);
        return ret->file != NULL;
}
