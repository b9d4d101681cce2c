#include "cli/static_sink.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "view/static_json.h"

struct static_sink {
        struct infp_sink sink;
        int output_fd;
        const char *uuid;
        struct infp_str text; /* waits to be written */
        bool is_made;
};

static int table_begin(struct infp_sink *sink, const struct infp_table *table, struct infp_err *err)
{
        (void) sink;
        (void) table;
        (void) err;
        return 0;
}

static int batch(struct infp_sink *sink, const struct infp_batch *batch, struct infp_err *err)
{
        struct static_sink *s = (struct static_sink *) sink;

        if (s->is_made || strcmp(batch->table->name, "host") != 0 || batch->n_rows == 0)
                return 0;
        infp_static_json(&s->text, s->uuid, batch);
        s->is_made = true;
        return s->text.failed ? infp_fail(err, -ENOMEM, "no memory for the static record") : 0;
}

/* What cannot be written now (a full disk, no descriptor) is tried again at the next tick. */
static int tick_end(struct infp_sink *sink, uint64_t t_ns, int64_t unix_ms, struct infp_err *err)
{
        struct static_sink *s = (struct static_sink *) sink;
        char name[64];
        int r;

        (void) t_ns;
        (void) unix_ms;
        if (s->text.size == 0 || s->text.failed)
                return 0;
        snprintf(name, sizeof(name), "static_%s.json", s->uuid);
        r = infp_replace_file_at(s->output_fd, name, s->text.data, s->text.size, 0644);
        if (r < 0)
                return infp_fail_errno(err, r, "cannot write %s", name);
        infp_str_done(&s->text);
        return 0;
}

int infp_static_sink_new(int output_fd, const char *uuid, struct infp_sink **ret, struct infp_err *err)
{
        struct static_sink *s = calloc(1, sizeof(*s));

        if (!s)
                return infp_fail(err, -ENOMEM, "no memory for the static record");
        s->sink = (struct infp_sink){ .name = "static record",
                                      .each_tick = true,
                                      .table_begin = table_begin,
                                      .batch = batch,
                                      .tick_end = tick_end };
        s->output_fd = output_fd;
        s->uuid = uuid;
        *ret = &s->sink;
        return 0;
}

struct infp_sink *infp_static_sink_free(struct infp_sink *sink)
{
        struct static_sink *s = (struct static_sink *) sink;

        if (s)
                infp_str_done(&s->text);
        free(s);
        return NULL;
}
