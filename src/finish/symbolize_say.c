/* What has no name, and why: one notice for each reason, and rows of `sources`. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "base/mem.h"
#include "base/notice.h"
#include "base/sort.h"
#include "base/text.h"
#include "finish/symbolize_parts.h"

enum { MOST_LISTED = 3, MOST_SOURCES = 20 };

static void add(struct infp_str *list, unsigned n, const char *path, uint64_t n_frames)
{
        if (n < MOST_LISTED)
                infp_str_printf(list, "%s%s (%s)", n ? ", " : "", infp_base_name(path), infp_count(n_frames).text);
        else if (n == MOST_LISTED)
                infp_str_puts(list, " ...");
}

/* Code of a file that was read and has no name of it. */
static uint64_t count_nameless(const struct infp_asked_object *object)
{
        return object->problem || object->is_kernel ? object->n_ranges : object->n - object->n_named;
}

/* All that has no name is Go's, by a table that cannot be read. */
static bool is_go_alone(const struct infp_naming *naming)
{
        bool is_any = false;

        for (uint32_t i = 0; i < naming->n_frames; i++) {
                const struct infp_asked_frame *frame = &naming->frames[i];

                if (frame->object == UINT32_MAX || frame->kind == INFP_FRAME_KERNEL || frame->rank > INFP_NAME_RANGE)
                        continue;
                if (frame->kind != INFP_FRAME_GO)
                        return false;
                is_any = true;
        }
        return is_any;
}

/* Functions of which the extent is known at most. */
static int say_ranges(struct infp_naming *naming, uint32_t *const by_need, struct infp_err *err)
{
        infp_autostr struct infp_str list = { 0 }, text = { 0 }, fix = { 0 };
        uint64_t n_frames = 0, n_ranges = 0;
        unsigned n = 0;

        for (uint32_t i = 0; i < naming->n_objects; i++) {
                const struct infp_asked_object *object = &naming->objects[by_need[i]];

                if (!count_nameless(object))
                        continue;
                add(&list, n++, object->path, count_nameless(object));
                n_frames += count_nameless(object);
                n_ranges += object->n_ranges;
        }
        if (!n)
                return 0;
        infp_str_printf(&text,
                        "%s of %s code addresses have no symbol name (shown as %s): %u file%s stripped or without "
                        "symbols there: %s",
                        infp_count(n_frames).text, infp_count(naming->n_frames).text,
                        n_ranges == n_frames ? "[lib+offset]"
                        : n_ranges           ? "[lib+offset] or [lib]"
                                             : "their file",
                        n, n == 1 ? " is" : "s are", list.data);
        if (is_go_alone(naming))
                infp_str_puts(&fix, "Go has no packages of debug symbols: build it without -ldflags=-s");
        else
                infp_str_printf(&fix,
                                "install their debug symbols (Debian: packages that end in -dbgsym or -dbg), or put "
                                "them in a directory, and run `infprof symbolize -r %s --debug-dir DIR`",
                                naming->run->info.uuid);
        if (text.failed || fix.failed)
                return 0;
        infp_notice(naming->notices, "%s; %s", text.data, fix.data);
        return infp_naming_put_source(naming, NULL, "absent", text.data, fix.data, err);
}

static const char *state_of(int why)
{
        return why == -EACCES || why == -EPERM ? "denied" : why == -ENOENT ? "absent" : "broken";
}

/* A file that is out of reach by now, whose code the recorder has named. */
static bool is_named_beside(const struct infp_asked_object *object)
{
        return object->why && !object->tries && object->n == object->n_named + object->n_ranges;
}

/* Files that are gone, changed, or crashed who read them; the kernel when it hides its addresses. */
static int say_problems(struct infp_naming *naming, uint32_t *const by_need, struct infp_err *err)
{
        unsigned n_said = 0, n_more = 0;
        const char *said = NULL; /* that libdw is missing is true of many */

        for (uint32_t i = 0; i < naming->n_objects; i++) {
                const struct infp_asked_object *object = &naming->objects[by_need[i]];

                if (!object->problem || is_named_beside(object) || (said && strcmp(said, object->problem) == 0))
                        continue;
                said = object->problem;
                if (n_said < MOST_LISTED || object->is_kernel)
                        infp_notice(naming->notices, "%s", object->problem);
                else
                        n_more++;
                if (n_said++ < MOST_SOURCES)
                        INFP_TRY(infp_naming_put_source(naming, object->path, state_of(object->why), object->problem,
                                                        NULL, err));
        }
        if (n_more)
                infp_notice(naming->notices, "%u more files have no names for similar reasons: see table sources",
                            n_more);
        return 0;
}

/* Who makes code at run time, by the objects that were sampled, and how it names it. */
static const struct {
        const char *begins[3];
        const char *fix;
} makers[] = {
        { { "libdnnl", "libtorch_cpu", "libopenvino_intel_cpu" }, "oneDNN: ONEDNN_JIT_PROFILE=2" },
        { { "node", "libnode" }, "Node.js: --perf-basic-prof" },
        { { "libcoreclr" }, ".NET: DOTNET_PerfMapEnabled=1" },
        { { "libjvm" },
          "Java: perf-map-agent, or -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit of JDK 17 and later" },
        { { "libjulia" }, "Julia: ENABLE_JITPROFILING=1" },
};
enum { BY_JIT_NAMES = 3 }; /* the first of them: record --jit-names does that */

static bool is_object_of(const struct infp_asked_object *object, unsigned maker)
{
        const char *base = infp_base_name(object->path);

        for (unsigned i = 0; i < INFP_COUNT(makers[maker].begins) && makers[maker].begins[i]; i++)
                if (strcmp(makers[maker].begins[i], "node") == 0
                            ? strcmp(base, "node") == 0
                            : strncmp(base, makers[maker].begins[i], strlen(makers[maker].begins[i])) == 0)
                        return true;
        return false;
}

/* What would name it: of those that are there, else of all. */
static void put_makers(const struct infp_naming *naming, struct infp_str *fix)
{
        bool is_there[INFP_COUNT(makers)] = { false }, is_known = false, can_set = false;
        const char *between = "";

        for (uint32_t i = 0; i < naming->n_objects; i++)
                for (unsigned k = 0; k < INFP_COUNT(makers); k++) {
                        is_there[k] |= is_object_of(&naming->objects[i], k);
                        is_known |= is_there[k];
                }
        for (unsigned k = 0; k < INFP_COUNT(makers); k++)
                if (is_there[k] || !is_known) {
                        infp_str_printf(fix, "%s%s", between, makers[k].fix);
                        between = "; ";
                        can_set |= k < BY_JIT_NAMES;
                }
        if (!is_known)
                infp_str_puts(fix, "; Python functions of 3.12 and later: -X perf");
        if (can_set)
                infp_str_puts(fix, "; `record --jit-names` sets these");
}

/* Code made at run time, of which no file says the name. */
static int say_made(struct infp_naming *naming, struct infp_err *err)
{
        infp_autostr struct infp_str fix = { 0 };
        char text[160];
        uint64_t n = 0;

        for (uint32_t i = 0; i < naming->n_frames; i++)
                n += naming->frames[i].kind == INFP_FRAME_JIT && naming->frames[i].rank == INFP_NAME_NONE;
        if (!n)
                return 0;
        snprintf(text, sizeof(text), "%s of %s code addresses were generated at run time and have no name",
                 infp_count(n).text, infp_count(naming->n_frames).text);
        infp_str_puts(&fix, "have the program write a perf map (");
        put_makers(naming, &fix);
        infp_str_puts(&fix, ") or a jitdump; infprof reads them while it records");
        if (fix.failed)
                return 0;
        infp_notice(naming->notices, "%s; %s", text, fix.data);
        return infp_naming_put_source(naming, "jit", "absent", text, fix.data, err);
}

static int by_need(const void *left, const void *right, void *context)
{
        const struct infp_naming *naming = context;
        const struct infp_asked_object *a = &naming->objects[*(const uint32_t *) left],
                                       *b = &naming->objects[*(const uint32_t *) right];
        const uint64_t a_n = a->n - a->n_named, b_n = b->n - b->n_named;

        return a_n != b_n ? (a_n > b_n ? -1 : 1) : strcmp(a->path, b->path);
}

int infp_naming_say(struct infp_naming *naming, struct infp_err *err)
{
        uint32_t *order = malloc((naming->n_objects + 1) * sizeof(*order));
        int r;

        if (!order)
                return infp_fail(err, -ENOMEM, "no memory for the files of the run");
        for (uint32_t i = 0; i < naming->n_objects; i++)
                order[i] = i;
        infp_sort_r(order, naming->n_objects, sizeof(*order), by_need, naming);
        r = say_ranges(naming, order, err);
        if (r == 0)
                r = say_problems(naming, order, err);
        if (r == 0)
                r = say_made(naming, err);
        free(order);
        return r;
}
