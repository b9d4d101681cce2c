#include "analyze/report_functions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void infp_report_functions_done(struct infp_report_functions *functions)
{
        for (unsigned i = 0; i < functions->n; i++)
                infp_flame_done(&functions->flames[i]);
        functions->n = 0;
}

static int add(struct infp_report_functions *ret, struct infp_run *run, const struct infp_flame_options *options,
               struct infp_err *err)
{
        struct infp_flame *flame = &ret->flames[ret->n];
        const int r = infp_flame_read(run, options, flame, err);

        if (r < 0)
                return r == -ENOENT || r == -ENODATA ? 0 : r;
        if (!strcmp(flame->mode, "cpu"))
                infp_busy_waited(flame, &ret->busy);
        free(flame->nodes);
        flame->nodes = NULL;
        flame->n_nodes = 0;
        ret->n++;
        return 1;
}

static bool has_stacks(struct infp_run *run)
{
        char **segments = NULL;
        const int n = infp_run_segments(run, infp_table_stack_samples.name, &segments, NULL);

        for (int i = 0; i < n; i++)
                free(segments[i]);
        free(segments);
        return n > 0;
}

int infp_report_functions_read(struct infp_run *run, uint64_t t0, uint64_t t1, struct infp_report_functions *ret,
                               struct infp_err *err)
{
        static const char *const modes[] = { "cpu", "wall", "off-cpu" };
        struct infp_flame_options options = { .t0 = t0, .t1 = t1, .fold_waiting = true };
        int r = 0;

        *ret = (struct infp_report_functions){ .n = 0 };
        r = infp_sampling_read(run, t0, t1, &ret->sampling, err);
        if (r < 0 || !has_stacks(run))
                return r;
        for (unsigned i = 0; i < sizeof(modes) / sizeof(*modes) && r >= 0; i++) {
                options.mode = modes[i];
                r = add(ret, run, &options, err);
        }
        if (r >= 0 && ret->n)
                r = infp_busy_thread(run, t0, t1, &ret->busy, err);
        if (r >= 0 && !ret->n) {
                options.mode = NULL;
                r = add(ret, run, &options, err);
                r = r == -EINVAL ? 0 : r; /* several modes of an import: `flamegraph --mode` takes one */
        }
        if (r < 0)
                infp_report_functions_done(ret);
        return r < 0 ? r : 0;
}
