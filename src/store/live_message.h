/* A message of the live socket as rows, inside src/store (and its fuzzer). */
#pragma once

#include "store/live.h"

/* row: scratch, with its text memory. All rows are checked before the first is given away. *ret_rows: how many were. -EBADMSG
 * with what is wrong, or what the taker said. */
int infp_live_message_take(const char *message, size_t size, const struct infp_live_taker *taker, struct infp_row *row,
                           unsigned *ret_rows, struct infp_err *err);
