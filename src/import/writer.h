/* Takes places, stacks, threads and samples from the formats, makes ids, writes each thing once, and sends rows to the store. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "import/import.h"
#include "import/text.h"
#include "model/stack_tables.h"

enum {
        INFP_IMPORT_MAX_DEPTH =
                4096, /* frames of a stack; outer ones are left out, and the sample is marked truncated */
        INFP_IMPORT_MAX_LEVELS = 64,     /* functions inlined in one place; further ones are left out */
        INFP_IMPORT_MAX_TEXT = 16 << 10, /* bytes of one name; longer ones are cut */
};

struct infp_import_level {
        struct infp_import_text name, file;
        struct infp_import_text mangled;
        int64_t line, function_line; /* 0: not known */
};

struct infp_import_place {
        enum infp_frame_kind kind;
        struct infp_import_text object, build_id;
        bool is_unnamed; /* the name is a place, not a function */
        bool has_address;
        uint64_t address; /* as in the headers of the object: `infprof symbolize` finds a name by it */
        unsigned n_levels;
        struct infp_import_level levels[INFP_IMPORT_MAX_LEVELS]; /* the compiled function, then what was inlined */
};

struct infp_import_sample {
        uint64_t t_ns;
        int32_t pid, tid;                /* 0: not known */
        struct infp_import_text thread;  /* its name */
        struct infp_import_text process; /* its name; none: the thread's, until the main thread appears */
        int32_t cpu;                     /* -1: not known */
        uint64_t stack;                  /* 0: without frames */
        bool is_truncated;
        int64_t samples;
        double weight;
        double objects; /* of the heap: blocks; 0: not known */
        const char *mode;
        struct infp_import_text state; /* none: running, or unknown */
};

struct infp_import_writer;
/* Of the options: path, process and sink. */
int infp_import_writer_new(struct infp_run *run, const struct infp_import_options *options, struct infp_imported *found,
                           struct infp_import_writer **ret, struct infp_err *err);
struct infp_import_writer *infp_import_writer_free(struct infp_import_writer *writer);

/* The time line: t_ns of the file's rows, and the wall clock at one moment of it. Before anything else. */
int infp_import_begin(struct infp_import_writer *writer, uint64_t t_ns, int64_t unix_ns, struct infp_err *err);
/* The same for a file that knows no times: all of it is now. Nothing where it has begun. */
int infp_import_begin_now(struct infp_import_writer *writer, struct infp_err *err);
uint64_t infp_import_begin_t_ns(const struct infp_import_writer *writer);

/* Id of the place into *ret. */
int infp_import_frame(struct infp_import_writer *writer, const struct infp_import_place *place, uint64_t *ret,
                      struct infp_err *err);
/* Id of the innermost node into *ret, 0 without frames. is_leaf_first: the order of `frames`. Of more than
 * INFP_IMPORT_MAX_DEPTH the outer ones are left out: *ret_truncated; so it is where the outermost is called "[truncated]". */
int infp_import_stack(struct infp_import_writer *writer, const uint64_t *frames, size_t n, bool is_leaf_first,
                      uint64_t *ret, bool *ret_truncated, struct infp_err *err);
int infp_import_sample(struct infp_import_writer *writer, const struct infp_import_sample *sample,
                       struct infp_err *err);

/* Where a file does not say what its numbers measure: the mode that the user has named, else `otherwise`. */
const char *infp_import_wanted(const struct infp_import_writer *writer, const char *otherwise);

/* How samples of the heap were taken, for table sampler, a row each mode that is there; after the last of them. mean_bytes: from one
 * sampled block to the next; 0, 1: `otherwise` says it. who: the allocator or profiler. */
#define INFP_IMPORT_EXACT "which sees each block: its figures are exact, and intervals do not apply to them"
int infp_import_heap_method(struct infp_import_writer *writer, const char *who, uint64_t mean_bytes,
                            const char *otherwise, struct infp_err *err);

struct infp_import_mapping {
        int32_t pid; /* 0: not known */
        struct infp_import_text path, build_id;
        bool has_range, is_deleted;
        uint64_t start, end, offset;
};
int infp_import_mapping(struct infp_import_writer *writer, const struct infp_import_mapping *mapping,
                        struct infp_err *err);

/* Counts what is in the file and not in the run. what: static text in the plural. */
void infp_import_skip(struct infp_import_writer *writer, const char *what, uint64_t n, uint64_t where);
struct infp_imported *infp_import_found(struct infp_import_writer *writer);

/* The end of the profile: its last sample, or its begin plus the duration in the file. */
uint64_t infp_import_last_t_ns(const struct infp_imported *found, uint64_t begin_t_ns);

/* The last rows, and the end of the segments. */
int infp_import_writer_end(struct infp_import_writer *writer, struct infp_err *err);
