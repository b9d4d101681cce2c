#include "sampler/python/pages.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, MOST_PAGES = 65536 };

/* The copy of a page; NULL: it cannot be read whole, or there are too many. */
static const uint8_t *page_at(struct infp_python_pages *pages, uint64_t address)
{
        const uint64_t *known = infp_map_get(&pages->by_address, address);
        uint8_t *copy;

        if (known)
                return (const uint8_t *) (uintptr_t) *known;
        copy = pages->n < MOST_PAGES ? malloc(PAGE) : NULL;
        if (copy && (pages->below.read(pages->below.context, address, copy, PAGE) < 0 ||
                     infp_map_put(&pages->by_address, address, (uintptr_t) copy) < 0)) {
                free(copy);
                return NULL;
        }
        pages->n += copy != NULL;
        return copy;
}

static int read_pages(void *context, uint64_t address, void *ret, size_t size)
{
        struct infp_python_pages *pages = context;

        for (size_t done = 0; done < size;) {
                const uint64_t at = address + done, begin = at & ~(uint64_t) (PAGE - 1);
                const size_t left = (size_t) (begin + PAGE - at), some = left < size - done ? left : size - done;
                const uint8_t *page = page_at(pages, begin);

                if (!page)
                        return pages->below.read(pages->below.context, address, ret, size);
                memcpy((uint8_t *) ret + done, page + (at - begin), some);
                done += some;
        }
        return 0;
}

struct infp_python_memory infp_python_pages_begin(struct infp_python_pages *pages, struct infp_python_memory below)
{
        *pages = (struct infp_python_pages){ .below = below };
        return (struct infp_python_memory){ read_pages, pages };
}

void infp_python_pages_done(struct infp_python_pages *pages)
{
        for (size_t i = 0; i < pages->by_address.cap; i++)
                if (pages->by_address.slots[i].key)
                        free((void *) (uintptr_t) pages->by_address.slots[i].value);
        infp_map_done(&pages->by_address);
}
