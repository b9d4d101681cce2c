/* Folded (collapsed) stacks, as FlameGraph, inferno, py-spy, Austin, async-profiler and bcc write them: a line a stack, root first,
 * frames with ";" between, a blank, a count. A count may be missing (1) or have a fraction (a weight). Austin's comments say what
 * its numbers measure: microseconds, bytes, or both ("time,is idle,bytes", mode full). */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/number.h"
#include "import/format.h"
#include "import/name.h"
#include "import/unit.h"

enum { MAX_KNOWN = 1 << 20, LOOK_LINES = 64 };

struct folded {
        struct infp_import_input *input;
        struct infp_import_writer *writer;
        struct infp_import_text *words; /* frames of the current line, in its order */
        size_t n_words, cap_words;
        uint64_t *frames;
        size_t n_frames, cap_frames;
        struct infp_map known; /* hash of a frame's text: its id */
        struct infp_import_place place;
        struct infp_import_sample sample;
        enum austin { NOT_AUSTIN, AUSTIN_TIME, AUSTIN_BYTES, AUSTIN_FULL } austin; /* from the comments so far */
        char mode[INFP_IMPORT_MODE_TEXT];
        double factor; /* of the mode's unit; 0: the numbers are counts of samples */
};

/* "nan", "-inf" and the like, which printf makes of a broken sum. */
static bool is_not_finite(struct infp_import_text word)
{
        char text[16];

        if (word.size >= sizeof(text))
                return false;
        memcpy(text, word.data, word.size);
        text[word.size] = 0;
        if (text[0] == '-' || text[0] == '+')
                memmove(text, text + 1, word.size);
        return !strcasecmp(text, "nan") || !strcasecmp(text, "inf") || !strcasecmp(text, "infinity");
}

enum count { NO_COUNT, A_COUNT, BAD_COUNT };

static enum count parse_count(struct infp_import_text word, int64_t *ret_samples, double *ret_weight)
{
        int r = infp_parse_i64(word.data, word.size, ret_samples);

        if (r == 0) {
                *ret_weight = (double) *ret_samples;
                return *ret_samples < 0 ? BAD_COUNT : A_COUNT;
        }
        if (r == -ERANGE || is_not_finite(word))
                return BAD_COUNT;
        r = infp_parse_f64(word.data, word.size, ret_weight);
        if (r == -EBADMSG)
                return NO_COUNT;
        if (r < 0 || *ret_weight < 0)
                return BAD_COUNT;
        *ret_samples = *ret_weight > 0; /* the file does not say how many */
        if (*ret_weight < 0x1p53 && *ret_weight == floor(*ret_weight))
                *ret_samples = (int64_t) *ret_weight;
        return A_COUNT;
}

/* Splits the count off the end of a line. */
static enum count take_count(struct infp_import_text *line, int64_t *ret_samples, double *ret_weight)
{
        size_t at = line->size;
        enum count r;

        while (at && !infp_import_is_blank(line->data[at - 1]))
                at--;
        r = parse_count((struct infp_import_text){ line->data + at, line->size - at }, ret_samples, ret_weight);
        if (r == NO_COUNT) {
                *ret_samples = 1;
                *ret_weight = 1;
        } else
                line->size = at;
        return r;
}

static int add_word(struct folded *f, const char *begin, const char *end)
{
        if (!INFP_MAKE_ROOM(f->words, f->n_words, f->cap_words, 256))
                return -ENOMEM;
        f->words[f->n_words++] = infp_import_trim((struct infp_import_text){ begin, (size_t) (end - begin) });
        return 0;
}

/* Between brackets a ";" is part of a name: "equals(Ljava/lang/Object;)Z", "struct { a int; b int }". False where the brackets do
 * not close: ignore them. */
static int split(struct folded *f, struct infp_import_text stack, bool heed_brackets, bool *ret_closed)
{
        const char *word = stack.data, *end = stack.data + stack.size;
        unsigned depth = 0;

        f->n_words = 0;
        for (const char *at = word; at < end; at++) {
                if (*at == ';' && !depth) {
                        if (add_word(f, word, at) < 0)
                                return -ENOMEM;
                        word = at + 1;
                } else if (heed_brackets && (*at == '(' || *at == '{'))
                        depth++;
                else if (depth && (*at == ')' || *at == '}'))
                        depth--;
        }
        *ret_closed = depth == 0;
        return add_word(f, word, end);
}

static bool is_inlined(struct infp_import_text word)
{
        return infp_import_cut(&word, "_[i]");
}

static void make_place(struct folded *f, const struct infp_import_text *words, size_t n)
{
        struct infp_import_text word = words[0];
        enum infp_frame_kind kind = INFP_FRAME_KINDS;

        if (infp_import_cut(&word, "_[k]"))
                kind = INFP_FRAME_KERNEL;
        else if (infp_import_cut(&word, "_[j]"))
                kind = INFP_FRAME_JIT;
        else
                infp_import_cut(&word, "_[i]");
        if (!word.size) {
                word = infp_import_text("[unknown]");
                infp_import_skip(f->writer, "blank names (shown as [unknown])", 1, infp_import_line_number(f->input));
        }
        infp_import_name(word, &f->place);
        if (kind != INFP_FRAME_KINDS)
                f->place.kind = kind;
        if (n > INFP_IMPORT_MAX_LEVELS) {
                infp_import_skip(f->writer, "inlined functions beyond the 64th of an address",
                                 n - INFP_IMPORT_MAX_LEVELS, infp_import_line_number(f->input));
                n = INFP_IMPORT_MAX_LEVELS;
        }
        for (size_t i = 1; i < n; i++) {
                word = words[i];
                infp_import_cut(&word, "_[i]");
                f->place.levels[i] = (struct infp_import_level){ .name = word };
                f->place.n_levels++;
        }
}

/* The id of a frame and of what was inlined there. */
static int make_frame(struct folded *f, const struct infp_import_text *words, size_t n, uint64_t *ret,
                      struct infp_err *err)
{
        const struct infp_import_text *last = &words[n - 1];
        const uint64_t key = infp_hash64(words[0].data, (size_t) (last->data + last->size - words[0].data), 0);
        uint64_t *known = infp_map_get(&f->known, key);

        if (known) {
                *ret = *known;
                return 0;
        }
        make_place(f, words, n);
        INFP_TRY(infp_import_frame(f->writer, &f->place, ret, err));
        if (f->known.n >= MAX_KNOWN)
                infp_map_done(&f->known);
        return infp_map_put(&f->known, key, *ret) < 0 ? infp_fail(err, -ENOMEM, "not enough memory to import") : 0;
}

static int make_frames(struct folded *f, size_t first, struct infp_err *err)
{
        f->n_frames = 0;
        if (f->cap_frames < f->n_words) {
                free(f->frames);
                f->frames = malloc(f->cap_words * sizeof(*f->frames));
                f->cap_frames = f->frames ? f->cap_words : 0;
                if (!f->frames)
                        return infp_fail(err, -ENOMEM, "not enough memory to import");
        }
        for (size_t i = first; i < f->n_words;) {
                size_t n = 1;

                while (i + n < f->n_words && is_inlined(f->words[i + n]))
                        n++;
                INFP_TRY(make_frame(f, &f->words[i], n, &f->frames[f->n_frames++], err));
                i += n;
        }
        return 0;
}

static bool parse_id(const char *text, size_t size, int32_t *ret)
{
        uint64_t v;

        if (infp_parse_u64(text, size, &v) < 0)
                return false;
        *ret = v <= INT32_MAX ? (int32_t) v : 0; /* pthread_self() of some: no number of the kernel's */
        return true;
}

/* Austin: P1234;T5678, or T0:5678 with the interpreter's number before it. */
static size_t take_austin(struct folded *f)
{
        const struct infp_import_text p = f->words[0], t = f->n_words > 1 ? f->words[1] : infp_import_text("");
        const char *colon = t.size ? memchr(t.data, ':', t.size) : NULL, *number = colon ? colon + 1 : t.data + 1;
        int32_t pid, tid;

        if (p.size < 2 || t.size < 2 || p.data[0] != 'P' || t.data[0] != 'T' ||
            !parse_id(p.data + 1, p.size - 1, &pid) || !parse_id(number, (size_t) (t.data + t.size - number), &tid))
                return 0;
        f->sample.pid = pid;
        f->sample.tid = tid;
        return 2;
}

/* stackcollapse-perf --tid: NAME-PID/TID, where PID may be "?". */
static size_t take_perf(struct folded *f)
{
        const struct infp_import_text word = f->words[0];
        const char *slash = infp_import_last(word, '/'),
                   *dash = slash ? infp_import_last(infp_import_upto(word, slash), '-') : NULL;
        int32_t pid = 0, tid;

        if (!dash || dash == word.data || slash - dash < 2)
                return 0;
        if (!(slash - dash == 2 && dash[1] == '?') && !parse_id(dash + 1, (size_t) (slash - dash - 1), &pid))
                return 0;
        if (!parse_id(slash + 1, (size_t) (word.data + word.size - slash - 1), &tid))
                return 0;
        f->sample.pid = pid;
        f->sample.tid = tid;
        f->sample.thread = (struct infp_import_text){ word.data, (size_t) (dash - word.data) };
        return 1;
}

/* Where the first place of `word` in the text begins, searched from the end; NULL: it has none. */
static const char *last_place(struct infp_import_text text, const char *word)
{
        const size_t size = strlen(word);

        for (size_t at = text.size; at-- > 0;)
                if (text.size - at >= size && !memcmp(text.data + at, word, size))
                        return text.data + at;
        return NULL;
}

/* py-spy: process 1234:"python x.py" is the first frame: the name of the process. py-spy escapes neither '"' nor ';' in it, so it
 * ends where the first thread begins. Takes it off the line. */
static void take_pyspy_process(struct folded *f, struct infp_import_text *line)
{
        const char *colon = infp_import_begins(*line, "process ") ? memchr(line->data, ':', line->size) : NULL,
                   *line_end = line->data + line->size, *end = NULL;
        bool is_quoted;

        if (!colon || !parse_id(line->data + 8, (size_t) (colon - (line->data + 8)), &f->sample.pid))
                return;
        is_quoted = colon + 1 < line_end && colon[1] == '"';
        if (is_quoted) {
                const struct infp_import_text rest = infp_import_from(*line, colon + 2);

                end = last_place(rest, "\";thread (");
                if (!end)
                        end = last_place(rest, "\";");
                end = end ? end + 1 : line_end;
        } else
                end = memchr(colon, ';', (size_t) (line_end - colon));
        if (!end)
                end = line_end;
        f->sample.process = (struct infp_import_text){ colon + 1, (size_t) (end - (colon + 1)) };
        if (f->sample.process.size > 2 && is_quoted) {
                f->sample.process.data++;
                f->sample.process.size -= 2;
        }
        *line = infp_import_from(*line, end < line_end ? end + 1 : end);
}

/* py-spy: thread (5678), thread (5678): NAME, thread (0x7F...): without a number of the kernel's. */
static bool take_pyspy_thread(struct folded *f, struct infp_import_text word)
{
        const char *number, *close, *end;
        int32_t tid = 0;

        if (word.size < 10 || memcmp(word.data, "thread (", 8) != 0)
                return false;
        number = word.data + 8;
        end = word.data + word.size;
        close = memchr(number, ')', (size_t) (end - number));
        if (!close || close == number || (close + 1 < end && (end - close < 4 || memcmp(close, "): ", 3) != 0)))
                return false;
        if (memcmp(number, "0x", 2) != 0 && !parse_id(number, (size_t) (close - number), &tid))
                return false;
        f->sample.tid = tid;
        if (close + 1 < end)
                f->sample.thread = (struct infp_import_text){ close + 3, (size_t) (end - (close + 3)) };
        else if (!tid)
                f->sample.thread = word;
        return true;
}

/* Frames that name the thread of the stack become its thread. Returns their number. */
static size_t take_owner(struct folded *f)
{
        size_t n = f->sample.pid ? 0 : take_austin(f);

        if (!n && !f->sample.pid)
                n = take_perf(f);
        return n ? n : take_pyspy_thread(f, f->words[0]);
}

/* Austin's comments: "# austin: 3.6.0", then "# mode: wall". */
static void take_austin_comment(struct folded *f, struct infp_import_text line)
{
        struct infp_import_text mode;

        if (infp_import_begins(line, "# austin:")) {
                f->austin = AUSTIN_TIME;
                f->factor = infp_import_mode(infp_import_text(infp_stack_modes[INFP_STACK_WALL].name),
                                             infp_import_text("us"), f->mode);
        }
        if (!f->austin || !infp_import_begins(line, "# mode:"))
                return;
        mode = infp_import_trim(infp_import_from(line, line.data + strlen("# mode:")));
        f->austin = infp_import_is(mode, "full")     ? AUSTIN_FULL
                    : infp_import_is(mode, "memory") ? AUSTIN_BYTES
                                                     : AUSTIN_TIME;
        if (f->austin == AUSTIN_BYTES)
                f->factor = infp_import_mode(mode, infp_import_text("bytes"), f->mode);
        else if (infp_import_is(mode, "cpu"))
                f->factor = infp_import_mode(mode, infp_import_text("us"), f->mode);
}

/* Of mode full's three numbers the time remains at the line's end. */
static void take_austin_time(struct folded *f, struct infp_import_text *line)
{
        const char *comma = infp_import_last(*line, ','),
                   *first = comma ? infp_import_last(infp_import_upto(*line, comma), ',') : NULL;

        if (!first)
                return;
        infp_import_skip(f->writer, "memory values (the time beside them is used)", 1,
                         infp_import_line_number(f->input));
        *line = infp_import_upto(*line, first);
}

/* A line of Austin is one sample, and its number is what lies between it and the one before. */
static enum count take_austin_count(struct folded *f, struct infp_import_text *line)
{
        enum count count;

        if (f->austin == AUSTIN_FULL)
                take_austin_time(f, line);
        count = take_count(line, &f->sample.samples, &f->sample.weight);
        if (count == BAD_COUNT && f->austin == AUSTIN_BYTES && f->sample.samples < 0) {
                infp_import_skip(f->writer, "stacks that freed memory", 1, infp_import_line_number(f->input));
                f->sample.weight = 0;
                return A_COUNT;
        }
        f->sample.samples = 1;
        f->sample.weight *= f->factor;
        f->sample.mode = f->mode;
        return count;
}

/* A stack whose last name ends like a count has two counts: difffolded.pl writes the samples before and after this way. */
static bool has_two_counts(struct infp_import_text line)
{
        int64_t samples;
        double weight;

        line = infp_import_trim(line);
        if (take_count(&line, &samples, &weight) != A_COUNT)
                return false;
        line = infp_import_trim(line);
        return take_count(&line, &samples, &weight) == A_COUNT && line.size;
}

/* One such name may be a name; if every line has one, the file is a difference. */
static int refuse_difference(struct folded *f, struct infp_err *err)
{
        struct infp_import_text rest, line;
        unsigned n = 0;
        bool is_cut;

        INFP_TRY(infp_import_peek(f->input, &rest.data, &rest.size, err));
        is_cut = rest.size >= INFP_IMPORT_HEAD;
        while (infp_import_head_line(&rest, &line)) {
                if (!infp_import_trim(line).size || *line.data == '#' || (is_cut && !rest.size))
                        continue;
                if (!has_two_counts(line))
                        return 0;
                n++;
        }
        return n ? infp_fail(err, -EBADMSG,
                             "%s has two counts per line: it is the difference of two profiles; import both and "
                             "compare them with `infprof flamegraph --diff`",
                             infp_import_path(f->input))
                 : 0;
}

static int take_line(struct folded *f, struct infp_import_text line, struct infp_err *err)
{
        const uint64_t number = infp_import_line_number(f->input);
        enum count count;
        bool is_closed, is_cut;

        f->sample = (struct infp_import_sample){ .cpu = -1, .mode = infp_import_wanted(f->writer, "samples/count") };
        count = f->austin ? take_austin_count(f, &line) : take_count(&line, &f->sample.samples, &f->sample.weight);
        if (!f->austin && infp_import_wanted(f->writer, NULL)) { /* bytes */
                f->sample.samples = 1;
                count = count == NO_COUNT ? BAD_COUNT : count;
        }
        line = infp_import_trim(line);
        infp_import_cut(&line, ";"); /* heaptrack_print ends each stack so */
        take_pyspy_process(f, &line);
        if (count == BAD_COUNT)
                return infp_fail(err, -EBADMSG, "%s, line %llu: its count is negative, too large or not a number",
                                 infp_import_path(f->input), (unsigned long long) number);
        if (count == NO_COUNT)
                infp_import_skip(f->writer, "lines without a count (each taken as one sample)", 1, number);
        if (!line.size || !(f->sample.weight > 0)) {
                infp_import_skip(f->writer, line.size ? "stacks that were counted 0 times" : "lines without a stack", 1,
                                 number);
                return 0;
        }
        if (split(f, line, true, &is_closed) < 0 || (!is_closed && split(f, line, false, &is_closed) < 0))
                return infp_fail(err, -ENOMEM, "not enough memory to import");
        INFP_TRY(make_frames(f, take_owner(f), err));
        f->sample.t_ns = infp_import_begin_t_ns(f->writer);
        INFP_TRY(infp_import_stack(f->writer, f->frames, f->n_frames, false, &f->sample.stack, &is_cut, err));
        f->sample.is_truncated |= is_cut;
        return infp_import_sample(f->writer, &f->sample, err);
}

static int read_lines(struct folded *f, struct infp_err *err)
{
        struct infp_import_text line;
        int r;

        while ((r = infp_import_line(f->input, &line.data, &line.size, err)) > 0) {
                line = infp_import_trim(line);
                if (infp_import_begins(line, "# ")) {
                        take_austin_comment(f, line);
                        infp_import_skip(f->writer, "comments", 1, infp_import_line_number(f->input));
                } else if (line.size)
                        INFP_TRY(take_line(f, line, err));
        }
        return r;
}

static int read_folded(struct infp_import_input *input, struct infp_import_writer *writer, struct infp_err *err)
{
        struct folded *f = calloc(1, sizeof(*f));
        int r = f ? 0 : infp_fail(err, -ENOMEM, "not enough memory to import");

        if (r < 0)
                return r;
        f->input = input;
        f->writer = writer;
        r = refuse_difference(f, err);
        if (r >= 0)
                r = infp_import_begin_now(writer, err);
        if (r >= 0)
                r = read_lines(f, err);
        infp_map_done(&f->known);
        free(f->words);
        free(f->frames);
        free(f);
        return r;
}

/* Most of the first lines are stacks with a count, or at least stacks. */
static enum infp_import_sure look(const char *head, size_t size)
{
        struct infp_import_text rest = { head, size }, line;
        unsigned n = 0, n_counts = 0, n_stacks = 0;

        if (memchr(head, 0, size) || (size && (head[0] == '{' || head[0] == '<') && !memchr(head, ';', size)))
                return INFP_IMPORT_NO;
        /* bound: a guess at the format; nothing is read here */
        while (n < LOOK_LINES && infp_import_head_line(&rest, &line)) {
                int64_t samples;
                double weight;

                line = infp_import_trim(line);
                if (!line.size || line.data[0] == '#')
                        continue;
                n++;
                n_stacks += memchr(line.data, ';', line.size) != NULL;
                n_counts += take_count(&line, &samples, &weight) != NO_COUNT && line.size;
        }
        if (2 * n_counts > n)
                return 2 * n_stacks > n ? INFP_IMPORT_LIKELY : INFP_IMPORT_MAYBE;
        return 2 * n_stacks > n ? INFP_IMPORT_MAYBE : INFP_IMPORT_NO;
}

const struct infp_import_format infp_import_folded = {
        .name = "folded",
        .help = "folded stacks: a;b;c 12 (FlameGraph, inferno, py-spy, Austin, async-profiler, bcc)",
        .takes_mode = true,
        .look = look,
        .read = read_folded,
};
