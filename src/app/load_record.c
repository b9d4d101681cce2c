#include "app/load_record.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/finish_child.h"
#include "app/record_info.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"
#include "base/time.h"
#include "model/tables.h"
#include "record/recorder.h"
#include "store/live.h"
#include "store/run.h"
#include "store/store.h"

/* A run of `load` alone: table requests and the clock, written through the recorder and the store as every run is. */
struct load_run {
        struct infp_run *run;
        struct infp_run_info info;
        struct infp_recorder *recorder;
        struct infp_sink *store;
};

static const struct infp_table *const tables[] = { &infp_table_clock, &infp_table_columns, &infp_table_requests, NULL };

static int open_run(struct load_run *run, const char *output, struct infp_err *err)
{
        const struct infp_recorder_options options = { .tables = tables, .period_ns = INFP_NS_PER_S };

        INFP_TRY(infp_record_info_alone("load", NULL, &run->info, err));
        INFP_TRY(infp_run_create(output, &run->info, &run->run, err));
        INFP_TRY(infp_store_sink_new(run->run, NULL, &run->store, err));
        INFP_TRY(infp_recorder_new(&options, &run->recorder, err));
        INFP_TRY(infp_recorder_add_sink(run->recorder, run->store, err));
        infp_recorder_begin(run->recorder);
        return 0;
}

static int save(struct load_run *run, struct infp_err *err)
{
        struct infp_run_info *info = &run->run->info;

        info->ended_t_ns = infp_recorder_end(run->recorder);
        info->ended_unix_ns = infp_recorder_unix_ns(run->recorder, info->ended_t_ns);
        return infp_run_save(run->run, err);
}

/* Ends it, and finishes it where signals are given. NULL is fine. */
static int load_run_close(struct load_run *run, struct infp_signals *signals, const struct infp_notices *notices,
                          struct infp_err *err)
{
        infp_autostr struct infp_str path = { 0 };
        int r = 0;

        if (!run)
                return 0;
        if (run->recorder && run->run)
                r = save(run, err);
        if (run->run)
                infp_str_printf(&path, "%s/%s.infprof", run->run->output, run->info.uuid);
        infp_recorder_free(run->recorder);
        infp_store_sink_free(run->store);
        infp_run_close(run->run); /* unlocks it: finish may begin */
        infp_run_info_done(&run->info);
        free(run);
        if (r == 0 && signals && path.size && !infp_finish_child(path.data, signals, notices))
                infp_notice(notices, "load: not finished: `infprof finish -r %s` writes its files", path.data);
        return r;
}

static int load_run_open(const char *output, struct load_run **ret, struct infp_err *err)
{
        struct load_run *run = calloc(1, sizeof(*run));
        int r = run ? open_run(run, output, err) : infp_fail(err, -ENOMEM, "not enough memory");

        if (r < 0)
                load_run_close(run, NULL, NULL, NULL);
        else
                *ret = run;
        return r;
}

/* Call it without rows now and then, to record the clock. 0, or why the rows are not on disk. */
static int load_run_put(struct load_run *run, struct infp_row *const *rows, size_t n, struct infp_err *err)
{
        for (size_t i = 0; i < n; i++)
                infp_recorder_put(run->recorder, rows[i]);
        if (n)
                return infp_recorder_flush(run->recorder, err);
        infp_recorder_turn(run->recorder);
        return 0;
}

enum { MAX_WAITING = 1 << 16, MESSAGE_FULL = 150 << 10, ANSWER_MS = 15000 };
/* Rows go in batches, since the recorder answers each message when it is on disk. */
static const uint64_t batch_ns = INFP_NS_PER_S / 2;

struct infp_load_record {
        const struct infp_notices *notices;
        struct infp_live_entry live; /* uuid "": a run of its own */
        struct load_run *own;
        pthread_t thread;
        bool has_thread;

        pthread_mutex_t lock;
        pthread_cond_t wake;
        struct infp_row **rows; /* that wait for the thread */
        size_t n, cap;
        bool is_over;
        bool is_given_up; /* the recorder is gone or hangs: not waited for again */
        uint64_t n_lost;
        struct infp_err err; /* the first */
        int r;
};

static struct infp_row *copy_row(const struct infp_row *row)
{
        struct infp_row *ret = malloc(sizeof(*ret) + row->text_size);

        if (!ret)
                return NULL;
        *ret = *row;
        ret->text = (char *) (ret + 1);
        ret->text_cap = row->text_size;
        if (row->text_size)
                memcpy(ret->text, row->text, row->text_size);
        return ret;
}

static void lose(struct infp_load_record *record, uint64_t n, int r, const struct infp_err *err)
{
        pthread_mutex_lock(&record->lock);
        record->n_lost += n;
        if (record->r == 0) {
                record->r = r;
                record->err = *err;
        }
        pthread_mutex_unlock(&record->lock);
}

static void put_cell(struct infp_json *json, const struct infp_row *row, unsigned cell,
                     const struct infp_column *column)
{
        const char *text;
        size_t size;

        infp_json_key(json, column->name);
        switch (column->type) {
        case INFP_STR:
                text = infp_row_text(row, cell, &size);
                infp_json_strn(json, text, size);
                return;
        case INFP_BOOL:
                infp_json_bool(json, row->cell[cell].b);
                return;
        case INFP_F64:
                infp_json_f64(json, row->cell[cell].f64);
                return;
        case INFP_I64:
        case INFP_TS_NS:
                infp_json_i64(json, row->cell[cell].i64);
                return;
        case INFP_U64:
        case INFP_ID64:
                infp_json_u64(json, row->cell[cell].u64);
                return;
        }
}

static void put_row(struct infp_json *json, const struct infp_row *row)
{
        infp_json_object(json);
        infp_json_key(json, "t_ns");
        infp_json_u64(json, row->t_ns);
        for (unsigned i = 0; i + INFP_FIXED_COLUMNS < infp_table_width(row->table); i++)
                if (infp_row_has(row, i))
                        put_cell(json, row, i, infp_table_column(row->table, i + INFP_FIXED_COLUMNS));
        infp_json_object_end(json);
}

/* One message of rows first .. ; how many it holds. */
static size_t make_message(struct infp_str *out, struct infp_row *const *rows, size_t n)
{
        struct infp_json json;
        size_t i = 0;

        infp_str_clear(out);
        infp_json_begin(&json, out, 0);
        infp_json_object(&json);
        infp_json_key(&json, "table");
        infp_json_str(&json, rows[0]->table->name);
        infp_json_key(&json, "rows");
        infp_json_array(&json);
        do
                put_row(&json, rows[i++]);
        while (i < n && out->size + rows[i]->text_size + 2048 < MESSAGE_FULL);
        infp_json_array_end(&json);
        infp_json_object_end(&json);
        return i;
}

static void send_rows(struct infp_load_record *record, struct infp_row *const *rows, size_t n)
{
        infp_autostr struct infp_str message = { 0 };

        for (size_t i = 0; i < n;) {
                const size_t part = record->is_given_up ? n - i : make_message(&message, rows + i, n - i);
                struct infp_err err = { "" };
                int r = record->is_given_up ? -ECANCELED
                        : message.failed
                                ? infp_fail(&err, -ENOMEM, "not enough memory for a message to the recorder")
                                : infp_live_send(record->live.uuid, message.data, message.size, ANSWER_MS, &err);

                if (r < 0)
                        lose(record, part, r, &err);
                record->is_given_up |= r == -ENOENT || r == -ETIMEDOUT || r == -ECONNREFUSED;
                i += part;
        }
}

static void store_rows(struct infp_load_record *record, struct infp_row *const *rows, size_t n)
{
        struct infp_err err = { "" };
        int r;

        if (!record->own) {
                send_rows(record, rows, n);
                return;
        }
        r = load_run_put(record->own, rows, n, &err);
        if (r < 0)
                lose(record, n, r, &err);
}

/* Waits for rows, and a little longer for more; *ret_n may be 0. False: the end. */
static bool take_rows(struct infp_load_record *record, struct infp_row ***ret, size_t *ret_n)
{
        struct timespec until = infp_timespec(infp_clock_ns(CLOCK_MONOTONIC) + batch_ns);
        bool goes_on;

        pthread_mutex_lock(&record->lock);
        while (!record->is_over && pthread_cond_timedwait(&record->wake, &record->lock, &until) != ETIMEDOUT)
                ;
        *ret = record->rows;
        *ret_n = record->n;
        record->rows = NULL;
        record->n = record->cap = 0;
        goes_on = !record->is_over;
        pthread_mutex_unlock(&record->lock);
        return goes_on;
}

static void *work(void *context)
{
        struct infp_load_record *record = context;
        bool goes_on;

        do {
                struct infp_row **rows;
                size_t n;

                goes_on = take_rows(record, &rows, &n);
                if (n || record->own) /* our own recorder also records the clock */
                        store_rows(record, rows, n);
                for (size_t i = 0; i < n; i++)
                        free(rows[i]);
                free(rows);
        } while (goes_on);
        return NULL;
}

/* A directory whose newest run is live, or the beginning of a live run's uuid. */
static int find_named(const char *spec, struct infp_live_entry *ret, struct infp_err *err)
{
        struct infp_run *run;
        struct stat st;
        int r;

        if (stat(spec, &st) < 0 || !S_ISDIR(st.st_mode))
                return infp_live_find(spec, ret, err);
        INFP_TRY(infp_run_open(spec, NULL, &run, err));
        if (run->state == INFP_RUN_RECORDING)
                r = infp_live_find(run->info.uuid, ret, err);
        else
                r = infp_fail(err, -ENOENT, "run %s in %s is no longer recorded; -o %s creates a new one",
                              run->info.uuid, spec, spec);
        infp_run_close(run);
        return r;
}

static int choose(struct infp_load_record *record, const struct infp_load_record_options *options, struct infp_err *err)
{
        const char *own = getenv("INFPROF_RUN");
        char other[37];
        unsigned n_others;

        if (options->run)
                return find_named(options->run, &record->live, err);
        /* A named directory has priority over a live run in another one. */
        if (!options->output && own && *own && infp_live_find(NULL, &record->live, NULL) == 0)
                return 0;
        if (infp_live_find_server(options->server, options->output, &record->live, &n_others, other, NULL) == 0)
                return 0;
        if (n_others)
                infp_notice(options->notices,
                            "load: run %s is being recorded, but this server is not known to be its target: the "
                            "requests go into a new run (-r %.13s writes them there)",
                            other, other);
        return load_run_open(options->output ? options->output : INFP_DEFAULT_OUTPUT, &record->own, err);
}

static int begin(struct infp_load_record *record)
{
        int r;

        pthread_mutex_init(&record->lock, NULL);
        infp_cond_init(&record->wake);
        r = infp_thread_start(&record->thread, "infprof-load", 0, work, record);
        record->has_thread = r == 0;
        return r;
}

static void free_record(struct infp_load_record *record)
{
        free(record->live.output);
        free(record->rows);
        free(record);
}

int infp_load_record_open(const struct infp_load_record_options *options, struct infp_load_record **ret,
                          struct infp_err *err)
{
        struct infp_load_record *record = calloc(1, sizeof(*record));
        int r;

        if (!record)
                return infp_fail(err, -ENOMEM, "not enough memory");
        record->notices = options->notices;
        if (!options->no_record) {
                r = choose(record, options, err);
                if (r >= 0) {
                        r = begin(record);
                        if (r < 0)
                                infp_fail_errno(err, r, "cannot start a thread for the recording");
                }
                if (r < 0) {
                        load_run_close(record->own, NULL, NULL, NULL);
                        free_record(record);
                        return r;
                }
        }
        *ret = record;
        return 0;
}

bool infp_load_record_is_live(const struct infp_load_record *record)
{
        return record->live.uuid[0];
}

const char *infp_load_record_uuid(const struct infp_load_record *record)
{
        return record->own ? record->own->info.uuid : record->live.uuid[0] ? record->live.uuid : NULL;
}

const char *infp_load_record_output(const struct infp_load_record *record)
{
        return record->own ? record->own->run->output : record->live.output;
}

static bool has_room(struct infp_load_record *record)
{
        const size_t cap = record->cap ? 2 * record->cap : 64;
        struct infp_row **more;

        if (record->n < record->cap)
                return true;
        more = cap <= MAX_WAITING ? reallocarray(record->rows, cap, sizeof(*more)) : NULL;
        if (!more)
                return false;
        record->rows = more;
        record->cap = cap;
        return true;
}

void infp_load_record_put(struct infp_load_record *record, const struct infp_row *row)
{
        struct infp_err err = { "" };
        struct infp_row *own;
        bool is_taken;

        if (!record->has_thread)
                return;
        own = copy_row(row);
        pthread_mutex_lock(&record->lock);
        is_taken = own && has_room(record);
        if (is_taken)
                record->rows[record->n++] = own;
        pthread_mutex_unlock(&record->lock);
        if (is_taken)
                return;
        /* Rare: the recorder did not answer during tens of thousands of requests. */
        free(own);
        infp_fail(&err, -ENOBUFS, "the recorder did not take the rows in time");
        lose(record, 1, -ENOBUFS, &err);
}

int infp_load_record_close(struct infp_load_record *record, struct infp_signals *signals, uint64_t *ret_lost,
                           struct infp_err *err)
{
        struct infp_err own = { "" };
        int r;

        *ret_lost = 0;
        if (record->has_thread) {
                pthread_mutex_lock(&record->lock);
                record->is_over = true;
                pthread_cond_signal(&record->wake);
                pthread_mutex_unlock(&record->lock);
                pthread_join(record->thread, NULL);
        }
        r = load_run_close(record->own, signals, record->notices, &own);
        if (r < 0)
                lose(record, 0, r, &own);
        if (record->has_thread) {
                pthread_cond_destroy(&record->wake);
                pthread_mutex_destroy(&record->lock);
        }
        *ret_lost = record->n_lost;
        r = record->r;
        if (r < 0)
                *err = record->err;
        free_record(record);
        return r;
}
