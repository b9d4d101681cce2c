/* infp_table <-> ArrowSchema: inside src/store alone, which is the only folder that includes nanoarrow. */
#pragma once

#include "base/err.h"
#include "model/schema.h"
#include "nanoarrow/nanoarrow.h"

enum { INFP_ARROW_MAX_COLUMNS = 4096 };

/* Fills err with the library's text and turns its errno-like code into a negative errno. */
int infp_arrow_fail(struct infp_err *err, int code, const struct ArrowError *error, const char *what);

/* A name from a file as messages may show it: at most 64 bytes, no control characters. */
const char *infp_arrow_show(const char *name, char ret[65]);

/* The schema of a table; the caller releases it. */
int infp_arrow_schema_of(const struct infp_table *table, struct ArrowSchema *ret, struct infp_err *err);

/* How a column of a file becomes one of ours. */
struct infp_arrow_source {
        enum ArrowType type; /* of the values: what a dictionary holds, if there is one */
        enum infp_type target;
        int64_t ns_per_unit; /* timestamps */
        bool is_dictionary;
        bool is_direct; /* the memory is laid out as ours: used in place */
};

/* A table as a file describes it, with all its memory. */
struct infp_arrow_table {
        struct infp_table table;
        unsigned width;
        struct infp_arrow_source *sources; /* `width` of them, in the order of a batch's columns */
        struct infp_column *columns;
        char **texts; /* every name and text that columns point to */
        struct infp_unit *units;
        size_t n_texts, n_units;
};
int infp_arrow_table_of(const struct ArrowSchema *schema, const char *name, struct infp_arrow_table *ret,
                        struct infp_err *err);
void infp_arrow_table_done(struct infp_arrow_table *table);
