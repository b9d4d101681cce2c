/* The text of `perf script`: a line per sample, its frames below it, innermost first, and an empty line, which the last sample
 * does not need. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "import/format.h"
#include "import/name.h"
#include "import/perf_line.h"
#include "import/unit.h"

enum { MAX_KNOWN = 1 << 20, LOOK_LINES = 400 };

/* A function of the current place: pieces of `text`, which outlives the line. */
struct function {
        size_t name, name_size, object, object_size, file, file_size;
        int64_t line;
        uint64_t address;
        bool is_inlined, is_deleted;
};

struct perf_script {
        struct infp_import_input *input;
        struct infp_import_writer *writer;
        bool has_begun, is_open, is_skipped; /* inside a sample; inside another record */
        struct infp_import_sample sample;
        struct infp_str thread; /* its thread's name */
        char mode[INFP_IMPORT_MODE_TEXT];
        uint64_t *frames;
        size_t cap_frames, n_frames; /* n: also those beyond INFP_IMPORT_MAX_DEPTH, which are not kept */
        /* What was inlined stands before the function that it is in. */
        struct infp_str text;
        struct function functions[INFP_IMPORT_MAX_LEVELS];
        unsigned n_functions, n_left_out;
        struct infp_map known; /* hash of a place's text: its frame */
        struct infp_import_place place;
        struct infp_str name; /* of a place without one */
};

static int no_memory(struct infp_err *err)
{
        return infp_fail(err, -ENOMEM, "not enough memory to import");
}

static struct infp_import_text piece(const struct perf_script *p, size_t at, size_t size)
{
        return (struct infp_import_text){ size ? p->text.data + at : NULL, size };
}

static size_t keep(struct perf_script *p, struct infp_import_text text)
{
        size_t at = p->text.size;

        infp_str_put(&p->text, text.data ? text.data : "", text.size);
        infp_str_putc(&p->text, '\n'); /* so that pieces do not run together in the hash */
        return at;
}

/* Python names its functions for perf (python -X perf): py::NAME:FILE. */
static bool take_python(struct infp_import_level *level)
{
        const char *colon;
        struct infp_import_text rest;

        if (level->name.size < 6 || memcmp(level->name.data, "py::", 4) != 0)
                return false;
        rest = (struct infp_import_text){ level->name.data + 4, level->name.size - 4 };
        colon = memchr(rest.data, ':', rest.size);
        if (!colon || colon == rest.data)
                return false;
        level->name = (struct infp_import_text){ rest.data, (size_t) (colon - rest.data) };
        level->file = (struct infp_import_text){ colon + 1, (size_t) (rest.data + rest.size - (colon + 1)) };
        return true;
}

static enum infp_frame_kind kind_of(const struct perf_script *p, const struct function *f)
{
        const enum infp_frame_kind kind = infp_import_kind_of_object(p->place.object);

        if (kind != INFP_FRAME_UNKNOWN)
                return kind;
        if (f->address >> 47 == UINT64_MAX >> 47) /* the kernel's half */
                return INFP_FRAME_KERNEL;
        return p->place.is_unnamed ? INFP_FRAME_UNKNOWN : INFP_FRAME_NATIVE;
}

/* "[libfoo.so+0x1200]" says where, not what. */
static bool is_bracketed(struct infp_import_text name)
{
        return name.size > 2 && name.data[0] == '[' && name.data[name.size - 1] == ']';
}

static void make_place(struct perf_script *p)
{
        const struct function *f = &p->functions[p->n_functions - 1];
        struct infp_import_place *place = &p->place;

        place->object = piece(p, f->object, f->object_size);
        place->build_id = infp_import_text(NULL);
        place->is_unnamed = !f->name_size || is_bracketed(piece(p, f->name, f->name_size));
        place->kind = kind_of(p, f);
        place->n_levels = p->n_functions;
        for (unsigned i = 0; i < p->n_functions; i++) {
                f = &p->functions[p->n_functions - 1 - i];
                place->levels[i] = (struct infp_import_level){ .name = piece(p, f->name, f->name_size),
                                                               .file = piece(p, f->file, f->file_size),
                                                               .line = f->line };
                if (!f->name_size)
                        place->levels[i].name = i ? infp_import_text("[unknown]")
                                                  : infp_import_place_name(&p->name, place->object, NULL);
        }
        if (take_python(&place->levels[0]))
                place->kind = INFP_FRAME_PYTHON;
}

static int add_frame(struct perf_script *p, uint64_t frame, struct infp_err *err)
{
        if (p->n_frames < INFP_IMPORT_MAX_DEPTH && !INFP_MAKE_ROOM(p->frames, p->n_frames, p->cap_frames, 64))
                return no_memory(err);
        if (p->n_frames < p->cap_frames)
                p->frames[p->n_frames] = frame;
        p->n_frames++;
        return 0;
}

/* The place is whole: its outermost function is the compiled one. */
static int end_place(struct perf_script *p, struct infp_err *err)
{
        const struct function *last = p->n_functions ? &p->functions[p->n_functions - 1] : NULL;
        const uint64_t *known;
        uint64_t key, frame;

        if (!last)
                return 0;
        if (p->text.failed)
                return no_memory(err);
        key = infp_hash64(p->text.data, p->text.size, last->address >> 47 == UINT64_MAX >> 47);
        known = infp_map_get(&p->known, key);
        if (known) {
                frame = *known;
        } else {
                make_place(p);
                if (p->name.failed)
                        return no_memory(err);
                INFP_TRY(infp_import_frame(p->writer, &p->place, &frame, err));
                if (last->object_size)
                        INFP_TRY(infp_import_mapping(p->writer,
                                                     &(struct infp_import_mapping){ .path = p->place.object,
                                                                                    .is_deleted = last->is_deleted },
                                                     err));
                if (p->known.n >= MAX_KNOWN)
                        infp_map_done(&p->known);
                if (infp_map_put(&p->known, key, frame) < 0)
                        return no_memory(err);
        }
        INFP_TRY(add_frame(p, frame, err));
        p->n_functions = 0;
        infp_str_clear(&p->text);
        return 0;
}

/* The next line belongs to the same place if the last function was inlined there, at the same address. perf marks some functions
 * as inlined although no function of that address follows. */
static int next_function(struct perf_script *p, uint64_t address, struct infp_err *err)
{
        const struct function *last = p->n_functions ? &p->functions[p->n_functions - 1] : NULL;

        return last && (!last->is_inlined || last->address != address) ? end_place(p, err) : 0;
}

static int take_frame(struct perf_script *p, const struct infp_perf_frame *frame, struct infp_err *err)
{
        struct function *f;

        INFP_TRY(next_function(p, frame->address, err));
        if (p->n_functions == INFP_IMPORT_MAX_LEVELS) {
                infp_import_skip(p->writer, "inlined functions beyond the 64th of an address", 1,
                                 infp_import_line_number(p->input));
                p->n_functions--;
        }
        f = &p->functions[p->n_functions++];
        *f = (struct function){ .address = frame->address,
                                .is_inlined = frame->is_inlined,
                                .is_deleted = frame->is_deleted,
                                .name_size = frame->name.size,
                                .object_size = frame->object.size };
        f->name = keep(p, frame->name);
        f->object = keep(p, frame->object);
        return 0;
}

static int end_sample(struct perf_script *p, struct infp_err *err)
{
        bool is_cut;

        if (!p->is_open)
                return 0;
        p->is_open = false;
        INFP_TRY(end_place(p, err));
        INFP_TRY(infp_import_stack(p->writer, p->frames,
                                   p->n_frames < INFP_IMPORT_MAX_DEPTH ? p->n_frames : INFP_IMPORT_MAX_DEPTH, true,
                                   &p->sample.stack, &is_cut, err));
        p->sample.is_truncated = is_cut || p->n_frames > INFP_IMPORT_MAX_DEPTH;
        if (p->thread.failed)
                return no_memory(err);
        p->sample.thread = (struct infp_import_text){ p->thread.data, p->thread.size };
        return infp_import_sample(p->writer, &p->sample, err);
}

/* What a clock measures, in ns; "": not a clock. Names of modes we write ourselves. */
static const char *clock_of(struct infp_import_text event)
{
        const char *own = infp_import_clock(event);

        if (infp_import_is(event, "cpu-clock") || infp_import_is(event, "task-clock"))
                return infp_stack_modes[INFP_STACK_CPU].name;
        return own ? own : "";
}

/* A clock's period is time; other events stand for so many of themselves. "TYPE/UNIT" is of an import of ours. */
static void weigh(struct perf_script *p, const struct infp_perf_head *head)
{
        struct infp_import_text type = infp_import_text(head->has_period ? clock_of(head->event) : ""),
                                unit = infp_import_text("nanoseconds");
        const char *slash = infp_import_last(head->event, '/');

        if (!type.size) {
                type = head->event.size ? head->event : infp_import_text("samples");
                unit = infp_import_text("bytes");
                if (!head->has_period || !infp_import_heap(type, unit)) /* of ours */
                        unit = infp_import_text("count");
        }
        if (slash && slash + 1 < head->event.data + head->event.size) {
                type.size = (size_t) (slash - type.data);
                unit = (struct infp_import_text){ slash + 1,
                                                  (size_t) (head->event.data + head->event.size - (slash + 1)) };
        }
        p->sample.samples = 1;
        p->sample.mode = p->mode;
        p->sample.weight = infp_import_mode(type, unit, p->mode) * (head->has_period ? (double) head->period : 1);
        if (slash && head->has_period && infp_import_is(unit, "seconds")) /* the period is whole: we write ns */
                p->sample.weight /= 1e9;
}

static int begin(struct perf_script *p, const struct infp_perf_head *head, struct infp_err *err)
{
        if (p->has_begun)
                return 0;
        p->has_begun = true;
        if (!head->has_time)
                return infp_import_begin_now(p->writer, err);
        infp_import_found(p->writer)->has_times = true;
        return infp_import_begin(p->writer, head->t_ns, (int64_t) infp_clock_ns(CLOCK_REALTIME), err);
}

static int begin_sample(struct perf_script *p, const struct infp_perf_head *head, struct infp_err *err)
{
        struct infp_perf_frame frame;

        p->is_skipped =
                infp_import_begins(head->event, "PERF_RECORD_") || infp_import_begins(head->rest, "PERF_RECORD_");
        if (p->is_skipped) {
                infp_import_skip(p->writer, "records that are not samples", 1, infp_import_line_number(p->input));
                return 0;
        }
        INFP_TRY(begin(p, head, err));
        p->is_open = true;
        p->n_frames = p->n_functions = 0;
        infp_str_clear(&p->text);
        infp_str_clear(&p->thread);
        infp_str_put(&p->thread, head->comm.data, head->comm.size);
        p->sample =
                (struct infp_import_sample){ .t_ns = head->has_time ? head->t_ns : infp_import_begin_t_ns(p->writer),
                                             .pid = head->pid,
                                             .tid = head->tid,
                                             .cpu = head->cpu };
        weigh(p, head);
        /* Without call chains (no -g) the only frame is on the same line. */
        if (head->rest.size && infp_perf_frame(head->rest, &frame) && (frame.object.size || frame.name.size))
                return take_frame(p, &frame, err);
        return 0;
}

/* "# perf version : 6.1.0" of --header. */
static void take_comment(struct perf_script *p, struct infp_import_text line)
{
        static const char version[] = "# perf version : ";
        struct infp_imported *found = infp_import_found(p->writer);
        const size_t size = sizeof(version) - 1;

        if (line.size <= size || memcmp(line.data, version, size) != 0)
                return;
        memcpy(found->by, "perf ", 5);
        line.size = line.size - size < sizeof(found->by) - 6 ? line.size - size : sizeof(found->by) - 6;
        memcpy(found->by + 5, line.data + size, line.size);
        found->by[5 + line.size] = 0;
}

static bool take_source(struct perf_script *p, struct infp_import_text line)
{
        struct function *f = p->n_functions ? &p->functions[p->n_functions - 1] : NULL;
        struct infp_import_text file;
        int64_t number;

        if (!f || f->file || !infp_perf_source(line, &file, &number, &f->is_inlined))
                return false;
        f->file = keep(p, file);
        f->file_size = file.size;
        f->line = file.size ? number : 0;
        infp_str_i64(&p->text, f->line);
        return true;
}

/* An indented line below a sample is a frame if it parses as one; without call chains samples are indented, too. */
static int take_line(struct perf_script *p, struct infp_import_text line, struct infp_err *err)
{
        const bool is_indented = line.data[0] == ' ' || line.data[0] == '\t';
        struct infp_perf_head head;
        struct infp_perf_frame frame;

        if (is_indented && (p->is_open || p->is_skipped) && infp_perf_frame(line, &frame))
                return p->is_open ? take_frame(p, &frame, err) : 0;
        if (is_indented && p->is_open && take_source(p, line))
                return 0;
        if (infp_perf_head(line, &head)) {
                INFP_TRY(end_sample(p, err));
                return begin_sample(p, &head, err);
        }
        if (infp_perf_frame(line, &frame))
                infp_import_skip(p->writer, "frames without a sample", 1, infp_import_line_number(p->input));
        else
                infp_import_skip(p->writer, "lines that are neither a sample nor a frame", 1,
                                 infp_import_line_number(p->input));
        return 0;
}

static int read_lines(struct perf_script *p, struct infp_err *err)
{
        struct infp_import_text line;
        int r;

        while ((r = infp_import_line(p->input, &line.data, &line.size, err)) > 0) {
                if (!infp_import_trim(line).size) {
                        INFP_TRY(end_sample(p, err));
                        p->is_skipped = false;
                } else if (line.data[0] == '#')
                        take_comment(p, line);
                else
                        INFP_TRY(take_line(p, line, err));
        }
        return r < 0 ? r : end_sample(p, err);
}

static int read_perf_script(struct infp_import_input *input, struct infp_import_writer *writer, struct infp_err *err)
{
        struct perf_script *p = calloc(1, sizeof(*p));
        int r;

        if (!p)
                return no_memory(err);
        p->input = input;
        p->writer = writer;
        r = read_lines(p, err);
        infp_map_done(&p->known);
        infp_str_done(&p->text);
        infp_str_done(&p->thread);
        infp_str_done(&p->name);
        free(p->frames);
        free(p);
        return r;
}

static enum infp_import_sure look(const char *head, size_t size)
{
        struct infp_import_text rest = { head, size }, line;
        unsigned n_heads = 0, n_clear = 0, n_frames = 0; /* n_clear: with a time or a CPU */

        if (memchr(head, 0, size))
                return INFP_IMPORT_NO;
        /* bound: a guess at the format; nothing is read here */
        for (unsigned i = 0; i < LOOK_LINES && infp_import_head_line(&rest, &line); i++) {
                struct infp_perf_frame frame;
                struct infp_perf_head start;

                if (!infp_import_trim(line).size || line.data[0] == '#')
                        continue;
                if (n_heads && (line.data[0] == ' ' || line.data[0] == '\t') && infp_perf_frame(line, &frame))
                        n_frames++;
                else if (infp_perf_head(line, &start)) {
                        n_heads++;
                        n_clear += start.has_time || start.cpu >= 0;
                        n_frames += start.rest.size && infp_perf_frame(start.rest, &frame) && frame.object.size;
                }
        }
        if (n_frames)
                return INFP_IMPORT_SURE;
        return n_clear ? INFP_IMPORT_LIKELY : INFP_IMPORT_NO; /* "INFO 2026 starting: ..." is a log */
}

const struct infp_import_format infp_import_perf_script = {
        .name = "perf-script",
        .help = "text of `perf script` (also that of infprof flamegraph --perf-script)",
        .look = look,
        .read = read_perf_script,
};
