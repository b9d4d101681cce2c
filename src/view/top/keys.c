#include "view/top/keys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/regex.h"
#include "base/text.h"
#include "base/time.h"

const struct infp_top_help infp_top_helps[] = {
        { "f l t, Tab", "functions, lines, threads" },
        { "s, o, n", "sort by self, by total, by name" },
        { "m", "time on the CPU, wall-clock time with waits, or Python alone" },
        { "/", "show what matches a regular expression; Esc: all again" },
        { "+ -", "longer, shorter window" },
        { "p, Space", "pause or resume" },
        { "Left Right", "freeze: one second back, forward; [ ] ten seconds" },
        { "Up Down, PgUp PgDn", "scroll; Home: to the top" },
        { "r", "reset the totals" },
        { "w", "keep the run when top ends" },
        { "q", "quit" },
        { NULL, NULL },
};

void infp_top_choice_done(struct infp_top_choice *choice)
{
        if (choice->has_regex)
                regfree(&choice->regex);
        choice->has_regex = false;
}

int infp_top_filter(struct infp_top_choice *choice, const char *text, struct infp_err *err)
{
        regex_t regex;

        if (strlen(text) >= sizeof(choice->filter))
                return infp_fail(err, -EINVAL, "the expression is longer than %zu bytes", sizeof(choice->filter) - 1);
        if (*text)
                INFP_TRY(infp_regex_compile(&regex, text, err));
        infp_top_choice_done(choice);
        if (*text)
                choice->regex = regex;
        choice->has_regex = *text;
        snprintf(choice->filter, sizeof(choice->filter), "%s", text);
        choice->scroll = 0;
        return 0;
}

static void say(struct infp_top_choice *choice, const char *text)
{
        snprintf(choice->message, sizeof(choice->message), "%s", text);
}

/* UTF-8 of a character, at the end of what was typed. */
static void type(struct infp_top_choice *choice, int key)
{
        char bytes[5] = "";
        const size_t size = strlen(choice->typed);

        if (key < ' ' || key == 0x7F)
                return;
        if (key < 0x80) {
                bytes[0] = (char) key;
        } else if (key < 0x800) {
                bytes[0] = (char) (0xC0 | key >> 6);
                bytes[1] = (char) (0x80 | (key & 0x3F));
        } else if (key < 0x10000) {
                bytes[0] = (char) (0xE0 | key >> 12);
                bytes[1] = (char) (0x80 | (key >> 6 & 0x3F));
                bytes[2] = (char) (0x80 | (key & 0x3F));
        } else {
                bytes[0] = (char) (0xF0 | key >> 18);
                bytes[1] = (char) (0x80 | (key >> 12 & 0x3F));
                bytes[2] = (char) (0x80 | (key >> 6 & 0x3F));
                bytes[3] = (char) (0x80 | (key & 0x3F));
        }
        if (size + strlen(bytes) < sizeof(choice->typed))
                memcpy(choice->typed + size, bytes, strlen(bytes) + 1);
}

static void type_back(struct infp_top_choice *choice)
{
        size_t size = strlen(choice->typed);

        while (size && ((unsigned char) choice->typed[--size] & 0xC0) == 0x80)
                ;
        choice->typed[size] = 0;
}

static enum infp_top_does press_typing(struct infp_top_choice *choice, int key)
{
        struct infp_err err = { "" };

        switch (key) {
        case INFP_TOP_ENTER:
                choice->is_typing = false;
                if (infp_top_filter(choice, choice->typed, &err) < 0)
                        say(choice, err.text);
                break;
        case INFP_TOP_ESCAPE:
                choice->is_typing = false;
                break;
        case INFP_TOP_BACKSPACE:
                type_back(choice);
                break;
        default:
                if (key < INFP_TOP_UP)
                        type(choice, key);
        }
        return INFP_TOP_NOTHING;
}

/* Shows another moment, bounded by what is kept. */
static void move(struct infp_top_choice *choice, const struct infp_watch *watch, int64_t seconds)
{
        const uint64_t newest = infp_watch_newest_ns(watch), oldest = infp_watch_oldest_ns(watch);
        const uint64_t now = choice->moment_ns ? choice->moment_ns : newest;
        const uint64_t step = (uint64_t) (seconds < 0 ? -seconds : seconds) * INFP_NS_PER_S;
        uint64_t at = seconds < 0 ? (now > step ? now - step : 1) : now + step;

        at = at < oldest ? oldest : at;
        choice->moment_ns = at >= newest ? (choice->is_paused ? newest : 0) : at;
}

static void pause_or_go_on(struct infp_top_choice *choice, const struct infp_watch *watch)
{
        const bool was_frozen = choice->is_paused || choice->moment_ns;

        choice->is_paused = !was_frozen;
        choice->moment_ns = was_frozen ? 0 : infp_watch_newest_ns(watch);
}

static void change_window(struct infp_top_choice *choice, bool longer)
{
        static const unsigned steps_s[] = { 1, 2, 5, 10, 20, 30, 60, 120, 300 };
        const uint64_t now = choice->window_ns;
        uint64_t best = now;

        for (unsigned i = 0; i < INFP_COUNT(steps_s); i++) {
                const uint64_t step = steps_s[i] * INFP_NS_PER_S;

                if (longer ? step > now && best == now : step < now)
                        best = step;
        }
        choice->window_ns = best;
}

static void save(struct infp_top_choice *choice, const struct infp_top_about *about)
{
        if (!about->save) {
                say(choice, "this run is recorded by another infprof, which keeps it");
                return;
        }
        choice->is_saved = !choice->is_saved;
        snprintf(choice->message, sizeof(choice->message),
                 choice->is_saved ? "the run goes to %.300s when top ends; w again: it does not"
                                  : "the run is not kept",
                 about->save);
}

static void go_to(struct infp_top_choice *choice, enum infp_watch_by by)
{
        choice->by = by;
        choice->scroll = 0;
}

/* Most runs have no Python frames alone. */
static enum infp_stack_mode next_mode(enum infp_stack_mode mode, const struct infp_watch *watch)
{
        const enum infp_stack_mode next = (mode + 1) % INFP_WATCH_MODES;
        struct infp_watch_sampling sampling;

        infp_watch_sampling(watch, next, &sampling);
        return next == INFP_STACK_PYTHON && !sampling.has_mode ? next + 1 : next;
}

static enum infp_top_does press_letter(struct infp_top_choice *choice, struct infp_watch *watch,
                                       const struct infp_top_about *about, int key)
{
        switch (key) {
        case 'q':
        case 3: /* Ctrl-C */
                return INFP_TOP_QUIT;
        case 26: /* Ctrl-Z */
                return INFP_TOP_STOP;
        case 12: /* Ctrl-L */
                return INFP_TOP_REDRAW;
        case 'f':
                go_to(choice, INFP_WATCH_FUNCTIONS);
                break;
        case 'l':
                go_to(choice, INFP_WATCH_LINES);
                break;
        case 't':
                go_to(choice, INFP_WATCH_THREADS);
                break;
        case 's':
                choice->sort = INFP_WATCH_SELF;
                break;
        case 'o':
                choice->sort = INFP_WATCH_TOTAL;
                break;
        case 'n':
                choice->sort = INFP_WATCH_NAME;
                break;
        case 'm':
                choice->mode = next_mode(choice->mode, watch);
                choice->is_mode_chosen = true;
                break;
        case '/':
                choice->is_typing = true;
                snprintf(choice->typed, sizeof(choice->typed), "%s", choice->filter);
                break;
        case '+':
        case '=':
        case '-':
                change_window(choice, key != '-');
                break;
        case 'p':
        case ' ':
                pause_or_go_on(choice, watch);
                break;
        case '[':
        case ']':
                move(choice, watch, key == '[' ? -10 : 10);
                break;
        case 'r':
                infp_watch_reset(watch);
                say(choice, "totals reset");
                break;
        case 'w':
                save(choice, about);
                break;
        case '?':
        case 'h':
                choice->is_help = true;
                break;
        default:
                break;
        }
        return INFP_TOP_NOTHING;
}

static void scroll(struct infp_top_choice *choice, int64_t by)
{
        const int64_t at = (int64_t) choice->scroll + by;

        choice->scroll = at > 0 ? (size_t) at : 0;
}

enum infp_top_does infp_top_press(struct infp_top_choice *choice, struct infp_watch *watch,
                                  const struct infp_top_about *about, int key, unsigned rows)
{
        if (choice->is_typing && key != 3 && key != 26)
                return press_typing(choice, key);
        choice->message[0] = 0;
        if (choice->is_help && key != 3 && key != 26) {
                choice->is_help = false;
                return INFP_TOP_NOTHING;
        }
        switch (key) {
        case INFP_TOP_UP:
        case INFP_TOP_DOWN:
                scroll(choice, key == INFP_TOP_UP ? -1 : 1);
                break;
        case INFP_TOP_PAGE_UP:
        case INFP_TOP_PAGE_DOWN:
                scroll(choice, key == INFP_TOP_PAGE_UP ? -(int64_t) rows : (int64_t) rows);
                break;
        case INFP_TOP_HOME:
                choice->scroll = 0;
                break;
        case INFP_TOP_END:
                choice->scroll = SIZE_MAX / 4; /* the page bounds it */
                break;
        case INFP_TOP_LEFT:
        case INFP_TOP_RIGHT:
                move(choice, watch, key == INFP_TOP_LEFT ? -1 : 1);
                break;
        case INFP_TOP_ESCAPE:
                infp_top_filter(choice, "", NULL);
                break;
        case INFP_TOP_TAB:
                go_to(choice, (enum infp_watch_by)((choice->by + 1) % INFP_WATCH_BYS));
                break;
        default:
                return press_letter(choice, watch, about, key);
        }
        return INFP_TOP_NOTHING;
}
