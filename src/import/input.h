/* The bytes of a file that is imported: plain or gzip, as lines or as a whole, bounded. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/notice.h"

enum {
        INFP_IMPORT_HEAD = 64 << 10,
        INFP_IMPORT_LINE_MAX = 4 << 20, /* of a text: what is longer is no line of a profile */
};

struct infp_import_input;

struct infp_import_source {
        int fd; /* borrowed */
        const char *path;
        int stop_fd; /* as in import.h */
        bool (*is_stop)(void *context);
        void *context;
        const struct infp_notices *notices;
};

int infp_import_input_open(const struct infp_import_source *source, struct infp_import_input **ret,
                           struct infp_err *err);
struct infp_import_input *infp_import_input_close(struct infp_import_input *input);

const char *infp_import_path(const struct infp_import_input *input);
bool infp_import_is_compressed(const struct infp_import_input *input);
uint64_t infp_import_bytes(const struct infp_import_input *input);       /* read from the file so far */
uint64_t infp_import_unpacked(const struct infp_import_input *input);    /* of its content */
uint64_t infp_import_line_number(const struct infp_import_input *input); /* of the line that was read last, from 1 */

int64_t infp_import_written(
        const struct infp_import_input *input); /* when the file was, in seconds since 1970; of a pipe about now */

/* -ECANCELED: the user wants to stop. For what is done after the last read, which asks it, too; n: stacks so far, of which few ask. */
int infp_import_stopped(const struct infp_import_input *input, uint64_t n, struct infp_err *err);

/* The first bytes, at most INFP_IMPORT_HEAD of them; they are read again by what follows. */
int infp_import_peek(struct infp_import_input *input, const char **ret, size_t *ret_size, struct infp_err *err);

/* 1: the next line without its end (LF or CR LF), borrowed until the next call; 0: there is none. A line with a NUL byte, or
 * that is longer than INFP_IMPORT_LINE_MAX, is -EBADMSG. */
int infp_import_line(struct infp_import_input *input, const char **ret, size_t *ret_size, struct infp_err *err);

/* Everything, in the input's memory, with a 0 byte after it; more than max bytes: -EFBIG. */
int infp_import_all(struct infp_import_input *input, size_t max, const char **ret, size_t *ret_size,
                    struct infp_err *err);
