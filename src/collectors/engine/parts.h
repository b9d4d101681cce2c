/* Shared by the files of the engine collector: engine.c (record, rounds), find.c (URLs by option, by process and who listens
 * where), scrape.c (transfers and their ends), page.c (a page becomes rows), series.c (series and samples). */
#pragma once

#include <sys/types.h>

#include "base/str.h"
#include "collectors/engine/about.h"
#include "collectors/engine/engine.h"
#include "fetch/http.h"

enum {
        ENGINES_MAX = 32,
        ENGINE_URL_MAX = 512,
        ENGINE_PREFIX_MAX = 128,
        ENGINE_SERIES_MAX = 20000,
        ENGINE_KEPT_MAX = 2000,
        ENGINE_PAGE_MAX = 16 << 20,
        ENGINE_TIMEOUT_MS = 2000,
        ENGINE_HEADERS = 16, /* that the user may add */
        ENGINE_SIDES = 8,    /* side pages that one engine may have */
};

struct engines;
struct engine;

/* One series on an engine's page. */
struct engine_slot {
        uint64_t key; /* hash of its text on the page; 0: a free slot */
        uint64_t id;
        double value;
        uint32_t round;         /* of the last page that had it */
        uint8_t n_feeds, share; /* enum infp_engine_share */
        bool is_said;           /* its entity row is out */
        bool is_written;        /* a sample was written, */
        bool has_value;         /* and it was a number */
        bool is_counter;        /* falls only by a restart */
        bool is_kept;           /* gone from the page, but `value` still counts in its sums */
        const struct infp_engine_alias *feeds[INFP_ENGINE_FEEDS];
};

struct engine_series {
        struct engine_slot *slots; /* open addressing, n_slots a power of two */
        uint32_t n_slots, n_used, n_kept;
        struct engine_known {
                uint64_t id, key;
        } * known; /* by id: those of earlier pages, once this page has a new text; NULL: not yet */
        uint32_t n_known;
        uint64_t said_t_ns; /* all entity rows were written again */
};

/* For a Triton page: which models are made of others. */
enum { ENGINE_MODELS_MAX = 64 };
struct engine_models {
        struct engine_model {
                uint64_t id; /* hash of its name */
                char name[68];
                bool is_counted, has_queue, is_ensemble;
        } all[ENGINE_MODELS_MAX];
        unsigned n, n_counted, n_ensembles;
        bool has_more; /* then none counts as an ensemble */
};

/* A counter that fell on this page. */
struct engine_falls {
        unsigned n;
        char name[128];
        double from, to;
};

enum engine_origin { ENGINE_DEFAULT, ENGINE_NAMED, ENGINE_FOUND };

/* A transfer for an engine. */
enum engine_ask { ENGINE_ASK_PAGE, ENGINE_ASK_LIVE, ENGINE_ASK_SIDE, ENGINE_ASK_SLEEP };
struct engine_transfer {
        struct engine *engine;
        enum engine_ask ask;
        unsigned side;                      /* number of the side page */
        struct infp_http_transfer *running; /* NULL: none */
        struct infp_str body;
};

struct engine {
        struct engines *all;
        char url[ENGINE_URL_MAX], shown[ENGINE_URL_MAX + 64]; /* the second with secrets masked */
        size_t shown_size;                                    /* of the address in it */
        uint64_t id;
        enum engine_origin origin;
        unsigned number;
        bool is_listed;           /* it has rows, whether it answers or not */
        bool has_number, has_row; /* in `engines` */
        bool has_answered;        /* ever, with a page */

        /* Its process in the target, if any: a found engine is only asked while it is there and listens. */
        int32_t pid; /* 0: unknown */
        uint64_t process_id;
        bool is_there;
        bool is_new_process; /* since the last good page */
        char why_not[256];   /* why a found one is not there */

        /* Asking. */
        struct engine_transfer page, live, sleep, sides[ENGINE_SIDES];
        uint64_t due_ns, asked_t_ns, cost_ns; /* the last: CPU time of its last page */
        unsigned n_good;                      /* pages in a row */
        unsigned n_timeouts;                  /* in a row; includes answers over the limit */
        unsigned n_side_rounds;               /* since it started */
        bool live_is_off, sides_are_asked;
        bool was_below;    /* the page below the named path was tried, */
        size_t named_size; /* and is read: size of the URL that was named; 0: not read */
        /* A server that sleeps when idle, and counts our reading as a request. */
        const char *sleep_page; /* NULL: it does not */
        bool was_busy;
        uint64_t cpu_ticks, cpu_t_ns; /* of its process at the last look; 0: none yet */

        /* The page that is being read. */
        struct infp_http_result scrape; /* without texts */
        uint64_t t_ns;
        uint32_t round, n_twice, n_left_out, n_series, n_running_feeds;
        bool has_core; /* series of Ray's core were left out */
        char odd[256]; /* what was odd about an accepted page */

        struct engine_models models;
        struct engine_series series;
        struct engine_falls falls;
        double start_time; /* process_start_time_seconds; NAN: the page has none */
        double page_start_time;
        uint64_t n_restarts, fell_t_ns, said_t_ns, row_t_ns;
        enum infp_source_state said_state;
        bool has_said;

        struct infp_engine_about about;
        struct infp_engine_fields fields;
};

/* What a command line says about an engine. */
struct engine_command {
        enum infp_engine_make make; /* INFP_ENGINE_UNKNOWN: no engine's */
        unsigned port;
        bool is_https, may_sleep;
        char prefix[ENGINE_PREFIX_MAX]; /* "/llm", or "" */
        const char *missing_flag;       /* without which it has no page; NULL: complete */
};

/* A process of the target. */
struct engine_process {
        int32_t pid;
        uint8_t n_looks;
        uint64_t look_ns; /* when its command line is read again: it may exec */
        struct engine_command command;
        uint64_t check_ns;     /* of an engine: when to check again whether it listens */
        struct engine *engine; /* served by it or one of its descendants; NULL: none yet */
};

/* Owned by find.c. */
struct engine_finder {
        struct engine_process *processes, *merged; /* by pid */
        size_t n_processes, cap_processes, cap_merged;
        int32_t *pids;
        size_t n_pids, cap_pids;
        char *buffer; /* command lines, lists of sockets */
};

/* The collector's state. */
struct engines {
        struct infp_http *http;
        struct infp_promtext *parser;
        const char *token_file;
        const char *headers[ENGINE_HEADERS + 2]; /* the user's, then ours, ended by NULL; borrowed */
        unsigned n_own;                          /* of the user */
        bool keeps_secrets;
        struct engine *engine[ENGINES_MAX];
        unsigned n_engines, n_numbered;
        bool was_asked; /* each of those that existed at the start */
        struct engine_finder finder;
        uint64_t n_paced; /* bytes of rows since the last pause */

        /* Set during sample(), else NULL: then ends of transfers are not reported. */
        const struct infp_env *env;
        struct infp_emit *emit;
};

/* find.c: pure. arguments: separated by NUL as in /proc/PID/cmdline. */
void infp_engine_command_read(const char *arguments, size_t size, struct engine_command *ret);

struct engine_listener {
        int32_t pid;
        char host[64];
        bool is_any; /* it listens at every address of the machine, not at that one alone */
};
enum { ENGINE_BUFFER = 256 * 1024 };

/* find.c */
int infp_engine_find_named(struct engines *all, const struct infp_env *env, struct infp_err *err); /* at open */
void infp_engine_find(struct engines *all, uint64_t now);                                          /* at each sample */
void infp_engine_finder_done(struct engine_finder *finder);
uint64_t infp_engine_cpu_ticks(const struct infp_env *env, int32_t pid);
/* A process of the target that listens on a TCP port, whichever; 0 with its pid, port and host; -ENOENT. */
int infp_engine_listens_anywhere(const struct infp_env *env, const struct engine_finder *finder,
                                 struct engine_listener *ret, unsigned *ret_port);

/* scrape.c */
int infp_engine_new(struct engines *all, const char *url, enum engine_origin origin, struct engine **ret,
                    struct infp_err *err);
struct engine *infp_engine_free(struct engine *engine);
void infp_engine_ask(struct engine *engine, uint64_t now); /* starts the transfer of its page */
/* Whether to skip it, since it is idle and could sleep; reports that. */
bool infp_engine_rests(struct engine *engine, uint64_t now);
/* Rows about an engine that is not asked, since it is not there. */
void infp_engine_not_there(struct engine *engine, uint64_t now);
/* Turns "host:port", a URL without a path and so on into the URL of a metrics page. 0 or -EINVAL with a sentence. */
int infp_engine_url(const char *text, char ret[ENGINE_URL_MAX], struct infp_err *err);

/* page.c: 0: accepted, rows of series and samples are out and `fields` is filled; -EBADMSG with a sentence: no rows. */
int infp_engine_page(struct engine *engine, const char *body, size_t size, const char *content_type,
                     struct infp_prom_page *ret, struct infp_err *err);
void infp_engine_end_of_page(struct engine *engine); /* restarts, findings, the row of `vllm` */

/* series.c */
void infp_engine_series_begin(struct engine *engine);
struct engine_slot *infp_engine_slot(struct engine *engine, const struct infp_prom_sample *sample, bool *ret_is_new);
void infp_engine_write(struct engine *engine, struct engine_slot *slot, const struct infp_prom_sample *sample);
void infp_engine_series_end(struct engine *engine); /* of a page: series that it lacks are gone */
/* Counters of a replica, a worker, a model that has gone: without them the sum would fall, which looks like a restart. They
 * are added to the fields that the page has, */
void infp_engine_series_add_kept(struct engine *engine);
void infp_engine_series_drop_kept(struct engine *engine); /* until the server restarts. */
void infp_engine_series_done(struct engine_series *series);
