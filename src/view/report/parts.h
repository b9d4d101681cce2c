/* What the files of the text report share. */
#pragma once

#include "base/human.h"
#include "base/json/json.h"
#include "view/report/report.h"

struct human infp_report_bytes(double v);
struct human infp_report_seconds(double v);
struct human infp_report_joules(double v);
struct human infp_report_watts(double v);

/* Lines (lines.c). Their text may come from outside: it is escaped there, line ends too. */
void infp_report_put(struct infp_out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void infp_report_end(struct infp_out *out);                      /* of the line */
void infp_report_style(struct infp_out *out, const char *style); /* SGR, "1": bold, "0": plain; where colours may be */
void infp_report_title(struct infp_out *out, const char *title);
/* "  label       text", the text wrapped below itself. */
void infp_report_line(struct infp_out *out, const char *label, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
/* A text broken at blanks; `used` columns of the line are taken already, the lines after the first begin at `indent`. */
void infp_report_wrap(struct infp_out *out, const char *text, unsigned used, unsigned indent);
/* Shortened to `width` columns; padded to them unless it is the last of its line. */
void infp_report_put_padded(struct infp_out *out, const char *text, unsigned width, bool is_last);

unsigned infp_report_width(const struct infp_out *out);     /* of the terminal, within reason */
bool infp_report_is_host(const struct infp_report *report); /* no command and no process: the machine */

/* Sections (struct infp_report_section); ..._short: their part of the short report. */
void infp_report_memory(struct infp_out *out, const struct infp_report *report);
void infp_report_memory_accounts(struct infp_out *out, const struct infp_report *report);
void infp_report_memory_short(struct infp_out *out, const struct infp_report *report);
void infp_report_traffic(struct infp_out *out, const struct infp_report *report);
void infp_report_processes(struct infp_out *out, const struct infp_report *report);
void infp_report_containers(struct infp_out *out, const struct infp_report *report);
void infp_report_energy(struct infp_out *out, const struct infp_report *report);
void infp_report_energy_short(struct infp_out *out, const struct infp_report *report);
void infp_report_gpus(struct infp_out *out, const struct infp_report *report);
void infp_report_gpus_short(struct infp_out *out, const struct infp_report *report);
/* What that section prints in place of figures; NULL: it has figures, or is empty. */
const struct infp_absence *infp_report_energy_absence(const struct infp_report *report);
void infp_report_engines(struct infp_out *out, const struct infp_report *report);
void infp_report_engines_short(struct infp_out *out, const struct infp_report *report);
const char *infp_report_make_name(const char *make); /* "llama.cpp" of "llamacpp" */
void infp_report_engines_json(struct infp_json *json, const struct infp_report *report);
void infp_report_requests(struct infp_out *out, const struct infp_report *report);
void infp_report_requests_short(struct infp_out *out, const struct infp_report *report);
void infp_report_spans(struct infp_out *out, const struct infp_report *report);  /* between --from and --to */
void infp_report_labels(struct infp_out *out, const struct infp_report *report); /* all of them */
void infp_report_program_spans(struct infp_out *out, const struct infp_report *report);
struct infp_program_span_times { /* of those that ended; NAN: none did */
        double total_s, mean_s, p50_s, p99_s, max_s;
};
struct infp_program_span_times infp_program_span_times(struct infp_program_span *span);
void infp_report_functions(struct infp_out *out, const struct infp_report *report);
void infp_report_functions_short(struct infp_out *out, const struct infp_report *report);
void infp_report_lines(struct infp_out *out, const struct infp_report *report);
/* "Functions by CPU time", "... (Python only)" */
void infp_report_functions_title(struct infp_str *out, const char *what, const char *mode, enum infp_profile_part part);
void infp_report_gil(struct infp_out *out, const struct infp_report *report);
void infp_report_gil_short(struct infp_out *out, const struct infp_report *report);
void infp_report_lag(struct infp_out *out, const struct infp_report *report);
void infp_report_lag_short(struct infp_out *out, const struct infp_report *report);
bool infp_report_lag_was_sought(const struct infp_report *report);
/* What its figures are, and what is not known. */
typedef void infp_report_note_fn(void *context, const char *label, const char *text);
void infp_report_lag_notes(const struct infp_report *report, infp_report_note_fn *note, void *context);
void infp_report_torch(struct infp_out *out, const struct infp_report *report);
void infp_report_torch_short(struct infp_out *out, const struct infp_report *report);
/* Words for the parts of that section, after which a caller puts its own. */
const char *infp_report_torch_phase(const struct infp_torch_report *torch, const struct infp_torch_phase *phase,
                                    const char *otherwise);
void infp_report_torch_why(struct infp_str *words, const struct infp_torch_report *torch,
                           const struct infp_torch_long_step *is); /* nothing is known: nothing */
void infp_report_torch_overhead(struct infp_str *words, const struct infp_torch_overhead *overhead);
void infp_report_tasks(struct infp_out *out, const struct infp_report *report);
struct human infp_report_task_share(const struct infp_task *task, double seconds); /* percent of its time */
extern const char infp_report_tasks_note[];                                        /* what its figures are */
/* "handle  app.py:12" */
void infp_report_place(struct infp_str *out, const struct infp_strings *strings,
                       const struct infp_profile_place *place);
const char *infp_report_string(const struct infp_strings *strings, uint32_t string); /* "-": not known */
void infp_report_limits(struct infp_out *out, const struct infp_report *report);
void infp_report_limits_short(struct infp_out *out, const struct infp_report *report);
void infp_report_findings(struct infp_out *out, const struct infp_report *report);
void infp_report_findings_short(struct infp_out *out, const struct infp_report *report);
void infp_report_facts(struct infp_out *out, const struct infp_report *report);
void infp_report_facts_short(struct infp_out *out, const struct infp_report *report);
void infp_report_metrics(struct infp_out *out, const struct infp_report *report);
void infp_report_all_metrics(struct infp_out *out, const struct infp_report *report);
void infp_report_absences(struct infp_out *out, const struct infp_report *report);
void infp_report_all_absences(struct infp_out *out, const struct infp_report *report);

struct infp_json;
/* Members of the object of report --json, which the caller begins and ends; without functions and lines, which pages have otherwise. */
void infp_report_json_members(struct infp_json *json, const struct infp_report *report);
void infp_report_stops(struct infp_out *out, const struct infp_report *report);
void infp_report_stops_short(struct infp_out *out, const struct infp_report *report);
void infp_report_json_stops(struct infp_json *json, const struct infp_report *report);
void infp_report_json_program_spans(struct infp_json *json, const struct infp_report *report);
void infp_report_json_spans(struct infp_json *json, const struct infp_report *report);
void infp_report_json_containers(struct infp_json *json, const struct infp_report *report);
void infp_report_json_memory(struct infp_json *json, const struct infp_report *report);
void infp_report_json_torch(struct infp_json *json, const struct infp_report *report);
void infp_report_json_gil(struct infp_json *json, const struct infp_report *report);
void infp_report_json_lag(struct infp_json *json, const struct infp_report *report);
void infp_report_json_tasks(struct infp_json *json, const struct infp_report *report);
void infp_report_json_places(struct infp_json *json, const struct infp_strings *strings,
                             const struct infp_profile_places *places); /* a member of the object that is open */
void infp_report_json_functions(struct infp_json *json, const struct infp_report *report);
void infp_report_json_limits(struct infp_json *json, const struct infp_report *report);
void infp_report_json_energy(struct infp_json *json, const struct infp_report *report);
void infp_report_json_gpus(struct infp_json *json, const struct infp_report *report);
