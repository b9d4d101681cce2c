/* A table that is made at run time: its names come from files or from SQL. */
#pragma once

#include "base/err.h"
#include "model/schema.h"

struct infp_made {
        struct infp_table table; /* keys and columns lie in one array, keys first */
        struct infp_column *list;
        unsigned cap;
        void **memory; /* texts and units */
        unsigned n_memory;
};

enum { INFP_MADE_MAX = 20000 }; /* columns of one table: more means a broken or hostile file */

/* NULL without memory. */
struct infp_made *infp_made_new(const char *name, bool plain);
struct infp_made *infp_made_free(struct infp_made *made); /* returns NULL */

/* Copies the column with its texts; unit NULL is none. -ENOMEM or -E2BIG. */
int infp_made_add(struct infp_made *made, const struct infp_column *column, bool is_key);
/* A copy of the text that lives as long as the table; NULL for NULL and without memory. */
const char *infp_made_text(struct infp_made *made, const char *text, size_t size);
/* The unit by its name; one that this version does not know keeps its name. */
const struct infp_unit *infp_made_unit(struct infp_made *made, const char *name);
