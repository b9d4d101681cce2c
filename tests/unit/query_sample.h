/* A small run on disk, made through the store, for the tests of everything that reads runs. */
#pragma once

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/builder.h"
#include "model/tables.h"
#include "store/store.h"

#define SAMPLE_UNIX INT64_C(1764302400000000000) /* 2025-11-28 04:00:00 UTC, at t_ns 0 */

// clang-format off
static const struct infp_column load_columns[] = {
        INFP_COLUMN(busy, I64, COUNTER, cs, MEASURED, ZERO, "busy", 0, "infprof_busy_seconds_total", "A counter."),
        INFP_COLUMN(level, F64, GAUGE, none, MEASURED, NO, "level", 0, "infprof_level", "A gauge."),
        INFP_COLUMN(never, F64, GAUGE, mhz, MEASURED, NO, NULL, 0, NULL, "A gauge that no row has."),
        INFP_COLUMN(note, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "A text."),
};
static const struct infp_column device_keys[] = {
        INFP_COLUMN(device, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Which device."),
};
static const struct infp_column device_columns[] = {
        INFP_COLUMN(heat, I64, GAUGE, celsius, MEASURED, NO, NULL, 0, NULL, "How hot."),
};
static const struct infp_column thing_keys[] = {
        INFP_COLUMN(id, ID64, LABEL, none, MEASURED, NO, "", 0, NULL, "Which thing."),
};
static const struct infp_column thing_columns[] = {
        INFP_COLUMN(label, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Its name."),
        INFP_COLUMN(weight, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Its weight."),
};
static const struct infp_column use_columns[] = {
        INFP_COLUMN(thing, ID64, LABEL, none, MEASURED, NO, "thing", 0, NULL, "Which thing."),
        INFP_COLUMN(bytes, U64, COUNTER, bytes, MEASURED, ZERO, NULL, 0, NULL, "How much."),
        INFP_COLUMN(is_on, BOOL, GAUGE, none, MEASURED, NO, NULL, 0, NULL, "A bool."),
        INFP_COLUMN(born, TS_NS, LABEL, none, MEASURED, NO, NULL, 0, NULL, "A time."),
};
static const struct infp_table load_table = { .name = "load", .help = "Of the tests.", .columns = load_columns, .n_columns = 4, .series = "" };
static const struct infp_table device_table = { .name = "device", .help = "Of the tests.", .keys = device_keys, .n_keys = 1,
        .columns = device_columns, .n_columns = 1, .series = "device" };
static const struct infp_table thing_table = { .name = "thing", .help = "Of the tests.", .keys = thing_keys, .n_keys = 1,
        .columns = thing_columns, .n_columns = 2, .entity = true };
static const struct infp_table use_table = { .name = "use", .help = "Of the tests.", .columns = use_columns, .n_columns = 4 };
static const struct infp_table silent_table = { .name = "silent", .help = "Of the tests.", .columns = load_columns, .n_columns = 4 };
// clang-format on
enum { LOAD_BUSY, LOAD_LEVEL, LOAD_NEVER, LOAD_NOTE };
enum { DEVICE_DEVICE, DEVICE_HEAT };
enum { THING_ID, THING_LABEL, THING_WEIGHT };
enum { USE_THING, USE_BYTES, USE_IS_ON, USE_BORN };

enum { SAMPLE_TABLES = 16 };

struct sample_run {
        char directory[64];
        struct infp_run *run;
        struct infp_sink *sink;
        struct infp_builder *builders[SAMPLE_TABLES];
        const struct infp_table *tables[SAMPLE_TABLES];
        struct infp_row row;
        char text[65536];
        struct infp_err err;
};

static inline void sample_check(const struct sample_run *s, int r)
{
        if (r < 0)
                fprintf(stderr, "%s (%s)\n", s->err.text, strerror(-r));
        assert(r >= 0);
}

static inline struct sample_run *sample_new(const char *format)
{
        static struct infp_run_collector collectors[] = { { (char *) "load", 1000, (char *) "load" },
                                                          { (char *) "device", 5000, (char *) "other device" } };
        struct sample_run *s = calloc(1, sizeof(*s));
        struct infp_run_info info = {
                .command = (char *) "",
                .mode = (char *) "host",
                .format = (char *) format,
                .version = (char *) "test",
                .hostname = (char *) "test",
                .recorder_pid = getpid(),
                .period_ms = 1000,
                .started_unix_ns = SAMPLE_UNIX,
                .exit_code = -1,
                .collectors = collectors,
                .n_collectors = 2,
        };

        strcpy(s->directory, "/tmp/infp-test-XXXXXX");
        assert(mkdtemp(s->directory));
        infp_uuid_make(info.uuid);
        sample_check(s, infp_run_create(s->directory, &info, &s->run, &s->err));
        sample_check(s, infp_store_sink_new(s->run, NULL, &s->sink, &s->err));
        s->row.text = s->text;
        s->row.text_cap = sizeof(s->text);
        return s;
}

static inline unsigned sample_index(struct sample_run *s, const struct infp_table *table)
{
        unsigned i = 0;

        while (s->tables[i] && s->tables[i] != table)
                i++;
        assert(i < SAMPLE_TABLES);
        if (!s->tables[i]) {
                s->tables[i] = table;
                s->builders[i] = infp_builder_new(table, INFP_BATCH_ROWS);
                sample_check(s, s->sink->table_begin(s->sink, table, &s->err));
        }
        return i;
}

static inline struct infp_row *sample_row(struct sample_run *s, const struct infp_table *table, uint64_t t_ns)
{
        infp_row_begin(&s->row, table, t_ns);
        return &s->row;
}

static inline void sample_put(struct sample_run *s)
{
        unsigned i = sample_index(s, s->row.table);
        int r = infp_builder_append(s->builders[i], &s->row, SAMPLE_UNIX + (int64_t) s->row.t_ns);

        if (r == -ENOSPC && infp_builder_rows(s->builders[i]) == 0) {
                sample_check(s, infp_builder_grow(s->builders[i], s->row.text_size));
                r = infp_builder_append(s->builders[i], &s->row, SAMPLE_UNIX + (int64_t) s->row.t_ns);
        }
        assert(r == 0);
}

static inline void sample_flush(struct sample_run *s)
{
        for (unsigned i = 0; s->tables[i]; i++) {
                struct infp_batch batch = infp_builder_batch(s->builders[i], 0);

                if (batch.n_rows)
                        sample_check(s, s->sink->batch(s->sink, &batch, &s->err));
                infp_builder_reset(s->builders[i]);
        }
}

static inline void sample_rotate(struct sample_run *s, uint32_t seq)
{
        sample_flush(s);
        sample_check(s, s->sink->rotate(s->sink, seq, &s->err));
}

/* Describes the tables in `columns`, as the recorder does. */
static inline void sample_describe(struct sample_run *s, const struct infp_table *const *tables)
{
        for (; *tables; tables++)
                for (unsigned i = 0; i < infp_table_width(*tables); i++) {
                        infp_columns_row(&s->row, *tables, i, 1);
                        sample_put(s);
                }
}

static inline void sample_tick(struct sample_run *s, int64_t number, uint64_t t_ns)
{
        sample_row(s, &infp_table_ticks, t_ns);
        infp_row_i64(&s->row, INFP_TICKS_NUMBER, number);
        sample_put(s);
}

/* Ends the recording and opens the run as a reader does. */
static inline void sample_end(struct sample_run *s)
{
        char uuid[37];

        sample_flush(s);
        sample_check(s, s->sink->end(s->sink, &s->err));
        s->sink = infp_store_sink_free(s->sink);
        s->run->info.ended_unix_ns = SAMPLE_UNIX + 1000;
        s->run->info.ended_t_ns = 1000;
        sample_check(s, infp_run_save(s->run, &s->err));
        memcpy(uuid, s->run->info.uuid, sizeof(uuid));
        s->run = infp_run_close(s->run);
        sample_check(s, infp_run_open(s->directory, NULL, &s->run, &s->err));
        assert(strcmp(uuid, s->run->info.uuid) == 0);
}

static inline void sample_free(struct sample_run *s)
{
        char command[128];

        if (s->sink)
                s->sink->end(s->sink, NULL);
        infp_store_sink_free(s->sink);
        infp_run_close(s->run);
        for (unsigned i = 0; s->tables[i]; i++)
                infp_builder_free(s->builders[i]);
        snprintf(command, sizeof(command), "rm -rf %s", s->directory);
        assert(system(command) == 0);
        free(s);
}
