/* `memray transform csv`: a line for each stack, thread and allocator with the number of blocks and their bytes, of what was in use at
 * the peak, or, by its options, at the end; the file does not say which. Frames stand innermost first, as NAME;FILE;LINE with "|" between
 * them. */
#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/str.h"
#include "import/format.h"
#include "import/name.h"

enum field { ALLOCATOR, BLOCKS, BYTES, TID, THREAD, STACK, FIELDS };
static const char head_line[] = "allocator,num_allocations,size,tid,thread_name,stack_trace";
enum { MAX_KNOWN = 1 << 20 };

struct memray {
        struct infp_import_input *input;
        struct infp_import_writer *writer;
        struct infp_str text; /* of the line, without quotes */
        struct infp_import_text fields[FIELDS];
        struct infp_map known; /* hash of a frame's text: its id */
        uint64_t *frames;
        size_t n_frames, cap_frames;
        struct infp_import_place place;
        const char *mode;
};

static int wrong(const struct memray *m, const char *why, struct infp_err *err)
{
        return infp_fail(err, -EBADMSG, "%s, line %llu: %s", infp_import_path(m->input),
                         (unsigned long long) infp_import_line_number(m->input), why);
}

static int no_memory(struct infp_err *err)
{
        return infp_fail(err, -ENOMEM, "not enough memory to import");
}

/* Where a field ends in the line: at a comma or the end; -1: its quotes do not close. Two quotes in quotes are one. */
static int64_t take_field(struct infp_str *out, struct infp_import_text line, size_t at)
{
        bool is_quoted = false;

        for (; at < line.size && (is_quoted || line.data[at] != ','); at++) {
                if (line.data[at] != '"')
                        infp_str_putc(out, line.data[at]);
                else if (is_quoted && at + 1 < line.size && line.data[at + 1] == '"')
                        infp_str_putc(out, line.data[at++]);
                else
                        is_quoted = !is_quoted;
        }
        return is_quoted ? -1 : (int64_t) at;
}

static int take_fields(struct memray *m, struct infp_import_text line, struct infp_err *err)
{
        size_t begins[FIELDS + 1], at = 0;

        infp_str_clear(&m->text);
        if (!infp_str_reserve(&m->text, line.size + 1))
                return no_memory(err);
        for (unsigned i = 0; i < FIELDS; i++) {
                int64_t end;

                begins[i] = m->text.size;
                end = take_field(&m->text, line, at);
                if (end < 0)
                        return wrong(m, "a quoted field does not end in its line", err);
                if ((i + 1 < FIELDS) != ((size_t) end < line.size))
                        return wrong(m, "it has fewer or more fields than the first line", err);
                at = (size_t) end + 1;
        }
        begins[FIELDS] = m->text.size;
        for (unsigned i = 0; i < FIELDS; i++)
                m->fields[i] = (struct infp_import_text){ m->text.data + begins[i], begins[i + 1] - begins[i] };
        return 0;
}

static bool is_number(const char *begin, const char *end, int64_t *ret)
{
        return infp_parse_i64(begin, (size_t) (end - begin), ret) == 0;
}

/* "operator|(A, B);a.cc;12|main;a.cc;3": a frame ends after a number. Empty: there is none, or it is not whole. */
static struct infp_import_text next_frame(struct infp_import_text *stack)
{
        const char *number = NULL; /* what may be one: after the last semicolon, if no bar followed */
        int64_t line;

        for (size_t n = 0; n <= stack->size; n++) {
                const char *at = stack->data + n;

                if (n < stack->size && *at == ';')
                        number = at + 1;
                if (n < stack->size && *at != '|')
                        continue;
                if (number && is_number(number, at, &line)) {
                        const struct infp_import_text frame = infp_import_upto(*stack, at);

                        *stack = infp_import_from(*stack, at + (n < stack->size));
                        return frame;
                }
                number = NULL;
        }
        return infp_import_text("");
}

static int make_frame(struct memray *m, struct infp_import_text text, uint64_t *ret, struct infp_err *err)
{
        struct infp_import_level *level = &m->place.levels[0];
        const char *number = infp_import_last(text, ';'),
                   *file = number ? infp_import_last(infp_import_upto(text, number), ';') : NULL;

        *level = (struct infp_import_level){ .name = { NULL, 0 } };
        if (!file || !is_number(number + 1, text.data + text.size, &level->line))
                return wrong(m, "a function of the stack is not NAME;FILE;LINE", err);
        level->file = infp_import_from(infp_import_upto(text, number), file + 1);
        level->name = infp_import_upto(text, file);
        if (!level->name.size)
                level->name = infp_import_text("[unknown]");
        m->place.kind = infp_import_kind_of_file(level->file, INFP_FRAME_NATIVE);
        /* As of a recording: <module> of two files are two functions. */
        m->place.object = m->place.kind == INFP_FRAME_PYTHON ? level->file : infp_import_text(NULL);
        m->place.n_levels = 1;
        return infp_import_frame(m->writer, &m->place, ret, err);
}

static int add_frame(struct memray *m, struct infp_import_text text, struct infp_err *err)
{
        const uint64_t key = infp_hash64(text.data, text.size, 0), *known = infp_map_get(&m->known, key);
        uint64_t frame = known ? *known : 0;

        if (!INFP_MAKE_ROOM(m->frames, m->n_frames, m->cap_frames, 256))
                return no_memory(err);
        if (!known) {
                INFP_TRY(make_frame(m, text, &frame, err));
                if (m->known.n >= MAX_KNOWN)
                        infp_map_done(&m->known);
                if (infp_map_put(&m->known, key, frame) < 0)
                        return no_memory(err);
        }
        m->frames[m->n_frames++] = frame;
        return 0;
}

static bool count_of(struct infp_import_text field, int64_t *ret)
{
        return infp_parse_i64(field.data, field.size, ret) == 0 && *ret >= 0;
}

static int take_line(struct memray *m, struct infp_import_text line, struct infp_err *err)
{
        struct infp_import_sample row = { .cpu = -1, .t_ns = infp_import_begin_t_ns(m->writer), .mode = m->mode };
        struct infp_import_text stack;
        int64_t bytes;
        bool is_cut;

        INFP_TRY(take_fields(m, line, err));
        if (!count_of(m->fields[BLOCKS], &row.samples) || !count_of(m->fields[BYTES], &bytes))
                return wrong(m, "its numbers are negative, too large or not numbers", err);
        m->n_frames = 0;
        for (stack = m->fields[STACK]; stack.size;) {
                const struct infp_import_text frame = next_frame(&stack);

                if (!frame.size)
                        return wrong(m, "a function of the stack is not NAME;FILE;LINE", err);
                INFP_TRY(add_frame(m, frame, err));
        }
        INFP_TRY(infp_import_stack(m->writer, m->frames, m->n_frames, true, &row.stack, &is_cut, err));
        row.is_truncated = is_cut || !m->n_frames;
        row.weight = (double) bytes;
        row.objects = (double) row.samples;
        if (!infp_import_is(m->fields[THREAD],
                            "merged thread")) /* of all threads, unless memray was asked for --split-threads */
                row.thread = m->fields[THREAD];
        return infp_import_sample(m->writer, &row, err);
}

static int read_lines(struct memray *m, struct infp_err *err)
{
        struct infp_import_text line;
        int r = infp_import_line(m->input, &line.data, &line.size, err);

        if (r > 0 && !infp_import_is(line, head_line))
                return wrong(m, "these are not the columns of `memray transform csv`", err);
        INFP_TRY(infp_import_begin_now(m->writer, err));
        while (r > 0 && (r = infp_import_line(m->input, &line.data, &line.size, err)) > 0)
                if (line.size)
                        INFP_TRY(take_line(m, line, err));
        return r;
}

static int read_memray(struct infp_import_input *input, struct infp_import_writer *writer, struct infp_err *err)
{
        struct memray *m = calloc(1, sizeof(*m));
        int r;

        if (!m)
                return no_memory(err);
        m->input = input;
        m->writer = writer;
        m->mode = infp_import_wanted(writer, infp_stack_modes[INFP_STACK_HEAP_PEAK].name);
        r = read_lines(m, err);
        if (r >= 0)
                r = infp_import_heap_method(writer, "memray", 0,
                                            infp_import_wanted(writer, NULL) ? INFP_IMPORT_EXACT
                                                                             : INFP_IMPORT_EXACT
                                                    ", and of the peak unless memray was asked for "
                                                    "others, which the file does not say",
                                            err);
        infp_str_done(&m->text);
        infp_map_done(&m->known);
        free(m->frames);
        free(m);
        return r;
}

static enum infp_import_sure look(const char *head, size_t size)
{
        struct infp_import_text rest = { head, size }, line;

        return infp_import_head_line(&rest, &line) && infp_import_is(line, head_line) ? INFP_IMPORT_SURE
                                                                                      : INFP_IMPORT_NO;
}

const struct infp_import_format infp_import_memray = {
        .name = "memray",
        .help = "`memray transform csv`",
        .takes_mode = true,
        .look = look,
        .read = read_memray,
};
