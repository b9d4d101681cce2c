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
        int error;   /* first negative errno; later writes do nothing. EPIPE of a closed pager is not an error */
        void *state; /* of the format, between begin and end */
        void (*state_free)(void *state);
        bool colour;    /* a terminal, and NO_COLOR is not set */
        unsigned width; /* of the terminal; 0 = unbounded */
        bool is_tame; /* what is put is escaped already: line ends and colours in it are ours (view/report/lines.c, table.c) */
        bool is_csv_safe; /* csv, tsv: quote texts that a spreadsheet takes for formulas */
        bool is_listing;  /* table: the last column is a help text, which goes on below; what is absent is left blank */
};

void infp_out_init(struct infp_out *out, int fd, const char *path);
/* Writes what is buffered. 0 (also when the reader went away: out->error is then -EPIPE, for a producer that wants to stop),
 * or the first error with the path in `err`. */
int infp_out_flush(struct infp_out *out, struct infp_err *err); /* when much is waiting, and at the end */
/* Flushes only when much is waiting; an error stays in out->error. */
void infp_out_drain(struct infp_out *out);
void infp_out_done(struct infp_out *out);

struct infp_format {
        const char *name;      /* json jsonl csv tsv table prom */
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
extern const struct infp_format infp_format_prom;  /* Prometheus text, each sample with its time */
const struct infp_format *infp_format_find(const char *name);
const struct infp_format *const *infp_formats(void); /* all, ended by NULL */

/* The text of one cell as csv, tsv and table show it, without quoting: "" when absent. TS_NS as Unix ms. */
void infp_cell_text(struct infp_str *out, const struct infp_batch *batch, unsigned column, uint32_t row);

/* TS_NS to Unix ms, rounded down. */
int64_t infp_unix_ms(int64_t unix_ns);

/* Text for a terminal or a line of a report. Names, command lines and answers of servers can hold escape sequences, line ends
 * and bytes that are no text: these become \n, \t, \xHH, and the rest stays as it is. */
void infp_text_tame(struct infp_str *out, const char *text, size_t size);
/* The same, but line ends and tabs stay. */
void infp_text_tame_lines(struct infp_str *out, const char *text, size_t size);
/* Columns of the terminal: $COLUMNS, else as it reports, else 80. */
unsigned infp_terminal_width(int fd);
/* Columns that a UTF-8 text takes on a terminal: 2 for East Asian wide characters and emoji, 0 for combining marks. */
unsigned infp_text_width(const char *text, size_t size);
/* Bytes of the longest beginning that takes at most `width` columns; its real width in *ret_width (may be NULL). */
size_t infp_text_fit(const char *text, size_t size, unsigned width, unsigned *ret_width);
