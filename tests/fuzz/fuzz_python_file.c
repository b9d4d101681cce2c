/* The file of an interpreter with patches (place: 2 bytes, number of bytes: 1, the bytes): no read outside, no hang, parts of the loop that
 * are sorted and apart. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/python_elf.h"
#include "sampler/python/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool truth)
{
        if (!truth)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static struct infp_python_file file;
        struct python_elf *elf = elf_python();
        uint8_t *exact = malloc(ELF_SIZE);
        struct infp_image image;

        expect(exact != NULL);
        elf_end(elf, true, false);
        while (size > 3) {
                size_t at = ((size_t) data[0] | (size_t) data[1] << 8) % ELF_SIZE, n = data[2];

                data += 3;
                size -= 3;
                n = n < size ? n : size;
                n = n < ELF_SIZE - at ? n : ELF_SIZE - at;
                memcpy(elf->bytes + at, data, n);
                data += n;
                size -= n;
        }
        memcpy(exact, elf->bytes, ELF_SIZE);
        if (infp_image_open_bytes(&image, exact, ELF_SIZE, false, "file", NULL) == 0) {
                infp_python_file_read(&image, &file);
                infp_python_loop_find(&image, &file);
                expect(file.n_parts <= INFP_PYTHON_PARTS);
                for (unsigned i = 0; i < file.n_parts; i++)
                        expect(file.parts[i].begin < file.parts[i].end &&
                               (!i || file.parts[i - 1].end <= file.parts[i].begin));
                infp_image_close(&image);
        }
        free(exact);
        free(elf);
        return 0;
}
