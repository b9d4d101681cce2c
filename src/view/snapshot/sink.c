/* The sink: a file a tick. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/human.h"
#include "base/new_file.h"
#include "view/histograms.h"
#include "view/snapshot/snapshot.h"

struct snapshots {
        struct infp_sink sink;
        struct infp_snapshot_options options;
        char uuid[40];
        struct infp_str text;
        struct infp_snapshot_memory memory;
        uint64_t n_bytes;
        bool is_full;
};

static struct snapshots *snapshots_of(const struct infp_sink *sink)
{
        return (struct snapshots *) (uintptr_t) sink;
}

static int table_begin(struct infp_sink *sink, const struct infp_table *table, struct infp_err *err)
{
        (void) sink;
        (void) table;
        (void) err;
        return 0;
}

static int batch(struct infp_sink *sink, const struct infp_batch *rows, struct infp_err *err)
{
        (void) sink;
        (void) rows;
        (void) err;
        return 0;
}

/* Written in one piece under its final name: a file is there whole, or (after a crash in between, a full disk) not at all. */
static int write_file(struct snapshots *s, int64_t unix_ms, struct infp_err *err)
{
        char name[80];
        int fd, r;

        snprintf(name, sizeof(name), "%s-%lld.json", s->uuid, (long long) unix_ms);
        fd = infp_make_file_at(s->options.output_fd, name, O_WRONLY, s->options.mode);
        if (fd < 0)
                return infp_fail_errno(err, fd, "cannot create the snapshot %s", name);
        r = infp_write_all(fd, s->text.data, s->text.size, NULL);
        infp_close(fd);
        if (r < 0) {
                unlinkat(s->options.output_fd, name, 0);
                return infp_fail_errno(err, r, "cannot write the snapshot %s", name);
        }
        s->n_bytes += s->text.size;
        return 0;
}

static void say_full(struct snapshots *s)
{
        char text[200];

        s->is_full = true;
        snprintf(text, sizeof(text),
                 "no more snapshots are written: they reached their limit of %s MiB (--snapshot-limit); the recording "
                 "continues",
                 infp_fixed((double) s->options.limit_bytes / (1 << 20), 1).text);
        if (s->options.notice)
                s->options.notice(s->options.context, text);
}

static int tick_end(struct infp_sink *sink, uint64_t t_ns, int64_t unix_ms, struct infp_err *err)
{
        struct snapshots *s = snapshots_of(sink);

        (void) t_ns;
        if (s->is_full)
                return 0;
        infp_str_clear(&s->text);
        infp_snapshot_put_again(&s->text, &s->options.last, unix_ms, 0, false, &s->memory);
        if (s->text.failed) {
                infp_str_done(&s->text);
                return infp_fail(err, -ENOMEM, "no memory for a snapshot");
        }
        if (s->n_bytes + s->text.size > s->options.limit_bytes) {
                say_full(s);
                return 0;
        }
        return write_file(s, unix_ms, err);
}

int infp_snapshot_sink_new(const struct infp_snapshot_options *options, struct infp_sink **ret, struct infp_err *err)
{
        struct snapshots *s = calloc(1, sizeof(*s));

        if (s)
                s->memory.histograms = infp_histograms_new();
        if (!s || !s->memory.histograms) {
                free(s);
                return infp_fail(err, -ENOMEM, "no memory for snapshots");
        }
        s->options = *options;
        if (!s->options.limit_bytes)
                s->options.limit_bytes = INFP_SNAPSHOT_LIMIT;
        snprintf(s->uuid, sizeof(s->uuid), "%s", options->uuid);
        s->sink = (struct infp_sink){
                .name = "snapshots",
                .each_tick = true,
                .can_skip = true,
                .table_begin = table_begin,
                .batch = batch,
                .tick_end = tick_end,
        };
        *ret = &s->sink;
        return 0;
}

struct infp_sink *infp_snapshot_sink_free(struct infp_sink *sink)
{
        struct snapshots *s = snapshots_of(sink);

        if (!s)
                return NULL;
        infp_str_done(&s->text);
        infp_histograms_free(s->memory.histograms);
        free(s);
        return NULL;
}

uint64_t infp_snapshot_bytes(const struct infp_sink *sink)
{
        return snapshots_of(sink)->n_bytes;
}
