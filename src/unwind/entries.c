#include "unwind/entries.h"

#include <errno.h>

enum { FORGET_AFTER = 4096 };

/* Offsets must fit 30 bits: see `from` in table_build.c. */
#define MAX_SECTION_BYTES (UINT64_C(1) << 30)

static void add_section(struct infp_entries *entries, const struct infp_elf_bytes *data, bool is_debug,
                        bool ends_with_zero)
{
        if (data->bytes)
                entries->sections[entries->n_sections++] = (struct infp_cfi_section){ *data, is_debug, ends_with_zero };
}

int infp_entries_open(struct infp_entries *entries, const struct infp_elf *elf)
{
        entries->elf = elf;
        entries->n_sections = 0;
        entries->n_read = 0;
        entries->cie_bytes_left = UINT64_C(4) * (elf->eh_frame.size + elf->debug_frame.size) + 65536;
        add_section(entries, &elf->eh_frame, false, !elf->has_eh_frame_size);
        add_section(entries, &elf->debug_frame, true, false);
        for (unsigned i = 0; i < INFP_CIE_CACHE; i++)
                entries->cache[i].status = 1;
        for (unsigned i = 0; i < entries->n_sections; i++)
                if (entries->sections[i].data.size > MAX_SECTION_BYTES)
                        return -EFBIG;
        infp_entries_rewind(entries);
        return entries->n_sections ? 0 : -ENODATA;
}

void infp_entries_rewind(struct infp_entries *entries)
{
        entries->section = 0;
        entries->offset = 0;
        entries->is_cut_short = false;
}

/* Where a CIE cannot be read its size is not known: as much as any may have. */
static void spend(struct infp_entries *entries, const struct infp_cached_cie *read)
{
        const uint64_t bytes =
                read->status == 0 ? 16 + (uint64_t) (read->cie.program_end - read->cie.program) : INFP_MAX_CIE_BYTES;

        entries->cie_bytes_left -= bytes < entries->cie_bytes_left ? bytes : entries->cie_bytes_left;
}

static const struct infp_cached_cie *find_cie(struct infp_entries *entries, const struct infp_cfi_section *section,
                                              uint64_t offset)
{
        struct infp_cached_cie *cached =
                &entries->cache[((offset >> 3) ^ (offset >> 9) ^ section->is_debug) % INFP_CIE_CACHE];

        if (cached->status == 1 || cached->cie.offset != offset || cached->is_debug != section->is_debug) {
                cached->is_debug = section->is_debug;
                cached->status = entries->cie_bytes_left ? infp_cfi_cie(section, offset, &cached->cie) : -E2BIG;
                if (cached->status == 0)
                        cached->status = infp_cfa_begin(section, &cached->cie, &cached->begin);
                cached->cie.offset = offset;
                spend(entries, cached);
        }
        return cached;
}

static int read_entry(struct infp_entries *entries, const struct infp_cfi_section *section, struct infp_fde *fde,
                      const struct infp_cached_cie **ret_cie)
{
        int r;

        if (++entries->n_read % FORGET_AFTER == 0 && entries->elf->forget)
                entries->elf->forget(entries->elf->forget_context);
        *ret_cie = find_cie(entries, section, fde->cie_offset);
        if ((*ret_cie)->status < 0)
                return (*ret_cie)->status;
        r = infp_cfi_fde(section, &(*ret_cie)->cie, fde);
        return r < 0 ? r : 1;
}

int infp_entries_next(struct infp_entries *entries, struct infp_fde *ret, unsigned *ret_section)
{
        const struct infp_cached_cie *cie;

        for (; entries->section < entries->n_sections; entries->section++, entries->offset = 0) {
                const struct infp_cfi_section *section = &entries->sections[entries->section];
                int r = infp_cfi_next(section, &entries->offset, ret);

                if (r == 1) {
                        *ret_section = entries->section;
                        return read_entry(entries, section, ret, &cie);
                }
                if (r < 0)
                        entries->is_cut_short = true;
        }
        return 0;
}

int infp_entries_at(struct infp_entries *entries, unsigned section, uint64_t offset, struct infp_fde *ret,
                    const struct infp_cached_cie **ret_cie)
{
        int r = infp_cfi_next(&entries->sections[section], &offset, ret);

        if (r != 1)
                return -EBADMSG;
        return read_entry(entries, &entries->sections[section], ret, ret_cie);
}
