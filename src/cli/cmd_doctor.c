/* infprof doctor: what works here, what is missing, and the fix. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app/doctor.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/record_options.h"
#include "view/report/parts.h"

enum { NAME_WIDTH = 18, STATE_WIDTH = 8 };

static const struct infp_option options[] = {
        { 0, "root", "DIR", "read proc and sys below DIR instead of / (a copy of a machine)", false },
        INFP_JSON_OPTION,
        INFP_OUTPUT_OPTION,
        INFP_SOURCE_OPTIONS,
        { 0 },
};

static bool is_fine(const struct infp_finding *f)
{
        return !strcmp(f->state, "ok") || !strcmp(f->state, "off") || !strcmp(f->state, "info");
}

static bool essentials_work(const struct infp_findings *findings)
{
        for (size_t i = 0; i < findings->n; i++)
                if (findings->list[i].essential && !is_fine(&findings->list[i]))
                        return false;
        return true;
}

static void put_json(struct infp_json *json, const void *what)
{
        const struct infp_findings *findings = what;

        infp_json_member_str(json, "version", INFP_VERSION);
        infp_json_member_bool(json, "ok", essentials_work(findings));
        infp_json_key(json, "findings");
        infp_json_array(json);
        for (size_t i = 0; i < findings->n; i++) {
                const struct infp_finding *f = &findings->list[i];

                infp_json_object(json);
                infp_json_member_str(json, "group", f->group);
                infp_json_member_str(json, "name", f->name);
                infp_json_member_str(json, "state", f->state);
                infp_json_member_str(json, "text", f->text);
                infp_json_member_str(json, "fix", f->fix);
                infp_json_member_bool(json, "essential", f->essential);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
}

static bool same(const char *a, const char *b)
{
        return a == b || (a && b && !strcmp(a, b));
}

/* Groups with a title, in the order of the findings; other groups are what a source lacks. */
static const char *title_of(const char *group)
{
        static const char *const titles[][2] = {
                { "sources", "Sources" },
                { "engines", "Engines" },
                { "gpus", "GPUs" },
                { "cgroups", "Control groups" },
                { "kernel", "Kernel" },
                { "sampling", "Stacks" },
                { "program", "infprof itself" },
                { "debug", "What was decided (INFPROF_DEBUG)" },
        };

        for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++)
                if (!strcmp(titles[i][0], group))
                        return titles[i][1];
        return NULL;
}

static bool is_group(const struct infp_finding *f)
{
        return title_of(f->group) != NULL;
}

static void put_state(struct infp_out *out, const char *state, bool fine)
{
        infp_report_style(out, !strcmp(state, "ok") ? "32" : fine ? "2" : "33");
        infp_report_put(out, "%-*s", STATE_WIDTH, state);
        infp_report_style(out, "0");
}

static void put_fix(struct infp_out *out, const char *fix, unsigned indent)
{
        if (!fix)
                return;
        infp_report_put(out, "%*sfix: ", (int) indent, "");
        infp_report_wrap(out, fix, indent + 5, indent + 5);
}

static void put_main(struct infp_out *out, const struct infp_finding *f)
{
        const unsigned indent = 2 + NAME_WIDTH + STATE_WIDTH;

        infp_report_put(out, "  %-*s", NAME_WIDTH, f->name);
        put_state(out, f->state, is_fine(f));
        infp_report_wrap(out, f->text ? f->text : "", indent, indent);
        put_fix(out, f->fix, indent);
}

/* Columns that are absent for the same reason share a line. */
static void put_missing(struct infp_out *out, const struct infp_findings *findings, const char *collector)
{
        infp_autostr struct infp_str names = { 0 };

        for (size_t i = 0; i < findings->n; i++) {
                const struct infp_finding *f = &findings->list[i];
                bool is_first = true;

                if (is_group(f) || strcmp(f->group, collector))
                        continue;
                infp_str_clear(&names);
                for (size_t k = 0; k < findings->n; k++) {
                        const struct infp_finding *g = &findings->list[k];

                        if (strcmp(g->group, collector) || !same(f->text, g->text) || !same(f->fix, g->fix))
                                continue;
                        is_first &= k >= i;
                        infp_str_printf(&names, "%s%s", names.size ? ", " : "", g->name);
                }
                if (!is_first)
                        continue;
                infp_str_printf(&names, ": %s", f->text ? f->text : f->state);
                infp_report_put(out, "%*s- ", 4, "");
                infp_report_wrap(out, names.data ? names.data : "", 6, 6);
                put_fix(out, f->fix, 6);
        }
}

static void put_text(struct infp_out *out, const struct infp_findings *findings)
{
        const char *group = "";

        infp_report_put(out, "infprof " INFP_VERSION);
        infp_report_end(out);
        for (size_t i = 0; i < findings->n; i++) {
                const struct infp_finding *f = &findings->list[i];

                if (!is_group(f))
                        continue;
                if (strcmp(group, f->group))
                        infp_report_title(out, title_of(f->group));
                group = f->group;
                put_main(out, f);
                if (!strcmp(group, "sources"))
                        put_missing(out, findings, f->name);
        }
        infp_report_end(out);
        infp_report_wrap(out, essentials_work(findings) ? "The essentials work." : "Something essential does not work.",
                         0, 0);
}

static int run(const struct infp_arguments *arguments)
{
        const char *root = infp_argument(arguments, "root"), *path = infp_argument(arguments, "output");
        struct infp_setting settings[INFP_SOURCE_SETTINGS];
        struct infp_findings findings = { 0 };
        struct infp_err err = { "" };
        infp_cleanup(infp_output_done) struct infp_output output = INFP_OUTPUT_INIT;
        bool works;
        int r;

        if (arguments->n_rest) {
                infp_say("doctor: it takes no operand '%s'; see `infprof doctor -h`", arguments->rest[0]);
                return INFP_EXIT_USAGE;
        }
        if (infp_source_settings(arguments, settings, &err) < 0) {
                infp_say("doctor: %s", err.text);
                return INFP_EXIT_USAGE;
        }
        r = infp_doctor_sources(&findings, root ? root : "/", settings, &err);
        if (r >= 0) {
                infp_doctor_kernel(&findings, root ? root : "/");
                /* --root says nothing about the machine that infprof runs on. */
                if (!root || !strcmp(root, "/")) {
                        infp_doctor_sampler(&findings);
                        infp_doctor_program(&findings);
                }
                infp_doctor_debug(&findings);
                if (findings.failed)
                        r = infp_fail(&err, -ENOMEM, "no memory for the findings");
        }
        works = essentials_work(&findings);
        if (r >= 0 && infp_output_is_json(arguments)) {
                r = infp_output_object(path, put_json, &findings, &err);
        } else if (r >= 0 && (r = infp_output_open(&output, path, "table", &err)) >= 0) {
                put_text(&output.out, &findings);
                r = infp_output_finish(&output, &err);
        }
        infp_findings_done(&findings);
        if (r < 0)
                return infp_say_failure(&err);
        return works ? INFP_EXIT_OK : INFP_EXIT_FAILURE;
}

const struct infp_command infp_command_doctor = {
        .name = "doctor",
        .summary = "each source: works, or why not and the exact fix",
        .options = options,
        .more = "Exit code 0 when the essentials work: cpu, mem, processes and a place to write.\n\n"
                "examples:\n"
                "  infprof doctor\n"
                "  infprof doctor --json | jq '.findings[] | select(.fix) | {name, fix}'",
        .run = run,
};
