/* Shared by the files of the collector `processes`. */
#pragma once

#include "collect/collector.h"
#include "collectors/fields.h"
#include "collectors/process/delays.h"
#include "collectors/process/table.h"
#include "collectors/process/total.h"

enum { PROCESS_TEXT = 32 * 1024, PROCESS_CMDLINE = 4096 };

/* Whether a file of processes could be read. */
enum process_access {
        ACCESS_UNKNOWN,
        ACCESS_OK,
        ACCESS_UNSEEN, /* it could be, but not its final figures */
        ACCESS_DENIED,
        ACCESS_MISSING,
};

struct process_cells {
        uint64_t valid;       /* bit i: cell i */
        int64_t v[PROCESS_N]; /* the state as its character, a bool as 0 or 1 */
};

/* infp_process.user: one allocation, so that the target can free it. */
struct process_user {
        struct process_cells cells; /* as in the last row */
        uint64_t row_ns;            /* when that was written */
        uint64_t details_ns;        /* when the files beside stat were read */
        struct process_gain gain;
        struct process_share share;
        struct process_delay delay;
        enum process_access status, io, pss;

        /* The entity as it was written last. */
        uint64_t image;
        int64_t uid, start_unix_ns;
        int32_t first_parent;
        bool has_uid, has_start, has_changed; /* has_changed: it must be written (again) */
        uint8_t n_checks; /* checks of the command line that are due: it is missing when an exec is seen in its middle */
        uint8_t name_size;
        char name[sizeof((struct infp_process *) 0)->comm];
        uint32_t cmdline_size;
        char cmdline[];
};

struct processes {
        struct infp_fields status_fields, io_fields;
        struct process_total total;
        struct process_delays delays;
        bool counts_delays; /* some process's threads have been read */
        bool is_live, has_io_files, wants_pss, keeps_secrets, has_delays, has_boot;
        int64_t boot_unix_ns; /* fixture trees: btime */
        uint64_t next_check_ns;

        /* Of one sample. */
        uint64_t now_ns;
        bool has_totals, has_clocks;
        struct process_gauges {
                int64_t n_all, n, n_alive, n_unmeasured, n_threads, rss, vms, swap,
                        rss_peak; /* of the tree, except n_all; n_unmeasured: alive, of unknown memory */
        } gauges;
        enum process_access status, io, pss, tree_io; /* the worst of all that are followed; of the tree */

        /* Of ended processes of the tree: what they did not show, the sums lack for good. */
        enum process_access ended_io;
        bool has_seen_io;
        uint64_t n_io_unseen;
        int64_t ended_rss_peak;

        struct infp_row row; /* takes what the fields give */
        char text[PROCESS_TEXT];
        char cmdline[PROCESS_CMDLINE + 1], masked[PROCESS_CMDLINE];
};

/* read.c: the values of a process, as far as they are due. `details`: reads the files beside stat, too. */
void process_read(struct processes *s, const struct infp_env *env, struct infp_process *p, struct process_user *u,
                  bool details, struct process_cells *ret);
/* The final counters of an ended process, by its last look. Its memory is gone: the last known value stays, and its peak. */
void process_read_last(struct processes *s, const struct infp_env *env, struct infp_process *p, struct process_user *u);
void process_share_update(const struct infp_env *env, const struct infp_process *p, struct process_user *u,
                          const struct process_cells *cells);

/* Makes p->user; then, once the values were read, writes the entity if it is new or has changed. `is_due`: the command line
 * is compared in any case. p->user may move. 0 or -ENOMEM. */
int process_first_sight(struct processes *s, const struct infp_env *env, struct infp_process *p);
int process_entity(struct processes *s, const struct infp_env *env, struct infp_emit *emit, struct infp_process *p,
                   bool is_due);
