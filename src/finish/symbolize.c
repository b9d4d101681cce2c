#include "finish/symbolize.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/notice.h"
#include "base/sort.h"
#include "base/text.h"
#include "finish/lock.h"
#include "finish/symbolize_parts.h"
#include "finish/tables.h"

void infp_symbolized_done(struct infp_symbolized *symbolized)
{
        for (unsigned i = 0; i < symbolized->n_objects; i++) {
                free(symbolized->objects[i].path);
                free(symbolized->objects[i].build_id);
                free(symbolized->objects[i].names);
                free(symbolized->objects[i].debug_file);
                free(symbolized->objects[i].problem);
        }
        free(symbolized->objects);
        *symbolized = (struct infp_symbolized){ 0 };
}

static void naming_done(struct infp_naming *naming)
{
        for (uint32_t i = 0; i < naming->n_objects; i++) {
                free(naming->objects[i].path);
                free(naming->objects[i].build_id);
                free(naming->objects[i].names);
                free(naming->objects[i].debug_file);
                free(naming->objects[i].problem);
        }
        for (uint32_t i = 0; i < naming->n_frames; i++)
                free(naming->frames[i].raw);
        free(naming->objects);
        free(naming->frames);
        free(naming->order);
        infp_map_done(&naming->by_id);
        infp_map_done(&naming->by_object);
        infp_naming_free_writer(naming);
}

static void leave_out(struct infp_asked_object *object, const char *format, const char *path)
{
        object->is_left_out = true;
        object->why = -ESTALE;
        if (asprintf(&object->problem, format, path) < 0)
                object->problem = NULL;
}

/* The kernel lies elsewhere after each boot: its addresses are of this one or of none. And files of other machines are told by their
 * build id alone. */
static bool is_named(const char *host, const char *recorded)
{
        char escaped[1024] = "";

        escaped[infp_text_escape(host, strlen(host), escaped, sizeof(escaped) - 1)] = 0;
        return strcmp(escaped, recorded) == 0;
}

static void leave_what_is_not_here(struct infp_naming *naming)
{
        const struct infp_run_info *info = &naming->run->info;
        char boot_id[40] = "", host[256] = "";
        bool is_this_boot, is_this_host;

        if (infp_read_at(naming->options->root_fd, "/proc/sys/kernel/random/boot_id", boot_id, 37) < 36)
                return;
        is_this_boot = strcmp(boot_id, info->boot_id) == 0;
        is_this_host = is_this_boot || (gethostname(host, sizeof(host) - 1) == 0 && is_named(host, info->hostname));
        for (uint32_t i = 0; i < naming->n_objects; i++) {
                struct infp_asked_object *object = &naming->objects[i];

                if (object->n && object->is_kernel && !is_this_boot)
                        leave_out(object,
                                  "%s: kernel frames have no names: they are from another boot or machine, and were "
                                  "not named there",
                                  object->path);
                else if (object->n && !object->is_kernel && !*object->build_id && !is_this_host)
                        leave_out(object,
                                  "%s has no build id and was recorded on another machine: a file of that name here "
                                  "may differ",
                                  object->path);
        }
}

/* What came of it, by frames. Guessed frames and what was not asked for count as they are. */
static void count(struct infp_naming *naming, struct infp_symbolized *ret)
{
        for (uint32_t i = 0; i < naming->n_frames; i++) {
                const struct infp_asked_frame *frame = &naming->frames[i];
                struct infp_asked_object *object =
                        frame->object < naming->n_objects && frame->is_asked ? &naming->objects[frame->object] : NULL;

                ret->n_named += frame->rank > INFP_NAME_RANGE;
                ret->n_ranges += frame->rank == INFP_NAME_RANGE;
                ret->n_unnamed += frame->rank == INFP_NAME_NONE;
                ret->n_lines += frame->has_line;
                if (object) {
                        object->n_named += frame->rank > INFP_NAME_RANGE;
                        object->n_ranges += frame->rank == INFP_NAME_RANGE;
                }
        }
        ret->n_frames = naming->n_frames;
        ret->n_asked = naming->n_asked;
        ret->n_written = naming->n_written;
}

static int by_need(const void *left, const void *right)
{
        const struct infp_symbolized_object *a = left, *b = right;
        const uint64_t a_n = a->n_frames - a->n_named, b_n = b->n_frames - b->n_named;

        return a_n != b_n ? (a_n > b_n ? -1 : 1) : strcmp(a->path, b->path);
}

/* Hands the texts over. */
static void tell(struct infp_naming *naming, struct infp_symbolized *ret)
{
        ret->objects = calloc(naming->n_objects + 1, sizeof(*ret->objects));
        for (uint32_t i = 0; ret->objects && i < naming->n_objects; i++) {
                struct infp_asked_object *o = &naming->objects[i];

                if (o->n)
                        ret->objects[ret->n_objects++] = (struct infp_symbolized_object){ INFP_TAKE(o->path),
                                                                                          INFP_TAKE(o->build_id),
                                                                                          o->n,
                                                                                          o->n_named,
                                                                                          o->n_ranges,
                                                                                          INFP_TAKE(o->names),
                                                                                          INFP_TAKE(o->debug_file),
                                                                                          INFP_TAKE(o->problem),
                                                                                          o->has_lines };
        }
        infp_sort(ret->objects, ret->n_objects, sizeof(*ret->objects), by_need);
}

static int name_all(struct infp_naming *naming, struct infp_symbolized *ret, struct infp_err *err)
{
        infp_progress(naming->notices, "names of code: reading the stacks");
        INFP_TRY(infp_naming_read(naming, err));
        if (naming->n_asked) {
                leave_what_is_not_here(naming);
                INFP_TRY(infp_naming_ask(naming, err));
        }
        count(naming, ret);
        INFP_TRY(infp_naming_say(naming, err));
        return infp_naming_end(naming, err);
}

int infp_symbolize_frames(struct infp_run *run, const struct infp_symbolize_options *options,
                          const struct infp_notices *notices, struct infp_symbolized *ret, struct infp_err *err)
{
        struct infp_symbolize_options own = *options;
        struct infp_naming naming = { .run = run, .options = &own, .notices = notices };
        struct infp_symbolized symbolized = { 0 };
        infp_autoclose int root = -1;
        int r;

        if (own.root_fd < 0) {
                root = own.root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
                if (root < 0)
                        return infp_fail_errno(err, -errno, "cannot open / for files with symbols");
        }
        r = name_all(&naming, &symbolized, err);
        if (r == 0 && ret)
                tell(&naming, &symbolized);
        if (ret)
                *ret = symbolized;
        naming_done(&naming);
        return r;
}

static void free_duck(struct infp_duck **duck)
{
        infp_duck_close(*duck);
}

int infp_symbolize(struct infp_run *run, const struct infp_symbolize_options *options,
                   const struct infp_notices *notices, struct infp_symbolized *ret, struct infp_err *err)
{
        infp_cleanup(free_duck) struct infp_duck *duck = NULL;
        infp_autoclose int fd = -1;
        struct infp_finished finished = { 0 };
        struct infp_err why = { "" };
        int r;

        if (run->state == INFP_RUN_RECORDING)
                return infp_fail(err, -EBUSY, "run %s is still being recorded by process %d", run->info.uuid,
                                 run->info.recorder_pid);
        if (run->state == INFP_RUN_INTERRUPTED)
                return infp_fail(err, -ENOTRECOVERABLE,
                                 "the recording of run %s was interrupted; `infprof recover %s/%s.infprof` repairs it "
                                 "and names its code",
                                 run->info.uuid, run->output, run->info.uuid);
        fd = infp_finish_lock(run, INFP_FINISH_PATIENCE_MS, notices, err);
        if (fd < 0)
                return fd;
        INFP_TRY(infp_symbolize_frames(run, options, notices, ret, err));
        r = run->state == INFP_RUN_FINISHED ? infp_duck_open_writer(&duck, &why)
                                            : -ENOPKG; /* else `finish` will do it */
        if (r < 0 && r != -ENOPKG)
                return infp_fail(err, r, "%s", why.text);
        if (r == 0) /* without DuckDB it stays Arrow, which is read as well */
                INFP_TRY(infp_finish_tables(run, duck, notices, &finished, err));
        return infp_run_save(run, err);
}
