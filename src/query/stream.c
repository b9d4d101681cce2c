#include "query/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "query/parts.h"
#include "store/store.h"

struct infp_stream {
        struct infp_run *run;
        const char *table;
        const struct infp_stream_column *columns;
        unsigned n;
        char *path; /* of the last segment that was opened; NULL: none yet */
        struct infp_segment *segment;
        int at[];
};

int infp_stream_open(struct infp_run *run, const char *table, const struct infp_stream_column *columns, unsigned n,
                     struct infp_stream **ret, struct infp_err *err)
{
        struct infp_stream *stream = calloc(1, sizeof(*stream) + n * sizeof(stream->at[0]));

        if (!stream)
                return infp_fail(err, -ENOMEM, "out of memory");
        stream->run = run;
        stream->table = table;
        stream->columns = columns;
        stream->n = n;
        *ret = stream;
        return 0;
}

struct infp_stream *infp_stream_close(struct infp_stream *stream)
{
        if (!stream)
                return NULL;
        infp_segment_close(stream->segment);
        free(stream->path);
        free(stream);
        return NULL;
}

static void find_columns(struct infp_stream *stream)
{
        const struct infp_table *table = infp_segment_table(stream->segment);

        for (unsigned i = 0; i < stream->n; i++) {
                const int at = infp_table_find(table, stream->columns[i].name);

                stream->at[i] =
                        at >= 0 && infp_table_column(table, (unsigned) at)->type == stream->columns[i].type ? at : -1;
        }
}

/* 1: the segment after the last one is open; 0: there is not one yet. */
static int open_next(struct infp_stream *stream, struct infp_err *err)
{
        infp_cleanup(infp_parts_done) struct infp_parts parts = { 0 };
        struct infp_segment *next = NULL;
        int r;

        INFP_TRY(infp_parts_list(stream->run, stream->table, &parts, err));
        for (unsigned i = 0; i < parts.n; i++) {
                if (parts.parts[i].is_parquet || (stream->path && strcmp(parts.parts[i].path, stream->path) <= 0))
                        continue;
                r = infp_segment_open(stream->run->fd, parts.parts[i].path, &next, err);
                if (r == -ENODATA || r == -ENOENT) /* just made; or the run is being finished */
                        return 0;
                INFP_TRY(r);
                /* Its last batch may have come after we looked. */
                if (stream->segment && infp_segment_grow(stream->segment, NULL) > 0) {
                        infp_segment_close(next);
                        return 1;
                }
                infp_segment_close(stream->segment);
                stream->segment = next;
                free(stream->path);
                stream->path = INFP_TAKE(parts.parts[i].path);
                find_columns(stream);
                return 1;
        }
        return 0;
}

int infp_stream_next(struct infp_stream *stream, struct infp_batch *ret, const int **ret_at, struct infp_err *err)
{
        int r = 0;

        *ret_at = stream->at;
        for (;;) {
                if (stream->segment) {
                        r = infp_segment_next(stream->segment, ret, NULL, err);
                        if (r == 0)
                                r = infp_segment_grow(stream->segment, err);
                        else
                                return r;
                        INFP_TRY(r);
                }
                if (r == 0)
                        r = open_next(stream, err);
                if (r <= 0)
                        return r;
        }
}
