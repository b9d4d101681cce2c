#include "cli/compare/print.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "cli/output.h"
#include "view/compare/compare.h"

static void put_json(struct infp_json *json, const void *what)
{
        infp_compare_json(json, what);
}

static int print(const struct infp_compare_wants *wants, const struct infp_compare_view *view, struct infp_err *err)
{
        infp_cleanup(infp_output_done) struct infp_output output = INFP_OUTPUT_INIT;

        if (wants->is_json)
                return infp_output_object(wants->path, put_json, view, err);
        INFP_TRY(infp_output_open(&output, wants->path, "csv", err));
        infp_compare_text(&output.out, view);
        return infp_output_finish(&output, err);
}

static int write_file(const char *path, void (*put)(struct infp_str *out, const struct infp_compare_view *view),
                      const struct infp_compare_view *view, struct infp_err *err)
{
        infp_cleanup(infp_output_done) struct infp_output output = INFP_OUTPUT_INIT;

        if (!path)
                return 0;
        INFP_TRY(infp_output_open(&output, path, "csv", err));
        put(&output.out.text, view);
        return infp_output_finish(&output, err);
}

/* The exit code; says what could not be judged. */
static int judge(const struct infp_compare_wants *wants, const struct infp_compare_view *view)
{
        int ret = INFP_EXIT_OK;

        for (unsigned i = 0; i < view->n_gates; i++) {
                const struct infp_gate_result *result = &view->gates[i];

                if (result->state == INFP_GATE_FAILED)
                        return INFP_EXIT_GATE;
                if (result->state == INFP_GATE_ABSENT) {
                        infp_say("%s: --fail-on '%s': not all of these runs have %s, so that it cannot be judged",
                                 wants->verb, result->gate->text, result->gate->name);
                        ret = INFP_EXIT_FAILURE;
                }
                if (result->state == INFP_GATE_UNDECIDED)
                        infp_say("%s: --fail-on '%s': the data cannot decide it; more or longer runs can", wants->verb,
                                 result->gate->text);
        }
        return ret;
}

static int show(const struct infp_compare_wants *wants, const struct infp_compared *compared,
                const struct infp_compare *compare, struct infp_err *err)
{
        struct infp_gate_result gates[INFP_GATES * INFP_COMPARE_SIDES];
        struct infp_compare_view view = { compare, (const char *const *) compared->words, compared->unlike, gates, 0 };

        for (unsigned i = 0; i < wants->n_gates; i++)
                for (unsigned side = 1; side < compare->n_sides; side++)
                        gates[view.n_gates++] = infp_gate_judge(&wants->gates[i],
                                                                wants->n_gates * (compare->n_sides - 1), compare, side);
        INFP_TRY(print(wants, &view, err));
        INFP_TRY(write_file(wants->markdown, infp_compare_markdown, &view, err));
        INFP_TRY(write_file(wants->junit, infp_compare_junit, &view, err));
        return judge(wants, &view);
}

int infp_compare_print(const struct infp_compare_wants *wants)
{
        infp_cleanup(infp_compared_done) struct infp_compared compared = { .n = 0 };
        infp_cleanup(infp_compare_done) struct infp_compare compare = { .n = 0 };
        struct infp_err err = { "" };
        int r = infp_compare_runs_read(&wants->request, &infp_said, &compared, &err);

        if (r >= 0)
                r = infp_compare_make(compared.sides, compared.n, &compare, &err);
        infp_end_progress();
        if (r >= 0 && !compare.n)
                r = infp_fail(&err, -ENODATA,
                              "the runs have no number in common that is compared: see `infprof compare --list`");
        if (r >= 0)
                r = show(wants, &compared, &compare, &err);
        return r < 0 ? infp_say_failure(&err) : r;
}
