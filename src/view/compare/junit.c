/* JUnit's XML as CI systems read it: a test case for each condition; one that cannot be decided is skipped. */
#include <limits.h>

#include "view/compare/parts.h"
#include "view/markup.h"

static unsigned count(const struct infp_compare_view *view, enum infp_gate_state state)
{
        unsigned n = 0;

        for (unsigned i = 0; i < view->n_gates; i++)
                n += view->gates[i].state == state;
        return n;
}

static void put_text(struct infp_str *out, const char *text)
{
        infp_markup_text(out, text, INT_MAX, false);
}

static void put_case(struct infp_str *out, const struct infp_gate_result *result)
{
        static const char *const elements[] = { [INFP_GATE_PASSED] = "system-out",
                                                [INFP_GATE_FAILED] = "failure",
                                                [INFP_GATE_UNDECIDED] = "skipped",
                                                [INFP_GATE_ABSENT] = "error" };
        const char *element = elements[result->state];
        infp_autostr struct infp_str text = { 0 };

        infp_compare_gate(&text, result);
        infp_str_puts(out, "    <testcase classname=\"infprof.compare\" name=\"");
        put_text(out, result->gate->text);
        infp_str_printf(out, " of %c\">\n      <%s", infp_compare_letter(result->side), element);
        if (result->state != INFP_GATE_PASSED) {
                infp_str_puts(out, " message=\"");
                put_text(out, text.data);
                infp_str_puts(out, "\"/>\n");
        } else {
                infp_str_puts(out, ">");
                put_text(out, text.data);
                infp_str_printf(out, "</%s>\n", element);
        }
        infp_str_puts(out, "    </testcase>\n");
}

void infp_compare_junit(struct infp_str *out, const struct infp_compare_view *view)
{
        infp_str_printf(
                out,
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"infprof compare\" "
                "tests=\"%u\" failures=\"%u\" errors=\"%u\" skipped=\"%u\">\n",
                view->n_gates, count(view, INFP_GATE_FAILED), count(view, INFP_GATE_ABSENT),
                count(view, INFP_GATE_UNDECIDED));
        for (unsigned i = 0; i < view->n_gates; i++)
                put_case(out, &view->gates[i]);
        infp_str_puts(out, "  </testsuite>\n</testsuites>\n");
}
