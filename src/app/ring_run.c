#include "app/ring_run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/backtrace/rows.h"
#include "app/private_run.h"
#include "app/record_info.h"
#include "base/fd.h"
#include "base/human.h"
#include "base/mem.h"
#include "base/time.h"
#include "collect/collector.h"
#include "model/python_tables.h"
#include "record/processes.h"
#include "record/recorder.h"
#include "ring/find.h"
#include "store/store.h"

struct reading {
        const struct infp_notices *notices;
        pid_t pid;
        bool has_backtrace;
        struct infp_env env;
        struct infp_recorder *recorder;
        struct infp_sink *store;
        uint64_t now_ns;
        struct infp_row row;
        char text[8192];
        unsigned n_read;
        struct infp_err why; /* why one of the files could not be read */
        int why_r;
};

static int put(void *context, const struct infp_row *row)
{
        struct reading *reading = context;

        infp_recorder_put_at(reading->recorder, row, reading->now_ns);
        return 0;
}

/* Records that the program could not write, or overwrote, are missing from the answer. */
static void say_losses(const struct reading *reading, const struct infp_ring_counts *c)
{
        if (c->dropped_full)
                infp_notice(
                        reading->notices,
                        "query: process %d has dropped %s spans, attributes, marks and rows because its ring file is "
                        "full: the newest are missing; record it (infprof record --pid %d), which empties the "
                        "file, or give it INFPROF_RING_BYTES=16m",
                        (int) reading->pid, infp_count(c->dropped_full).text, (int) reading->pid);
        if (c->evicted_rows)
                infp_notice(reading->notices,
                            "query: %s older rows of tables of process %d were overwritten: the newest are there; "
                            "record it, or give it INFPROF_RING_BYTES=16m",
                            infp_count(c->evicted_rows).text, (int) reading->pid);
        else if (c->evicted_chunks)
                infp_notice(
                        reading->notices,
                        "query: older changes of counters of process %d were overwritten (%s pieces of 4 KiB): their "
                        "newest values are there",
                        (int) reading->pid, infp_count(c->evicted_chunks).text);
        if (c->broken || c->was_cut)
                infp_notice(reading->notices,
                            "query: a ring file of process %d is damaged: a part of it cannot be read",
                            (int) reading->pid);
        if (c->unknown)
                infp_notice(
                        reading->notices,
                        "query: %s records of process %d are of unknown kinds: use an infprof as new as its library",
                        infp_count(c->unknown).text, (int) reading->pid);
}

static int read_file(void *context, int file, const struct infp_ring_owner *owner, const char *name)
{
        struct reading *reading = context;
        struct infp_ring *ring;
        struct infp_err err = { "" };
        int r = infp_ring_open(file, owner, false, &ring, &err);

        if (r < 0) {
                reading->why_r = r;
                infp_fail(&reading->why, r, "the ring file %s of process %d %s", name, (int) reading->pid, err.text);
                infp_close(file);
                return 0;
        }
        reading->now_ns = infp_clock_ns(CLOCK_MONOTONIC);
        r = infp_ring_read(ring, true, put, reading, &err);
        say_losses(reading, infp_ring_counts(ring));
        infp_ring_close(ring);
        infp_close(file);
        if (r < 0) {
                reading->why_r = r;
                infp_fail(&reading->why, r, "the ring file %s of process %d cannot be read: %s", name,
                          (int) reading->pid, err.text);
        }
        reading->n_read += r >= 0;
        return 0;
}

static int read_rings(struct reading *reading, struct infp_err *err)
{
        infp_autoclose int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct infp_ring_owner owner;
        int r;

        if (proc_fd < 0)
                return infp_fail_errno(err, -errno, "/proc cannot be opened");
        INFP_TRY(infp_ring_find(proc_fd, reading->pid, false, read_file, reading, err));
        if (!reading->n_read)
                return infp_fail(err, reading->why_r ? reading->why_r : -EBADMSG, "%s", reading->why.text);
        if (reading->why_r)
                infp_notice(reading->notices, "query: %s", reading->why.text);
        r = infp_ring_owner_read(proc_fd, reading->pid, &owner, NULL);
        if (r >= 0 && infp_process_row(&reading->row, &reading->env, reading->pid, owner.start_ticks))
                infp_recorder_put(reading->recorder, &reading->row);
        return 0;
}

/* Ended by NULL; the caller frees it. NULL: no memory. */
static const struct infp_table **list_tables(void)
{
        const struct infp_table *const own[] = {
                &infp_table_clock, &infp_table_columns,  infp_table_by_name("process"), &infp_table_marks,
                &infp_table_spans, &infp_table_counters, &infp_table_stacks_now
        };
        const struct infp_table **ret;
        size_t n = 0;

        while (infp_python_tables[n])
                n++;
        ret = calloc(INFP_COUNT(own) + n + 1, sizeof(*ret));
        if (ret) {
                memcpy(ret, own, sizeof(own));
                memcpy(ret + INFP_COUNT(own), infp_python_tables, n * sizeof(*ret));
        }
        return ret;
}

static void read_backtrace(struct reading *reading)
{
        struct infp_err err = { "" };

        reading->now_ns = infp_clock_ns(CLOCK_MONOTONIC);
        if (infp_backtrace_rows(reading->pid, reading->notices, &reading->row, put, reading, &err) < 0)
                infp_notice(reading->notices, "query: the stacks of process %d cannot be read: %s", (int) reading->pid,
                            err.text);
}

static int record(struct reading *reading, const char *directory, struct infp_err *err)
{
        infp_autofree const struct infp_table **tables = list_tables();
        const struct infp_recorder_options options = { .tables = tables, .period_ns = INFP_NS_PER_S };
        infp_cleanup(infp_run_info_done) struct infp_run_info info = { 0 };
        struct infp_run *run = NULL;
        int r = tables ? infp_record_info_alone("host", "", &info, err) : infp_fail(err, -ENOMEM, "not enough memory");

        if (r >= 0)
                r = infp_run_create(directory, &info, &run, err);
        if (r >= 0)
                r = infp_store_sink_new(run, NULL, &reading->store, err);
        if (r >= 0)
                r = infp_recorder_new(&options, &reading->recorder, err);
        if (r >= 0)
                r = infp_recorder_add_sink(reading->recorder, reading->store, err);
        if (r >= 0) {
                infp_recorder_begin(reading->recorder);
                r = read_rings(reading, err);
                if (r >= 0 && reading->has_backtrace)
                        read_backtrace(reading);
                run->info.ended_t_ns = infp_recorder_end(reading->recorder);
                run->info.ended_unix_ns = infp_recorder_unix_ns(reading->recorder, run->info.ended_t_ns);
        }
        if (r >= 0)
                r = infp_run_save(run, err);
        infp_recorder_free(reading->recorder);
        infp_store_sink_free(reading->store);
        infp_run_close(run);
        return r;
}

void infp_ring_run_close(struct infp_ring_run *run)
{
        infp_run_close(run->run);
        infp_private_remove(run->directory);
        *run = (struct infp_ring_run){ 0 };
}

int infp_ring_run_open(pid_t pid, bool has_backtrace, const struct infp_notices *notices, struct infp_ring_run *ret,
                       struct infp_err *err)
{
        struct reading *reading = calloc(1, sizeof(*reading));
        int r;

        *ret = (struct infp_ring_run){ 0 };
        if (!reading)
                return infp_fail(err, -ENOMEM, "not enough memory");
        reading->pid = pid;
        reading->has_backtrace = has_backtrace;
        reading->notices = notices;
        reading->row.text = reading->text;
        reading->row.text_cap = sizeof(reading->text);
        r = infp_env_open(&reading->env, "/", err);
        if (r >= 0)
                ret->directory = infp_private_directory("query", true, NULL, err); /* it is read once */
        if (r >= 0 && !ret->directory)
                r = -ENOSPC;
        if (r >= 0)
                r = record(reading, ret->directory, err);
        if (r >= 0)
                r = infp_run_open(ret->directory, NULL, &ret->run, err);
        infp_env_close(&reading->env);
        free(reading);
        if (r < 0)
                infp_ring_run_close(ret);
        return r;
}
