/* An ELF file in memory of our own, read piece by piece where it is looked at: nothing is mapped, so that a file that somebody
 * cuts short cannot kill us by SIGBUS, and of a file of half a gigabyte the few megabytes are read that hold names. Every offset
 * comes from the file and is checked. */
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum { INFP_IMAGE_MAX_SECTIONS = 4096, INFP_IMAGE_MAX_BUILD_ID = 64 };

struct infp_image {
        uint8_t *bytes; /* size of them; what was not asked for is zero */
        uint64_t size;
        uint64_t most_bytes; /* of a piece: larger ones are not read; 0: 512 MiB */
        uint64_t n_read;     /* bytes so far: what the image costs */
        int fd;              /* -1: all of it is there; owned */
        bool is_borrowed;    /* bytes are the caller's */
        bool is_cut;         /* the file was shorter than it had been */
        uint64_t device, inode;
        uint64_t *blocks; /* a bit each: it was read */

        Elf64_Ehdr head;
        const Elf64_Phdr *segments; /* copies; head.e_phnum of them */
        Elf64_Shdr *sections;
        unsigned n_sections;
        const char *names; /* of sections */
        uint64_t names_size;
        uint8_t build_id[INFP_IMAGE_MAX_BUILD_ID];
        unsigned build_id_size;
};

/* Consumes fd, a regular file; path is for messages. -EBADMSG, -ENOTSUP (no ELF of x86-64), -EFBIG, -ENOMEM. */
int infp_image_open(struct infp_image *image, int fd, const char *path, struct infp_err *err);
/* The same of bytes that are in memory: borrowed, or taken (malloc) when the call succeeds. */
int infp_image_open_bytes(struct infp_image *image, void *bytes, uint64_t size, bool take, const char *path,
                          struct infp_err *err);
void infp_image_close(struct infp_image *image);

/* size bytes at an offset of the file, or NULL. */
const uint8_t *infp_image_need(struct infp_image *image, uint64_t offset, uint64_t size);
/* The same into the caller's memory: the image costs nothing for it. False: they are not all there. */
bool infp_image_read(struct infp_image *image, uint64_t offset, void *ret, uint64_t size);
/* Appends the text at a place of a section of texts, with its 0, and costs nothing either. False: it does not end within max. */
bool infp_image_read_text(struct infp_image *image, const Elf64_Shdr *texts, uint64_t at, uint64_t max,
                          struct infp_str *ret);
/* The section of a name, or of a type (name NULL); NULL. */
const Elf64_Shdr *infp_image_section(const struct infp_image *image, const char *name, uint32_t type);
bool infp_image_section_is(const struct infp_image *image, const Elf64_Shdr *section, const char *name);
/* Its bytes; NULL when it has none or they are not all there. */
const uint8_t *infp_image_data(struct infp_image *image, const Elf64_Shdr *section);
/* Reads all that is loaded and is no code: where a part of it has no header that says where it is. */
void infp_image_need_data(struct infp_image *image);
/* size bytes that are loaded at an address. */
const uint8_t *infp_image_at(struct infp_image *image, uint64_t vaddr, uint64_t size);
/* A 0-terminated text in a section of texts; NULL: it does not end there, or is longer than max. */
const char *infp_image_text(const uint8_t *texts, uint64_t size, uint64_t at, uint64_t max);
/* Whether the build id is that one, in hexadecimal of either case. */
bool infp_image_is_build(const struct infp_image *image, const char *hex);
