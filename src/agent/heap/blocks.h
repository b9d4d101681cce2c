/* All blocks that are in use: address -> size, site, window. Any thread, also in a signal handler; nothing waits. 16 bytes a slot; of the slots
 * more than a third are in use where the blocks have not become fewer. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
        INFP_BLOCK_SITE_BITS = 23,   /* a place in the ring file */
        INFP_BLOCK_WINDOW_BITS = 20, /* of later ones only these are kept */
};
#define INFP_BLOCK_MOST (UINT64_C(1) << (64 - INFP_BLOCK_SITE_BITS - 1)) /* bytes of a block */

struct infp_block {
        uint64_t size;
        uint32_t site, window; /* site: not 0 */
};

int infp_agent_blocks_make(void);   /* 0 or -ENOMEM */
void infp_agent_blocks_reset(void); /* forgets all: in a child of fork, or for good */
/* False: there is no room for it, or no block is at such an address. ret_old: one that was there, whose end nobody has seen; its site is 0: none
 * (or it was not looked for, where the table is full). */
bool infp_agent_blocks_put(uint64_t address, const struct infp_block *block, struct infp_block *ret_old);
bool infp_agent_blocks_take(uint64_t address, struct infp_block *ret); /* and it is no longer there. False: it is not */
/* Each that is there during the whole call, and maybe some of the others. */
void infp_agent_blocks_each(void (*take)(const struct infp_block *block, void *context), void *context);
