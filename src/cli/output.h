/* Where a verb's rows go: standard output or a file, in any format. A file appears when it is complete (base/new_file.h); a
 * device or a pipe is written directly. */
#pragma once

#include <stdbool.h>

#include "analyze/profile/profile.h"
#include "base/json/json.h"
#include "base/new_file.h"
#include "cli/command.h"
#include "store/arrow.h"
#include "store/run.h"
#include "view/format.h"

struct infp_output {
        struct infp_out out;
        const struct infp_format *format; /* NULL: arrow */
        struct infp_arrow_writer *arrow;
        const char *path;          /* as given; "standard output" */
        struct infp_new_file file; /* fd -1: standard output */
};
#define INFP_OUTPUT_INIT ((struct infp_output){ .file = INFP_NEW_FILE_INIT })

/* Every verb has --json and -o FILE (record, load and import: -o is the run's directory); tests/e2e/test_cli.py checks it.
 * The shared options: */
#define INFP_OUTPUT_OPTION                                                                 \
        {                                                                                  \
                'o', "output", "FILE", "write there instead of standard output (-)", false \
        }
#define INFP_JSON_OPTION                                  \
        {                                                 \
                0, "json", NULL, "one JSON object", false \
        }
/* Of verbs that read a run, and of those that read a part of it. */
#define INFP_RUN_OPTION                                                                                       \
        {                                                                                                     \
                'r', "run", "RUN",                                                                            \
                        "the run: its output directory or the beginning of its uuid (default: the newest in " \
                        "./profiler-output)",                                                                 \
                        false                                                                                 \
        }
#define INFP_RANGE_OPTIONS                                                                                   \
        { 0, "from", "WHEN",                                                                                 \
          "start of the range: a mark's tag, a load's name, ready (an engine's first answer), a clock time " \
          "(14:05:00, "                                                                                      \
          "2026-05-18T14:05:00Z), +30s (after the start) or -5m (before the end)",                           \
          false },                                                                                           \
        {                                                                                                    \
                0, "to", "WHEN", "end there", false                                                          \
        }
/* Of verbs that show stacks; infp_take_part reads them. */
#define INFP_PART_OPTIONS                                                                                          \
        { 0, "python-only", NULL, "only Python functions: the time of native ones is their callers' own", false }, \
        {                                                                                                          \
                0, "native-only", NULL, "all functions but Python's", false                                        \
        }
/* Of verbs that list rows. */
#define INFP_LISTING_OPTIONS(otherwise)                                                                         \
        { 'f', "format", "FORMAT",                                                                              \
          "table, csv, tsv, json, jsonl or arrow (default: the file's extension, else " otherwise ")", false }, \
                { 0, "csv-safe", NULL, INFP_CSV_SAFE_HELP, false },                                             \
                { 0, "json", NULL, "an array of objects: the same as -f json", false }, INFP_OUTPUT_OPTION

/* Names of all formats that rows can be written in, with arrow and parquet. */
#define INFP_OUTPUT_FORMATS "table, csv, tsv, json, jsonl, arrow, parquet"

/* The format to use: as given, else by the file's extension, else (no file, no extension) the other. NULL: the extension is no
 * format's. */
const char *infp_output_format(const char *format, const char *path, const char *otherwise);
/* Prints the message. Exit code. */
int infp_output_fail_extension(const char *verb, const char *path);
bool infp_output_knows(const char *format); /* parquet too, which is DuckDB's to write */
bool infp_output_is_stdout(const char *path);
/* For writers of files (Parquet): the path, or that of standard output. */
const char *infp_output_path(const char *path);

/* format: not parquet. path NULL or "-": standard output. */
int infp_output_open(struct infp_output *output, const char *path, const char *format, struct infp_err *err);
/* Without -o, for output that a terminal cannot show: the file <uuid>SUFFIX beside the run, with the run's permissions.
 * *ret_path: its name, freed by the caller. */
int infp_output_open_beside(struct infp_output *output, const struct infp_run *run, const char *suffix, char **ret_path,
                            struct infp_err *err);
/* Of verbs that write CSV and TSV; sets out.is_csv_safe. */
#define INFP_CSV_SAFE_HELP "csv, tsv: quote texts that a spreadsheet would read as a formula (= + - @, tab, line end)"
int infp_output_begin(struct infp_output *output, const struct infp_table *table, struct infp_err *err);
/* 1: the reader went away; stop. */
int infp_output_batch(struct infp_output *output, const struct infp_batch *batch, struct infp_err *err);
int infp_output_end(struct infp_output *output, const struct infp_table *table, struct infp_err *err);
/* For verbs that write into `out` themselves: writes the rest and renames the file. */
int infp_output_finish(struct infp_output *output, struct infp_err *err);
/* Opens by INFP_LISTING_OPTIONS; otherwise: the default format, NULL: a table on a terminal, else tsv. An exit code; not 0
 * after printing why. */
int infp_output_open_listing(struct infp_output *output, const struct infp_arguments *arguments, const char *verb,
                             const char *otherwise);
/* --json, or a file .json of -o. */
bool infp_output_is_json(const struct infp_arguments *arguments);
/* One object, whole: put writes its members. */
int infp_output_object(const char *path, void (*put)(struct infp_json *json, const void *what), const void *what,
                       struct infp_err *err);
/* After end, or after a failure, which leaves no file. */
void infp_output_done(struct infp_output *output);

/* Which frames INFP_PART_OPTIONS leave. INFP_EXIT_OK, or INFP_EXIT_USAGE when both are given, which it says. */
int infp_take_part(const struct infp_arguments *arguments, const char *verb, enum infp_profile_part *ret);
