/* Inside the naming of frames: what is to be named, by whom, and what came of it. */
#pragma once

#include "base/map.h"
#include "base/str.h"
#include "finish/symbolize.h"
#include "model/stack_tables.h"
#include "symbols/symbols.h"

/* How good a name is: a better one replaces it. */
enum infp_name_rank {
        INFP_NAME_NONE,
        INFP_NAME_RANGE,
        INFP_NAME_CODE, /* what its instructions do */
        INFP_NAME_DYNSYM,
        INFP_NAME_DEBUGDATA,
        INFP_NAME_GO,
        INFP_NAME_SYMTAB,
        INFP_NAME_DWARF,
        INFP_NAME_FIXED, /* another kind, which nothing here improves */
};
enum infp_name_rank infp_name_rank(const char *from, size_t size); /* of a word of sFrom */
const char *infp_name_from(enum infp_name_rank rank);              /* "" of one that has none, or many */

struct infp_asked_frame {
        uint64_t id, address;
        uint32_t object; /* of `objects`; UINT32_MAX: none that can be read */
        uint8_t kind, rank;
        bool has_line, is_live; /* is_live: named by the recorder, which reads no DWARF */
        bool is_asked, is_done;
        char *raw; /* mangled name that the recorder wrote, still to be demangled; NULL: none */
        uint8_t raw_rank;
};

struct infp_asked_object {
        char *path, *build_id; /* "": none */
        int fd;                /* of a file that is out of reach by its path, borrowed; else -1 */
        bool is_kernel;
        uint8_t tries;     /* children that died of it */
        uint32_t first, n; /* in `order`: frames that are asked for, by address */
        uint64_t n_named, n_ranges;
        char *names, *debug_file, *problem;
        bool has_lines, is_left_out;
        int why; /* errno of the problem; 0: none */
};

struct infp_naming {
        struct infp_run *run; /* NULL: `take` is set */
        const struct infp_symbolize_options *options;
        const struct infp_notices *notices;
        struct infp_asked_frame *frames;
        uint32_t n_frames, cap_frames;
        struct infp_map by_id; /* frame id to index */
        struct infp_asked_object *objects;
        uint32_t n_objects, cap_objects;
        struct infp_map by_object; /* hash of path and build id to index */
        uint32_t *order;           /* frames by object and address */
        uint32_t n_asked;
        uint64_t last_t_ns; /* of rows of `symbols` that were there */
        /* NULL: levels become rows of the run (infp_naming_put); else they go here. */
        int (*take)(void *context, uint32_t frame, const struct infp_symbol *levels, unsigned n, struct infp_err *err);
        void *take_context;
        unsigned cpu_seconds; /* for one object; 0: what a program that waits for nobody may take */
        struct infp_sink *sink;
        struct infp_builder *builder;
        struct infp_row *row;
        char *scratch;
        uint64_t t_ns, n_written;
        int64_t ran_unix_ns; /* without a run: when the program began; 0: its files are taken as they are */
        int nice;            /* more of it for the child; 0: as the parent */
};

/* symbolize.c: adds a frame, and the file that it lies in (path NULL: none that can be read; its own for the kernel). -ENOMEM. */
int infp_naming_add(struct infp_naming *naming, const struct infp_asked_frame *frame, const char *path, size_t size,
                    const char *build_id, size_t id_size);
/* After the last: which are asked for, by object. -ENOMEM. */
int infp_naming_sort(struct infp_naming *naming, struct infp_err *err);
void infp_naming_done(struct infp_naming *naming);

/* symbolize_child.c: runs children until every object was asked, or given up. */
int infp_naming_ask(struct infp_naming *naming, struct infp_err *err);

/* The same in steps, for a caller that has other things to wait for. */
struct infp_naming_child {
        struct infp_naming *naming;
        pid_t pid;
        int fd;          /* to poll for reading */
        uint32_t object; /* being read; UINT32_MAX: it demangles, or has not begun */
        bool has_ended;
        unsigned deaths;
        uint64_t cpu_ns; /* of all that have ended */
        struct infp_str in;
};
int infp_naming_begin(struct infp_naming_child *child, struct infp_naming *naming, struct infp_err *err);
/* Takes what can be read without waiting. 1: there is more to come; 0: the child has ended; a negative errno. */
int infp_naming_step(struct infp_naming_child *child, struct infp_err *err);
/* After r of a step (or -ETIMEDOUT) ended it. 1: another child goes on without what this one died of; 0: all is done; a negative
 * errno. */
int infp_naming_go_on(struct infp_naming_child *child, int r, struct infp_err *err);
void infp_naming_stop(struct infp_naming_child *child); /* at any time; kills a child that lives */

/* symbolize_write.c: writes the rows of one frame, unless they are no better than the existing ones. */
int infp_naming_put(struct infp_naming *naming, uint32_t frame, const struct infp_symbol *levels, unsigned n,
                    struct infp_err *err);
int infp_naming_put_source(struct infp_naming *naming, const char *instance, const char *state, const char *reason,
                           const char *fix, struct infp_err *err);
int infp_naming_end(struct infp_naming *naming, struct infp_err *err);
void infp_naming_free_writer(struct infp_naming *naming);
