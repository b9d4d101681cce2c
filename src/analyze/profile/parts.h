/* What the files profile*.c share. */
#pragma once

#include "analyze/profile/profile.h"
#include "query/scan.h"

/* A wanted column: if the table lacks it, or has it with another type, it is absent in every row. */
struct infp_profile_column {
        const char *name;
        enum infp_type type;
};

struct infp_profile_reader {
        struct infp_run *run;
        const struct infp_profile_options *options;
        struct infp_profile *profile;
        struct infp_catalog catalog;
        struct infp_map processes, threads, sums, moments, frames; /* ids, or hashes of what is the same, to indices */
        uint32_t cap_processes, cap_threads, cap_sums, cap_times, cap_moments, cap_nodes, cap_frames;
        uint32_t modes[64], n_modes; /* that are taken */
        bool has_weights;
        bool takes_objects;            /* in the place of weights: mode inuse_objects and the like */
        uint32_t heap_mode, peak_mode; /* of modes; 0: not taken */
        struct infp_map replaced;      /* process -> number in the list: those that ran several programs */
        struct infp_profile_replaced *replaced_list;
        uint32_t n_replaced, cap_replaced;
};

/* In the place of the names that asyncio gives to tasks: "Task-17" says nothing. */
#define INFP_PROFILE_NO_TASK_NAME "Task-N"

enum { INFP_PROFILE_COLUMNS = 13 };

/* An open table and where the wanted columns are in it (-1: nowhere). */
struct infp_profile_scan {
        struct infp_scan *scan; /* NULL: there is no such table */
        struct infp_batch batch;
        uint32_t row;
        int at[INFP_PROFILE_COLUMNS];
};

int infp_profile_scan_open(struct infp_profile_reader *reader, const char *table,
                           const struct infp_profile_column *columns, unsigned n, bool in_range,
                           struct infp_profile_scan *ret, struct infp_err *err);
int infp_profile_scan_next(struct infp_profile_scan *scan, struct infp_err *err); /* 1: a row; 0: the end */
void infp_profile_scan_close(struct infp_profile_scan *scan);

/* Cells of the row by number of the wanted column. */
bool infp_profile_has(const struct infp_profile_scan *scan, unsigned column);
uint64_t infp_profile_id(const struct infp_profile_scan *scan, unsigned column); /* 0: none */
int64_t infp_profile_i64(const struct infp_profile_scan *scan, unsigned column); /* 0: none */
bool infp_profile_bool(const struct infp_profile_scan *scan, unsigned column);   /* false: none */
int infp_profile_text(struct infp_profile_reader *reader, const struct infp_profile_scan *scan, unsigned column,
                      uint32_t *ret, struct infp_err *err); /* 0: none */

double infp_profile_number(const struct infp_profile_scan *scan, unsigned column); /* of an F64; 0: no finite one */

/* Opens the table, if there is one, passes it to `read` and closes it. */
typedef int infp_profile_read_fn(struct infp_profile_reader *, struct infp_profile_scan *, struct infp_err *);
int infp_profile_read_table(struct infp_profile_reader *reader, const char *table,
                            const struct infp_profile_column *columns, unsigned n, bool in_range,
                            infp_profile_read_fn *read, struct infp_err *err);

/* Room for one more after n. *array is an array of `size` bytes each. -ENOMEM; -E2BIG beyond INFP_PROFILE_MOST. */
int infp_profile_room(void *array, uint32_t *cap, uint32_t n, size_t size, struct infp_err *err);
int infp_profile_no_memory(struct infp_err *err);

/* Whether any frame of a stack has a property, by node; the caller frees. NULL: no memory. */
bool *infp_profile_spread(const struct infp_profile *profile, const bool *of_frame);
/* filter.c */
int infp_profile_filter(struct infp_profile *profile, const char *filter, struct infp_err *err);

int infp_profile_read_samples(struct infp_profile_reader *reader, struct infp_err *err); /* read.c */
/* Of a run with a heap; then whether a row of the heap is one of a program that has had its place taken, by exec. */
int infp_profile_read_programs(struct infp_profile_reader *reader, struct infp_err *err); /* programs.c */
bool infp_profile_is_replaced(const struct infp_profile_reader *reader, uint64_t process, uint32_t mode, uint64_t t_ns);
int infp_profile_read_modes(struct infp_profile_reader *reader, struct infp_err *err);  /* modes.c */
int infp_profile_read_nodes(struct infp_profile_reader *reader, struct infp_err *err);  /* nodes.c */
int infp_profile_read_frames(struct infp_profile_reader *reader, struct infp_err *err); /* names.c */
