#include "finish/tables.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/human.h"
#include "base/mem.h"
#include "base/notice.h"
#include "base/str.h"
#include "query/parts.h"

enum { SMALL_BYTES = 64 * 1024 };

struct copy {
        struct infp_segment *segment;
        uint64_t n_rows;
        int r; /* of the segment: DuckDB passes on the text, not the errno */
        struct infp_err err;
};

static int next(void *context, struct infp_batch *ret, struct infp_err *err)
{
        struct copy *copy = context;
        int r = infp_segment_next(copy->segment, ret, NULL, &copy->err);

        if (r > 0)
                copy->n_rows += ret->n_rows;
        copy->r = r;
        return r < 0 ? infp_fail(err, r, "%s", copy->err.text) : r;
}

/* The Parquet file is complete: remove the segment. */
static int drop(struct infp_run *run, const char *path, struct infp_err *err)
{
        if (unlinkat(run->fd, path, 0) < 0 && errno != ENOENT)
                return infp_fail_errno(err, -errno, "cannot remove %s/%s.infprof/%s", run->output, run->info.uuid,
                                       path);
        return 0;
}

/* The readable part is Parquet now; keep the segment, since another tool may read more. */
static int set_aside(struct infp_run *run, const char *path, struct infp_err *err)
{
        infp_autostr struct infp_str aside = { 0 };

        infp_str_printf(&aside, "%s.broken", path);
        if (aside.failed)
                return infp_fail(err, -ENOMEM, "out of memory");
        if (renameat(run->fd, path, run->fd, aside.data) < 0)
                return infp_fail_errno(err, -errno, "cannot rename %s/%s.infprof/%s", run->output, run->info.uuid,
                                       path);
        return 0;
}

static bool is_small(const struct infp_run *run, const char *path)
{
        struct stat status;

        return fstatat(run->fd, path, &status, 0) == 0 && status.st_size < SMALL_BYTES;
}

static int copy_segment(struct infp_run *run, struct infp_duck *duck, struct copy *copy, const char *from,
                        const char *to, struct infp_err *err)
{
        struct infp_rows rows = { infp_segment_table(copy->segment), copy, next, is_small(run, from) };
        uint64_t n_written = 0;
        int r = infp_duck_rows_to_parquet(duck, &rows, run->fd, to, 0666, &n_written, err);

        if (r < 0)
                return copy->r < 0 ? infp_fail(err, copy->r, "%s", copy->err.text) : r;
        if (n_written == copy->n_rows)
                return 0;
        unlinkat(run->fd, to, 0);
        return infp_fail(err, -EIO, "%s holds %s rows instead of %s; the segment is kept", to,
                         infp_count(n_written).text, infp_count(copy->n_rows).text);
}

static int convert(struct infp_run *run, struct infp_duck *duck, const struct infp_part *part,
                   struct infp_finished *ret, struct infp_err *err)
{
        infp_autostr struct infp_str to = { 0 };
        struct copy copy = { 0 };
        bool is_damaged;
        int r = infp_segment_open(run->fd, part->path, &copy.segment, err);

        if (r == -ENODATA) /* the recorder ended before the first row: it is empty */
                return drop(run, part->path, err);
        if (r < 0)
                return r;
        infp_part_path(&to, part, INFP_PARQUET_EXTENSION);
        r = to.failed ? infp_fail(err, -ENOMEM, "out of memory")
                      : copy_segment(run, duck, &copy, part->path, to.data, err);
        is_damaged = infp_segment_damage(copy.segment)->n > 0;
        infp_segment_note(copy.segment, run);
        infp_segment_close(copy.segment);
        if (r < 0)
                return r;
        ret->n_segments++;
        ret->n_rows += copy.n_rows;
        return is_damaged ? set_aside(run, part->path, err) : drop(run, part->path, err);
}

static int convert_table(struct infp_run *run, struct infp_duck *duck, const char *table,
                         const struct infp_notices *notices, struct infp_finished *ret, struct infp_err *err)
{
        infp_cleanup(infp_parts_done) struct infp_parts parts = { 0 };

        INFP_TRY(infp_parts_list(run, table, &parts, err));
        for (unsigned i = 0; i < parts.n; i++) {
                infp_autostr struct infp_str arrow = { 0 };
                struct infp_err why = { "" };
                int r;

                infp_part_path(&arrow, &parts.parts[i], INFP_ARROW_EXTENSION);
                if (arrow.failed)
                        return infp_fail(err, -ENOMEM, "out of memory");
                /* After a kill between rename and unlink both exist, and the Parquet file is complete. */
                r = parts.parts[i].is_parquet ? drop(run, arrow.data, &why)
                                              : convert(run, duck, &parts.parts[i], ret, &why);
                if (r == -EBADMSG)
                        infp_notice(notices, "%s; it stays as it is", why.text);
                else if (r < 0)
                        return infp_fail(err, r, "%s", why.text);
        }
        return 0;
}

int infp_finish_tables(struct infp_run *run, struct infp_duck *duck, const struct infp_notices *notices,
                       struct infp_finished *ret, struct infp_err *err)
{
        char **names;
        int n = infp_run_tables(run, &names, err), r = n < 0 ? n : 0;

        for (int i = 0; i < n; i++) {
                infp_progress(notices, "finish: table %d of %d, %s", i + 1, n, names[i]);
                if (r == 0)
                        r = convert_table(run, duck, names[i], notices, ret, err);
                free(names[i]);
        }
        if (n >= 0)
                free(names);
        return r;
}
