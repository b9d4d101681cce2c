/* Keys of the live view: what each does to the choice, and its line in the help. */
#pragma once

#include "view/top/page.h"

/* Keys that are not characters. */
enum infp_top_key {
        INFP_TOP_UP = 0x110000, /* after the last character */
        INFP_TOP_DOWN,
        INFP_TOP_LEFT,
        INFP_TOP_RIGHT,
        INFP_TOP_PAGE_UP,
        INFP_TOP_PAGE_DOWN,
        INFP_TOP_HOME,
        INFP_TOP_END,
        INFP_TOP_ENTER,
        INFP_TOP_ESCAPE,
        INFP_TOP_BACKSPACE,
        INFP_TOP_TAB,
};

enum infp_top_does {
        INFP_TOP_NOTHING, /* for the caller: the page is drawn again */
        INFP_TOP_QUIT,
        INFP_TOP_STOP, /* Ctrl-Z */
        INFP_TOP_REDRAW,
};

/* rows: how many are on the page; for keys that scroll. */
enum infp_top_does infp_top_press(struct infp_top_choice *choice, struct infp_watch *watch,
                                  const struct infp_top_about *about, int key, unsigned rows);
/* Sets the filter, and keeps the old one where the new one cannot be used. 0; -EINVAL: it is no regular expression, or too long. */
int infp_top_filter(struct infp_top_choice *choice, const char *text, struct infp_err *err);
void infp_top_choice_done(struct infp_top_choice *choice);

/* The help, a key a line; NULL at the end. */
struct infp_top_help {
        const char *keys, *what;
};
extern const struct infp_top_help infp_top_helps[];
