/* The live view's model and pages: a run that grows while it is read, added up by hand. */
#include "stack_rows.h"

#include <math.h>
#include <regex.h>

#include "analyze/watch/watch.h"
#include "view/top/keys.h"
#include "view/top/page.h"

static struct infp_watch *open_watch(struct sample_run *s)
{
        struct infp_watch *watch = NULL;

        sample_check(s, infp_watch_new(s->run, 600 * S, &watch, &s->err));
        return watch;
}

static void read_on(struct sample_run *s, struct infp_watch *watch)
{
        sample_flush(s);
        sample_check(s, infp_watch_read(watch, &s->err));
}

static struct infp_watch_view view_of(struct infp_watch *watch, enum infp_watch_by by, enum infp_stack_mode mode,
                                      uint64_t t1_ns, uint64_t window_ns)
{
        const struct infp_watch_query query = { .by = by, .mode = mode, .t1_ns = t1_ns, .window_ns = window_ns };
        struct infp_watch_view view;

        assert_int_equal(infp_watch_view(watch, &query, &view), 0);
        return view;
}

static const struct infp_watch_row *row_of(const struct infp_watch_view *view, const char *name)
{
        for (size_t i = 0; i < view->n; i++)
                if (view->rows[i].name && strcmp(view->rows[i].name, name) == 0)
                        return &view->rows[i];
        return NULL;
}

static bool is_about(double a, double b)
{
        return fabs(a - b) < 1e-6;
}

static void test_known(void **state)
{
        struct sample_run *s = stack_begin();
        struct infp_watch *watch = open_watch(s);
        struct infp_watch_view view;
        const struct infp_watch_row *row;

        (void) state;
        put_known(s);
        read_on(s, watch);
        assert_int_equal(infp_watch_newest_ns(watch), 6 * S);
        view = view_of(watch, INFP_WATCH_FUNCTIONS, INFP_STACK_CPU, 0, 100 * S);
        assert_int_equal(view.samples, 13);
        assert_true(is_about(view.seconds, 0.13));
        assert_true(is_about(view.window_s, 4)); /* the run is no older */
        row = row_of(&view, "helper");
        assert_true(row && is_about(row->self, 0.03) && is_about(row->total, 0.03));
        assert_string_equal(row->place, "a.out");
        row = row_of(&view, "work"); /* a recursion counts once */
        assert_true(row && is_about(row->self, 0.07) && is_about(row->total, 0.10));
        row = row_of(&view, "[lib.so]");
        assert_true(row && row->is_unnamed && is_about(row->self, 0.01));
        row = row_of(&view, "main");
        assert_true(row && is_about(row->self, 0.01) && is_about(row->total, 0.13));
        assert_true(is_about(row->since_total, 0.13));
        view = view_of(watch, INFP_WATCH_LINES, INFP_STACK_CPU, 0, 100 * S);
        row = row_of(&view, "work.c:22");
        assert_true(row && is_about(row->self, 0.07) && is_about(row->total, 0.07));
        assert_string_equal(row->place, "work");
        /* An earlier moment: (2 s, 4 s]. */
        view = view_of(watch, INFP_WATCH_FUNCTIONS, INFP_STACK_CPU, 4 * S, 2 * S);
        assert_int_equal(view.samples, 6);
        row = row_of(&view, "helper");
        assert_true(row && row->self == 0 && is_about(row->since_self, 0.03));
        infp_watch_free(watch);
        sample_free(s);
}

/* Rows of a segment that grows, of the next one, and names and callers that come after their samples. */
static void test_grows(void **state)
{
        struct sample_run *s = stack_begin();
        struct infp_watch *watch = open_watch(s);
        const uint64_t process = put_process(s, 42, "server"), thread = put_thread(s, process, 43, "worker");
        const uint64_t f_main = put_frame(s, INFP_FRAME_NATIVE, "/bin/a", 1, false);
        const uint64_t f_leaf = put_frame(s, INFP_FRAME_JIT, "//anon", 2, false);
        const uint64_t main_ = infp_stack_id(0, f_main), leaf = infp_stack_id(main_, f_leaf);
        struct stack_sample is = { .t_ns = 2 * S,
                                   .process = process,
                                   .thread = thread,
                                   .tid = 43,
                                   .mode = "cpu",
                                   .weight = 0.5,
                                   .stack = leaf };
        struct infp_watch_view view;
        struct infp_watch_frame frame;

        (void) state;
        put_node(s, leaf, main_, f_leaf); /* its caller is not known yet */
        put_samples(s, &is, 2);
        read_on(s, watch);
        view = view_of(watch, INFP_WATCH_FUNCTIONS, INFP_STACK_CPU, 0, 10 * S);
        assert_int_equal(view.n, 1);
        assert_string_equal(view.rows[0].name, "[anon]");
        assert_false(infp_watch_nameless(watch, &frame)); /* the recorder names code made at run time */
        put_stack(s, 0, f_main);
        put_symbol(s, f_leaf, 0, "jitted", "/x.py", 3, 1, "jitdump");
        is.t_ns = 3 * S;
        put_samples(s, &is, 1);
        read_on(s, watch);
        sample_rotate(s, 2);
        put_stack(s, 0, f_main); /* entities are repeated in each segment */
        is.t_ns = 4 * S;
        put_samples(s, &is, 1);
        read_on(s, watch);
        view = view_of(watch, INFP_WATCH_FUNCTIONS, INFP_STACK_CPU, 0, 10 * S);
        assert_int_equal(view.samples, 4);
        assert_true(row_of(&view, "jitted") && is_about(row_of(&view, "jitted")->self, 2));
        assert_true(is_about(row_of(&view, "jitted")->since_self, 2)); /* also what was counted before the name came */
        assert_true(infp_watch_nameless(watch, &frame));
        assert_int_equal(frame.id, f_main);
        assert_string_equal(frame.object, "/bin/a");
        assert_false(infp_watch_nameless(watch, &frame)); /* each once */
        infp_watch_set_name(watch, f_main,
                            &(struct infp_watch_name){ .name = "main", .file = "/m.c", .line = 7, .from = "dwarf" }, 1);
        view = view_of(watch, INFP_WATCH_FUNCTIONS, INFP_STACK_CPU, 0, 10 * S);
        assert_true(row_of(&view, "main") && is_about(row_of(&view, "main")->since_total, 2));
        assert_null(row_of(&view, "[a]"));
        infp_watch_reset(watch);
        is.t_ns = 5 * S;
        put_samples(s, &is, 1);
        read_on(s, watch);
        view = view_of(watch, INFP_WATCH_FUNCTIONS, INFP_STACK_CPU, 0, 10 * S);
        assert_true(is_about(row_of(&view, "main")->since_total, 0.5) && is_about(row_of(&view, "main")->total, 2.5));
        assert_int_equal(view.since_samples, 1);
        infp_watch_free(watch);
        sample_free(s);
}

static void test_threads(void **state)
{
        struct sample_run *s = stack_begin();
        struct infp_watch *watch = open_watch(s);
        const uint64_t process = put_process(s, 42, "server");
        const uint64_t a = put_thread(s, process, 42, "server"), b = put_thread(s, process, 43, "worker");
        struct stack_sample busy = {
                .t_ns = 2 * S, .process = process, .thread = a, .tid = 42, .mode = "cpu", .weight = 1
        };
        struct stack_sample waits = { .t_ns = 3 * S,
                                      .process = process,
                                      .thread = b,
                                      .tid = 43,
                                      .mode = "wall",
                                      .weight = 1,
                                      .state = "sleeping in futex" };
        struct infp_watch_view view;

        (void) state;
        put_samples(s, &busy, 1);
        put_samples(s, &waits, 1);
        read_on(s, watch);
        view = view_of(watch, INFP_WATCH_THREADS, INFP_STACK_CPU, 0, 10 * S);
        assert_int_equal(view.n, 2);
        assert_string_equal(view.rows[0].name, "server");
        assert_int_equal(view.rows[0].tid, 42);
        assert_int_equal(view.rows[0].pid, 42);
        assert_true(is_about(view.rows[0].total, 1) && !view.rows[0].place);
        assert_string_equal(view.rows[1].place, "sleeping in futex");
        waits.t_ns = 20 * S; /* the other one has ended */
        put_samples(s, &waits, 1);
        read_on(s, watch);
        view = view_of(watch, INFP_WATCH_THREADS, INFP_STACK_CPU, 0, 10 * S);
        assert_int_equal(view.n, 1);
        assert_string_equal(view.rows[0].name, "worker");
        infp_watch_free(watch);
        sample_free(s);
}

/* A run that is no recorder's: a stack that is its own caller, and weights that are not numbers. */
static void test_broken(void **state)
{
        struct sample_run *s = stack_begin();
        struct infp_watch *watch = open_watch(s);
        const uint64_t f_main = put_frame(s, INFP_FRAME_NATIVE, "/bin/a", 1, false);
        struct stack_sample is = { .t_ns = 2 * S, .tid = 1, .mode = "cpu", .weight = 1, .stack = 77 };
        struct infp_watch_view view;

        (void) state;
        put_node(s, 77, 78, f_main);
        put_node(s, 78, 77, f_main);
        put_samples(s, &is, 1);
        is.weight = INFINITY, put_samples(s, &is, 1);
        is.stack = 0, is.weight = 1, put_samples(s, &is, 1);
        is.mode = "no mode", put_samples(s, &is, 1);
        read_on(s, watch);
        view = view_of(watch, INFP_WATCH_FUNCTIONS, INFP_STACK_CPU, 0, 10 * S);
        assert_int_equal(view.samples, 3);
        assert_int_equal(view.n, 1);
        assert_true(is_about(view.rows[0].self, 2) &&
                    is_about(view.rows[0].total, 2)); /* without a weight each is one */
        infp_watch_free(watch);
        sample_free(s);
}

static char *text_of(const struct infp_top_page *page)
{
        static char text[1 << 16];
        size_t at = 0;

        for (unsigned i = 0; i < page->n; i++)
                at += (size_t) snprintf(text + at, sizeof(text) - at, "%s\n",
                                        page->lines[i].text.size ? page->lines[i].text.data : "");
        return text;
}

/* Any size of terminal; no control character of a name; no line wider than the terminal. */
static void test_pages(void **state)
{
        struct sample_run *s = stack_begin();
        struct infp_watch *watch = open_watch(s);
        const uint64_t evil = put_frame(s, INFP_FRAME_PYTHON, "/tmp/\033]0;x\a.py", 1, false);
        struct stack_sample is = {
                .t_ns = 2 * S, .tid = 1, .mode = "cpu", .weight = 1, .stack = put_stack(s, 0, evil)
        };
        struct infp_top_choice choice = { .window_ns = 10 * S };
        const struct infp_top_about about = { .title = "a\033[2Jb \u202e \xff", .save = "/out", .max_rows = 20 };
        struct infp_top_page page = { 0 };
        char *text;

        (void) state;
        put_symbol(s, evil, 0, "\033[31mred\n\x9b", "/x.py", 3, 1, "python");
        put_samples(s, &is, 1);
        read_on(s, watch);
        for (int by = 0; by < INFP_WATCH_BYS; by++)
                for (unsigned width = 1; width < 130; width += 3)
                        for (unsigned height = 0; height < 30; height += 2) {
                                choice.by = (enum infp_watch_by) by;
                                assert_int_equal(infp_top_page_make(&page, watch, &choice, &about, width, height), 0);
                                assert_true(!height || page.n <= (height > 5 ? height : 5));
                                text = text_of(&page);
                                for (unsigned i = 0; i < page.n; i++)
                                        assert_true(page.lines[i].used <= width);
                                for (const char *c = text; *c; c++)
                                        assert_true((unsigned char) *c >= ' ' || *c == '\n');
                        }
        choice.by = INFP_WATCH_FUNCTIONS;
        assert_int_equal(infp_top_page_make(&page, watch, &choice, &about, 100, 24), 0);
        text = text_of(&page);
        assert_non_null(strstr(text, "\\x1B[31mred\\n\\x9B"));
        assert_non_null(strstr(text, "a\\x1B[2Jb \\xE2\\x80\\xAE \\xFF"));
        infp_top_page_done(&page);
        infp_watch_free(watch);
        sample_free(s);
}

static void press(struct infp_top_choice *choice, struct infp_watch *watch, const char *keys)
{
        const struct infp_top_about about = { .title = "", .save = "/out" };

        for (; *keys; keys++)
                infp_top_press(choice, watch, &about, *keys == '\n' ? (int) INFP_TOP_ENTER : (signed char) *keys, 10);
}

static void test_keys(void **state)
{
        struct sample_run *s = stack_begin();
        struct infp_watch *watch = open_watch(s);
        const struct infp_top_about about = { .title = "" };
        struct infp_top_choice choice = { .window_ns = 10 * S };

        (void) state;
        put_known(s);
        read_on(s, watch);
        press(&choice, watch, "lom");
        assert_int_equal(choice.by, INFP_WATCH_LINES);
        assert_int_equal(choice.sort, INFP_WATCH_TOTAL);
        assert_int_equal(choice.mode, INFP_STACK_WALL);
        press(&choice, watch, "++");
        assert_int_equal(choice.window_ns, 30 * S);
        press(&choice, watch, "-----------");
        assert_int_equal(choice.window_ns, S);
        press(&choice, watch, "p");
        assert_true(choice.is_paused && choice.moment_ns == 6 * S);
        infp_top_press(&choice, watch, &about, INFP_TOP_LEFT, 10);
        assert_int_equal(choice.moment_ns, 5 * S);
        press(&choice, watch, "["); /* no further than what is kept */
        assert_int_equal(choice.moment_ns, infp_watch_oldest_ns(watch));
        press(&choice, watch, "p");
        assert_true(!choice.is_paused && !choice.moment_ns);
        infp_top_press(&choice, watch, &about, INFP_TOP_LEFT, 10);
        infp_top_press(&choice, watch, &about, INFP_TOP_RIGHT, 10);
        assert_int_equal(choice.moment_ns, 0); /* what is new again */
        press(&choice, watch, "/he.*r\n");
        assert_true(choice.has_regex && !choice.is_typing);
        assert_string_equal(choice.filter, "he.*r");
        press(&choice, watch, "/(\n"); /* typed after the old one; not one: the old one stays */
        assert_string_equal(choice.filter, "he.*r");
        assert_true(choice.message[0]);
        infp_top_press(&choice, watch, &about, INFP_TOP_ESCAPE, 10);
        assert_false(choice.has_regex);
        press(&choice, watch, "w");
        assert_true(choice.is_saved);
        press(&choice, watch, "w");
        assert_false(choice.is_saved);
        infp_top_press(&choice, watch, &about, 'w', 10); /* somebody else's run */
        assert_false(choice.is_saved);
        press(&choice, watch, "?q");
        assert_false(choice.is_help);
        assert_int_equal(infp_top_press(&choice, watch, &about, 'q', 10), INFP_TOP_QUIT);
        assert_int_equal(infp_top_press(&choice, watch, &about, 3, 10), INFP_TOP_QUIT);
        assert_int_equal(infp_top_press(&choice, watch, &about, 26, 10), INFP_TOP_STOP);
        press(&choice, watch, "/\303\274"); /* keys are characters, and these are none */
        infp_top_press(&choice, watch, &about, 0xFC, 10);
        assert_string_equal(choice.typed, "\303\274");
        infp_top_press(&choice, watch, &about, INFP_TOP_BACKSPACE, 10);
        assert_string_equal(choice.typed, "");
        infp_top_choice_done(&choice);
        infp_watch_free(watch);
        sample_free(s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_known),  cmocka_unit_test(test_grows), cmocka_unit_test(test_threads),
                cmocka_unit_test(test_broken), cmocka_unit_test(test_pages), cmocka_unit_test(test_keys),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
