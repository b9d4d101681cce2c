#include "symbols/go.h"

#include <errno.h>
#include <stdlib.h>

enum { MOST_NAME = 1 << 16 };

/* The table, the runtime's description of the module, and relocations of it. */
static void need_table(struct infp_image *image)
{
        const Elf64_Shdr *table = infp_image_section(image, ".gopclntab", 0);

        if (!table)
                table = infp_image_section(image, ".data.rel.ro.gopclntab", 0);
        if (!infp_image_data(image, table)) {
                infp_image_need_data(image);
                return;
        }
        infp_image_data(image, infp_image_section(image, ".rela.dyn", 0));
        for (unsigned i = 0; image->segments && i < image->head.e_phnum; i++)
                if (image->segments[i].p_type == PT_LOAD && (image->segments[i].p_flags & PF_W))
                        infp_image_need(image, image->segments[i].p_offset, image->segments[i].p_filesz);
}

int infp_go_functions_read(struct infp_image *image, struct infp_go *ret_go, struct infp_functions *ret)
{
        struct infp_go_function function;
        struct infp_elf elf;
        const uint8_t *names;
        uint64_t names_size;

        *ret = (struct infp_functions){ 0 };
        /* What was read when the image was opened shows what it is. */
        if (infp_elf_open(&elf, image->bytes, image->size, NULL) < 0 || !elf.is_go)
                return -ENOENT;
        need_table(image);
        if (infp_elf_open(&elf, image->bytes, image->size, NULL) < 0 || infp_go_open(ret_go, &elf) < 0)
                return -ENOENT;
        names = infp_go_names(ret_go, &names_size);
        ret->names = (const char *) names;
        ret->sized = malloc(ret_go->n_functions * sizeof(*ret->sized));
        if (!ret->sized)
                return -ENOMEM;
        for (uint64_t i = 0; i < ret_go->n_functions; i++)
                if (infp_go_function(ret_go, i, &function) &&
                    infp_image_text(names, names_size, function.name, MOST_NAME))
                        ret->sized[ret->n_sized++] =
                                (struct infp_function){ function.begin, function.end, function.name, 0 };
        if (ret->n_sized)
                return 0;
        infp_functions_done(ret);
        return -ENOENT;
}
