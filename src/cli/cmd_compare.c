/* infprof compare: what differs between runs, how sure that is, and whether it is better. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"
#include "cli/compare/print.h"
#include "cli/nearest.h"
#include "cli/output.h"
#include "model/builder.h"

static const struct infp_option options[] = {
        INFP_RANGE_OPTIONS,
        { 0, "replicates", "N", "each operand is a directory: its newest N runs are one side", false },
        { 0, "fail-on", "CONDITION", "exit with 3 when the data show it, as 'ttft_p95>+5%'; may be given again", true },
        { 0, "list", NULL, "list the numbers that are compared, and which direction is better", false },
        { 0, "markdown", "FILE", "write it as Markdown too, for a comment on a change", false },
        { 0, "junit", "FILE", "write the conditions as JUnit's XML, for a CI system", false },
        { 0, "mode", "MODE", "stacks to compare: cpu, wall, off-cpu, python ... (default: cpu, else python)", false },
        { 0, "anyway", NULL, "compare runs of other engines, models and machines all the same", false },
        INFP_JSON_OPTION,
        INFP_OUTPUT_OPTION,
        { 0 },
};

enum { NUMBER, UNIT, BETTER, MEANING, N };

// clang-format off
#define TEXT(name_, help_) INFP_COLUMN(name_, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, help_)
static const struct infp_column columns[] = {
        [NUMBER] = TEXT(number, "As --fail-on takes it."),
        [UNIT] = TEXT(unit, "Base unit; null = by second, or none."),
        [BETTER] = TEXT(better, "less or more; null = neither."),
        [MEANING] = TEXT(meaning, "What it is."),
};
// clang-format on
static const struct infp_table numbers_table = { .name = "numbers", .columns = columns, .n_columns = N, .plain = true };

static int put_number(struct infp_output *output, struct infp_builder *builder,
                      const struct infp_compare_number *number, struct infp_err *err)
{
        const char *better = infp_better_name(number->better);
        struct infp_batch batch;

        infp_builder_reset(builder);
        infp_builder_row_begin(builder, 0, 0);
        infp_builder_set_text(builder, NUMBER, number->name);
        infp_builder_set_text(builder, UNIT, number->base);
        if (better)
                infp_builder_set_text(builder, BETTER, better);
        infp_builder_set_text(builder, MEANING, number->help);
        if (infp_builder_row_end(builder) < 0)
                return infp_fail(err, -ENOMEM, "not enough memory");
        batch = infp_builder_batch(builder, 0);
        return infp_output_batch(output, &batch, err);
}

/* Exit code. */
static int list(const struct infp_arguments *arguments)
{
        infp_cleanup(infp_output_done) struct infp_output output = INFP_OUTPUT_INIT;
        struct infp_builder *builder;
        struct infp_err err = { "" };
        int r = infp_output_open_listing(&output, arguments, "compare", NULL);

        if (r != INFP_EXIT_OK)
                return r;
        output.out.is_listing = true;
        builder = infp_builder_new(&numbers_table, 1);
        r = builder && infp_builder_grow(builder, 4096) >= 0 ? infp_output_begin(&output, &numbers_table, &err)
                                                             : infp_fail(&err, -ENOMEM, "not enough memory");
        for (unsigned i = 0; r == 0 && i < infp_compare_numbers_n; i++)
                r = put_number(&output, builder, &infp_compare_numbers[i], &err);
        if (r >= 0)
                r = infp_output_end(&output, &numbers_table, &err);
        infp_builder_free(builder);
        return r < 0 ? infp_say_failure(&err) : INFP_EXIT_OK;
}

static int take_gate(const char *text, struct infp_compare_wants *ret)
{
        struct infp_err err = { "" };
        struct infp_nearest nearest;

        if (ret->n_gates == INFP_GATES) {
                infp_say("compare: more than %d conditions", INFP_GATES);
                return INFP_EXIT_USAGE;
        }
        if (infp_gate_parse(text, &ret->gates[ret->n_gates], &err) >= 0) {
                ret->n_gates++;
                return INFP_EXIT_OK;
        }
        nearest = (struct infp_nearest){ .word = ret->gates[ret->n_gates].name };
        for (unsigned i = 0; *nearest.word && i < infp_compare_numbers_n; i++)
                infp_nearest_try(&nearest, infp_compare_numbers[i].name);
        if (nearest.best)
                infp_say("compare: --fail-on %s; did you mean %s?", err.text, nearest.best);
        else
                infp_say("compare: --fail-on %s (`infprof compare --list` has the numbers)", err.text);
        return INFP_EXIT_USAGE;
}

static int take_replicates(const char *text, struct infp_compare_wants *ret)
{
        uint64_t n = 0;

        if (text && (infp_parse_u64(text, strlen(text), &n) < 0 || n < 2 || n > INFP_COMPARE_RUNS)) {
                infp_say("compare: --replicates %s: how many runs a side, 2 to %d", text, INFP_COMPARE_RUNS);
                return INFP_EXIT_USAGE;
        }
        ret->request.replicates = (unsigned) n;
        return INFP_EXIT_OK;
}

static int take_operands(const struct infp_arguments *arguments, struct infp_compare_wants *ret)
{
        if (arguments->n_rest < 2 || arguments->n_rest > INFP_COMPARE_SIDES) {
                infp_say("compare: give 2 to %d runs, the base first, or ranges of one, as RUN@warm..mid RUN@mid..end",
                         INFP_COMPARE_SIDES);
                return INFP_EXIT_USAGE;
        }
        for (int i = 0; i < arguments->n_rest; i++)
                ret->request.sides[ret->request.n++] =
                        (struct infp_compare_operand){ arguments->rest[i], infp_argument(arguments, "from"),
                                                       infp_argument(arguments, "to") };
        return INFP_EXIT_OK;
}

static int run(const struct infp_arguments *arguments)
{
        struct infp_compare_wants wants = {
                .verb = "compare",
                .request = { .mode = infp_argument(arguments, "mode"),
                             .anyway = infp_argument_given(arguments, "anyway") },
                .is_json = infp_output_is_json(arguments),
                .path = infp_argument(arguments, "output"),
                .markdown = infp_argument(arguments, "markdown"),
                .junit = infp_argument(arguments, "junit"),
        };
        int r;

        if (infp_argument_given(arguments, "list"))
                return list(arguments);
        r = take_operands(arguments, &wants);
        if (!r)
                r = take_replicates(infp_argument(arguments, "replicates"), &wants);
        for (size_t i = 0; !r && i < arguments->n_given; i++)
                if (!strcmp(arguments->given[i].option->name, "fail-on"))
                        r = take_gate(arguments->given[i].value, &wants);
        if (!r && wants.junit && !wants.n_gates) {
                infp_say("compare: --junit writes the conditions of --fail-on, and none is given");
                r = INFP_EXIT_USAGE;
        }
        return r ? r : infp_compare_print(&wants);
}

const struct infp_command infp_command_compare = {
        .name = "compare",
        .summary = "what differs between runs: each number with an interval, a verdict, and a gate for CI",
        .operands = "A B [C...]",
        .options = options,
        .more = "A is the base. Each of A, B ... is RUN[@FROM..TO], as -r and --from take them (nothing before @: the "
                "newest "
                "run), or several\n"
                "of them with commas: several runs a side show the noise from run to run. docs/compare.md says what is "
                "compared and how.\n"
                "A condition fails when its whole interval lies beyond the threshold; when it only reaches over it the "
                "data cannot decide,\n"
                "which is said, and no failure. Exit code: 3 a condition failed, 1 it could not be compared, 2 bad "
                "options.\n"
                "\n"
                "examples:\n"
                "  infprof compare 0198f3 0199a7                    two runs\n"
                "  infprof compare base @                           a pinned run (infprof runs --pin base) and the "
                "newest\n"
                "  infprof compare @warm..mid @mid..                two ranges of the newest run\n"
                "  infprof compare a1,a2,a3 b1,b2,b3                three runs a side\n"
                "  infprof compare --replicates 10 ./before ./after the newest ten of two directories\n"
                "  infprof compare --list                           what is compared\n"
                "  infprof compare base @ --fail-on 'cpu_s_per_token>+5%' --junit gate.xml",
        .run = run,
};
