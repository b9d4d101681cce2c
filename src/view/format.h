/* Table formats: one const record a file. Output goes through struct infp_out, which buffers and keeps the first error. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "model/batch.h"

struct infp_out {
        int fd;               /* borrowed */
        const char *path;     /* for messages; "standard output" */
        struct infp_str text; /* not yet written */
        int error;            /* first negative errno; later writes do nothing. EPIPE of a closed pager is not an error */
        void *state;          /* of the format */
        bool colour;          /* a terminal, and NO_COLOR is not set */
        unsigned width;       /* of the terminal; 0 = unbounded */
};

void infp_out_init(struct infp_out *out, int fd, const char *path);
int infp_out_flush(struct infp_out *out, struct infp_err *err); /* when much is waiting, and at the end */
void infp_out_done(struct infp_out *out);

struct infp_format {
        const char *name;      /* json csv tsv table prom */
        const char *extension; /* of files: "csv" */
        const char *help;
        int (*begin)(struct infp_out *out, const struct infp_table *table);
        int (*batch)(struct infp_out *out, const struct infp_batch *batch);
        int (*end)(struct infp_out *out, const struct infp_table *table);
};

extern const struct infp_format infp_format_json; /* an array of objects */
extern const struct infp_format infp_format_jsonl;
extern const struct infp_format infp_format_csv;
extern const struct infp_format infp_format_tsv;
extern const struct infp_format infp_format_table; /* for people: aligned, at most so many rows as fit */
const struct infp_format *infp_format_find(const char *name);

/* The text of one cell as csv, tsv and table show it, without quoting: "" when absent. TS_NS as Unix ms. */
void infp_cell_text(struct infp_str *out, const struct infp_batch *batch, unsigned column, uint32_t row);
