#include "unwind/cfi.h"

#include <errno.h>

enum { PE_OMIT = 0xff, PE_INDIRECT = 0x80, PE_PCREL = 0x10, PE_DATAREL = 0x30, PE_ALIGNED = 0x50 };

int infp_cfi_pointer(struct infp_cursor *c, uint8_t encoding, uint64_t vaddr, uint64_t data_base, uint64_t *ret)
{
        uint64_t value;

        if (encoding == PE_OMIT || (encoding & PE_INDIRECT))
                return -ENOTSUP;
        if ((encoding & 0x70) == PE_ALIGNED) {
                infp_cursor_take(c, -vaddr & 7);
                value = infp_cursor_u64(c);
                *ret = value;
                return c->is_bad ? -EBADMSG : 0;
        }
        switch (encoding & 0x0f) {
        case 0x00:
        case 0x04:
        case 0x0c:
                value = infp_cursor_u64(c);
                break;
        case 0x01:
                value = infp_cursor_uleb(c);
                break;
        case 0x02:
                value = infp_cursor_u16(c);
                break;
        case 0x03:
                value = infp_cursor_u32(c);
                break;
        case 0x09:
                value = (uint64_t) infp_cursor_sleb(c);
                break;
        case 0x0a:
                value = (uint64_t) (int64_t) (int16_t) infp_cursor_u16(c);
                break;
        case 0x0b:
                value = (uint64_t) (int64_t) (int32_t) infp_cursor_u32(c);
                break;
        default:
                return -ENOTSUP;
        }
        switch (encoding & 0x70) {
        case 0:
                break;
        case PE_PCREL:
                value += vaddr;
                break;
        case PE_DATAREL:
                if (!data_base)
                        return -ENOTSUP;
                value += data_base;
                break;
        default:
                return -ENOTSUP;
        }
        *ret = value;
        return c->is_bad ? -EBADMSG : 0;
}

/* The entry at offset, without its length: ret_id is what tells a CIE from an FDE. */
static int begin_entry(const struct infp_cfi_section *section, uint64_t offset, struct infp_cursor *ret,
                       uint64_t *ret_id, uint64_t *ret_id_at)
{
        const struct infp_elf_bytes *data = &section->data;
        struct infp_cursor c;
        uint64_t length;
        bool is_64 = false;

        if (offset > data->size)
                return -EBADMSG;
        c = infp_cursor(data->bytes + offset, data->size - offset);
        length = infp_cursor_u32(&c);
        if (length == UINT32_MAX) {
                length = infp_cursor_u64(&c);
                is_64 = section->is_debug; /* the id is 4 bytes long in .eh_frame, always */
        }
        if (c.is_bad || length > infp_cursor_left(&c))
                return -EBADMSG;
        c.end = c.at + length;
        *ret_id_at = (uint64_t) (c.at - data->bytes);
        if (length == 0) {
                *ret_id = 0;
                *ret = c;
                return 0;
        }
        *ret_id = is_64 ? infp_cursor_u64(&c) : infp_cursor_u32(&c);
        if (section->is_debug && !is_64 && *ret_id == UINT32_MAX)
                *ret_id = UINT64_MAX;
        *ret = c;
        return c.is_bad ? -EBADMSG : 1;
}

static bool is_cie(const struct infp_cfi_section *section, uint64_t id)
{
        return id == (section->is_debug ? UINT64_MAX : 0);
}

int infp_cfi_next(const struct infp_cfi_section *section, uint64_t *offset, struct infp_fde *ret)
{
        while (*offset + 4 <= section->data.size) {
                const uint64_t at = *offset;
                struct infp_cursor c;
                uint64_t id, id_at;
                int r = begin_entry(section, at, &c, &id, &id_at);

                if (r < 0)
                        return r;
                if (r == 0 && section->ends_with_zero)
                        return 0;
                *offset = (uint64_t) (c.end - section->data.bytes);
                if (r == 0 || is_cie(section, id))
                        continue;
                ret->offset = at;
                ret->cie_offset = section->is_debug ? id : id_at - id;
                return 1;
        }
        return 0;
}

/* The letters after 'z'. An unknown one ends the reading, not the entry: its size is known. */
static int read_augmentation(const struct infp_cfi_section *section, const char *letters, struct infp_cursor *c,
                             struct infp_cie *cie)
{
        const uint64_t size = infp_cursor_uleb(c);
        const uint8_t *text = infp_cursor_take(c, size);
        struct infp_cursor part;

        if (!text)
                return -EBADMSG;
        part = infp_cursor(text, size);
        for (; *letters; letters++) {
                uint64_t ignored;
                uint8_t encoding;

                switch (*letters) {
                case 'R':
                        cie->pointer_encoding = infp_cursor_u8(&part);
                        break;
                case 'P':
                        encoding = infp_cursor_u8(&part);
                        if (encoding != PE_OMIT &&
                            infp_cfi_pointer(&part, encoding & (uint8_t) ~PE_INDIRECT,
                                             section->data.vaddr + (uint64_t) (part.at - section->data.bytes), 1,
                                             &ignored) < 0)
                                return -ENOTSUP;
                        break;
                case 'L':
                        infp_cursor_u8(&part);
                        break;
                case 'S':
                        cie->is_signal = true;
                        break;
                case 'B':
                        break;
                default:
                        return 0;
                }
        }
        return part.is_bad ? -EBADMSG : 0;
}

int infp_cfi_cie(const struct infp_cfi_section *section, uint64_t offset, struct infp_cie *ret)
{
        struct infp_cie cie = { .offset = offset };
        struct infp_cursor c;
        const char *letters;
        uint64_t id, id_at;
        uint8_t version;
        int r = begin_entry(section, offset, &c, &id, &id_at);

        if (r <= 0 || !is_cie(section, id) || infp_cursor_left(&c) > INFP_MAX_CIE_BYTES)
                return -EBADMSG;
        version = infp_cursor_u8(&c);
        if (version != 1 && version != 3 && version != 4)
                return c.is_bad ? -EBADMSG : -ENOTSUP;
        letters = infp_cursor_text(&c);
        if (!letters)
                return -EBADMSG;
        if (version == 4 && (infp_cursor_u8(&c) != 8 || infp_cursor_u8(&c) != 0))
                return -ENOTSUP;          /* another address size, or segments */
        if (strcmp(letters, "eh") == 0) { /* g++ before 3.0 */
                infp_cursor_take(&c, 8);
                letters = "";
        }
        cie.code_align = infp_cursor_uleb(&c);
        cie.data_align = infp_cursor_sleb(&c);
        cie.ra_register = version == 1 ? infp_cursor_u8(&c) : infp_cursor_uleb(&c);
        if (*letters == 'z') {
                cie.has_augmentation = true;
                r = read_augmentation(section, letters + 1, &c, &cie);
                if (r < 0)
                        return r;
        } else if (*letters) {
                return -ENOTSUP;
        }
        cie.program = c.at;
        cie.program_end = c.end;
        if (c.is_bad)
                return -EBADMSG;
        *ret = cie;
        return 0;
}

int infp_cfi_fde(const struct infp_cfi_section *section, const struct infp_cie *cie, struct infp_fde *fde)
{
        struct infp_cursor c;
        uint64_t id, id_at;
        int r = begin_entry(section, fde->offset, &c, &id, &id_at);

        if (r <= 0)
                return -EBADMSG;
        r = infp_cfi_pointer(&c, cie->pointer_encoding, section->data.vaddr + (uint64_t) (c.at - section->data.bytes),
                             0, &fde->begin);
        if (r < 0)
                return r;
        r = infp_cfi_pointer(&c, cie->pointer_encoding & 0x0f, 0, 0, &fde->size);
        if (r < 0)
                return r;
        if (cie->has_augmentation)
                infp_cursor_take(&c, infp_cursor_uleb(&c));
        fde->program = c.at;
        fde->program_end = c.end;
        return c.is_bad ? -EBADMSG : 0;
}
