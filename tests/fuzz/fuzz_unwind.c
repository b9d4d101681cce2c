/* Any call frame information, any ELF file, any table from a disk, any stack: no read outside, no hang, tables that check.
 * The first byte chooses what the rest is: 0 .eh_frame, 1 .debug_frame, 2 an ELF file, 3 patches of a table (place: 2 bytes, number
 * of bytes: 1, the bytes), 4 .eh_frame without a known size. Registers and stack are made from the same bytes. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/unwind_bytes.h"
#include "unwind/table.h"
#include "unwind/walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_ROOM = 64 << 20, MAX_FRAMES = 64, BIAS = 0x500000, STACK = 0x7ff000 };

static void expect(bool truth)
{
        if (!truth)
                abort();
}

static void *copy(const void *bytes, size_t size)
{
        void *exact = malloc(size + !size);

        expect(exact != NULL);
        if (size)
                memcpy(exact, bytes, size);
        return exact;
}

/* A word of the stack: an address in the code, on the stack, or a small number, as the data says. */
static uint64_t make_word(const uint8_t *data, size_t size, size_t i)
{
        const uint8_t byte = size ? data[(i * 7 + 1) % size] : 0, more = size ? data[(i * 13 + 5) % size] : 0;

        switch (byte % 4) {
        case 0:
                return BIAS + BYTES_TEXT + (uint64_t) more * 64 + byte;
        case 1:
                return STACK + (uint64_t) more * 8;
        default:
                return more;
        }
}

static void walk(const struct infp_unwind_table *table, const uint8_t *data, size_t size, bool is_cut)
{
        static struct infp_unwind_cached cached[64];
        static uint8_t code[BYTES_TEXT_SIZE];
        struct infp_unwind_cache cache;
        const struct infp_unwind_mapping mapping = { .begin = BIAS + BYTES_TEXT,
                                                     .end = BIAS + BYTES_TEXT + BYTES_TEXT_SIZE,
                                                     .bias = BIAS,
                                                     .table = table,
                                                     .code = code };
        const struct infp_unwind_space space = { &mapping, 1, 1 };
        const size_t n_words = size < 48 ? size : 48; /* they are scanned for return addresses at each frame */
        uint64_t *words = malloc(n_words * 8 + 1), values[INFP_N_REGISTERS];
        const struct infp_unwind_dump dump = { (const uint8_t *) words, STACK, n_words * 8, is_cut };
        const struct infp_unwind_start start = { &space, &dump, 1, true, values };
        struct infp_unwind_frame frames[MAX_FRAMES];
        struct infp_unwind_result result;

        expect(words != NULL);
        if (code[0] != 0xe8)
                memset(code, 0xe8, sizeof(code)); /* calls everywhere: each word may be a return address */
        for (size_t i = 0; i < n_words; i++)
                words[i] = make_word(data, size, i);
        infp_unwind_cache_init(&cache, cached, 64);
        for (unsigned k = 0; k < 4; k++) {
                for (unsigned i = 0; i < INFP_N_REGISTERS; i++)
                        values[i] = make_word(data, size, i * 3 + k);
                values[INFP_RSP] = STACK + 8 * (uint64_t) k;
                values[INFP_RIP] = BIAS + BYTES_TEXT + (uint64_t) k * 16 + (size ? data[k % size] : 0);
                infp_unwind(&start, k % 2 ? &cache : NULL, frames, MAX_FRAMES, &result);
                expect(result.n_frames >= 1 && result.n_frames <= MAX_FRAMES);
                expect(result.n_guessed < result.n_frames);
        }
        free(words);
}

static void ask(const struct infp_unwind_table *table)
{
        for (uint64_t vaddr = table->base; vaddr < table->base + 0x400; vaddr += 7) {
                uint64_t begin, end;
                const bool is_there = infp_unwind_table_find(table, vaddr) != INFP_RULE_NONE;

                if (infp_unwind_table_function(table, vaddr, &begin, &end))
                        expect(is_there && begin <= vaddr && end > vaddr);
        }
}

/* Returns the table alone, in memory of just its size. */
static struct infp_unwind_table *build(const struct infp_elf *elf)
{
        const struct infp_unwind_table *table, *checked;
        struct infp_unwind_room room;
        void *memory, *exact;

        if (infp_unwind_table_measure(elf, &room) < 0 || room.bytes > MAX_ROOM)
                return NULL;
        memory = malloc(room.bytes);
        expect(memory != NULL);
        expect(infp_unwind_table_build(elf, &room, memory, &table) == 0);
        expect(table->size <= room.bytes);
        exact = copy(table, table->size);
        free(memory);
        expect(infp_unwind_table_check(exact, ((struct infp_unwind_table *) exact)->size, &checked) == 0);
        return exact;
}

static void use(const struct infp_elf *elf, const uint8_t *data, size_t size)
{
        struct infp_unwind_table *table = build(elf);

        if (!table)
                return;
        ask(table);
        walk(table, data, size, size & 1);
        free(table);
}

static void read_file(const uint8_t *data, size_t size)
{
        struct infp_elf elf;
        const char *why = NULL;
        uint64_t vaddr;

        if (infp_elf_open(&elf, data, size, &why) < 0) {
                expect(why != NULL);
                return;
        }
        for (uint64_t i = 0; i < 64; i++) {
                const uint8_t *at = infp_elf_at(&elf, elf.loads[0].vaddr + i * 64, 16);

                expect(!at || (at >= data && at + 16 <= data + size));
                infp_elf_vaddr(&elf, i * 64, &vaddr);
        }
        use(&elf, data, size);
}

/* A sound table, patched: refused, or safe to use. */
static void read_table(const uint8_t *data, size_t size)
{
        static const uint8_t encoding = 0x1b, program[] = { 0x41, 0x0e, 16,   0x86, 2, 0x43, 0x0d, 6,
                                                            0x44, 0x0a, 0x41, 0x0c, 7, 8,    0x41, 0x0b };
        struct unwind_bytes b = { .size = 0 };
        struct infp_unwind_table *table;
        const struct infp_unwind_table *checked;
        struct infp_elf elf;
        const uint8_t *all = data;
        const size_t n_all = size;

        put_cie(&b, 1, "zR", &encoding, 1);
        for (unsigned i = 0; i < 8; i++)
                put_fde(&b, encoding, BYTES_TEXT + 32 * i, 32, program, sizeof(program));
        elf = unwind_image(b.bytes, b.size, false);
        table = build(&elf);
        expect(table != NULL);
        while (size > 3) {
                size_t at = (size_t) data[0] | (size_t) data[1] << 8, n = data[2];

                data += 3;
                size -= 3;
                n = n < size ? n : size;
                at %= table->size;
                n = n < table->size - at ? n : table->size - at;
                if (at + n > 16) /* magic and size stay: they are compared */
                        memcpy((char *) table + (at < 16 ? 16 : at), data, at < 16 ? at + n - 16 : n);
                data += n;
                size -= n;
        }
        if (infp_unwind_table_check(table, table->size, &checked) == 0) {
                for (uint64_t vaddr = checked->base; vaddr < checked->base + 0x400; vaddr += 7) {
                        uint64_t begin, end;

                        infp_unwind_table_function(checked, vaddr, &begin, &end);
                }
                walk(checked, all, n_all, false);
        }
        free(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        uint8_t *exact;
        struct infp_elf elf;

        if (size < 1)
                return 0;
        exact = copy(data + 1, size - 1);
        switch (data[0] % 5) {
        case 2:
                read_file(exact, size - 1);
                break;
        case 3:
                read_table(exact, size - 1);
                break;
        default:
                if (size == 1)
                        break;
                elf = unwind_image(exact, size - 1, data[0] % 5 == 1);
                elf.has_eh_frame_size = data[0] % 5 != 4;
                use(&elf, exact, size - 1);
        }
        free(exact);
        return 0;
}
