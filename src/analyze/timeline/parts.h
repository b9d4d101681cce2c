/* What the files timeline*.c share. */
#pragma once

#include "analyze/scan_some.h"
#include "analyze/timeline/timeline.h"
#include "query/instances.h"

/* One series while its rows stream by. */
struct infp_track {
        struct infp_bucket_stat *buckets; /* NULL: no value yet */
        bool has_last;
        uint64_t last_t_ns;
        uint64_t last_u64, last_per_u64; /* counters of integers; of a ratio the second one is what it is divided by */
        double last, last_per, last_counted_s;
};

/* A level at t; the previous one holds until t unless it is older than gap_ns. */
int infp_track_level(struct infp_track *track, const struct infp_grid *grid, uint64_t t_ns, double value,
                     uint64_t gap_ns);
/* A value of the time from `from` to t. */
int infp_track_between(struct infp_track *track, const struct infp_grid *grid, uint64_t from, uint64_t t_ns,
                       double value, double weight);
void infp_bucket_add(struct infp_bucket_stat *bucket, double value, double weight);
/* A level that holds until the next change: the mean of a bucket is over time, not over changes. */
void infp_buckets_hold(const struct infp_grid *grid, struct infp_bucket_stat *buckets, uint64_t from, uint64_t to,
                       double value);
double infp_buckets_mean(const struct infp_bucket_stat *buckets, unsigned n); /* NAN: all are empty */

enum infp_panel_scale {
        INFP_SCALE_BASE,    /* in the base unit */
        INFP_SCALE_PERCENT, /* base x 100: of a ratio; of seconds in a second: of one core */
        INFP_SCALE_OF_CPUS, /* the same, of all CPUs together */
};

enum infp_panel_shape {
        INFP_PANEL_ONE,    /* of a table without keys */
        INFP_PANEL_EACH,   /* a panel an instance */
        INFP_PANEL_ACROSS, /* a series an instance: the first of the columns that it has */
};

enum { INFP_PANEL_SERIES = 10, INFP_PANEL_LIMITS = 4, INFP_PANEL_TABLES = 3 };

/* The table of which metrics share a panel. A metric is named by its column, which also gives unit, kind and help. */
struct infp_panel {
        const char *id, *group, *title;
        const char *tables[INFP_PANEL_TABLES]; /* alike; NULL ends */
        enum infp_panel_shape shape;
        unsigned least, most; /* made for this many instances; most 0: no maximum */
        unsigned shown;       /* how many of them it shows */
        const char *unit, *kind;
        double max;
        const char *note;
        struct infp_panel_series {
                const char *name, *column, *per; /* per: increase of column / increase of per */
                enum infp_panel_scale scale;
        } series[INFP_PANEL_SERIES];
        struct infp_panel_limit {
                const char *name, *column; /* its last value */
                enum infp_panel_scale scale;
        } limits[INFP_PANEL_LIMITS];
};
extern const struct infp_panel infp_panels[];
extern const unsigned infp_panels_n;

/* How the instances of a table are called and ranked. */
struct infp_panel_table {
        const char *table, *word; /* "container", "GPU": before the name */
        const char *rank;         /* column whose mean puts an instance first; NULL: as they come */
        const char *first;        /* BOOL column of the one that comes before all */
        const char *number;       /* label column with its number */
        const char *label[2];     /* label columns with its name: the first that has a text */
        const char *entity;       /* table that has them, by the first key; NULL: the table itself */
        bool absent_is_new;       /* a counter that is absent at first began at 0 */
};
const struct infp_panel_table *infp_panel_table_of(const char *table); /* NULL */

/* A table that was read: its instances, each with a track per column and per ratio. */
struct infp_tracked {
        const struct infp_table *table; /* of the catalog */
        const struct infp_panel_table *about;
        uint64_t gap_ns;
        bool is_whole; /* all columns, not only those of panels */
        struct infp_tracked_instance {
                char *key;
                size_t key_size;
                uint64_t id;
                char *label;
                int64_t number;
                unsigned order; /* of appearance */
                bool is_first;
                uint64_t last_row_t_ns;
                struct infp_track *columns; /* infp_table_width; those that are not read stay empty */
                struct infp_track *ratios;  /* n_ratios */
        } * instances;
        unsigned n_instances;
        uint64_t n_not_looked_at; /* rows of instances beyond the bound */
        struct infp_tracked_ratio {
                unsigned column, per;
        } * ratios;
        unsigned n_ratios;
        bool *wanted, *of_panels; /* by column: kept of the first instances, of all */
};

struct infp_tracked_options {
        struct infp_run *run;
        const struct infp_scan_options *scan;
        const struct infp_grid *grid;
};
/* -ENOENT: no such table, or no row of it in the range. */
int infp_tracked_read(const struct infp_tracked_options *options, const struct infp_table *known, bool is_whole,
                      struct infp_tracked *ret, struct infp_err *err);
void infp_tracked_done(struct infp_tracked *tracked);

/* panels.c: from tables that were read to panels. */
int infp_timeline_panels(struct infp_timeline *timeline, const struct infp_report *report, struct infp_tracked *tracked,
                         unsigned n);

struct infp_timeline_panel *infp_timeline_add_panel(struct infp_timeline *timeline); /* NULL without memory */
struct infp_timeline_series *infp_timeline_add_series(struct infp_timeline_panel *panel);
int infp_timeline_add_limit(struct infp_timeline_panel *panel, const char *name, double value);
void infp_timeline_panel_done(struct infp_timeline_panel *panel);

/* Each reads its tables. -ENOENT: the run has none. On error reading->table is the table that cannot be read. */
struct infp_timeline_reading {
        struct infp_run *run;
        const struct infp_scan_options *scan; /* range and catalog */
        const struct infp_report *report;
        struct infp_timeline *timeline;
        const char *table; /* that is being read */
};
int infp_timeline_cores(struct infp_timeline_reading *reading, struct infp_err *err);
int infp_timeline_memory(struct infp_timeline_reading *reading, struct infp_err *err);
int infp_timeline_heap(struct infp_timeline_reading *reading, struct infp_err *err);
int infp_timeline_processes(struct infp_timeline_reading *reading, struct infp_err *err);
int infp_timeline_requests(struct infp_timeline_reading *reading, struct infp_err *err);
int infp_timeline_marks(struct infp_timeline_reading *reading, struct infp_err *err);
int infp_timeline_spans(struct infp_timeline_reading *reading, struct infp_err *err);
int infp_timeline_counters(struct infp_timeline_reading *reading, struct infp_err *err);
int infp_timeline_torch(struct infp_timeline_reading *reading, struct infp_err *err);
int infp_timeline_gaps(struct infp_timeline_reading *reading, struct infp_err *err);

int infp_timeline_code(struct infp_timeline_reading *reading, struct infp_err *err);
void infp_timeline_code_done(struct infp_timeline *timeline);

/* Names of processes by their ids, for lanes and marks; others are not kept. */
struct infp_process_name {
        uint64_t id;
        char *text; /* "serve (12)"; NULL: not known */
};
int infp_timeline_names(struct infp_timeline_reading *reading, struct infp_process_name *names, unsigned n,
                        struct infp_err *err);

/* A cell of a text column; NULL: absent, or no memory (*ret_failed). */
char *infp_timeline_text(const struct infp_batch *batch, int column, uint32_t row, bool *ret_failed);
