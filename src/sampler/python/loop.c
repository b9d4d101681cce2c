/* Parts of the interpreter's loop that no symbol names: GCC moves code that it takes to be cold out of a function, up to nearly all of it,
 * and stripped files name the rest alone. A part is a function of the call frame information that the loop jumps to, and that jumps back
 * into the middle of the loop, which nothing else does. */
#include <string.h>

#include "base/sort.h"
#include "sampler/python/file.h"
#include "symbols/range.h"

enum {
        MOST_TURNS = 8, /* parts that are followed */
        FEWEST_BACK = 2,
};
static const uint64_t most_code = UINT64_C(1) << 20; /* of one part */

/* The target of a jump that may begin there; 0: none does. Code is looked at byte by byte: what is no jump leads anywhere. */
static uint64_t jump_at(const uint8_t *code, uint64_t size, uint64_t vaddr)
{
        const unsigned length = code[0] == 0xe9 ? 5 : code[0] == 0x0f && size > 1 && (code[1] & 0xf0) == 0x80 ? 6 : 0;
        int32_t distance;

        if (!length || size < length)
                return 0;
        memcpy(&distance, code + length - 4, sizeof(distance));
        return vaddr + length + (uint64_t) (int64_t) distance;
}

static const uint8_t *code_of(struct infp_image *image, uint64_t begin, uint64_t end)
{
        return end - begin <= most_code ? infp_image_at(image, begin, end - begin) : NULL;
}

static bool is_known(const struct infp_python_file *file, uint64_t address)
{
        for (unsigned i = 0; i < file->n_parts; i++)
                if (address >= file->parts[i].begin && address < file->parts[i].end)
                        return true;
        return false;
}

static bool jumps_back(struct infp_image *image, const struct infp_python_file *file, uint64_t begin, uint64_t end)
{
        const uint8_t *code = code_of(image, begin, end);
        unsigned n = 0;

        for (uint64_t i = 0; code && i < end - begin && n < FEWEST_BACK; i++) {
                const uint64_t to = jump_at(code + i, end - begin - i, begin + i);

                n += to && to != file->loop && is_known(file, to);
        }
        return n >= FEWEST_BACK;
}

/* Looks at all jumps out of one part. */
static void follow(struct infp_image *image, const struct infp_ranges *functions, const struct infp_python_range *part,
                   struct infp_python_file *file)
{
        const uint8_t *code = code_of(image, part->begin, part->end);
        const uint64_t size = part->end - part->begin, from = part->begin;
        uint64_t begin = 0, end = 0; /* of the last one that was looked at */

        for (uint64_t i = 0; code && i < size; i++) {
                const uint64_t to = jump_at(code + i, size - i, from + i);

                if (!to || (to >= begin && to < end) || is_known(file, to) || file->n_parts == INFP_PYTHON_PARTS ||
                    !infp_ranges_find(functions, image, to, &begin, &end))
                        continue;
                if (jumps_back(image, file, begin, end))
                        file->parts[file->n_parts++] = (struct infp_python_range){ begin, end, false };
        }
}

static int by_begin(const void *left, const void *right)
{
        const struct infp_python_range *a = left, *b = right;

        return a->begin < b->begin ? -1 : a->begin > b->begin;
}

static void sort_and_join(struct infp_python_file *file)
{
        uint32_t n = 0;

        infp_sort(file->parts, file->n_parts, sizeof(*file->parts), by_begin);
        for (uint32_t i = 0; i < file->n_parts; i++) {
                struct infp_python_range *last = n ? &file->parts[n - 1] : NULL;
                const struct infp_python_range *part = &file->parts[i];

                if (!last || part->begin >= last->end)
                        file->parts[n++] = *part;
                else if (part->end > last->end)
                        last->end = part->end;
        }
        file->n_parts = n;
}

void infp_python_loop_find(struct infp_image *image, struct infp_python_file *file)
{
        struct infp_ranges functions;

        infp_ranges_read(image, &functions);
        for (unsigned i = 0; i < file->n_parts && i < MOST_TURNS && functions.table; i++)
                if (!file->parts[i].is_handler)
                        follow(image, &functions,
                               &(struct infp_python_range){ file->parts[i].begin, file->parts[i].end, false }, file);
        infp_ranges_done(&functions);
        sort_and_join(file);
}
