/* ncursesw, loaded when a live view is opened. Declared by ourselves: the functions are those of ABI 6, which has been the same since
 * 2015; attributes are the 32-bit numbers of that ABI. For view/top alone. */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <wchar.h>

#include "base/err.h"

struct infp_curses_screen; /* SCREEN */
struct infp_curses_window; /* WINDOW */

#define INFP_CURSES_FUNCTIONS(X)                                                            \
        X(newterm, struct infp_curses_screen *, (const char *type, FILE *out, FILE *in))    \
        X(delscreen, void, (struct infp_curses_screen * screen))                            \
        X(endwin, int, (void) )                                                             \
        X(raw, int, (void) )                                                                \
        X(noecho, int, (void) )                                                             \
        X(nonl, int, (void) )                                                               \
        X(keypad, int, (struct infp_curses_window * window, bool on))                       \
        X(nodelay, int, (struct infp_curses_window * window, bool on))                      \
        X(leaveok, int, (struct infp_curses_window * window, bool on))                      \
        X(set_escdelay, int, (int ms))                                                      \
        X(curs_set, int, (int visibility))                                                  \
        X(has_colors, bool, (void) )                                                        \
        X(start_color, int, (void) )                                                        \
        X(use_default_colors, int, (void) )                                                 \
        X(init_pair, int, (short pair, short foreground, short background))                 \
        X(werase, int, (struct infp_curses_window * window))                                \
        X(wmove, int, (struct infp_curses_window * window, int y, int x))                   \
        X(wattrset, int, (struct infp_curses_window * window, int attributes))              \
        X(waddnwstr, int, (struct infp_curses_window * window, const wchar_t *text, int n)) \
        X(wnoutrefresh, int, (struct infp_curses_window * window))                          \
        X(doupdate, int, (void) )                                                           \
        X(clearok, int, (struct infp_curses_window * window, bool on))                      \
        X(wget_wch, int, (struct infp_curses_window * window, unsigned *key))               \
        X(getmaxx, int, (const struct infp_curses_window *window))                          \
        X(getmaxy, int, (const struct infp_curses_window *window))                          \
        X(resizeterm, int, (int lines, int columns))

struct infp_curses {
#define X(name, type, arguments) type(*name) arguments;
        INFP_CURSES_FUNCTIONS(X)
#undef X
        struct infp_curses_window **stdscr;
};

enum {
        INFP_CURSES_BOLD = 1 << 21,
        INFP_CURSES_DIM = 1 << 20,
        INFP_CURSES_REVERSE = 1 << 18,
        INFP_CURSES_KEY_CODE_YES = 0400,
        INFP_CURSES_KEY_DOWN = 0402,
        INFP_CURSES_KEY_UP,
        INFP_CURSES_KEY_LEFT,
        INFP_CURSES_KEY_RIGHT,
        INFP_CURSES_KEY_HOME,
        INFP_CURSES_KEY_BACKSPACE,
        INFP_CURSES_KEY_NPAGE = 0522,
        INFP_CURSES_KEY_PPAGE,
        INFP_CURSES_KEY_ENTER = 0527,
        INFP_CURSES_KEY_END = 0550,
        INFP_CURSES_KEY_SUSPEND = 0627, /* some terminals have Ctrl-Z as a key */
};

/* 0; -ENOPKG: the library cannot be loaded, and err names its package. */
int infp_curses_load(struct infp_curses *ret, struct infp_err *err);
