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
        bool is_written;
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
        infp_autostr struct infp_str text = { 0 };
        char name[64];
        int r;

        if (s->is_written || strcmp(batch->table->name, "host") != 0 || batch->n_rows == 0)
                return 0;
        infp_static_json(&text, s->uuid, batch);
        snprintf(name, sizeof(name), "static_%s.json", s->uuid);
        r = text.failed ? -ENOMEM : infp_replace_file_at(s->output_fd, name, text.data, text.size, 0644);
        if (r < 0)
                return infp_fail_errno(err, r, "cannot write %s", name);
        s->is_written = true;
        return 0;
}

int infp_static_sink_new(int output_fd, const char *uuid, struct infp_sink **ret, struct infp_err *err)
{
        struct static_sink *s = calloc(1, sizeof(*s));

        if (!s)
                return infp_fail(err, -ENOMEM, "no memory for the static record");
        s->sink = (struct infp_sink){
                .name = "static record", .each_tick = true, .table_begin = table_begin, .batch = batch
        };
        s->output_fd = output_fd;
        s->uuid = uuid;
        *ret = &s->sink;
        return 0;
}

struct infp_sink *infp_static_sink_free(struct infp_sink *sink)
{
        free(sink);
        return NULL;
}
