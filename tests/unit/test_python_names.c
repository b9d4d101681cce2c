/* Named Python frames: one of each, equal ids in all runs, and a bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "model/stack_tables.h"
#include "sampler/python/names.h"

static uint64_t add(struct infp_python_names *names, const char *function, const char *file, uint32_t line)
{
        const struct infp_python_name name = { .function = infp_python_names_text(names, function),
                                               .file = infp_python_names_text(names, file),
                                               .line = line,
                                               .first_line = 7 };

        return infp_python_names_add(names, &name);
}

static void a_line_of_a_function_is_a_frame(void **state)
{
        struct infp_python_names names = { 0 };
        const uint64_t one = add(&names, "Model.forward", "/srv/model.py", 12);

        (void) state;
        assert_true(one ==
                    infp_named_frame_id(INFP_FRAME_PYTHON, "/srv/model.py", "Model.forward", "/srv/model.py", 12));
        assert_true(one == add(&names, "Model.forward", "/srv/model.py", 12));
        assert_true(one != add(&names, "Model.forward", "/srv/model.py", 13));
        assert_true(one != add(&names, "Model.forward", "/srv/other.py", 12));
        assert_string_equal(infp_python_names_get(&names, one)->function, "Model.forward");
        assert_string_equal(infp_python_names_get(&names, one)->file, "/srv/model.py");
        assert_int_equal(infp_python_names_get(&names, one)->line, 12);
        assert_int_equal(infp_python_names_get(&names, one)->first_line, 7);
        assert_ptr_equal(infp_python_names_text(&names, "x"), infp_python_names_text(&names, "x"));
        assert_null(infp_python_names_get(&names, one + 1));
        infp_python_names_done(&names);
}

static void a_frame_without_a_name_has_its_address(void **state)
{
        struct infp_python_names names = { 0 };
        const uint64_t one = infp_python_names_add_unnamed(&names, 1, 0x7000);

        (void) state;
        assert_true(one == infp_python_names_add_unnamed(&names, 1, 0x7000));
        assert_true(one != infp_python_names_add_unnamed(&names, 2, 0x7000));
        assert_null(infp_python_names_get(&names, one)->function);
        assert_int_equal(infp_python_names_get(&names, one)->address, 0x7000);
        infp_python_names_done(&names);
}

/* Programs that make code without end: first lines are given up, then functions, and every frame still has an id with a name. */
static void there_is_a_bound(void **state)
{
        struct infp_python_names names = { 0 };
        uint64_t last = 0;
        char function[32];

        (void) state;
        for (uint32_t line = 1; line <= 70000; line++)
                last = add(&names, "generated", "/srv/made.py", line);
        assert_true(last == infp_named_frame_id(INFP_FRAME_PYTHON, "/srv/made.py", "generated", "/srv/made.py", 0));
        for (unsigned i = 0; i < 70000; i++) {
                snprintf(function, sizeof(function), "generated_%u", i);
                last = add(&names, function, "/srv/made.py", 1);
        }
        assert_true(names.by_id.n <= 65537);
        assert_string_equal(infp_python_names_get(&names, last)->function, "[more functions]");
        infp_python_names_done(&names);
}

/* Long texts end before their number does: names that were known stay, new ones share the name of the rest. */
static void there_is_a_bound_of_bytes(void **state)
{
        struct infp_python_names names = { 0 };
        const uint64_t first = add(&names, "Model.forward", "/srv/model.py", 12);
        uint64_t last = 0;
        char function[1000];

        (void) state;
        memset(function, 'f', sizeof(function));
        for (unsigned i = 0; i < 40000; i++) {
                snprintf(function + 900, sizeof(function) - 900, "%u", i);
                last = add(&names, function, "/srv/made.py", 1);
        }
        assert_in_range(names.texts.bytes, 8 << 20, 16 << 20);
        assert_true(names.by_id.n < 20000);
        assert_string_equal(infp_python_names_get(&names, last)->function, "[more functions]");
        assert_string_equal(infp_python_names_get(&names, last)->file, "[python]");
        function[0] = '/';
        assert_true(last == add(&names, "Model.forward", function, 1));
        assert_true(first == add(&names, "Model.forward", "/srv/model.py", 12));
        assert_true(last != add(&names, "Model.forward", "/srv/model.py", 13));
        infp_python_names_done(&names);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_line_of_a_function_is_a_frame),
                cmocka_unit_test(a_frame_without_a_name_has_its_address),
                cmocka_unit_test(there_is_a_bound),
                cmocka_unit_test(there_is_a_bound_of_bytes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
