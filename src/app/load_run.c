#include "app/load_run.h"

#include <errno.h>
#include <stdlib.h>

#include "app/finish_child.h"
#include "app/record_info.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "model/tables.h"
#include "record/recorder.h"
#include "store/store.h"

struct infp_load_run {
        struct infp_run *run;
        struct infp_run_info info;
        struct infp_recorder *recorder;
        struct infp_sink *store;
};

static const struct infp_table *const tables[] = { &infp_table_clock, &infp_table_columns, &infp_table_requests, NULL };

static int open_run(struct infp_load_run *run, const char *output, struct infp_err *err)
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

int infp_load_run_open(const char *output, struct infp_load_run **ret, struct infp_err *err)
{
        struct infp_load_run *run = calloc(1, sizeof(*run));
        int r = run ? open_run(run, output, err) : infp_fail(err, -ENOMEM, "not enough memory");

        if (r < 0)
                infp_load_run_close(run, NULL, NULL, NULL);
        else
                *ret = run;
        return r;
}

const char *infp_load_run_uuid(const struct infp_load_run *run)
{
        return run->info.uuid;
}

const char *infp_load_run_output(const struct infp_load_run *run)
{
        return run->run->output;
}

int infp_load_run_put(struct infp_load_run *run, struct infp_row *const *rows, size_t n, struct infp_err *err)
{
        for (size_t i = 0; i < n; i++)
                infp_recorder_put(run->recorder, rows[i]);
        if (n)
                return infp_recorder_flush(run->recorder, err);
        infp_recorder_turn(run->recorder);
        return 0;
}

static int save(struct infp_load_run *run, struct infp_err *err)
{
        struct infp_run_info *info = &run->run->info;

        info->ended_t_ns = infp_recorder_end(run->recorder);
        info->ended_unix_ns = infp_recorder_unix_ns(run->recorder, info->ended_t_ns);
        return infp_run_save(run->run, err);
}

int infp_load_run_close(struct infp_load_run *run, struct infp_signals *signals, const struct infp_notices *notices,
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
