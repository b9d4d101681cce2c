#include "import/import.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/time.h"
#include "import/format.h"

static void remove_table(struct infp_run *run, const char *table)
{
        char **segments;
        int n = infp_run_segments(run, table, &segments, NULL);

        for (int i = 0; i < n; i++) {
                unlinkat(run->fd, segments[i], 0);
                free(segments[i]);
        }
        if (n >= 0)
                free(segments);
        unlinkat(run->fd, table, AT_REMOVEDIR);
}

void infp_import_discard(struct infp_run *run)
{
        char **tables;
        int n = infp_run_tables(run, &tables, NULL);

        for (int i = 0; i < n; i++) {
                remove_table(run, tables[i]);
                free(tables[i]);
        }
        if (n >= 0)
                free(tables);
}

static const struct infp_import_format *by_name(const char *name)
{
        for (const struct infp_import_format *const *f = infp_import_formats; *f; f++)
                if (!strcmp((*f)->name, name))
                        return *f;
        return NULL;
}

/* Files that people bring along for a profile. */
static const struct {
        const char *magic;
        unsigned size;
        const char *what;
} others[] = {
        { "PERFILE2", 8, "perf's own recording: `perf script -i FILE | infprof import -` reads it" },
        { "\x7f"
          "ELF",
          4, "a program" },
        { "PAR1", 4, "Parquet" },
        { "ARROW1", 6, "Arrow" },
        { "\x28\xb5\x2f\xfd", 4, "packed by zstd: `zstd -dc FILE | infprof import -` reads what is in it" },
        { "\xfd"
          "7zXZ",
          5, "packed by xz: `xz -dc FILE | infprof import -` reads what is in it" },
        { "BZh", 3, "packed by bzip2: `bzip2 -dc FILE | infprof import -` reads what is in it" },
        { "PK\x03\x04", 4, "a zip archive" },
        { "\0\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0", 16,
          "a CPU profile of gperftools: `google-pprof --collapsed PROGRAM FILE | infprof import -` reads it" },
        { "{", 1, "JSON, but not speedscope's, whose frames are in \"shared\"" },
        { "<", 1, "XML, SVG or HTML: import the data that it was drawn from" },
};

static int unknown(const char *path, const char *head, size_t size, struct infp_err *err)
{
        char names[160] = "";

        if (!size)
                return infp_fail(err, -EBADMSG, "%s is empty", path);
        for (unsigned i = 0; i < INFP_COUNT(others); i++)
                if (size >= others[i].size && !memcmp(head, others[i].magic, others[i].size))
                        return infp_fail(err, -EBADMSG, "%s is %s", path, others[i].what);
        for (const struct infp_import_format *const *f = infp_import_formats; *f; f++) {
                strcat(names, *names ? ", " : "");
                strcat(names, (*f)->name);
        }
        return infp_fail(err, -EBADMSG, "%s: unrecognised profile format; it can be one of %s: name it with --format",
                         path, names);
}

static int choose(struct infp_import_input *input, const char *wanted, const struct infp_import_format **ret,
                  struct infp_err *err)
{
        enum infp_import_sure best = INFP_IMPORT_NO;
        const char *head;
        size_t size;

        INFP_TRY(infp_import_peek(input, &head, &size, err));
        if (wanted) {
                *ret = by_name(wanted);
                if (!size)
                        return unknown(infp_import_path(input), head, size, err);
                return *ret ? 0 : infp_fail(err, -EINVAL, "there is no format '%s'", wanted);
        }
        for (const struct infp_import_format *const *f = infp_import_formats; *f; f++) {
                enum infp_import_sure sure = (*f)->look(head, size);

                if (sure > best) {
                        best = sure;
                        *ret = *f;
                }
        }
        return best > INFP_IMPORT_NO ? 0 : unknown(infp_import_path(input), head, size, err);
}

/* Whether the user has named a mode that nothing in the file can get; `found`: after it was read. */
static bool is_mode_in_vain(const struct infp_import_format *format, const char *mode,
                            const struct infp_imported *found)
{
        if (!mode || !format->takes_mode)
                return mode != NULL;
        for (unsigned i = 0; i < found->n_modes; i++)
                if (!strcmp(found->modes[i].mode, mode))
                        return false;
        return found->rows > 0;
}

static int refuse_mode(const char *path, struct infp_err *err)
{
        return infp_fail(err, -EINVAL, "--mode: %s says itself what its numbers are", path);
}

/* The run was made now; its rows lie where the file says, on the file's clock. */
static void set_times(struct infp_run *run, struct infp_imported *found, uint64_t begin_t_ns)
{
        struct infp_run_info *info = &run->info;

        info->started_t_ns = begin_t_ns < found->first_t_ns ? begin_t_ns : found->first_t_ns;
        info->ended_t_ns = infp_import_last_t_ns(found, begin_t_ns) + 1; /* the last sample lies before it */
        info->ended_unix_ns = info->started_unix_ns + (int64_t) (info->ended_t_ns - info->started_t_ns);
}

static int read_input(struct infp_run *run, struct infp_import_input *input, const struct infp_import_options *options,
                      struct infp_imported *found, struct infp_err *err)
{
        const struct infp_import_format *format = NULL;
        struct infp_import_writer *writer;
        int r;

        INFP_TRY(choose(input, options->format, &format, err));
        found->format = format->name;
        if (is_mode_in_vain(format, options->mode, found))
                return refuse_mode(options->path, err);
        INFP_TRY(infp_import_writer_new(run, options, found, &writer, err));
        r = format->read(input, writer, err);
        if (r >= 0 && !found->rows)
                r = infp_fail(err, -ENODATA, "%s has no sample in it (read as %s)", options->path, format->name);
        if (r >= 0 && is_mode_in_vain(format, options->mode, found)) /* Austin's comments, a unit of time */
                r = refuse_mode(options->path, err);
        if (r >= 0)
                r = infp_import_writer_end(writer, err);
        if (r >= 0)
                set_times(run, found, infp_import_begin_t_ns(writer));
        infp_import_writer_free(writer);
        return r;
}

int infp_import(struct infp_run *run, const struct infp_import_options *options, struct infp_imported *ret,
                struct infp_err *err)
{
        const struct infp_import_source source = { .fd = options->fd,
                                                   .path = options->path,
                                                   .stop_fd = options->stop_fd,
                                                   .is_stop = options->is_stop,
                                                   .context = options->context,
                                                   .notices = options->notices };
        struct infp_import_input *input;
        int r;

        *ret = (struct infp_imported){ 0 };
        INFP_TRY(infp_import_input_open(&source, &input, err));
        r = read_input(run, input, options, ret, err);
        ret->bytes = infp_import_bytes(input);
        ret->unpacked = infp_import_unpacked(input);
        ret->is_compressed = infp_import_is_compressed(input);
        infp_import_input_close(input);
        return r;
}
