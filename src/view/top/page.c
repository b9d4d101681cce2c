#include "view/top/page.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/human.h"
#include "base/mem.h"
#include "base/time.h"
#include "model/stack_tables.h"
#include "view/format.h"
#include "view/top/keys.h"

const char *const infp_watch_by_names[INFP_WATCH_BYS] = { "functions", "lines", "threads" };
const char *const infp_watch_sort_names[INFP_WATCH_SORTS] = { "self", "total", "name" };

enum {
        WIDEST = 1000,
        WITH_SINCE = 60, /* columns from which on there is room for the sums since the start */
        WITH_PLACE = 66,
        FULL_HEIGHT = 16, /* a lower terminal has one line above the rows, and the heads */
        NUMBER = 6,       /* "100.0 " */
};

/* One page that is being made. */
struct making {
        struct infp_top_page *page;
        struct infp_watch *watch;
        struct infp_top_choice *choice;
        const struct infp_top_about *about;
        struct infp_watch_view view;
        struct infp_watch_figures figures;
        struct infp_watch_sampling sampling;
        unsigned width, height;
        bool has_failed;
};

void infp_top_page_done(struct infp_top_page *page)
{
        for (unsigned i = 0; i < page->cap; i++)
                infp_str_done(&page->lines[i].text);
        free(page->lines);
        *page = (struct infp_top_page){ 0 };
}

/* The next line, whose memory is that of an earlier page. */
static struct infp_top_line *new_line(struct making *m)
{
        static struct infp_top_line none;
        struct infp_top_page *page = m->page;
        const unsigned cap = page->cap;

        if (!INFP_MAKE_ROOM(page->lines, page->n, page->cap, 64)) {
                m->has_failed = true;
                infp_str_clear(&none.text);
                return &none;
        }
        if (page->cap > cap)
                memset(page->lines + cap, 0, (page->cap - cap) * sizeof(*page->lines));
        infp_str_clear(&page->lines[page->n].text);
        page->lines[page->n].n = page->lines[page->n].used = 0;
        return &page->lines[page->n++];
}

/* Adds a part, escaped, and cut at the width of the page or at `most` columns (0: no limit of its own). */
static void put(struct making *m, struct infp_top_line *line, enum infp_top_style style, unsigned most,
                const char *text)
{
        infp_autostr struct infp_str tame = { 0 };
        const unsigned left = line->used < m->width ? m->width - line->used : 0;
        unsigned used;
        size_t size;

        if (!text || !*text || line->n == INFP_TOP_PARTS) /* bound: a line has fewer parts */
                return;
        infp_text_tame(&tame, text, strlen(text));
        size = tame.data ? infp_text_fit(tame.data, tame.size, most && most < left ? most : left, &used) : 0;
        if (!size)
                return;
        infp_str_put(&line->text, tame.data, size);
        line->used += used;
        line->parts[line->n].end = line->text.size;
        line->parts[line->n++].style = style;
}

static void putf(struct making *m, struct infp_top_line *line, enum infp_top_style style, const char *format, ...)
        __attribute__((format(printf, 4, 5)));

static void putf(struct making *m, struct infp_top_line *line, enum infp_top_style style, const char *format, ...)
{
        infp_autostr struct infp_str text = { 0 };
        va_list ap;

        va_start(ap, format);
        infp_str_vprintf(&text, format, ap);
        va_end(ap);
        put(m, line, style, 0, text.data);
}

/* Blanks up to a column. */
static void pad(struct making *m, struct infp_top_line *line, enum infp_top_style style, unsigned column)
{
        if (line->used < column)
                putf(m, line, style, "%*s", (int) (column - line->used), "");
}

static struct human share(double part, double whole)
{
        return whole > 0 ? infp_fixed(100 * part / whole, 1) : (struct human){ "-" };
}

static struct human clock_of(const struct making *m, uint64_t t_ns)
{
        const time_t t = (time_t) (((int64_t) t_ns + m->about->unix_minus_mono) / (int64_t) INFP_NS_PER_S);
        struct human ret = { "" };
        struct tm tm;

        if (localtime_r(&t, &tm))
                strftime(ret.text, sizeof(ret.text), "%H:%M:%S", &tm);
        return ret;
}

static void put_title(struct making *m)
{
        struct infp_top_line *line = new_line(m);
        const uint64_t newest = infp_watch_newest_ns(m->watch);
        const struct human at = clock_of(m, m->view.t1_ns);

        putf(m, line, INFP_TOP_BOLD, "infprof top %s  ", at.text);
        if (m->about->is_over)
                put(m, line, INFP_TOP_WARN, 0, "[ended] ");
        if (m->choice->moment_ns)
                putf(m, line, INFP_TOP_WARN, "[%s, %s s ago] ", m->choice->is_paused ? "paused" : "frozen",
                     infp_fixed((double) (newest - m->view.t1_ns) / (double) INFP_NS_PER_S, 0).text);
        if (m->choice->is_saved)
                put(m, line, INFP_TOP_BOLD, 0, "[kept] ");
        put(m, line, INFP_TOP_PLAIN, 0, m->about->title);
}

/* "3.2 of 7.7 GiB" */
static void put_of(struct making *m, struct infp_top_line *line, double used, double total)
{
        static const double gib = 1 << 30;

        if (total >= gib) {
                putf(m, line, INFP_TOP_PLAIN, "%s of %s GiB", infp_fixed(used / gib, 1).text,
                     infp_fixed(total / gib, 1).text);
                return;
        }
        putf(m, line, INFP_TOP_PLAIN, "%s of %s", infp_human(used, "bytes", "bytes", false).text,
             infp_human(total, "bytes", "bytes", false).text);
}

static void put_host(struct making *m)
{
        const struct infp_watch_figures *f = &m->figures;
        struct infp_top_line *line = new_line(m);

        if (!isnan(f->tree_cores) || !isnan(f->tree_rss)) {
                putf(m, line, INFP_TOP_BOLD, "target ");
                putf(m, line, INFP_TOP_PLAIN, "%s cores, %s", infp_fixed(f->tree_cores, 2).text,
                     infp_human(f->tree_rss, "bytes", "bytes", false).text);
                if (f->processes > 1)
                        putf(m, line, INFP_TOP_PLAIN, ", %s processes", infp_number(f->processes).text);
                if (!isnan(f->threads))
                        putf(m, line, INFP_TOP_PLAIN, ", %s thread%s", infp_number(f->threads).text,
                             f->threads > 1 ? "s" : "");
                put(m, line, INFP_TOP_PLAIN, 0, "   ");
        }
        put(m, line, INFP_TOP_BOLD, 0, "host ");
        putf(m, line, INFP_TOP_PLAIN, "%s %% of %s CPU%s, ",
             f->cores > 0 ? infp_fixed(100 * f->host_cores / f->cores, 0).text : "-", infp_fixed(f->cores, 0).text,
             f->cores < 1.5 ? "" : "s");
        put_of(m, line, f->memory_total - f->memory_available, f->memory_total);
}

static void put_figure(struct making *m, struct infp_top_line *line, double v, const char *before, const char *after)
{
        if (!isnan(v))
                putf(m, line, INFP_TOP_PLAIN, ", %s%s%s", before, infp_number(v).text, after);
}

static void put_engine(struct making *m)
{
        const struct infp_watch_figures *f = &m->figures;
        struct infp_top_line *line;

        if (!f->n_engines)
                return;
        line = new_line(m);
        put(m, line, INFP_TOP_BOLD, 0, f->engine ? f->engine : "engine");
        if (f->n_engines > 1)
                putf(m, line, INFP_TOP_PLAIN, " (%u engines)", f->n_engines);
        putf(m, line, INFP_TOP_PLAIN, " %s tokens/s", infp_number(f->tokens_s).text);
        put_figure(m, line, f->prompt_tokens_s, "", " of prompts");
        put_figure(m, line, f->running, "", " running");
        put_figure(m, line, f->waiting, "", " waiting");
        put_figure(m, line, 100 * f->kv_share, "KV cache ", " %");
        if (f->model)
                putf(m, line, INFP_TOP_DIM, "  %s", f->model);
}

static void put_gpus(struct making *m)
{
        struct infp_top_line *line;

        if (!m->figures.n_gpus)
                return;
        line = new_line(m);
        for (unsigned i = 0; i < m->figures.n_gpus; i++) {
                const struct infp_watch_gpu *gpu = &m->figures.gpus[i];

                putf(m, line, INFP_TOP_BOLD, "%sGPU %u ", i ? "  " : "", i);
                putf(m, line, INFP_TOP_PLAIN, "%s %%, ", infp_number(gpu->percent).text);
                put_of(m, line, gpu->used, gpu->total);
        }
}

/* The tabs, and what the numbers mean. */
static void put_tabs(struct making *m)
{
        struct infp_top_line *line = new_line(m);
        const struct infp_watch_view *v = &m->view;

        for (int by = 0; by < INFP_WATCH_BYS; by++) {
                putf(m, line, by == (int) m->choice->by ? INFP_TOP_BAR : INFP_TOP_DIM, " %s ", infp_watch_by_names[by]);
                put(m, line, INFP_TOP_PLAIN, 0, " ");
        }
        if (m->choice->has_regex)
                putf(m, line, INFP_TOP_WARN, "/%s: %zu of %zu  ", m->choice->filter, v->n, v->n_all);
        putf(m, line, INFP_TOP_PLAIN, "%s, by %s; last %s s: %s s in %s samples",
             infp_stack_modes[m->choice->mode].name, infp_watch_sort_names[m->choice->sort],
             infp_fixed(v->window_s, v->window_s < 10 ? 1 : 0).text, infp_fixed(v->seconds, 2).text,
             infp_count(v->samples).text);
}

static bool has_since(const struct making *m)
{
        return m->width >= WITH_SINCE;
}

/* Where the last column begins; 0 without one. */
static unsigned place_column(const struct making *m)
{
        const unsigned place = m->width / 4 < 32 ? m->width / 4 : 32;

        return m->width >= WITH_PLACE ? m->width - place : 0;
}

/* Threads of Python are among them, and there is room. */
static bool has_gil(const struct making *m)
{
        for (size_t i = 0; i < m->view.n; i++)
                if (m->view.rows[i].gil_known > 0)
                        return has_since(m);
        return false;
}

/* "waiting for the GIL" fits. */
static unsigned state_width(const struct making *m)
{
        return has_gil(m) && m->width < 100 ? 19 : 26;
}

static void put_heads(struct making *m)
{
        struct infp_top_line *line = new_line(m);
        const unsigned place = place_column(m);

        if (m->choice->by == INFP_WATCH_THREADS) {
                put(m, line, INFP_TOP_BAR, 0, has_since(m) ? "  cpu%   all%" : "  cpu%");
                put(m, line, INFP_TOP_BAR, 0, has_gil(m) ? " gil:wait  held" : "");
                put(m, line, INFP_TOP_BAR, 0, has_since(m) ? "      pid      tid  " : "      tid  ");
                putf(m, line, INFP_TOP_BAR, "%-*s", (int) state_width(m), "state");
                put(m, line, INFP_TOP_BAR, 0, "  thread");
        } else {
                put(m, line, INFP_TOP_BAR, 0, " self% total%");
                if (has_since(m))
                        put(m, line, INFP_TOP_BAR, 0, "  all:self  total");
                put(m, line, INFP_TOP_BAR, 0, m->choice->by == INFP_WATCH_LINES ? "  line" : "  function");
                if (place) {
                        pad(m, line, INFP_TOP_BAR, place);
                        put(m, line, INFP_TOP_BAR, 0, m->choice->by == INFP_WATCH_LINES ? "function" : "object");
                }
        }
        pad(m, line, INFP_TOP_BAR, m->height ? m->width : line->used);
}

static enum infp_top_style style_of(uint8_t kind)
{
        static const enum infp_top_style styles[INFP_FRAME_KINDS] = {
                [INFP_FRAME_NATIVE] = INFP_TOP_NATIVE, [INFP_FRAME_CXX_RUNTIME] = INFP_TOP_CXX,
                [INFP_FRAME_KERNEL] = INFP_TOP_KERNEL, [INFP_FRAME_PYTHON] = INFP_TOP_PYTHON,
                [INFP_FRAME_GO] = INFP_TOP_GO,         [INFP_FRAME_JIT] = INFP_TOP_JIT,
                [INFP_FRAME_VDSO] = INFP_TOP_KERNEL,   [INFP_FRAME_UNKNOWN] = INFP_TOP_UNKNOWN,
        };

        return kind < INFP_FRAME_KINDS ? styles[kind] : INFP_TOP_UNKNOWN;
}

static void put_share(struct making *m, struct infp_top_line *line, enum infp_top_style style, double part,
                      double whole)
{
        putf(m, line, style, "%6s", share(part, whole).text);
}

static void put_code(struct making *m, struct infp_top_line *line, const struct infp_watch_row *row)
{
        const unsigned place = place_column(m);

        put_share(m, line, INFP_TOP_PLAIN, row->self, m->view.seconds);
        put(m, line, INFP_TOP_PLAIN, 0, " ");
        put_share(m, line, INFP_TOP_PLAIN, row->total, m->view.seconds);
        if (has_since(m)) {
                put(m, line, INFP_TOP_DIM, 0, "    ");
                put_share(m, line, INFP_TOP_DIM, row->since_self, m->view.since_used);
                put(m, line, INFP_TOP_DIM, 0, " ");
                put_share(m, line, INFP_TOP_DIM, row->since_total, m->view.since_used);
        }
        put(m, line, INFP_TOP_PLAIN, 0, "  ");
        put(m, line, style_of(row->kind), place ? place - line->used - 1 : 0, row->name ? row->name : "[unknown]");
        if (!place || !row->place)
                return;
        pad(m, line, INFP_TOP_PLAIN, place);
        if (row->kind == INFP_FRAME_PYTHON && row->line > 0 && m->choice->by == INFP_WATCH_FUNCTIONS)
                putf(m, line, INFP_TOP_DIM, "%s:%lld", row->place, (long long) row->line);
        else
                put(m, line, INFP_TOP_DIM, 0, row->place);
}

static struct human number_of(int64_t n)
{
        struct human ret;

        snprintf(ret.text, sizeof(ret.text), "%lld", (long long) n);
        return ret;
}

static void put_gil(struct making *m, struct infp_top_line *line, const struct infp_watch_row *row)
{
        if (!(row->gil_known > 0)) {
                putf(m, line, INFP_TOP_PLAIN, "%9s %5s", "-", "-");
                return;
        }
        putf(m, line, row->gil_waits > 0.1 * row->gil_known ? INFP_TOP_BOLD : INFP_TOP_PLAIN, "%9s",
             share(row->gil_waits, row->gil_known).text);
        putf(m, line, INFP_TOP_PLAIN, " %5s", share(row->gil_holds, row->gil_known).text);
}

static void put_thread(struct making *m, struct infp_top_line *line, const struct infp_watch_row *row)
{
        const unsigned state = state_width(m);
        unsigned at;

        put_share(m, line, INFP_TOP_PLAIN, row->total, m->view.window_s);
        if (has_since(m)) {
                put(m, line, INFP_TOP_DIM, 0, " ");
                put_share(m, line, INFP_TOP_DIM, row->since_total, m->view.since_s);
                if (has_gil(m))
                        put_gil(m, line, row);
                putf(m, line, INFP_TOP_PLAIN, " %8s", row->pid > 0 ? number_of(row->pid).text : "-");
        }
        putf(m, line, INFP_TOP_PLAIN, " %8lld  ", (long long) row->tid);
        at = line->used + state;
        put(m, line, row->place && strcmp(row->place, "running") == 0 ? INFP_TOP_BOLD : INFP_TOP_DIM, state,
            row->place ? row->place : "-");
        pad(m, line, INFP_TOP_PLAIN, at);
        putf(m, line, INFP_TOP_PLAIN, "  %s", row->name ? row->name : "-");
        if (row->process && row->name && strcmp(row->process, row->name) != 0)
                putf(m, line, INFP_TOP_DIM, " (%s)", row->process);
}

/* Why there is nothing to show. */
static void put_nothing(struct making *m)
{
        struct infp_top_line *line = new_line(m);

        if (m->choice->has_regex && m->view.n_all) {
                put(m, line, INFP_TOP_DIM, 0, "  Nothing matches the filter.");
                return;
        }
        if (m->sampling.problem && !m->view.since_samples) {
                putf(m, line, INFP_TOP_WARN, "  %s", m->sampling.problem);
                if (m->sampling.fix)
                        putf(m, new_line(m), INFP_TOP_WARN, "  %s", m->sampling.fix);
                return;
        }
        if (m->choice->mode == INFP_STACK_PYTHON && !m->sampling.has_mode)
                put(m, line, INFP_TOP_WARN, 0,
                    "  This run has no profile of Python frames alone: where they could be read they are in mode cpu.");
        else if (!m->sampling.has_mode)
                putf(m, line, INFP_TOP_WARN, "  This run has no samples of mode %s (record --%s).",
                     infp_stack_modes[m->choice->mode].name, infp_stack_modes[m->choice->mode].name);
        else if (m->choice->by == INFP_WATCH_LINES && m->view.since_samples)
                put(m, line, INFP_TOP_DIM, 0,
                    "  No line is known: programs have lines when they are compiled with -g.");
        else
                put(m, line, INFP_TOP_DIM, 0, "  No sample: the target used no CPU time.");
}

static void put_rows(struct making *m, size_t room)
{
        const size_t most = m->view.n > room ? m->view.n - room : 0;

        m->choice->scroll = m->choice->scroll > most ? most : m->choice->scroll;
        if (!m->view.n)
                put_nothing(m);
        for (size_t i = m->choice->scroll; i < m->view.n && i < m->choice->scroll + room; i++) {
                struct infp_top_line *line = new_line(m);

                if (m->choice->by == INFP_WATCH_THREADS)
                        put_thread(m, line, &m->view.rows[i]);
                else
                        put_code(m, line, &m->view.rows[i]);
        }
}

static void put_help(struct making *m, unsigned room)
{
        for (unsigned i = 0; infp_top_helps[i].keys && i < room; i++) {
                struct infp_top_line *line = new_line(m);

                putf(m, line, INFP_TOP_BOLD, " %-20s", infp_top_helps[i].keys);
                put(m, line, INFP_TOP_PLAIN, 0, infp_top_helps[i].what);
        }
}

/* The last line of a terminal. */
static void put_foot(struct making *m)
{
        struct infp_top_line *line;
        const uint64_t left_out = infp_watch_left_out(m->watch);

        while (m->page->n + 1 < m->height && !m->has_failed)
                new_line(m);
        line = new_line(m);
        if (m->choice->is_typing)
                putf(m, line, INFP_TOP_BOLD, "/%s_", m->choice->typed);
        else if (m->choice->message[0])
                put(m, line, INFP_TOP_WARN, 0, m->choice->message);
        else if (left_out)
                putf(m, line, INFP_TOP_WARN, "%s samples were left out: too many different stacks",
                     infp_count(left_out).text);
        else
                put(m, line, INFP_TOP_DIM, 0,
                    m->about->is_over ? "The recording has ended. q: quit  w: keep it  ?: help"
                                      : "?: help  f l t: tabs  s o n: sort  /: filter  p: pause  Left: back  q: quit");
}

static bool has_taken(const struct infp_watch *watch, enum infp_stack_mode mode, double at_least)
{
        struct infp_watch_sampling sampling;

        infp_watch_sampling(watch, mode, &sampling);
        return sampling.taken > at_least;
}

/* Threads are listed by their CPU time: where there are no perf events Python's reads stand for it. */
static enum infp_stack_mode threads_mode(const struct infp_watch *watch)
{
        return !has_taken(watch, INFP_STACK_CPU, 0) && has_taken(watch, INFP_STACK_PYTHON, 0) ? INFP_STACK_PYTHON
                                                                                              : INFP_STACK_CPU;
}

void infp_top_settle(struct infp_top_choice *choice, const struct infp_watch *watch)
{
        struct infp_watch_sampling native;

        infp_watch_sampling(watch, INFP_STACK_CPU, &native);
        if (choice->is_mode_chosen || !has_taken(watch, INFP_STACK_PYTHON, native.taken > 0 ? native.taken / 2 : 0))
                return;
        choice->mode = INFP_STACK_PYTHON;
        choice->is_mode_chosen = true;
}

struct infp_watch_query infp_top_query(const struct infp_top_choice *choice, const struct infp_watch *watch,
                                       enum infp_watch_by by)
{
        const bool is_threads = by == INFP_WATCH_THREADS;

        return (struct infp_watch_query){
                .by = by,
                .mode = is_threads ? threads_mode(watch) : choice->mode,
                .sort = is_threads && choice->sort == INFP_WATCH_SELF ? INFP_WATCH_TOTAL : choice->sort,
                .t1_ns = choice->moment_ns,
                .window_ns = choice->window_ns,
                .filter = choice->has_regex ? &choice->regex : NULL,
        };
}

static int make(struct making *m)
{
        const struct infp_top_choice *choice = m->choice;
        const struct infp_watch_query query = infp_top_query(choice, m->watch, choice->by);
        unsigned foot = m->height > 2;

        infp_watch_figures(m->watch, choice->moment_ns, choice->window_ns, &m->figures);
        infp_watch_sampling(m->watch, query.mode, &m->sampling);
        INFP_TRY(infp_watch_view(m->watch, &query, &m->view));
        put_title(m);
        if (!m->height || m->height >= FULL_HEIGHT) {
                put_host(m);
                put_engine(m);
                put_gpus(m);
        }
        put_tabs(m);
        put_heads(m);
        m->page->rows = m->height > m->page->n + foot ? m->height - m->page->n - foot : 0;
        if (!choice->is_help && m->about->max_rows && m->about->max_rows < m->page->rows)
                m->page->rows = (unsigned) m->about->max_rows;
        if (choice->is_help)
                put_help(m, m->page->rows);
        else
                put_rows(m, m->height ? m->page->rows : m->about->max_rows);
        if (foot)
                put_foot(m);
        return m->has_failed ? -ENOMEM : 0;
}

int infp_top_page_make(struct infp_top_page *page, struct infp_watch *watch, struct infp_top_choice *choice,
                       const struct infp_top_about *about, unsigned width, unsigned height)
{
        struct making m = { .page = page,
                            .watch = watch,
                            .choice = choice,
                            .about = about,
                            .width = width && width < WIDEST ? width : WIDEST,
                            .height = height };

        page->n = page->rows = 0;
        return make(&m);
}
