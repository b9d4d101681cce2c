/* heaptrack's text, which its files hold packed (`zstd -dc heaptrack.PROGRAM.PID.zst`): strings, places in code, nodes of the tree of
 * calls (traces), kinds of blocks (a size and a trace), and then each block as it is allocated and freed, in a line each. Numbers are
 * hexadecimal; strings, places and traces count from 1, and 0 stands for no one of them; kinds of blocks count from 0. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "import/format.h"
#include "import/name.h"

enum { NEWEST_VERSION = 3, MAX_THINGS = 1 << 26 };

struct place {
        uint64_t module, first; /* a string; of `functions`, innermost first */
        uint32_t n;
        uint64_t frame; /* 0: not yet made */
};

struct function {
        uint64_t name, file, line; /* name, file: strings */
};

struct trace {
        uint32_t place, parent, site; /* site 0: it is no allocation's own */
        uint32_t depth; /* bounded: heaptrack ends at 64, and all nodes in one chain would take their square */
};

struct kind {
        uint64_t size;
        uint32_t site;
};

struct sum {
        uint64_t bytes, blocks;
};

/* What was allocated by one trace. Sites are looked at when they change, not at each peak: `peak` is of the peak with this number; of
 * a later one it is what is in use, since nothing has changed. */
struct site {
        uint32_t trace;
        uint64_t peak_number;
        struct sum allocated, live, peak;
};

struct heaptrack {
        struct infp_import_input *input;
        struct infp_import_writer *writer;
        uint64_t version;
        struct infp_str text; /* of the strings */
        struct {
                size_t at, size;
        } * strings;
        struct place *places;
        struct function *functions;
        struct trace *traces;
        struct kind *kinds;
        struct site *sites;
        size_t n_strings, cap_strings, n_places, cap_places, n_functions, cap_functions, n_traces, cap_traces, n_kinds,
                cap_kinds, n_sites, cap_sites;
        uint64_t allocated, live, most, peak_number; /* bytes; most: of `live`, so far */
        uint64_t ms, peak_ms;                        /* since the program's begin */
        bool is_whole;                               /* its last lines, which heaptrack writes at the end, are there */
        struct infp_import_place place;
        struct infp_str name; /* of a place without one */
};

static int wrong(const struct heaptrack *h, const char *why, struct infp_err *err)
{
        return infp_fail(err, -EBADMSG, "%s, line %llu: %s", infp_import_path(h->input),
                         (unsigned long long) infp_import_line_number(h->input), why);
}

static int no_room(const struct heaptrack *h, size_t n, struct infp_err *err)
{
        return n < MAX_THINGS ? infp_fail(err, -ENOMEM, "not enough memory to read %s", infp_import_path(h->input))
                              : wrong(h, "more strings, places or stacks than a profile has", err);
}

#define ROOM(h, things) \
        ((h)->n_##things < MAX_THINGS && INFP_MAKE_ROOM((h)->things, (h)->n_##things, (h)->cap_##things, 1024))

/* "v 10400 3": of heaptrack, and of the file. */
static int take_version(struct heaptrack *h, struct infp_import_text line, struct infp_err *err)
{
        struct infp_imported *found = infp_import_found(h->writer);
        uint64_t program = 0;

        if (!infp_import_hex(&line, &program))
                return wrong(h, "the version of heaptrack is missing", err);
        if (!infp_import_hex(&line, &h->version) && program == 0x10200)
                h->version = 1;
        if (!h->version || h->version > NEWEST_VERSION)
                return infp_fail(err, -EBADMSG,
                                 "%s is of version %llu of heaptrack's format, and versions 1 to %d are known; "
                                 "`heaptrack_print -F FILE` of that heaptrack writes folded stacks, which can be "
                                 "imported",
                                 infp_import_path(h->input), (unsigned long long) h->version, NEWEST_VERSION);
        snprintf(found->by, sizeof(found->by), "heaptrack %llu.%llu.%llu", (unsigned long long) (program >> 16),
                 (unsigned long long) (program >> 8 & 0xff), (unsigned long long) (program & 0xff));
        return 0;
}

/* Since version 3 with its size before it. */
static int take_string(struct heaptrack *h, struct infp_import_text line, struct infp_err *err)
{
        uint64_t size;

        if (h->version >= 3 && (!infp_import_hex(&line, &size) || line.size != size + 1))
                return wrong(h, "a text is shorter or longer than it says", err);
        if (!ROOM(h, strings))
                return no_room(h, h->n_strings, err);
        line = line.size ? infp_import_from(line, line.data + 1) : line;
        h->strings[h->n_strings].at = h->text.size;
        h->strings[h->n_strings++].size = line.size;
        infp_str_put(&h->text, line.data ? line.data : "", line.size);
        return h->text.failed ? no_room(h, 0, err) : 0;
}

static bool is_string(const struct heaptrack *h, uint64_t number)
{
        return number <= h->n_strings;
}

static struct infp_import_text string(const struct heaptrack *h, uint64_t number)
{
        if (!number || !h->strings[number - 1].size)
                return infp_import_text(NULL);
        return (struct infp_import_text){ h->text.data + h->strings[number - 1].at, h->strings[number - 1].size };
}

/* Address, module, then name, file and line of each function there, innermost first. */
static int take_place(struct heaptrack *h, struct infp_import_text line, struct infp_err *err)
{
        struct place place = { .first = h->n_functions };
        struct function f = { 0 };
        uint64_t address;

        if (!infp_import_hex(&line, &address) || !infp_import_hex(&line, &place.module) || !is_string(h, place.module))
                return wrong(h, "the module of a place is missing", err);
        while (infp_import_hex(&line, &f.name)) {
                const bool is_name_alone = !place.n && !line.size; /* without debug information */

                if (!is_name_alone && (!infp_import_hex(&line, &f.file) || !infp_import_hex(&line, &f.line)))
                        return wrong(h, "a function of a place is not whole", err);
                if (!is_string(h, f.name) || !is_string(h, f.file) || f.line > INT32_MAX)
                        return wrong(h, "a function of a place is not among the texts", err);
                if (!ROOM(h, functions))
                        return no_room(h, h->n_functions, err);
                h->functions[h->n_functions++] = f;
                place.n++;
        }
        if (infp_import_trim(line).size)
                return wrong(h, "a place ends in what is not a number", err);
        if (!ROOM(h, places))
                return no_room(h, h->n_places, err);
        h->places[h->n_places++] = place;
        return 0;
}

static int take_trace(struct heaptrack *h, struct infp_import_text line, struct infp_err *err)
{
        uint64_t place, parent;
        uint32_t depth;

        if (!infp_import_hex(&line, &place) || !infp_import_hex(&line, &parent) || !place || place > h->n_places ||
            parent > h->n_traces)
                return wrong(h, "a stack names a place or a caller that is not there", err);
        depth = parent ? h->traces[parent - 1].depth + 1 : 1;
        if (depth > INFP_IMPORT_MAX_DEPTH)
                return wrong(h, "a stack is deeper than 4,096 functions, which no stack of heaptrack is", err);
        if (!ROOM(h, traces))
                return no_room(h, h->n_traces, err);
        h->traces[h->n_traces++] =
                (struct trace){ .place = (uint32_t) place, .parent = (uint32_t) parent, .depth = depth };
        return 0;
}

static int add_site(struct heaptrack *h, uint32_t trace, uint32_t *ret, struct infp_err *err)
{
        if (!ROOM(h, sites))
                return no_room(h, h->n_sites, err);
        h->sites[h->n_sites++] = (struct site){ .trace = trace };
        *ret = (uint32_t) h->n_sites;
        return 0;
}

static int take_kind(struct heaptrack *h, struct infp_import_text line, struct infp_err *err)
{
        uint64_t size, trace;

        if (!infp_import_hex(&line, &size) || !infp_import_hex(&line, &trace) || !trace || trace > h->n_traces)
                return wrong(h, "a block names a stack that is not there", err);
        if (!ROOM(h, kinds))
                return no_room(h, h->n_kinds, err);
        if (!h->traces[trace - 1].site)
                INFP_TRY(add_site(h, (uint32_t) trace, &h->traces[trace - 1].site, err));
        h->kinds[h->n_kinds++] = (struct kind){ size, h->traces[trace - 1].site - 1 };
        return 0;
}

/* A block was allocated, or freed. */
static int take_event(struct heaptrack *h, struct infp_import_text line, bool is_free, struct infp_err *err)
{
        const struct kind *kind;
        struct site *site;
        uint64_t number;

        if (!infp_import_hex(&line, &number) || number >= h->n_kinds)
                return wrong(h, "a block is allocated or freed whose size is not there", err);
        kind = &h->kinds[number];
        site = &h->sites[kind->site];
        if (site->peak_number != h->peak_number) {
                site->peak_number = h->peak_number;
                site->peak = site->live;
        }
        if (is_free && (!site->live.blocks || site->live.bytes < kind->size))
                return wrong(h, "a block is freed that was not allocated", err);
        if (is_free) {
                site->live.bytes -= kind->size;
                site->live.blocks--;
                h->live -= kind->size;
                return 0;
        }
        if (kind->size > INT64_MAX - h->allocated) /* which no other sum exceeds */
                return wrong(h, "the sizes add up to more than 2^63", err);
        h->allocated += kind->size;
        h->live += kind->size;
        site->allocated.bytes += kind->size;
        site->allocated.blocks++;
        site->live.bytes += kind->size;
        site->live.blocks++;
        if (h->live > h->most) {
                h->most = h->live;
                h->peak_ms = h->ms;
                h->peak_number++;
        }
        return 0;
}

static int take_time(struct heaptrack *h, struct infp_import_text line, struct infp_err *err)
{
        uint64_t ms;

        if (!infp_import_hex(&line, &ms) || ms < h->ms || ms > UINT64_C(100) * 366 * 86400 * 1000)
                return wrong(h, "its time is not a number, runs backwards, or is later than a century", err);
        h->ms = ms;
        return 0;
}

static int take_line(struct heaptrack *h, struct infp_import_text line, struct infp_err *err)
{
        const struct infp_import_text rest =
                line.size > 1 && line.data[1] == ' ' ? infp_import_from(line, line.data + 1) : infp_import_text("");

        if (*line.data != 'v' && !h->version)
                return wrong(h, "the line with the version (v) should come first", err);
        switch (*line.data) {
        case 'v':
                return take_version(h, rest, err);
        case 's':
                return take_string(h, rest, err);
        case 'i':
                return take_place(h, rest, err);
        case 't':
                return take_trace(h, rest, err);
        case 'a':
                return take_kind(h, rest, err);
        case '+':
        case '-':
                return take_event(h, rest, *line.data == '-', err);
        case 'c':
                return take_time(h, rest, err);
        case 'S':
                infp_import_skip(h->writer, "suppressions of leaks", 1, infp_import_line_number(h->input));
                return 0;
        case 'A':
                infp_import_skip(h->writer, "marks of an attach (blocks of before it are missing)", 1,
                                 infp_import_line_number(h->input));
                return 0;
        case '#':
                h->is_whole |= infp_import_begins(line, "# ips:");
                return 0;
        case 'X': /* the command, pages of the machine, RSS */
        case 'I':
        case 'R':
                return 0;
        case 'x':
        case 'm':
                return wrong(h, "this is what `heaptrack --raw` records; heaptrack_interpret makes its text of it",
                             err);
        default:
                return wrong(h, "this is not a line of heaptrack's", err);
        }
}

/* The frame of a place. */
static int frame_of(struct heaptrack *h, uint32_t number, uint64_t *ret, struct infp_err *err)
{
        struct place *from = &h->places[number - 1];
        struct infp_import_place *place = &h->place;
        const uint32_t n = from->n < INFP_IMPORT_MAX_LEVELS ? from->n : INFP_IMPORT_MAX_LEVELS;

        *ret = from->frame;
        if (from->frame)
                return 0;
        infp_import_skip(h->writer, "inlined functions beyond the 64th of an address", from->n - n, 0);
        place->object = string(h, from->module);
        place->n_levels = n ? n : 1;
        place->levels[0] = (struct infp_import_level){ .name = { NULL, 0 } };
        for (uint32_t i = 0; i < n; i++) {
                const struct function *f = &h->functions[from->first + from->n - 1 - i];

                place->levels[i] = (struct infp_import_level){ .name = string(h, f->name),
                                                               .file = string(h, f->file),
                                                               .line = (int64_t) f->line };
                if (i && !f->name)
                        place->levels[i].name = infp_import_text("[unknown]");
        }
        place->is_unnamed = !place->levels[0].name.size;
        if (place->is_unnamed)
                place->levels[0].name = infp_import_place_name(&h->name, place->object, NULL);
        place->kind = infp_import_kind_of_object(place->object);
        if (place->kind == INFP_FRAME_UNKNOWN && !place->is_unnamed)
                place->kind = INFP_FRAME_NATIVE;
        INFP_TRY(infp_import_frame(h->writer, place, &from->frame, err));
        *ret = from->frame;
        if (!place->object.size)
                return 0;
        return infp_import_mapping(h->writer, &(struct infp_import_mapping){ .path = place->object }, err);
}

/* C++'s own way to malloc says nothing: heaptrack leaves it out, too. */
static bool is_operator_new(const struct heaptrack *h, uint32_t place)
{
        const struct place *is = &h->places[place - 1];
        const struct infp_import_text name = is->n ? string(h, h->functions[is->first].name) : infp_import_text("");

        return infp_import_begins(name, "operator new(") || infp_import_begins(name, "operator new[](");
}

static int put_row(struct heaptrack *h, struct infp_import_sample *row, enum infp_stack_mode mode, uint64_t ms,
                   struct sum sum, struct infp_err *err)
{
        row->mode = infp_stack_modes[mode].name;
        row->t_ns = infp_import_begin_t_ns(h->writer) + ms * INFP_NS_PER_MS;
        row->samples = (int64_t) sum.blocks;
        row->objects = (double) sum.blocks;
        row->weight = (double) sum.bytes;
        return sum.blocks ? infp_import_sample(h->writer, row, err) : 0;
}

static int put_site(struct heaptrack *h, const struct site *site, uint64_t *frames, struct infp_err *err)
{
        struct infp_import_sample row = { .cpu = -1 };
        uint32_t at = site->trace;
        size_t n = 0;
        bool is_cut;

        while (at && h->traces[at - 1].parent && is_operator_new(h, h->traces[at - 1].place))
                at = h->traces[at - 1].parent;
        for (; at; at = h->traces[at - 1].parent)
                INFP_TRY(frame_of(h, h->traces[at - 1].place, &frames[n++], err));
        INFP_TRY(infp_import_stack(h->writer, frames, n, true, &row.stack, &is_cut, err));
        row.is_truncated = is_cut;
        INFP_TRY(put_row(h, &row, INFP_STACK_HEAP_ALLOCATED, 0, site->allocated, err));
        INFP_TRY(put_row(h, &row, INFP_STACK_HEAP_PEAK, h->peak_ms,
                         site->peak_number == h->peak_number ? site->peak : site->live, err));
        return put_row(h, &row, INFP_STACK_HEAP, h->ms, site->live, err);
}

static int put_all(struct heaptrack *h, struct infp_err *err)
{
        infp_autofree uint64_t *frames = calloc(INFP_IMPORT_MAX_DEPTH, sizeof(*frames));

        if (!frames)
                return no_room(h, 0, err);
        infp_import_found(h->writer)->duration_ns = h->ms * INFP_NS_PER_MS;
        for (size_t i = 0; i < h->n_sites; i++) {
                INFP_TRY(infp_import_stopped(h->input, i, err));
                INFP_TRY(put_site(h, &h->sites[i], frames, err));
        }
        INFP_TRY(infp_import_heap_method(h->writer, "heaptrack", 0, INFP_IMPORT_EXACT, err));
        if (!h->is_whole)
                infp_import_skip(h->writer, "ends that are missing (the program was killed, or the file is cut)", 1,
                                 infp_import_line_number(h->input));
        return h->name.failed ? no_room(h, 0, err) : 0;
}

static int read_lines(struct heaptrack *h, struct infp_err *err)
{
        struct infp_import_text line;
        int r;

        while ((r = infp_import_line(h->input, &line.data, &line.size, err)) > 0)
                if (line.size)
                        INFP_TRY(take_line(h, line, err));
        INFP_TRY(r);
        INFP_TRY(infp_import_begin_now(h->writer, err));
        return put_all(h, err);
}

static int read_heaptrack(struct infp_import_input *input, struct infp_import_writer *writer, struct infp_err *err)
{
        struct heaptrack *h = calloc(1, sizeof(*h));
        int r;

        if (!h)
                return infp_fail(err, -ENOMEM, "not enough memory to import");
        h->input = input;
        h->writer = writer;
        r = read_lines(h, err);
        infp_str_done(&h->text);
        infp_str_done(&h->name);
        free(h->strings);
        free(h->places);
        free(h->functions);
        free(h->traces);
        free(h->kinds);
        free(h->sites);
        free(h);
        return r;
}

static enum infp_import_sure look(const char *head, size_t size)
{
        struct infp_import_text rest = { head, size }, line;
        uint64_t v;

        if (!infp_import_head_line(&rest, &line) || !infp_import_begins(line, "v "))
                return INFP_IMPORT_NO;
        line = infp_import_from(line, line.data + 1);
        return infp_import_hex(&line, &v) && v >= 0x10000 && (infp_import_hex(&line, &v) || !line.size) &&
                               !infp_import_trim(line).size
                       ? INFP_IMPORT_SURE
                       : INFP_IMPORT_NO;
}

const struct infp_import_format infp_import_heaptrack = {
        .name = "heaptrack",
        .help = "text of heaptrack's files: `zstd -dc heaptrack.PROGRAM.PID.zst`",
        .look = look,
        .read = read_heaptrack,
};
