/* How a report looks: for people, as one JSON object, as a table. */
#pragma once

#include "analyze/report.h"
#include "base/json/json.h"
#include "view/format.h"

/* What was recorded where there is no command: "the machine", "processes named llama.*". */
void infp_run_target_words(struct infp_str *out, const struct infp_run *run);

/* A section of the report for people: what -h lists, what `report SECTION` takes, and the order in which they are printed. */
struct infp_report_section {
        const char *name, *help;
        void (*put)(struct infp_out *out, const struct infp_report *report);       /* in whole */
        void (*put_all)(struct infp_out *out, const struct infp_report *report);   /* with every metric; NULL: as put */
        void (*put_short)(struct infp_out *out, const struct infp_report *report); /* NULL: not in the short report */
        bool is_line;    /* its short form is one line of "What it used" */
        bool of_machine; /* not of runs that recorded no machine: loads, imports */
        const char *fix; /* what would help, where it was asked for by name and has no data; NULL: nothing known */
};
extern const struct infp_report_section infp_report_sections[]; /* ended by name NULL */

enum infp_report_size {
        INFP_REPORT_SHORT, /* the main points, in about 40 lines */
        INFP_REPORT_FULL,  /* every section */
        INFP_REPORT_ALL,   /* every metric, not only those of the target and the main ones of the machine */
};
/* Text for people, wrapped at out->width (80 columns if that is 0). sections: names, ended by NULL, of those to print in
 * full; without any: by `size`. */
void infp_report_text(struct infp_out *out, const struct infp_report *report, enum infp_report_size size,
                      char *const *sections);
void infp_report_json(struct infp_out *out, const struct infp_report *report);
/* A row a metric, in any table format. 0 or a negative errno. */
int infp_report_table(struct infp_out *out, const struct infp_report *report, const struct infp_format *format);
/* A row for each pair of neighbouring labels. */
int infp_report_labels_table(struct infp_out *out, const struct infp_report *report, const struct infp_format *format);

/* Requests, the same in `load` and in the report: as a section of the text with its title; nothing without requests. */
void infp_requests_text(struct infp_out *out, struct infp_requests *requests, const char *title);
/* Members of an object that is open, under the names that people know from `vllm bench serve`; absent is null. Times in ms. */
void infp_requests_json(struct infp_json *json, struct infp_requests *requests);
