/* pprof: profile.proto, plain or packed by gzip, as Go, gperftools' converters, Rust, Java, Node and parca write it. Samples are sums
 * without times: all of them lie at the profile's begin. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"
#include "base/str.h"
#include "base/time.h"
#include "import/pprof_parts.h"

enum { SAMPLE_LOCATION = 1, SAMPLE_VALUE, SAMPLE_LABEL };
enum { LABEL_KEY = 1, LABEL_STRING, LABEL_NUMBER };

static const int64_t max_duration_ns =
        INT64_C(100) * 366 * 86400 * 1000000000; /* a century: of a broken field, no profile */

struct sample {
        const uint8_t *at;
        uint64_t frames[INFP_IMPORT_MAX_DEPTH + 1];
        size_t n_frames; /* also of those that have no room: the outer ones */
        int64_t values[PPROF_MAX_TYPES];
        unsigned n_values;
        struct infp_import_sample row;
};

static int take_locations(struct pprof *p, struct sample *s, const struct infp_proto_field *field, struct infp_err *err)
{
        uint64_t id;
        size_t at = 0;
        int r;

        while ((r = infp_proto_packed(field, &at, &id)) > 0) {
                size_t n = s->n_frames < INFP_IMPORT_MAX_DEPTH ? s->n_frames : INFP_IMPORT_MAX_DEPTH;

                INFP_TRY(pprof_frame(p, id, s->at, &s->frames[n], err));
                s->n_frames++;
        }
        return r < 0 ? pprof_broken(p, s->at, "the stack of a sample is broken", err) : 0;
}

static int take_values(const struct pprof *p, struct sample *s, const struct infp_proto_field *field,
                       struct infp_err *err)
{
        uint64_t value;
        size_t at = 0;
        int r;

        while ((r = infp_proto_packed(field, &at, &value)) > 0) {
                if (s->n_values == p->n_types)
                        return pprof_broken(p, s->at, "a sample has more values than there are sample types", err);
                if ((int64_t) value < 0)
                        return pprof_broken(p, s->at,
                                            "a value is negative, as in a difference of two profiles; import both, "
                                            "and compare them with `infprof flamegraph --diff`",
                                            err);
                s->values[s->n_values++] = (int64_t) value;
        }
        return r < 0 ? pprof_broken(p, s->at, "the values of a sample are broken", err) : 0;
}

static bool is_one_of(struct infp_import_text text, const char *words)
{
        for (const char *word = words; *word; word += strlen(word) + 1)
                if (text.size == strlen(word) && !memcmp(text.data, word, text.size))
                        return true;
        return false;
}

static int32_t number_of(struct infp_import_text text, int64_t number)
{
        if (text.size && infp_parse_i64(text.data, text.size, &number) < 0)
                return 0;
        return number > 0 && number <= INT32_MAX ? (int32_t) number : 0;
}

/* Whose sample it is; other labels are the program's own. */
static bool use_label(struct infp_import_sample *row, struct infp_import_text key, struct infp_import_text text,
                      int64_t number)
{
        if (is_one_of(key, "pid\0process_id\0process id\0"))
                row->pid = number_of(text, number);
        else if (is_one_of(key, "tid\0thread_id\0thread id\0"))
                row->tid = number_of(text, number);
        else if (is_one_of(key, "thread\0thread_name\0thread name\0comm\0"))
                row->thread = text;
        else if (is_one_of(key, "process\0process_name\0process name\0"))
                row->process = text;
        else if (is_one_of(key, "state\0"))
                row->state = text;
        else if (is_one_of(key, "cpu\0") && !text.size)
                row->cpu = number >= 0 && number <= INT32_MAX ? (int32_t) number : -1;
        else
                return false;
        return true;
}

static int take_label(struct pprof *p, struct sample *s, const struct infp_proto_field *from, struct infp_err *err)
{
        struct infp_proto message = infp_proto_message(from);
        struct infp_proto_field field;
        uint64_t key = 0, string = 0, number = 0;
        struct infp_import_text name, text;
        int r;

        while ((r = infp_proto_next(&message, &field)) > 0) {
                if (field.type != INFP_PROTO_VARINT)
                        continue;
                *(field.number == LABEL_KEY      ? &key
                  : field.number == LABEL_STRING ? &string
                                                 : &number) = field.number <= LABEL_NUMBER ? field.value : number;
        }
        if (r < 0)
                return pprof_broken(p, s->at, "a label is broken", err);
        INFP_TRY(pprof_string(p, key, s->at, &name, err));
        INFP_TRY(pprof_string(p, string, s->at, &text, err));
        if (!use_label(&s->row, name, text, (int64_t) number))
                infp_import_skip(p->writer, "labels of samples that have no column here", 1, 0);
        return 0;
}

static int take_field(struct pprof *p, struct sample *s, const struct infp_proto_field *field, struct infp_err *err)
{
        switch (field->number) {
        case SAMPLE_LOCATION:
                return take_locations(p, s, field, err);
        case SAMPLE_VALUE:
                return take_values(p, s, field, err);
        case SAMPLE_LABEL:
                return take_label(p, s, field, err);
        default:
                return 0;
        }
}

/* A row for each kind of value that the sample has something of. */
static int put_rows(struct pprof *p, struct sample *s, struct infp_err *err)
{
        for (unsigned i = 0; i < p->n_modes; i++) {
                const struct pprof_mode *mode = &p->modes[i];
                const int64_t value = s->values[mode->weight];

                s->row.samples = mode->samples >= 0 ? s->values[mode->samples] : value > 0;
                s->row.weight = (double) value * mode->factor;
                s->row.mode = mode->mode;
                if (value || s->row.samples)
                        INFP_TRY(infp_import_sample(p->writer, &s->row, err));
        }
        return 0;
}

static int take_sample(struct pprof *p, struct sample *s, const struct infp_proto_field *from, struct infp_err *err)
{
        struct infp_proto message = infp_proto_message(from);
        struct infp_proto_field field;
        bool is_cut;
        int r;

        s->at = from->bytes;
        s->n_frames = s->n_values = 0;
        s->row = (struct infp_import_sample){ .t_ns = infp_import_begin_t_ns(p->writer), .cpu = -1 };
        while ((r = infp_proto_next(&message, &field)) > 0)
                INFP_TRY(take_field(p, s, &field, err));
        if (r < 0)
                return pprof_broken(p, s->at, "a sample is broken", err);
        if (s->n_values != p->n_types)
                return pprof_broken(p, s->at, "a sample has fewer values than there are sample types", err);
        INFP_TRY(infp_import_stack(p->writer, s->frames,
                                   s->n_frames < INFP_IMPORT_MAX_DEPTH ? s->n_frames : INFP_IMPORT_MAX_DEPTH, true,
                                   &s->row.stack, &is_cut, err));
        s->row.is_truncated = is_cut || s->n_frames > INFP_IMPORT_MAX_DEPTH;
        return put_rows(p, s, err);
}

static int read_samples(struct pprof *p, struct infp_err *err)
{
        infp_autofree struct sample *sample = malloc(sizeof(*sample));
        struct infp_proto all = p->all;
        struct infp_proto_field field;

        if (!sample)
                return infp_fail(err, -ENOMEM, "not enough memory to import");
        while (infp_proto_next(&all, &field) > 0) /* whole: it was read before */
                if (field.number == PPROF_SAMPLE && field.type == INFP_PROTO_BYTES)
                        INFP_TRY(take_sample(p, sample, &field, err));
        return 0;
}

static int begin(struct pprof *p, struct infp_err *err)
{
        struct infp_imported *found = infp_import_found(p->writer);

        if (p->duration_ns > 0 && p->duration_ns < max_duration_ns)
                found->duration_ns = (uint64_t) p->duration_ns;
        if (p->time_ns <= 0 || p->time_ns > INT64_MAX / 2)
                return infp_import_begin_now(p->writer, err);
        found->unix_ns = p->time_ns;
        return infp_import_begin(p->writer, infp_clock_ns(CLOCK_MONOTONIC), p->time_ns, err);
}

static int read_profile(struct pprof *p, struct infp_err *err)
{
        const char *data;
        size_t size;

        INFP_TRY(infp_import_all(p->input, PPROF_MAX, &data, &size, err));
        p->begin = (const uint8_t *) data;
        p->all = infp_proto(data, size);
        INFP_TRY(pprof_read_tables(p, err));
        INFP_TRY(pprof_choose_modes(p, err));
        INFP_TRY(begin(p, err));
        INFP_TRY(pprof_put_mappings(p, err));
        return read_samples(p, err);
}

static int read_pprof(struct infp_import_input *input, struct infp_import_writer *writer, struct infp_err *err)
{
        struct pprof *p = calloc(1, sizeof(*p));
        int r = p ? 0 : infp_fail(err, -ENOMEM, "not enough memory to import");

        if (r < 0)
                return r;
        p->input = input;
        p->writer = writer;
        r = read_profile(p, err);
        pprof_done(p);
        free(p);
        return r;
}

static bool is_type(struct infp_proto message)
{
        struct infp_proto_field field;
        int r;

        while ((r = infp_proto_next(&message, &field)) > 0)
                if (field.number > 2 || field.type != INFP_PROTO_VARINT)
                        return false;
        return r == 0;
}

/* Fields that a Profile has, of the types that they have. */
static enum infp_import_sure look(const char *head, size_t size)
{
        struct infp_proto all = infp_proto(head, size);
        struct infp_proto_field field;
        unsigned n = 0, n_types = 0;
        int r;

        while ((r = infp_proto_next(&all, &field)) > 0) {
                const bool is_message = field.number <= PPROF_STRING || field.number == PPROF_PERIOD_TYPE;

                if (field.number > PPROF_DEFAULT_TYPE + 1)
                        return INFP_IMPORT_NO;
                if (is_message && field.type != INFP_PROTO_BYTES)
                        return INFP_IMPORT_NO;
                if (!is_message && field.type == INFP_PROTO_BYTES && field.number < PPROF_COMMENT)
                        return INFP_IMPORT_NO;
                if (field.type == INFP_PROTO_FIXED32 || field.type == INFP_PROTO_FIXED64)
                        return INFP_IMPORT_NO;
                if (field.number == PPROF_SAMPLE_TYPE && !is_type(infp_proto_message(&field)))
                        return INFP_IMPORT_NO;
                n_types += field.number == PPROF_SAMPLE_TYPE;
                n++;
        }
        if (!n || (r < 0 && size < INFP_IMPORT_HEAD && !n_types))
                return INFP_IMPORT_NO;
        return n_types ? INFP_IMPORT_SURE : INFP_IMPORT_MAYBE;
}

const struct infp_import_format infp_import_pprof = {
        .name = "pprof",
        .help = "profile.proto, plain or packed by gzip (Go, Rust, parca, google-pprof, async-profiler converters)",
        .look = look,
        .read = read_pprof,
};
