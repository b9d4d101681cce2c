/* How `top` shows a run: on a terminal until the user quits, or as lines. */
#pragma once

#include "app/watch_run.h"
#include "view/top/page.h"

struct infp_top_view {
        struct infp_watch_run *run;
        struct infp_signals *signals;
        struct infp_top_choice choice;
        struct infp_top_about about; /* title: made by the loops */
        uint64_t period_ns;
        uint64_t n; /* periods to print; 0: until the end */
        bool is_json;
};

/* Both: 0, or a negative errno; the terminal is as it was. -ENOPKG: there is no library for it, -ENOTTY: the terminal cannot. */
int infp_top_on_terminal(struct infp_top_view *view, struct infp_err *err);
int infp_top_as_lines(struct infp_top_view *view, struct infp_err *err);
