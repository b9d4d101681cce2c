/* Any order of calls: what was committed comes out in order, whole and once, and there is room when there should be. The input is one
 * call every three bytes: what (put, take, drop the first, begin in vain, restart), and a size. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/byte_ring.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BYTES = 4096, MOST = BYTES / 16 };

/* What should be in the ring. */
static struct {
        uint16_t size[MOST];
        uint8_t fill[MOST];
        unsigned first, n;
} list;

static void expect(bool truth)
{
        if (!truth)
                abort();
}

static void check(const unsigned char *record, unsigned index)
{
        const unsigned at = (list.first + index) % MOST;

        expect(record && (uintptr_t) record % 8 == 0);
        for (unsigned i = 0; i < list.size[at]; i++)
                expect(record[i] == list.fill[at]);
}

static void drop_first(void)
{
        list.first = (list.first + 1) % MOST;
        list.n--;
}

static void put(struct infp_byte_ring *ring, size_t size, size_t committed, uint8_t fill)
{
        const uint64_t used = infp_byte_ring_written(ring) - infp_byte_ring_taken(ring);
        const unsigned at = (list.first + list.n) % MOST;
        unsigned char *record = infp_byte_ring_begin(ring, size, 0);

        if (!record) {
                expect(size + 16 + used > BYTES / 2); /* half of it always finds a place */
                return;
        }
        expect((char *) record >= ring->data && (char *) record + size <= ring->data + BYTES && list.n < MOST);
        memset(record, fill, size);
        if (!committed)
                return;
        infp_byte_ring_commit(ring, committed);
        list.size[at] = (uint16_t) committed;
        list.fill[at] = fill;
        list.n++;
}

static void walk(const struct infp_byte_ring *ring)
{
        const void *at = NULL;

        for (unsigned i = 0; i < list.n; i++)
                check(at = infp_byte_ring_after(ring, at), i);
        expect(!infp_byte_ring_after(ring, at));
}

/* held: `next` gave a record that the list still has. */
static void call(struct infp_byte_ring *ring, unsigned what, size_t size, bool *held)
{
        switch (what % 6) {
        case 0:
        case 1:
                put(ring, size, size, (uint8_t) (what * 7 + size));
                break;
        case 2:
                put(ring, size, size / 2, (uint8_t) what);
                break;
        case 3:
                if (*held)
                        drop_first();
                *held = list.n > 0;
                expect((infp_byte_ring_next(ring) != NULL) == *held);
                if (*held)
                        check(ring->held, 0);
                break;
        case 4:
                if (*held || !list.n)
                        break;
                infp_byte_ring_give_back(ring, infp_byte_ring_after(ring, NULL));
                drop_first();
                break;
        default:
                if (!list.n)
                        infp_byte_ring_restart(ring);
                break;
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static struct infp_byte_ring ring;
        bool held = false;

        if (!ring.data)
                expect(infp_byte_ring_init(&ring, BYTES) == 0);
        memset(&list, 0, sizeof(list));
        ring.head = ring.tail = 0;
        ring.held = NULL;
        for (size_t i = 0; i + 3 <= size && i < 3 * 200; i += 3)
                call(&ring, data[i], (size_t) (data[i + 1] << 8 | data[i + 2]) % BYTES + 1, &held);
        walk(&ring);
        return 0;
}
