/* The stacks of the run with the times at which they were seen: a flame graph of any part of the page's range. */
#include <errno.h>
#include <string.h>

#include "analyze/timeline/parts.h"
#include "base/mem.h"
#include "model/stack_tables.h"

void infp_timeline_code_done(struct infp_timeline *timeline)
{
        for (unsigned i = 0; i < timeline->code.n; i++)
                infp_flame_done(&timeline->code.flames[i]);
        timeline->code.n = 0;
        infp_strings_done(&timeline->code.strings);
}

static int make_flames(struct infp_timeline *timeline, const struct infp_report_functions *functions,
                       struct infp_profile *profile, struct infp_err *err)
{
        static const struct infp_flame_options options = { 0 };

        INFP_TRY(infp_profile_take_part(profile, functions->part, err));
        for (unsigned i = 0; i < functions->n; i++) {
                INFP_TRY(infp_flame_make(profile, functions->flames[i].mode, &options, &timeline->code.flames[i], err));
                timeline->code.n++;
                INFP_TRY(infp_flame_prune(&timeline->code.flames[i], 0, err)); /* functions of other modes */
        }
        return 0;
}

int infp_timeline_code(struct infp_timeline_reading *reading, struct infp_err *err)
{
        const struct infp_report *report = reading->report;
        const struct infp_profile_options options = { .t0 = report->range.t0,
                                                      .t1 = report->range.t1,
                                                      .all_modes = true,
                                                      .n_buckets = INFP_TIMELINE_CODE_BUCKETS };
        infp_cleanup(infp_profile_done) struct infp_profile profile = { 0 };
        struct infp_timeline *timeline = reading->timeline;
        int r;

        if (!report->functions.n)
                return 0;
        reading->table = infp_table_stack_samples.name;
        INFP_TRY(infp_profile_read(reading->run, &options, &profile, err));
        r = make_flames(timeline, &report->functions, &profile, err);
        timeline->code.strings = profile.strings;
        profile.strings = (struct infp_strings){ 0 };
        if (r < 0)
                infp_timeline_code_done(timeline);
        return r;
}
