/* What a live view shows, as lines of text with styles: for a terminal of any size, and for plain output. Text of others is escaped
 * here, so that none of it reaches a terminal as it came. */
#pragma once

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/watch/watch.h"
#include "base/str.h"

enum infp_top_style {
        INFP_TOP_PLAIN,
        INFP_TOP_DIM,
        INFP_TOP_BOLD,
        INFP_TOP_BAR, /* column heads and the chosen tab */
        INFP_TOP_WARN,
        INFP_TOP_NATIVE, /* from here on by the kind of frame */
        INFP_TOP_CXX,
        INFP_TOP_KERNEL,
        INFP_TOP_PYTHON,
        INFP_TOP_GO,
        INFP_TOP_JIT,
        INFP_TOP_UNKNOWN,
        INFP_TOP_STYLES,
};

enum { INFP_TOP_PARTS = 24 };

struct infp_top_line {
        struct infp_str text;
        struct {
                size_t end; /* of the part in the text */
                enum infp_top_style style;
        } parts[INFP_TOP_PARTS];
        unsigned n;
        unsigned used; /* columns */
};

struct infp_top_page {
        struct infp_top_line *lines;
        unsigned n, cap;
        unsigned rows; /* that fit below the heads: a page of scrolling */
};
void infp_top_page_done(struct infp_top_page *page);

/* What the user has chosen. */
enum { INFP_TOP_TYPED = 200 };
struct infp_top_choice {
        enum infp_watch_by by;
        enum infp_stack_mode mode;
        bool is_mode_chosen; /* by the user, or by what the run has */
        enum infp_watch_sort sort;
        uint64_t window_ns;
        uint64_t moment_ns; /* frozen at this moment; 0: what is new */
        bool is_paused;     /* frozen at the moment of the key */
        char filter[INFP_TOP_TYPED];
        regex_t regex; /* of it, where it is not "" */
        bool has_regex;
        size_t scroll;
        bool is_help;
        bool is_typing; /* the filter */
        char typed[INFP_TOP_TYPED];
        bool is_saved;     /* the run is to be kept */
        char message[400]; /* last line, until the next key */
};

struct infp_top_about {
        const char *title;       /* what is recorded, in words */
        const char *save;        /* directory of saved runs; NULL: the run is somebody else's */
        bool is_over;            /* the recording has ended */
        int64_t unix_minus_mono; /* ns, for clock times */
        size_t max_rows;         /* at most so many; 0: as the height says */
};

/* What is asked of the model for a list of this kind. It borrows the choice's filter. */
struct infp_watch_query infp_top_query(const struct infp_top_choice *choice, const struct infp_watch *watch,
                                       enum infp_watch_by by);
/* Until a mode is chosen: Python frames alone, once the run has them of most of its CPU time. */
void infp_top_settle(struct infp_top_choice *choice, const struct infp_watch *watch);

/* height 0: plain output, a line for each of about->max_rows. Bounds the scroll of the choice. 0 or -ENOMEM. Texts are copied. */
int infp_top_page_make(struct infp_top_page *page, struct infp_watch *watch, struct infp_top_choice *choice,
                       const struct infp_top_about *about, unsigned width, unsigned height);
extern const char *const infp_watch_by_names[INFP_WATCH_BYS];
extern const char *const infp_watch_sort_names[INFP_WATCH_SORTS];
