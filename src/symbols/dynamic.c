#include "symbols/dynamic.h"

#include <string.h>

struct tags {
        uint64_t symbols, names, names_size, hash, gnu_hash;
};

static void take_tag(struct tags *tags, const Elf64_Dyn *entry)
{
        switch (entry->d_tag) {
        case DT_SYMTAB:
                tags->symbols = entry->d_un.d_ptr;
                break;
        case DT_STRTAB:
                tags->names = entry->d_un.d_ptr;
                break;
        case DT_STRSZ:
                tags->names_size = entry->d_un.d_val;
                break;
        case DT_HASH:
                tags->hash = entry->d_un.d_ptr;
                break;
        case DT_GNU_HASH:
                tags->gnu_hash = entry->d_un.d_ptr;
                break;
        default:
                break;
        }
}

static void read_tags(struct infp_image *image, struct tags *ret)
{
        *ret = (struct tags){ 0 };
        for (unsigned i = 0; image->segments && i < image->head.e_phnum; i++) {
                const Elf64_Phdr *part = &image->segments[i];
                const uint8_t *bytes =
                        part->p_type == PT_DYNAMIC ? infp_image_need(image, part->p_offset, part->p_filesz) : NULL;
                Elf64_Dyn entry = { .d_tag = DT_DEBUG };

                for (uint64_t at = 0; bytes && entry.d_tag != DT_NULL && at + sizeof(entry) <= part->p_filesz;
                     at += sizeof(entry)) {
                        memcpy(&entry, bytes + at, sizeof(entry));
                        take_tag(ret, &entry);
                }
                if (part->p_type == PT_DYNAMIC)
                        return; /* a loader heeds the first; a file may claim thousands */
        }
}

static bool read_word(struct infp_image *image, uint64_t vaddr, uint32_t *ret)
{
        const uint8_t *bytes = infp_image_at(image, vaddr, sizeof(*ret));

        if (bytes)
                memcpy(ret, bytes, sizeof(*ret));
        return bytes != NULL;
}

/* The part that is loaded with an address in it; NULL. */
static const Elf64_Phdr *find_part(const struct infp_image *image, uint64_t vaddr)
{
        for (unsigned i = 0; image->segments && i < image->head.e_phnum; i++) {
                const Elf64_Phdr *load = &image->segments[i];

                if (load->p_type == PT_LOAD && vaddr >= load->p_vaddr && vaddr - load->p_vaddr < load->p_filesz)
                        return load;
        }
        return NULL;
}

/* All words from an address to the end of its part, or of a file that was cut short: looked for once, since a file may claim millions of
 * words and of parts. */
static const uint8_t *find_words(struct infp_image *image, uint64_t vaddr, uint64_t *ret_n)
{
        const Elf64_Phdr *part = find_part(image, vaddr);
        const uint64_t at = part ? part->p_offset + (vaddr - part->p_vaddr) : 0;
        uint64_t size = part ? part->p_filesz - (vaddr - part->p_vaddr) : 0;

        if (at < image->size && size > image->size - at)
                size = image->size - at;
        *ret_n = size / 4;
        return part ? infp_image_at(image, vaddr, size) : NULL;
}

/* How many symbols there are: nothing says it but the tables by which they are looked up. Here one past the last of the last chain. */
static uint64_t count_by_gnu_hash(struct infp_image *image, uint64_t at)
{
        uint32_t n_buckets, first, n_bloom, word, last = 0;
        uint64_t buckets, n;
        const uint8_t *words;

        if (!read_word(image, at, &n_buckets) || !read_word(image, at + 4, &first) ||
            !read_word(image, at + 8, &n_bloom))
                return 0;
        buckets = at + 16 + UINT64_C(8) * n_bloom;
        words = find_words(image, buckets, &n);
        if (!words || n < n_buckets)
                return 0;
        for (uint32_t i = 0; i < n_buckets; i++) {
                memcpy(&word, words + UINT64_C(4) * i, 4);
                last = word > last ? word : last;
        }
        if (last < first)
                return first;
        for (uint64_t i = (uint64_t) n_buckets + last - first; i < n; i++) {
                memcpy(&word, words + 4 * i, 4);
                last++;
                if (word & 1)
                        return last;
        }
        return 0;
}

static uint64_t count_symbols(struct infp_image *image, const struct tags *tags)
{
        uint32_t n = 0;

        if (tags->hash && read_word(image, tags->hash + 4, &n))
                return n;
        return tags->gnu_hash ? count_by_gnu_hash(image, tags->gnu_hash) : 0;
}

static bool set_section(const struct infp_image *image, uint64_t vaddr, uint64_t size, Elf64_Shdr *ret)
{
        const Elf64_Phdr *part = find_part(image, vaddr);

        if (!part || !size || size > part->p_filesz - (vaddr - part->p_vaddr))
                return false;
        *ret = (Elf64_Shdr){ .sh_offset = part->p_offset + (vaddr - part->p_vaddr), .sh_size = size };
        return true;
}

bool infp_symbol_sections_by_loader(struct infp_image *image, struct infp_symbol_sections *ret)
{
        const Elf64_Phdr *hashes;
        struct tags tags;

        *ret = (struct infp_symbol_sections){ 0 };
        read_tags(image, &tags);
        hashes = find_part(image, tags.hash ? tags.hash : tags.gnu_hash);
        if (hashes) /* at once, not word by word */
                infp_image_need(image, hashes->p_offset, hashes->p_filesz);
        return set_section(image, tags.symbols, count_symbols(image, &tags) * sizeof(Elf64_Sym), &ret->symbols) &&
               set_section(image, tags.names, tags.names_size, &ret->texts);
}
