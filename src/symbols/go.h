/* Names, files and lines of a Go program by the table that it always carries (unwind/go_table.h). */
#pragma once

#include "symbols/table.h"
#include "unwind/go_table.h"

/* The table, and its functions in place of those of a table of symbols; both borrow the image. 0, -ENOENT (no Go program, or its
 * table cannot be read), -ENOMEM. */
int infp_go_functions_read(struct infp_image *image, struct infp_go *ret_go, struct infp_functions *ret);
