#include "app/import_run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/discard.h"
#include "app/finish_child.h"
#include "app/record_info.h"
#include "base/fd.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/new_file.h"
#include "base/str.h"
#include "base/time.h"

static const char *shown_path(const struct infp_import_wishes *wishes)
{
        return !wishes->path || !strcmp(wishes->path, "-") ? "standard input" : wishes->path;
}

static bool is_stdin(const struct infp_import_wishes *wishes)
{
        return !wishes->path || !strcmp(wishes->path, "-");
}

static int open_file(const struct infp_import_wishes *wishes, int *ret, struct infp_err *err)
{
        struct stat st;

        if (is_stdin(wishes)) {
                *ret = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
                return *ret < 0 ? infp_fail_errno(err, -errno, "cannot read standard input") : 0;
        }
        *ret = open(wishes->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (*ret < 0)
                return infp_fail_errno(err, -errno, "cannot read %s", wishes->path);
        if (fstat(*ret, &st) == 0 && S_ISDIR(st.st_mode)) {
                *ret = infp_close(*ret);
                return infp_fail(err, -EISDIR, "%s is a directory; import takes a file", wishes->path);
        }
        return 0;
}

static void put_modes(struct infp_json *json, const struct infp_imported *found)
{
        infp_json_key(json, "modes");
        infp_json_array(json);
        for (unsigned i = 0; i < found->n_modes; i++) {
                infp_json_object(json);
                infp_json_member_str(json, "mode", found->modes[i].mode);
                infp_json_member_u64(json, "rows", found->modes[i].rows);
                infp_json_member_u64(json, "samples", found->modes[i].samples);
                infp_json_member_f64(json, "weight", found->modes[i].weight);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
}

static void put_skips(struct infp_json *json, const struct infp_imported *found)
{
        infp_json_key(json, "notes");
        infp_json_array(json);
        for (unsigned i = 0; i < found->n_skips; i++) {
                infp_json_object(json);
                infp_json_member_u64(json, "count", found->skips[i].n);
                infp_json_member_str(json, "what", found->skips[i].what);
                infp_json_key(json, "first_line");
                if (found->skips[i].where)
                        infp_json_u64(json, found->skips[i].where);
                else
                        infp_json_null(json);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
}

void infp_import_json(struct infp_json *json, const struct infp_import_wishes *wishes,
                      const struct infp_imported *found)
{
        infp_json_member_str(json, "file", shown_path(wishes));
        infp_json_member_u64(json, "size_bytes", found->bytes);
        infp_json_member_str(json, "format", found->format);
        infp_json_member_bool(json, "is_gzip", found->is_compressed);
        infp_json_member_u64(json, "content_bytes", found->unpacked);
        infp_json_member_str(json, "written_by", *found->by ? found->by : NULL);
        infp_json_key(json, "taken_at");
        if (found->unix_ns)
                infp_json_i64(json, found->unix_ns / (int64_t) INFP_NS_PER_MS);
        else
                infp_json_null(json);
        infp_json_member_bool(json, "has_times", found->has_times);
        infp_json_member_u64(json, "rows", found->rows);
        infp_json_member_u64(json, "samples", found->samples);
        infp_json_member_u64(json, "truncated", found->truncated);
        infp_json_member_u64(json, "frames", found->frames);
        infp_json_member_u64(json, "stacks", found->stacks);
        put_modes(json, found);
        put_skips(json, found);
}

/* The static record describes the file; the machine is unknown. */
static int save_static(const struct infp_run *run, const struct infp_import_wishes *wishes,
                       const struct infp_imported *found, struct infp_err *err)
{
        infp_autostr struct infp_str text = { 0 };
        struct infp_json json;
        char name[64];
        int r;

        infp_json_begin(&json, &text, 2);
        infp_json_object(&json);
        infp_json_member_str(&json, "uuid", run->info.uuid);
        infp_json_member_str(&json, "name", wishes->name);
        infp_json_key(&json, "import");
        infp_json_object(&json);
        infp_import_json(&json, wishes, found);
        infp_json_object_end(&json);
        infp_json_object_end(&json);
        infp_str_putc(&text, '\n');
        if (text.failed)
                return infp_fail(err, -ENOMEM, "not enough memory for the static record");
        snprintf(name, sizeof(name), "static_%s.json", run->info.uuid);
        r = infp_replace_file_at(run->output_fd, name, text.data, text.size, infp_run_file_mode(run), true);
        return r < 0 ? infp_fail_errno(err, r, "cannot write %s/%s", run->output, name) : 0;
}

static bool is_stop(void *context)
{
        return infp_signals_end(context, 0);
}

static int fill(struct infp_run *run, int fd, const struct infp_import_wishes *wishes, struct infp_signals *signals,
                struct infp_imported *ret, struct infp_err *err)
{
        const struct infp_import_options options = { .fd = fd,
                                                     .path = shown_path(wishes),
                                                     .format = wishes->format,
                                                     .mode = wishes->mode,
                                                     .stop_fd = signals->fd,
                                                     .is_stop = is_stop,
                                                     .context = signals,
                                                     .notices = wishes->notices,
                                                     .process = infp_table_by_name("process") };

        INFP_TRY(infp_import(run, &options, ret, err));
        INFP_TRY(save_static(run, wishes, ret, err));
        return infp_run_save(run, err);
}

static int make(int fd, const struct infp_import_wishes *wishes, struct infp_signals *signals,
                struct infp_import_made *ret, struct infp_err *err)
{
        infp_cleanup(infp_run_info_done) struct infp_run_info info = { 0 };
        infp_autostr struct infp_str path = { 0 };
        struct infp_run *run;
        int r;

        INFP_TRY(infp_record_info_alone("import", wishes->name, &info, err));
        info.hostname[0] = 0; /* the machine is unknown */
        INFP_TRY(infp_run_create(wishes->output, &info, &run, err));
        r = fill(run, fd, wishes, signals, &ret->found, err);
        if (r < 0)
                infp_discard_run(run);
        memcpy(ret->uuid, info.uuid, sizeof(ret->uuid));
        infp_str_printf(&path, "%s/%s.infprof", run->output, info.uuid);
        infp_run_close(run); /* unlocks it: finish may begin */
        if (r < 0)
                return r;
        ret->path = infp_str_take(&path);
        ret->is_finished = ret->path && infp_finish_child(ret->path, signals, wishes->notices);
        return ret->path ? 0 : infp_fail(err, -ENOMEM, "not enough memory");
}

int infp_import_run(const struct infp_import_wishes *wishes, struct infp_signals *signals, struct infp_import_made *ret,
                    struct infp_err *err)
{
        infp_autoclose int fd = -1;

        INFP_TRY(open_file(wishes, &fd, err));
        return make(fd, wishes, signals, ret, err);
}
