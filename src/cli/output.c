#include "cli/output.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

bool infp_output_is_stdout(const char *path)
{
        return !path || strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0;
}

const char *infp_output_path(const char *path)
{
        return infp_output_is_stdout(path) ? "/dev/stdout" : path;
}

bool infp_output_knows(const char *format)
{
        return infp_format_find(format) || strcmp(format, "arrow") == 0 || strcmp(format, "parquet") == 0;
}

/* The part after the last dot of the file's name. */
static const char *extension_of(const char *path)
{
        const char *slash = infp_output_is_stdout(path) ? NULL : strrchr(path, '/');
        const char *name = slash ? slash + 1 : path, *dot;

        if (infp_output_is_stdout(path))
                return NULL;
        dot = strrchr(name, '.');
        return dot && dot > name && dot[1] ? dot + 1 : NULL;
}

static const char *by_extension(const char *extension)
{
        if (strcmp(extension, "arrows") == 0)
                return "arrow";
        if (strcmp(extension, infp_format_table.extension) == 0)
                return infp_format_table.name;
        return infp_output_knows(extension) ? extension : NULL;
}

const char *infp_output_format(const char *format, const char *path, const char *otherwise)
{
        const char *extension = extension_of(path);

        if (format || !extension)
                return format ? format : otherwise;
        return by_extension(extension);
}

int infp_output_fail_extension(const char *verb, const char *path)
{
        infp_say("%s: -o %s: there is no format for .%s; known are .csv, .tsv, .json, .jsonl, .parquet, .arrow, "
                 ".arrows, .txt and .prom; else name the format with -f",
                 verb, path, extension_of(path));
        return INFP_EXIT_USAGE;
}

static int open_as(struct infp_output *output, const char *path, mode_t mode, const char *format, struct infp_err *err)
{
        *output = (struct infp_output){ .path = "standard output",
                                        .file = INFP_NEW_FILE_INIT,
                                        .format = infp_format_find(format) };
        if (infp_output_is_stdout(path)) {
                infp_end_progress();
        } else {
                int r = infp_new_file_open(&output->file, path, mode);

                if (r < 0)
                        return infp_fail_errno(err, r, "cannot write %s", path);
                signal(SIGXFSZ, SIG_IGN); /* beyond `ulimit -f` the write fails instead */
                output->path = path;
        }
        infp_out_init(&output->out, output->file.fd < 0 ? STDOUT_FILENO : output->file.fd, output->path);
        return 0;
}

int infp_output_open(struct infp_output *output, const char *path, const char *format, struct infp_err *err)
{
        return open_as(output, path, 0666, format, err);
}

int infp_output_open_beside(struct infp_output *output, const struct infp_run *run, const char *suffix, char **ret_path,
                            struct infp_err *err)
{
        int r;

        if (asprintf(ret_path, "%s/%s%s", run->output, run->info.uuid, suffix) < 0) {
                *ret_path = NULL;
                return infp_fail(err, -ENOMEM, "not enough memory");
        }
        r = open_as(output, *ret_path, infp_run_file_mode(run), "csv", err);
        if (r < 0 && err)
                strncat(err->text, "; -o FILE writes it elsewhere", sizeof(err->text) - strlen(err->text) - 1);
        return r;
}

static int fail(struct infp_output *output, int r, struct infp_err *err)
{
        return infp_fail_errno(err, r, "cannot write %s", output->path);
}

int infp_output_begin(struct infp_output *output, const struct infp_table *table, struct infp_err *err)
{
        int r;

        if (output->format) {
                r = output->format->begin(&output->out, table);
                return r < 0 ? fail(output, r, err) : 0;
        }
        INFP_TRY(infp_arrow_writer_new(table, NULL, &output->arrow, err));
        return infp_arrow_put_schema(output->arrow, &output->out.text, err);
}

int infp_output_batch(struct infp_output *output, const struct infp_batch *batch, struct infp_err *err)
{
        int r = 0;

        if (output->format)
                r = output->format->batch(&output->out, batch);
        else
                INFP_TRY(infp_arrow_put_batch(output->arrow, batch, &output->out.text, err));
        infp_out_drain(&output->out);
        if (output->out.error == -EPIPE)
                return 1;
        if (output->out.error)
                return fail(output, output->out.error, err);
        return r < 0 ? fail(output, r, err) : 0;
}

int infp_output_end(struct infp_output *output, const struct infp_table *table, struct infp_err *err)
{
        int r = 0;

        if (output->format)
                r = output->out.error ? 0 : output->format->end(&output->out, table);
        else
                infp_arrow_put_end(&output->out.text);
        return r < 0 ? fail(output, r, err) : infp_output_finish(output, err);
}

int infp_output_finish(struct infp_output *output, struct infp_err *err)
{
        int r;

        INFP_TRY(infp_out_flush(&output->out, err));
        r = output->file.fd < 0 ? 0 : infp_new_file_commit(&output->file, true);
        return r < 0 ? fail(output, r, err) : 0;
}

int infp_output_open_listing(struct infp_output *output, const struct infp_arguments *arguments, const char *verb,
                             const char *otherwise)
{
        const char *given = infp_argument_given(arguments, "json") ? "json" : infp_argument(arguments, "format");
        const char *path = infp_argument(arguments, "output");
        const bool is_terminal = infp_output_is_stdout(path) && isatty(STDOUT_FILENO);
        const char *format = infp_output_format(given, path, otherwise ? otherwise : is_terminal ? "table" : "tsv");
        struct infp_err err = { "" };

        if (!format)
                return infp_output_fail_extension(verb, path);
        if (!infp_output_knows(format) || strcmp(format, "prom") == 0 || strcmp(format, "parquet") == 0) {
                infp_say("%s: there is no format '%s' here; table, csv, tsv, json, jsonl and arrow are", verb, format);
                return INFP_EXIT_USAGE;
        }
        if (infp_output_open(output, path, format, &err) < 0)
                return infp_say_failure(&err);
        output->out.is_csv_safe = infp_argument_given(arguments, "csv-safe");
        return INFP_EXIT_OK;
}

bool infp_output_is_json(const struct infp_arguments *arguments)
{
        const char *extension = extension_of(infp_argument(arguments, "output"));

        return infp_argument_given(arguments, "json") || (extension && strcmp(extension, "json") == 0);
}

int infp_output_object(const char *path, void (*put)(struct infp_json *json, const void *what), const void *what,
                       struct infp_err *err)
{
        infp_cleanup(infp_output_done) struct infp_output output = INFP_OUTPUT_INIT;
        struct infp_json json;

        INFP_TRY(infp_output_open(&output, path, "json", err));
        infp_json_begin(&json, &output.out.text, 2);
        infp_json_object(&json);
        put(&json, what);
        infp_json_object_end(&json);
        infp_str_putc(&output.out.text, '\n');
        return infp_output_finish(&output, err);
}

void infp_output_done(struct infp_output *output)
{
        infp_new_file_done(&output->file);
        infp_arrow_writer_free(output->arrow);
        infp_out_done(&output->out);
        *output = INFP_OUTPUT_INIT;
}

int infp_take_part(const struct infp_arguments *arguments, const char *verb, enum infp_profile_part *ret)
{
        const bool is_python = infp_argument_given(arguments, "python-only"),
                   is_native = infp_argument_given(arguments, "native-only");

        if (is_python && is_native) {
                infp_say("%s: --python-only or --native-only, not both", verb);
                return INFP_EXIT_USAGE;
        }
        *ret = is_python ? INFP_PROFILE_PYTHON : is_native ? INFP_PROFILE_NATIVE : INFP_PROFILE_WHOLE;
        return INFP_EXIT_OK;
}
