#include "symbols/range.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "symbols/unpack.h"
#include "unwind/elf_image.h"

/* What the reader of call frame information looks at. Without section headers it is found by a segment, and ends nobody says where:
 * all that is loaded as data is read then. */
static void read_pieces(struct infp_image *image)
{
        static const char *const wanted[] = { ".eh_frame", ".eh_frame_hdr", ".debug_frame", ".zdebug_frame" };
        bool has_eh_frame = false;

        for (unsigned i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
                const Elf64_Shdr *section = infp_image_section(image, wanted[i], 0);

                if (section && section->sh_type != SHT_NOBITS) /* as it is, also where it is packed */
                        has_eh_frame |= infp_image_need(image, section->sh_offset, section->sh_size) && i == 0;
        }
        for (unsigned i = 0; image->segments && i < image->head.e_phnum; i++)
                if (image->segments[i].p_type == PT_GNU_EH_FRAME)
                        infp_image_need(image, image->segments[i].p_offset, image->segments[i].p_filesz);
        if (!has_eh_frame)
                infp_image_need_data(image);
}

enum { ROOM_FACTOR = 4 }; /* of a piece: while a table is made it needs more than in the end */

void infp_ranges_read(struct infp_image *image, struct infp_ranges *ret)
{
        struct infp_unwind_room room;
        const struct infp_unwind_table *table;
        struct infp_elf elf;
        infp_autofree void *unpacked = NULL;
        void *memory, *fitted;

        *ret = (struct infp_ranges){ 0 };
        read_pieces(image);
        if (infp_elf_open(&elf, image->bytes, image->size, NULL) < 0)
                return;
        unpacked = infp_object_unpack(&elf);
        if (infp_unwind_table_measure_functions(&elf, &room) < 0)
                return;
        if (image->most_bytes && room.bytes > ROOM_FACTOR * image->most_bytes)
                return;
        memory = malloc(room.bytes);
        if (!memory)
                return;
        if (infp_unwind_table_build(&elf, &room, memory, &table) < 0 || !table->n_functions) {
                free(memory);
                return;
        }
        fitted = realloc(memory, table->size);
        ret->memory = fitted ? fitted : memory;
        ret->table = ret->memory;
}

void infp_ranges_done(struct infp_ranges *ranges)
{
        free(ranges->memory);
        *ranges = (struct infp_ranges){ 0 };
}

static const Elf64_Shdr *section_of(const struct infp_image *image, uint64_t address)
{
        for (unsigned i = 1; i < image->n_sections; i++) {
                const Elf64_Shdr *s = &image->sections[i];

                if ((s->sh_flags & SHF_EXECINSTR) && address >= s->sh_addr && address - s->sh_addr < s->sh_size)
                        return s;
        }
        return NULL;
}

/* From the end of the last function before the address to the begin of the next one, where these are nearer than what is given. */
static void narrow(const struct infp_unwind_table *table, uint64_t address, uint64_t *begin, uint64_t *end)
{
        const uint32_t *pcs = infp_unwind_table_pcs(table);
        const uint16_t *rules = infp_unwind_table_row_rules(table);
        const int64_t row = infp_unwind_table_row(table, address), next = row < 0 ? 0 : row + 1;

        if (row >= 0 && rules[row] == INFP_RULE_NONE && table->base + pcs[row] > *begin)
                *begin = table->base + pcs[row];
        if (next < (int64_t) table->n_rows && table->base + pcs[next] > address && table->base + pcs[next] < *end)
                *end = table->base + pcs[next];
}

bool infp_ranges_find(const struct infp_ranges *ranges, const struct infp_image *image, uint64_t address,
                      uint64_t *ret_begin, uint64_t *ret_end)
{
        const Elf64_Shdr *section;

        if (ranges->table && infp_unwind_table_function(ranges->table, address, ret_begin, ret_end))
                return true;
        section = section_of(image, address);
        *ret_begin = section ? section->sh_addr : address;
        *ret_end = section ? section->sh_addr + section->sh_size : address + 1;
        if (ranges->table && section)
                narrow(ranges->table, address, ret_begin, ret_end);
        return false;
}

enum { MOST_WAIT = 4096, NEAR = 32 };

/* `pause`, and soon after it a short jump back to it or to just before it: a loop that spins. */
static bool spins(const uint8_t *code, uint64_t size)
{
        for (uint64_t i = 0; i + NEAR + 2 < size; i++) {
                if (code[i] != 0xf3 || code[i + 1] != 0x90)
                        continue;
                for (uint64_t j = i + 2; j < i + NEAR; j++) {
                        const int64_t to = (int64_t) j + 2 + (int8_t) code[j + 1];

                        if (((code[j] & 0xf0) == 0x70 || code[j] == 0xeb) && to <= (int64_t) i &&
                            to + NEAR >= (int64_t) i)
                                return true;
                }
        }
        return false;
}

bool infp_range_is_openmp_wait(struct infp_image *image, const char *path, uint64_t begin, uint64_t end)
{
        const uint8_t *code;

        if (strncmp(infp_base_name(path), "libgomp", 7) != 0 || end <= begin || end - begin > MOST_WAIT)
                return false;
        code = infp_image_at(image, begin, end - begin);
        return code && spins(code, end - begin);
}
