#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/human.h"
#include "base/mem.h"
#include "base/time.h"
#include "store/arrow.h"
#include "store/path.h"
#include "store/store.h"
#include "store/sync.h"

#define DEFAULT_SEGMENT_BYTES (UINT64_C(64) << 20)
#define DEFAULT_SYNC_NS (10 * INFP_NS_PER_S)
#define PATIENCE_NS (2 * INFP_NS_PER_S) /* for the disk, at the end */

struct store_table {
        const struct infp_table *table;
        struct infp_arrow_writer *writer;
        int fd;          /* -1: not made yet, or closed to save descriptors */
        bool exists;     /* its segment of the current number was made */
        bool is_changed; /* since it was last given to the syncer */
        bool has_tail;   /* half a message that could not be cut off follows `good` */
        uint64_t good;   /* bytes of whole messages */
        uint64_t used;   /* when it was last written, counted in batches */
};

struct store {
        struct infp_sink sink;
        struct infp_run *run;
        struct infp_store_options options;
        struct infp_arrow_encoder *encoder;
        struct infp_syncer *syncer;
        struct infp_str out; /* the messages of one write */
        struct store_table *tables;
        size_t n_tables;
        uint32_t seq;
        uint64_t synced_ns, bytes, n_batches;
        int sync_r; /* of the last whole pass over the disk */
};

static struct store *store_of(struct infp_sink *sink)
{
        return (struct store *) (void *) sink; /* its first member */
}

/* The path as a person finds the segment. */
static const char *path_of(const struct store *s, const struct store_table *t, char *ret, size_t cap)
{
        snprintf(ret, cap, "%s/%s.infprof/%s/%06" PRIu32 ".arrows", s->run->output, s->run->info.uuid, t->table->name,
                 s->seq);
        return ret;
}

/* The same below the run's directory. */
static const char *name_of(const struct store *s, const struct store_table *t, char *ret, size_t cap)
{
        snprintf(ret, cap, "%s/%06" PRIu32 ".arrows", t->table->name, s->seq);
        return ret;
}

static const char *remedy(int r)
{
        switch (-r) {
        case ENOSPC:
        case EDQUOT:
                return "; free space on the disk";
        case EFBIG:
                return "; raise the file size limit (ulimit -f)";
        case ENOENT:
                return " (was the directory of the run removed?)";
        default:
                return "";
        }
}

static int lost(const struct store *s, const struct store_table *t, int r, uint32_t n_rows, struct infp_err *err)
{
        char path[320];

        return infp_fail(err, r, "cannot write %s: %s; %s row%s %s lost%s", path_of(s, t, path, sizeof(path)),
                         strerror(-r), infp_count(n_rows).text, n_rows == 1 ? "" : "s", n_rows == 1 ? "is" : "are",
                         remedy(r));
}

/* Closes the least recently used descriptor; its segment is reopened when needed. */
static bool save_a_descriptor(struct store *s, const struct store_table *keep)
{
        struct store_table *oldest = NULL;

        for (size_t i = 0; i < s->n_tables; i++) {
                struct store_table *t = &s->tables[i];

                if (t != keep && t->fd >= 0 && (!oldest || t->used < oldest->used))
                        oldest = t;
        }
        if (!oldest)
                return false;
        oldest->fd = infp_close(oldest->fd);
        return true;
}

static int open_segment(struct store *s, struct store_table *t)
{
        char path[96];

        if (!t->exists && mkdirat(s->run->fd, t->table->name, 0777) < 0 && errno != EEXIST)
                return -errno;
        name_of(s, t, path, sizeof(path));
        do
                t->fd = t->exists ? infp_store_open(s->run->fd, path, O_WRONLY)
                                  : infp_store_make(s->run->fd, path, 0666);
        while ((t->fd == -EMFILE || t->fd == -ENFILE) && save_a_descriptor(s, t));
        if (t->fd < 0) {
                int r = t->fd;

                t->fd = -1;
                return r;
        }
        t->exists = true;
        return 0;
}

/* The file was removed while open: what is written now would be lost with our descriptor. */
static bool was_removed(const struct store_table *t)
{
        struct stat status;

        return t->fd >= 0 && fstat(t->fd, &status) == 0 && status.st_nlink == 0;
}

/* All or nothing: normally one write(2). */
static int append(struct store *s, struct store_table *t)
{
        int r = t->fd < 0 ? open_segment(s, t) : 0;

        if (r < 0)
                return r;
        r = infp_pwrite_all(t->fd, s->out.data, s->out.size, (off_t) t->good);
        if (r == 0)
                t->good += s->out.size;
        if (r < 0 || t->has_tail)
                t->has_tail = ftruncate(t->fd, (off_t) t->good) < 0;
        if (r < 0)
                return r;
        t->is_changed = true;
        s->bytes += s->out.size;
        if (infp_fd_is_scarce(t->fd))
                t->fd = infp_close(t->fd);
        return 0;
}

static struct store_table *find_table(struct store *s, const struct infp_table *table)
{
        for (size_t i = 0; i < s->n_tables; i++)
                if (s->tables[i].table == table)
                        return &s->tables[i];
        return NULL;
}

/* Only notes the table: its folder is created with the first row. */
static int begin_table(struct infp_sink *sink, const struct infp_table *table, struct infp_err *err)
{
        struct store *s = store_of(sink);
        struct store_table *grown, t = { .table = table, .fd = -1 };

        if (find_table(s, table))
                return 0;
        if (!infp_store_is_table_name(table->name))
                return infp_fail(err, -EINVAL, "table name '%.64s' is not one of [a-z0-9_]", table->name);
        grown = realloc(s->tables, (s->n_tables + 1) * sizeof(*grown));
        if (!grown)
                return infp_fail(err, -ENOMEM, "not enough memory for table %s", table->name);
        s->tables = grown;
        INFP_TRY(infp_arrow_writer_new(table, s->encoder, &t.writer, err));
        s->tables[s->n_tables++] = t;
        return 0;
}

static int encode(struct store *s, struct store_table *t, const struct infp_batch *batch, struct infp_err *err)
{
        infp_str_clear(&s->out);
        if (t->good == 0)
                INFP_TRY(infp_arrow_put_schema(t->writer, &s->out, err));
        return infp_arrow_put_batch(t->writer, batch, &s->out, err);
}

static int write_batch(struct infp_sink *sink, const struct infp_batch *batch, struct infp_err *err)
{
        struct store *s = store_of(sink);
        struct store_table *t;
        int r;

        if (batch->n_rows == 0)
                return 0;
        INFP_TRY(begin_table(sink, batch->table, err));
        t = find_table(s, batch->table);
        t->used = ++s->n_batches;
        if (was_removed(t)) {
                t->fd = infp_close(t->fd);
                t->exists = t->is_changed = t->has_tail = false;
                t->good = 0;
        }
        INFP_TRY(encode(s, t, batch, err));
        r = append(s, t);
        if (r < 0)
                return lost(s, t, r, batch->n_rows, err);
        if (t->good >= s->options.segment_bytes)
                sink->wants_rotation = true;
        return 0;
}

static int sync_table(struct store *s, struct store_table *t, struct infp_err *err)
{
        char path[96];

        if (!t->is_changed)
                return 0;
        t->is_changed = false;
        return infp_syncer_add(s->syncer, name_of(s, t, path, sizeof(path)), err);
}

/* Only starts it: an error is reported by one of the next calls, and lasts until a pass succeeds. If the disk is slower than the
 * interval, passes follow one another. */
static int sync_tables(struct infp_sink *sink, uint64_t t_ns, int64_t unix_ms, struct infp_err *err)
{
        struct store *s = store_of(sink);
        int r;

        (void) unix_ms;
        if (s->synced_ns == 0)
                s->synced_ns = t_ns;
        if (infp_syncer_is_busy(s->syncer, &s->sync_r, err) || t_ns < s->synced_ns + s->options.sync_ns)
                return s->sync_r;
        r = s->sync_r;
        s->synced_ns = t_ns;
        for (size_t i = 0; i < s->n_tables; i++) {
                int q = sync_table(s, &s->tables[i], r == 0 ? err : NULL);

                r = r == 0 ? q : r;
        }
        if (r == 0)
                return infp_syncer_start(s->syncer, err);
        infp_syncer_start(s->syncer, NULL);
        return r;
}

/* A segment without a whole message is not kept. */
static void remove_empty(struct store *s, struct store_table *t)
{
        char path[96];

        unlinkat(s->run->fd, name_of(s, t, path, sizeof(path)), 0);
        unlinkat(s->run->fd, t->table->name, AT_REMOVEDIR);
}

static int close_segment(struct store *s, struct store_table *t, struct infp_err *err)
{
        char path[320];
        int r = 0;

        if (t->exists && t->good > 0) {
                infp_str_clear(&s->out);
                infp_arrow_put_end(&s->out);
                r = s->out.failed ? -ENOMEM : append(s, t);
                if (r < 0)
                        infp_fail(err, r, "cannot close %s: %s; all rows are in it, and `infprof recover` adds its end",
                                  path_of(s, t, path, sizeof(path)), strerror(-r));
                else
                        r = sync_table(s, t, err);
        } else if (t->exists) {
                remove_empty(s, t);
        }
        t->fd = infp_close(t->fd);
        t->exists = t->is_changed = t->has_tail = false;
        t->good = 0;
        return r;
}

static int close_segments(struct infp_sink *sink, struct infp_err *err)
{
        struct store *s = store_of(sink);
        int r = 0;

        for (size_t i = 0; i < s->n_tables; i++) {
                int q = close_segment(s, &s->tables[i], r == 0 ? err : NULL);

                r = r == 0 ? q : r;
        }
        return r;
}

static int end_segments(struct infp_sink *sink, struct infp_err *err)
{
        int r = close_segments(sink, err),
            q = infp_syncer_wait(store_of(sink)->syncer, PATIENCE_NS, r == 0 ? err : NULL);

        return r == 0 ? q : r;
}

static int begin_segments(struct infp_sink *sink, uint32_t seq, struct infp_err *err)
{
        struct store *s = store_of(sink);
        int r = close_segments(sink, err);

        s->seq = seq;
        s->run->info.last_seq = seq;
        return r;
}

int infp_store_sink_new(struct infp_run *run, const struct infp_store_options *options, struct infp_sink **ret,
                        struct infp_err *err)
{
        struct store *s = calloc(1, sizeof(*s));
        char shown[256];
        int r;

        if (!s)
                return infp_fail(err, -ENOMEM, "not enough memory for the store");
        snprintf(shown, sizeof(shown), "%s/%s.infprof", run->output, run->info.uuid);
        r = infp_arrow_encoder_new(&s->encoder, err);
        if (r >= 0)
                r = infp_syncer_new(run->fd, shown, &s->syncer, err);
        if (r < 0) {
                infp_arrow_encoder_free(s->encoder);
                free(s);
                return r;
        }
        s->run = run;
        if (options)
                s->options = *options;
        if (s->options.segment_bytes == 0)
                s->options.segment_bytes = DEFAULT_SEGMENT_BYTES;
        if (s->options.sync_ns == 0)
                s->options.sync_ns = DEFAULT_SYNC_NS;
        s->seq = run->info.last_seq = 1;
        s->sink = (struct infp_sink){ .name = "store",
                                      .table_begin = begin_table,
                                      .batch = write_batch,
                                      .tick_end = sync_tables,
                                      .rotate = begin_segments,
                                      .end = end_segments };
        *ret = &s->sink;
        return 0;
}

struct infp_sink *infp_store_sink_free(struct infp_sink *sink)
{
        struct store *s = store_of(sink);

        if (!sink)
                return NULL;
        for (size_t i = 0; i < s->n_tables; i++) {
                infp_close(s->tables[i].fd);
                infp_arrow_writer_free(s->tables[i].writer);
        }
        infp_syncer_free(s->syncer);
        infp_arrow_encoder_free(s->encoder);
        infp_str_done(&s->out);
        free(s->tables);
        free(s);
        return NULL;
}

uint64_t infp_store_bytes(const struct infp_sink *sink)
{
        return ((const struct store *) (const void *) sink)->bytes;
}
