#include "cli/top_view.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/run_words.h"
#include "base/str.h"
#include "base/time.h"
#include "cli/command.h"
#include "view/format.h"
#include "view/top/json.h"
#include "view/top/keys.h"
#include "view/top/screen.h"

enum { ROWS = 20, COLUMNS = 160, MAX_FDS = 2 + INFP_WATCH_RUN_FDS };

/* One loop: what it waits for, and what is kept between turns. */
struct loop {
        struct infp_top_view *view;
        struct infp_top_screen *screen; /* NULL: lines */
        struct infp_top_page page;
        struct infp_str title;
        uint64_t due_ns;
        bool is_ending, is_anew;
        bool wants_draw;
};

static uint64_t now_ns(void)
{
        return infp_clock_ns(CLOCK_MONOTONIC);
}

static void say_on_screen(void *context, const char *text)
{
        struct infp_top_choice *choice = context;

        snprintf(choice->message, sizeof(choice->message), "%s", text);
}

static void stop(struct loop *loop)
{
        if (loop->screen)
                infp_top_screen_suspend(loop->screen);
        kill(getpid(), SIGSTOP);
        /* Going on: the shell may have changed the terminal, and its window. */
        if (loop->screen)
                infp_top_screen_resume(loop->screen);
        loop->is_anew = loop->wants_draw = true;
}

static void take_signals(struct loop *loop)
{
        struct infp_signal signal;

        while (infp_signals_next(loop->view->signals, &signal)) {
                if (infp_signal_is_end(signal.number))
                        loop->is_ending = true;
                else if (signal.number == SIGTSTP)
                        stop(loop);
                else if (signal.number == SIGWINCH && loop->screen)
                        infp_top_screen_resize(loop->screen);
                loop->wants_draw |= signal.number == SIGWINCH;
        }
}

static void take_keys(struct loop *loop)
{
        struct infp_top_view *view = loop->view;
        int key;

        while (loop->screen && (key = infp_top_screen_key(loop->screen)) >= 0) {
                const enum infp_top_does does = infp_top_press(&view->choice, infp_watch_run_watch(view->run),
                                                               &view->about, key, loop->page.rows);

                loop->is_ending |= does == INFP_TOP_QUIT;
                loop->is_anew |= does == INFP_TOP_REDRAW;
                loop->wants_draw = true;
                if (does == INFP_TOP_STOP)
                        stop(loop);
        }
}

static void name_run(struct loop *loop)
{
        infp_str_clear(&loop->title);
        infp_run_words(&loop->title, infp_watch_run_of(loop->view->run), 0);
        loop->view->about.title = loop->title.data ? loop->title.data : "";
        loop->view->about.unix_minus_mono =
                (int64_t) infp_clock_ns(CLOCK_REALTIME) - (int64_t) infp_clock_ns(CLOCK_MONOTONIC);
}

/* Waits until a period is over, or something has come. */
static void wait_for_news(struct loop *loop)
{
        const uint64_t now = now_ns(), left = loop->due_ns > now ? loop->due_ns - now : 0;
        struct pollfd fds[MAX_FDS];
        unsigned n = 0, keys = MAX_FDS;

        fds[n++] = (struct pollfd){ .fd = loop->view->signals->fd, .events = POLLIN };
        if (loop->screen) {
                keys = n;
                fds[n++] = (struct pollfd){ .fd = STDIN_FILENO, .events = POLLIN };
        }
        n += infp_watch_run_pollfds(loop->view->run, fds + n);
        poll(fds, n, (int) (left / INFP_NS_PER_MS) + 1);
        /* The terminal went away. */
        if (keys < n && fds[keys].revents & (POLLHUP | POLLERR | POLLNVAL))
                loop->is_ending = true;
}

static int draw(struct loop *loop, struct infp_err *err)
{
        struct infp_top_view *view = loop->view;
        unsigned width, height;

        name_run(loop);
        infp_top_screen_size(loop->screen, &width, &height);
        if (infp_top_page_make(&loop->page, infp_watch_run_watch(view->run), &view->choice, &view->about, width,
                               height) < 0)
                return infp_fail(err, -ENOMEM, "out of memory");
        infp_top_screen_draw(loop->screen, &loop->page, loop->is_anew);
        loop->is_anew = loop->wants_draw = false;
        return 0;
}

/* What comes between two periods; at the end of one, *ret_period. */
static int turn(struct loop *loop, const struct infp_notices *notices, bool *ret_period, struct infp_err *err)
{
        struct infp_top_view *view = loop->view;
        const bool was_over = view->about.is_over;
        uint64_t now;

        wait_for_news(loop);
        take_signals(loop);
        take_keys(loop);
        view->about.is_over = infp_watch_run_turn(view->run, notices);
        now = now_ns();
        *ret_period = now >= loop->due_ns || (view->about.is_over && !was_over);
        if (!*ret_period)
                return 0;
        while (loop->due_ns <= now)
                loop->due_ns += view->period_ns;
        INFP_TRY(infp_watch_run_read(view->run, err));
        infp_top_settle(&view->choice, infp_watch_run_watch(view->run));
        return 0;
}

int infp_top_on_terminal(struct infp_top_view *view, struct infp_err *err)
{
        const struct infp_notices notices = { .say = say_on_screen, .context = &view->choice };
        struct loop loop = { .view = view, .due_ns = now_ns(), .wants_draw = true };
        const char *no_colour = getenv("NO_COLOR");
        uint64_t n = 0;
        int r = infp_top_screen_open(no_colour && *no_colour, &loop.screen, err);

        INFP_TRY(r);
        while (r >= 0 && !loop.is_ending && (!view->n || n < view->n)) {
                bool is_period = false;

                r = turn(&loop, &notices, &is_period, err);
                n += is_period;
                if (r >= 0 && !loop.is_ending && (is_period || loop.wants_draw))
                        r = draw(&loop, err);
        }
        infp_top_screen_close(loop.screen);
        infp_top_page_done(&loop.page);
        infp_str_done(&loop.title);
        return r < 0 ? r : 0;
}

static int print_json(struct loop *loop, struct infp_err *err)
{
        infp_autostr struct infp_str text = { 0 };
        struct infp_json json;

        infp_json_begin(&json, &text, 0);
        if (infp_top_json(&json, infp_watch_run_watch(loop->view->run), &loop->view->choice, &loop->view->about) < 0 ||
            text.failed)
                return infp_fail(err, -ENOMEM, "out of memory");
        infp_print("%s", text.data);
        return 0;
}

static int print_page(struct loop *loop, struct infp_err *err)
{
        const bool is_terminal = isatty(STDOUT_FILENO);

        if (infp_top_page_make(&loop->page, infp_watch_run_watch(loop->view->run), &loop->view->choice,
                               &loop->view->about, is_terminal ? infp_terminal_width(STDOUT_FILENO) : COLUMNS, 0) < 0)
                return infp_fail(err, -ENOMEM, "out of memory");
        for (unsigned i = 0; i < loop->page.n; i++) {
                const struct infp_str *text = &loop->page.lines[i].text;
                size_t size = text->size;

                while (size && text->data[size - 1] == ' ')
                        size--;
                infp_print("%.*s", (int) size, size ? text->data : "");
        }
        infp_print("%s", "");
        return 0;
}

int infp_top_as_lines(struct infp_top_view *view, struct infp_err *err)
{
        struct loop loop = { .view = view, .due_ns = now_ns() + view->period_ns };
        uint64_t n = 0;
        int r = 0;

        view->about.max_rows = view->about.max_rows ? view->about.max_rows : ROWS;
        while (r >= 0 && !loop.is_ending && (!view->n || n < view->n)) {
                bool is_period = false;

                r = turn(&loop, &infp_said, &is_period, err);
                if (r < 0 || !is_period || loop.is_ending)
                        continue;
                name_run(&loop);
                r = view->is_json ? print_json(&loop, err) : print_page(&loop, err);
                n++;
                loop.is_ending |= view->about.is_over || infp_print_error() < 0;
        }
        infp_top_page_done(&loop.page);
        infp_str_done(&loop.title);
        return r < 0 ? r : 0;
}
