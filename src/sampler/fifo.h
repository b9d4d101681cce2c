/* A queue of items that are malloc()ed and have a struct infp_fifo_item as their first member. Zeroed it is empty. Where threads share it
 * they have a lock for it. */
#pragma once

#include <stdint.h>
#include <stdlib.h>

struct infp_fifo_item {
        struct infp_fifo_item *next;
};

struct infp_fifo {
        struct infp_fifo_item *first, *last;
        uint32_t n;
};

static inline void infp_fifo_put(struct infp_fifo *fifo, struct infp_fifo_item *item)
{
        item->next = NULL;
        *(fifo->first ? &fifo->last->next : &fifo->first) = item;
        fifo->last = item;
        fifo->n++;
}

/* The oldest one, which is the caller's then; NULL: there is none. */
static inline void *infp_fifo_take(struct infp_fifo *fifo)
{
        struct infp_fifo_item *item = fifo->first;

        if (item) {
                fifo->first = item->next;
                fifo->n--;
        }
        return item;
}

/* Frees those that are left. */
static inline void infp_fifo_done(struct infp_fifo *fifo)
{
        struct infp_fifo_item *item;

        while ((item = infp_fifo_take(fifo)))
                free(item);
}
