/* Pages on a terminal. One at a time; the terminal is as it was whenever the screen is suspended or closed. */
#pragma once

#include "view/top/keys.h"
#include "view/top/page.h"

struct infp_top_screen;
/* Standard input and output. -ENOPKG: ncursesw is not here; -ENOTTY: the terminal cannot place text (TERM), or is not one. */
int infp_top_screen_open(bool no_colour, struct infp_top_screen **ret, struct infp_err *err);
struct infp_top_screen *infp_top_screen_close(struct infp_top_screen *screen); /* NULL is fine; returns NULL */
void infp_top_screen_suspend(struct infp_top_screen *screen);
void infp_top_screen_resume(struct infp_top_screen *screen);
/* After SIGWINCH. */
void infp_top_screen_resize(struct infp_top_screen *screen);
void infp_top_screen_size(const struct infp_top_screen *screen, unsigned *ret_width, unsigned *ret_height);
/* anew: all of the terminal, as after somebody else wrote on it. */
void infp_top_screen_draw(struct infp_top_screen *screen, const struct infp_top_page *page, bool anew);
/* The next key that waits: a character, or enum infp_top_key; -1: none. */
int infp_top_screen_key(struct infp_top_screen *screen);
