#include "app/static_sink.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/new_file.h"
#include "view/snapshot/static_json.h"

struct static_sink {
        struct infp_sink sink;
        const struct infp_run *run;
        struct infp_str record, text; /* without the GPUs; with them */
        struct infp_static_gpus gpus;
        bool is_made, is_waiting; /* to be written */
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

        if (!s->is_made && !strcmp(batch->table->name, "host") && batch->n_rows) {
                infp_static_json(&s->record, s->run->info.uuid, batch);
                s->is_made = s->is_waiting = true;
        } else if (infp_static_gpus_take(&s->gpus, batch)) {
                s->is_waiting = true;
        }
        return s->record.failed ? infp_fail(err, -ENOMEM, "no memory for the static record") : 0;
}

/* A failed write (full disk, no descriptor) is tried again at the next tick. GPU drivers start slowly: then the record is
 * written a second time. */
static int tick_end(struct infp_sink *sink, uint64_t t_ns, int64_t unix_ms, struct infp_err *err)
{
        struct static_sink *s = (struct static_sink *) sink;
        char name[64];
        int r;

        (void) t_ns;
        (void) unix_ms;
        if (!s->is_made || !s->is_waiting || s->record.failed)
                return 0;
        infp_str_clear(&s->text);
        infp_static_gpus_put(&s->gpus, &s->record, &s->text);
        if (s->text.failed)
                return infp_fail(err, -ENOMEM, "no memory for the static record");
        snprintf(name, sizeof(name), "static_%s.json", s->run->info.uuid);
        r = infp_replace_file_at(s->run->output_fd, name, s->text.data, s->text.size, infp_run_file_mode(s->run),
                                 false);
        if (r < 0)
                return infp_fail_errno(err, r, "cannot write %s", name);
        infp_str_done(&s->text);
        s->is_waiting = false;
        return 0;
}

int infp_static_sink_new(const struct infp_run *run, struct infp_sink **ret, struct infp_err *err)
{
        struct static_sink *s = calloc(1, sizeof(*s));

        if (!s)
                return infp_fail(err, -ENOMEM, "no memory for the static record");
        s->sink = (struct infp_sink){ .name = "static record",
                                      .each_tick = true,
                                      .table_begin = table_begin,
                                      .batch = batch,
                                      .tick_end = tick_end };
        s->run = run;
        *ret = &s->sink;
        return 0;
}

struct infp_sink *infp_static_sink_free(struct infp_sink *sink)
{
        struct static_sink *s = (struct static_sink *) sink;

        if (s) {
                infp_str_done(&s->record);
                infp_str_done(&s->text);
                infp_static_gpus_done(&s->gpus);
        }
        free(s);
        return NULL;
}
