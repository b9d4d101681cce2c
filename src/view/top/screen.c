#include "view/top/screen.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "view/top/curses.h"

enum { PIECE = 256, BLACK = 0, RED, GREEN, YELLOW, BLUE, MAGENTA, CYAN, DEFAULT = -1 };

struct infp_top_screen {
        struct infp_curses lib;
        struct infp_curses_screen *screen;
        bool has_colours, is_utf8;
};

/* Colour pairs; 0: none. */
static const short colours[INFP_TOP_STYLES] = {
        [INFP_TOP_WARN] = YELLOW, [INFP_TOP_CXX] = MAGENTA, [INFP_TOP_KERNEL] = BLUE,   [INFP_TOP_PYTHON] = GREEN,
        [INFP_TOP_GO] = CYAN,     [INFP_TOP_JIT] = RED,     [INFP_TOP_NATIVE] = YELLOW,
};

static int attributes_of(const struct infp_top_screen *screen, enum infp_top_style style)
{
        static const int attributes[INFP_TOP_STYLES] = {
                [INFP_TOP_DIM] = INFP_CURSES_DIM,     [INFP_TOP_BOLD] = INFP_CURSES_BOLD,
                [INFP_TOP_BAR] = INFP_CURSES_REVERSE, [INFP_TOP_WARN] = INFP_CURSES_BOLD,
                [INFP_TOP_UNKNOWN] = INFP_CURSES_DIM,
        };

        return attributes[style] | (screen->has_colours && colours[style] ? (int) style << 8 : 0);
}

static void begin_colours(struct infp_top_screen *screen, bool no_colour)
{
        const struct infp_curses *c = &screen->lib;

        if (no_colour || !c->has_colors() || c->start_color() < 0)
                return;
        screen->has_colours = true;
        c->use_default_colors();
        for (short style = 0; style < INFP_TOP_STYLES; style++)
                if (colours[style])
                        c->init_pair(style, colours[style], DEFAULT);
}

static void set_modes(const struct infp_top_screen *screen)
{
        const struct infp_curses *c = &screen->lib;

        c->raw(); /* Ctrl-C and Ctrl-Z are keys: no signal reaches the terminal's other processes */
        c->noecho();
        c->nonl();
        c->keypad(*c->stdscr, true);
        c->nodelay(*c->stdscr, true);
        c->leaveok(*c->stdscr, true);
        c->curs_set(0);
}

int infp_top_screen_open(bool no_colour, struct infp_top_screen **ret, struct infp_err *err)
{
        struct infp_top_screen *screen = calloc(1, sizeof(*screen));
        int r = screen ? infp_curses_load(&screen->lib, err) : infp_fail(err, -ENOMEM, "out of memory");

        if (r >= 0) {
                setlocale(LC_CTYPE, ""); /* by which ncurses writes characters; numbers stay as they are */
                screen->is_utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
                screen->screen = screen->lib.newterm(NULL, stdout, stdin);
                if (!screen->screen)
                        r = infp_fail(err, -ENOTTY, "nothing is known of the terminal %s (TERM)",
                                      getenv("TERM") ? getenv("TERM") : "");
        }
        if (r < 0) {
                free(screen);
                return r;
        }
        screen->lib.set_escdelay(50);
        begin_colours(screen, no_colour);
        set_modes(screen);
        infp_top_screen_resize(screen); /* LINES and COLUMNS of the environment may be those of another window */
        *ret = screen;
        return 0;
}

struct infp_top_screen *infp_top_screen_close(struct infp_top_screen *screen)
{
        if (!screen)
                return NULL;
        infp_top_screen_suspend(screen);
        screen->lib.delscreen(screen->screen);
        free(screen);
        return NULL;
}

void infp_top_screen_suspend(struct infp_top_screen *screen)
{
        screen->lib.curs_set(1);
        screen->lib.endwin();
        fflush(stdout);
}

void infp_top_screen_resume(struct infp_top_screen *screen)
{
        const struct infp_curses *c = &screen->lib;

        c->clearok(*c->stdscr, true);
        c->wnoutrefresh(*c->stdscr);
        c->doupdate(); /* after endwin it sets the terminal's modes again */
        c->curs_set(0);
        infp_top_screen_resize(screen);
}

void infp_top_screen_resize(struct infp_top_screen *screen)
{
        struct winsize size;

        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col)
                screen->lib.resizeterm(size.ws_row, size.ws_col);
}

void infp_top_screen_size(const struct infp_top_screen *screen, unsigned *ret_width, unsigned *ret_height)
{
        const int width = screen->lib.getmaxx(*screen->lib.stdscr), height = screen->lib.getmaxy(*screen->lib.stdscr);

        *ret_width = width > 0 ? (unsigned) width : 1;
        *ret_height = height > 0 ? (unsigned) height : 1;
}

static wchar_t decode(const char *s, unsigned length)
{
        static const unsigned char mask[] = { 0, 0x7F, 0x1F, 0x0F, 0x07 };
        wchar_t c = (unsigned char) s[0] & mask[length];

        for (unsigned i = 1; i < length; i++)
                c = c << 6 | ((unsigned char) s[i] & 0x3F);
        return c;
}

/* A terminal of another character set gets "?" for what is not ASCII. */
static void put(const struct infp_top_screen *screen, const char *text, size_t size)
{
        const struct infp_curses *c = &screen->lib;
        wchar_t piece[PIECE];
        int n = 0;

        for (size_t at = 0; at < size;) {
                const unsigned length = infp_utf8_length(text + at, size - at);
                const wchar_t character = length ? decode(text + at, length) : L'?';

                piece[n++] = character < 0x80 || screen->is_utf8 ? character : L'?';
                at += length ? length : 1;
                if (n == PIECE || at >= size) {
                        c->waddnwstr(*c->stdscr, piece, n);
                        n = 0;
                }
        }
}

void infp_top_screen_draw(struct infp_top_screen *screen, const struct infp_top_page *page, bool anew)
{
        const struct infp_curses *c = &screen->lib;
        const int height = c->getmaxy(*c->stdscr);

        if (anew)
                c->clearok(*c->stdscr, true);
        c->wattrset(*c->stdscr, 0);
        c->werase(*c->stdscr);
        for (int y = 0; y < (int) page->n && y < height; y++) {
                const struct infp_top_line *line = &page->lines[y];
                size_t from = 0;

                c->wmove(*c->stdscr, y, 0);
                for (unsigned i = 0; i < line->n; i++) {
                        c->wattrset(*c->stdscr, attributes_of(screen, line->parts[i].style));
                        put(screen, line->text.data + from, line->parts[i].end - from);
                        from = line->parts[i].end;
                }
        }
        c->wattrset(*c->stdscr, 0);
        c->wnoutrefresh(*c->stdscr);
        c->doupdate();
}

int infp_top_screen_key(struct infp_top_screen *screen)
{
        static const struct {
                unsigned code;
                int key;
        } keys[] = {
                { INFP_CURSES_KEY_UP, INFP_TOP_UP },
                { INFP_CURSES_KEY_DOWN, INFP_TOP_DOWN },
                { INFP_CURSES_KEY_LEFT, INFP_TOP_LEFT },
                { INFP_CURSES_KEY_RIGHT, INFP_TOP_RIGHT },
                { INFP_CURSES_KEY_PPAGE, INFP_TOP_PAGE_UP },
                { INFP_CURSES_KEY_NPAGE, INFP_TOP_PAGE_DOWN },
                { INFP_CURSES_KEY_HOME, INFP_TOP_HOME },
                { INFP_CURSES_KEY_END, INFP_TOP_END },
                { INFP_CURSES_KEY_SUSPEND, 26 },
                { INFP_CURSES_KEY_ENTER, INFP_TOP_ENTER },
                { INFP_CURSES_KEY_BACKSPACE, INFP_TOP_BACKSPACE },
        };
        unsigned key = 0;
        const int r = screen->lib.wget_wch(*screen->lib.stdscr, &key);

        if (r < 0)
                return -1;
        if (r == INFP_CURSES_KEY_CODE_YES) {
                for (unsigned i = 0; i < INFP_COUNT(keys); i++)
                        if (keys[i].code == key)
                                return keys[i].key;
                return 0;
        }
        switch (key) {
        case '\r':
        case '\n':
                return INFP_TOP_ENTER;
        case '\033':
                return INFP_TOP_ESCAPE;
        case '\b':
        case 0x7F:
                return INFP_TOP_BACKSPACE;
        case '\t':
                return INFP_TOP_TAB;
        default:
                return (int) key;
        }
}
