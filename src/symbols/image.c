#include "symbols/image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

/* Address space is what a file costs before it is read; beyond this it is no program. */
#define MOST_BYTES (UINT64_C(16) << 30)
#define MOST_PIECE (UINT64_C(512) << 20)
enum { BLOCK = 4096 };

static bool has_block(const struct infp_image *image, uint64_t block)
{
        return image->blocks[block / 64] >> block % 64 & 1;
}

bool infp_image_read(struct infp_image *image, uint64_t offset, void *ret, uint64_t size)
{
        uint64_t done = 0;

        if (offset > image->size || size > image->size - offset)
                return false;
        if (image->fd < 0)
                memcpy(ret, image->bytes + offset, size);
        while (image->fd >= 0 && done < size) {
                const ssize_t n = pread(image->fd, (uint8_t *) ret + done, size - done, (off_t) (offset + done));

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0) {
                        image->is_cut = true;
                        return false;
                }
                done += (uint64_t) n;
        }
        return true;
}

bool infp_image_read_text(struct infp_image *image, const Elf64_Shdr *texts, uint64_t at, uint64_t max,
                          struct infp_str *ret)
{
        const size_t before = ret->size;
        char piece[256];

        for (uint64_t done = 0; at < texts->sh_size && done < max; done += sizeof(piece), at += sizeof(piece)) {
                const uint64_t left = texts->sh_size - at, size = left < sizeof(piece) ? left : sizeof(piece);
                const char *end;

                if (!infp_image_read(image, texts->sh_offset + at, piece, size))
                        break;
                end = memchr(piece, 0, size);
                infp_str_put(ret, piece, end ? (size_t) (end - piece) + 1 : size);
                if (end)
                        return !ret->failed;
        }
        ret->size = before;
        return false;
}

static bool read_blocks(struct infp_image *image, uint64_t block, uint64_t n)
{
        const uint64_t at = block * BLOCK, left = image->size - at, size = n * BLOCK < left ? n * BLOCK : left;

        if (!infp_image_read(image, at, image->bytes + at, size))
                return false;
        image->n_read += size;
        for (uint64_t i = block; i < block + n; i++)
                image->blocks[i / 64] |= UINT64_C(1) << i % 64;
        return true;
}

/* Whatever a file says of where its parts are, each of its blocks is read once. */
const uint8_t *infp_image_need(struct infp_image *image, uint64_t offset, uint64_t size)
{
        const uint64_t end = (offset + size + BLOCK - 1) / BLOCK;

        if (offset > image->size || size > image->size - offset ||
            size > (image->most_bytes ? image->most_bytes : MOST_PIECE))
                return NULL;
        for (uint64_t at = offset / BLOCK, n; image->fd >= 0 && at < end; at += n) {
                n = at % 64 == 0 && image->blocks[at / 64] == UINT64_MAX ? 64 : 1;
                if (has_block(image, at))
                        continue;
                while (at + n < end && !has_block(image, at + n))
                        n++;
                if (!read_blocks(image, at, n))
                        return NULL;
        }
        return image->bytes + offset;
}

const char *infp_image_text(const uint8_t *texts, uint64_t size, uint64_t at, uint64_t max)
{
        const uint64_t room = at < size ? size - at : 0, look = room < max ? room : max;

        return look && memchr(texts + at, 0, look) ? (const char *) texts + at : NULL;
}

bool infp_image_section_is(const struct infp_image *image, const Elf64_Shdr *section, const char *name)
{
        const char *text =
                image->names ? infp_image_text((const uint8_t *) image->names, image->names_size, section->sh_name, 256)
                             : NULL;

        return text && strcmp(text, name) == 0;
}

const Elf64_Shdr *infp_image_section(const struct infp_image *image, const char *name, uint32_t type)
{
        for (unsigned i = 1; i < image->n_sections; i++)
                if (name ? infp_image_section_is(image, &image->sections[i], name) : image->sections[i].sh_type == type)
                        return &image->sections[i];
        return NULL;
}

const uint8_t *infp_image_data(struct infp_image *image, const Elf64_Shdr *section)
{
        if (!section || section->sh_type == SHT_NOBITS || !section->sh_size || (section->sh_flags & SHF_COMPRESSED))
                return NULL;
        return infp_image_need(image, section->sh_offset, section->sh_size);
}

const uint8_t *infp_image_at(struct infp_image *image, uint64_t vaddr, uint64_t size)
{
        for (unsigned i = 0; image->segments && i < image->head.e_phnum; i++) {
                const Elf64_Phdr *load = &image->segments[i];
                const uint64_t at = vaddr - load->p_vaddr;

                if (load->p_type == PT_LOAD && vaddr >= load->p_vaddr && at <= load->p_filesz &&
                    size <= load->p_filesz - at && load->p_offset + at >= load->p_offset)
                        return infp_image_need(image, load->p_offset + at, size);
        }
        return NULL;
}

void infp_image_need_data(struct infp_image *image)
{
        for (unsigned i = 0; image->segments && i < image->head.e_phnum; i++)
                if (image->segments[i].p_type == PT_LOAD && !(image->segments[i].p_flags & PF_X))
                        infp_image_need(image, image->segments[i].p_offset, image->segments[i].p_filesz);
}

static void take_notes(struct infp_image *image, const uint8_t *notes, uint64_t size, uint64_t align)
{
        uint64_t at = 0;

        align = align == 8 ? 8 : 4;
        while (notes && !image->build_id_size && at + sizeof(Elf64_Nhdr) <= size) {
                Elf64_Nhdr note;
                uint64_t name = at + sizeof(note), text;

                memcpy(&note, notes + at, sizeof(note));
                text = (name + note.n_namesz + align - 1) & -align;
                if (text > size || note.n_descsz > size - text)
                        return;
                if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(notes + name, "GNU", 4) == 0 &&
                    note.n_descsz && note.n_descsz <= INFP_IMAGE_MAX_BUILD_ID) {
                        memcpy(image->build_id, notes + text, note.n_descsz);
                        image->build_id_size = note.n_descsz;
                }
                at = (text + note.n_descsz + align - 1) & -align;
        }
}

enum { MOST_NOTE_BYTES = 1 << 20 };

/* By segments, and by sections in files of debug symbols, whose segments hold nothing. */
static void find_build_id(struct infp_image *image)
{
        uint64_t left = MOST_NOTE_BYTES;

        for (unsigned i = 0; image->segments && i < image->head.e_phnum; i++) {
                const Elf64_Phdr *s = &image->segments[i];

                if (s->p_type == PT_NOTE && s->p_filesz <= left) {
                        take_notes(image, infp_image_need(image, s->p_offset, s->p_filesz), s->p_filesz, s->p_align);
                        left -= s->p_filesz;
                }
        }
        for (unsigned i = 1; i < image->n_sections; i++) {
                const Elf64_Shdr *s = &image->sections[i];

                if (s->sh_type == SHT_NOTE && s->sh_size <= left) {
                        take_notes(image, infp_image_data(image, s), s->sh_size, s->sh_addralign);
                        left -= s->sh_size;
                }
        }
}

static void read_sections(struct infp_image *image)
{
        const Elf64_Ehdr *head = &image->head;
        uint64_t n = head->e_shnum, names = head->e_shstrndx;
        const uint8_t *first, *all;
        Elf64_Shdr zero;

        if (!head->e_shoff || head->e_shentsize != sizeof(Elf64_Shdr))
                return;
        first = infp_image_need(image, head->e_shoff, sizeof(zero));
        if (!first)
                return;
        memcpy(&zero, first, sizeof(zero));
        if (n == 0) /* more than fit the header's field */
                n = zero.sh_size;
        if (names == SHN_XINDEX)
                names = zero.sh_link;
        if (n > INFP_IMAGE_MAX_SECTIONS)
                n = INFP_IMAGE_MAX_SECTIONS;
        all = infp_image_need(image, head->e_shoff, n * sizeof(Elf64_Shdr));
        image->sections = all ? malloc(n * sizeof(Elf64_Shdr)) : NULL; /* a copy: the file's may be unaligned */
        if (!image->sections)
                return;
        memcpy(image->sections, all, n * sizeof(Elf64_Shdr));
        image->n_sections = (unsigned) n;
        if (names >= n)
                return;
        image->names = (const char *) infp_image_data(image, &image->sections[names]);
        image->names_size = image->names ? image->sections[names].sh_size : 0;
}

static int read_head(struct infp_image *image, const char *path, struct infp_err *err)
{
        const uint8_t *bytes = infp_image_need(image, 0, sizeof(image->head));
        uint64_t size;
        Elf64_Phdr *copy;

        if (!bytes || memcmp(bytes, ELFMAG, SELFMAG) != 0)
                return infp_fail(err, -EBADMSG, "%s is not an ELF file", path);
        memcpy(&image->head, bytes, sizeof(image->head));
        if (image->head.e_ident[EI_CLASS] != ELFCLASS64 || image->head.e_ident[EI_DATA] != ELFDATA2LSB ||
            image->head.e_machine != EM_X86_64)
                return infp_fail(err, -ENOTSUP, "%s is not an x86-64 ELF file", path);
        size = image->head.e_phnum * sizeof(Elf64_Phdr);
        bytes = image->head.e_phentsize == sizeof(Elf64_Phdr) ? infp_image_need(image, image->head.e_phoff, size)
                                                              : NULL;
        copy = bytes && size ? malloc(size) : NULL;
        if (copy)
                memcpy(copy, bytes, size);
        image->segments = copy;
        read_sections(image);
        find_build_id(image);
        return 0;
}

int infp_image_open_bytes(struct infp_image *image, void *bytes, uint64_t size, bool take, const char *path,
                          struct infp_err *err)
{
        int r;

        *image = (struct infp_image){ .bytes = bytes, .size = size, .fd = -1, .is_borrowed = true };
        r = read_head(image, path, err);
        if (r < 0)
                infp_image_close(image);
        else
                image->is_borrowed = !take;
        return r;
}

int infp_image_open(struct infp_image *image, int fd, const char *path, struct infp_err *err)
{
        struct stat st;
        int r;

        *image = (struct infp_image){ .fd = fd };
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0) {
                infp_close(fd);
                return infp_fail(err, -EBADMSG, "%s is empty or not a file", path);
        }
        if ((uint64_t) st.st_size > MOST_BYTES) {
                infp_close(fd);
                return infp_fail(err, -EFBIG, "%s is larger than 16 GiB: its names are not read", path);
        }
        image->size = (uint64_t) st.st_size;
        image->device = (uint64_t) st.st_dev;
        image->inode = (uint64_t) st.st_ino;
        image->blocks = calloc(image->size / BLOCK / 64 + 1, sizeof(*image->blocks));
        image->bytes =
                mmap(NULL, image->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (image->bytes == MAP_FAILED || !image->blocks) {
                if (image->bytes != MAP_FAILED)
                        munmap(image->bytes, image->size);
                free(image->blocks);
                infp_close(fd);
                return infp_fail(err, -ENOMEM, "no memory to read %s", path);
        }
        r = read_head(image, path, err);
        if (r < 0)
                infp_image_close(image);
        return r;
}

void infp_image_close(struct infp_image *image)
{
        if (image->bytes && !image->is_borrowed) {
                if (image->fd >= 0)
                        munmap(image->bytes, image->size);
                else
                        free(image->bytes);
        }
        infp_close(image->fd);
        free(image->blocks);
        free((void *) image->segments);
        free(image->sections);
        *image = (struct infp_image){ .fd = -1 };
}

bool infp_image_is_build(const struct infp_image *image, const char *hex)
{
        static const char digits[] = "0123456789abcdef";

        if (!image->build_id_size || strlen(hex) != 2 * (size_t) image->build_id_size)
                return false;
        for (unsigned i = 0; i < image->build_id_size; i++)
                if ((hex[2 * i] | 32) != digits[image->build_id[i] >> 4] &&
                    hex[2 * i] != digits[image->build_id[i] >> 4])
                        return false;
                else if ((hex[2 * i + 1] | 32) != digits[image->build_id[i] & 15] &&
                         hex[2 * i + 1] != digits[image->build_id[i] & 15])
                        return false;
        return true;
}
