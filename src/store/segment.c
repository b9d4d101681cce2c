/* Reading a segment: each message is checked whole before a cell of it is touched. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/human.h"
#include "base/mem.h"
#include "store/arrow_check.h"
#include "store/path.h"
#include "store/segment.h"

enum { MAX_ROWS = 1 << 28 };

static int decode_header(struct infp_segment *s, struct infp_err *err)
{
        struct ArrowError error = { { 0 } };
        uint64_t size = (uint64_t) s->decoder.header_size_bytes;

        if (ArrowIpcDecoderDecodeHeader(&s->decoder, infp_segment_view_of(infp_segment_here(s), size), &error) !=
            NANOARROW_OK)
                return infp_segment_broken(s, err, error.message);
        return 0;
}

/* Two columns that share a dictionary must agree on what it holds: the decoder reads it once, as the first one says. */
static bool dictionaries_agree(const struct ArrowIpcDictionaryEncodings *encodings)
{
        const struct ArrowIpcDictionaryEncoding *list = (const void *) encodings->encodings.data;
        size_t n = (size_t) encodings->encodings.size_bytes / sizeof(*list);

        for (size_t i = 0; i < n; i++) {
                const struct ArrowIpcDictionaryEncoding *first =
                        ArrowIpcDictionaryEncodingsFindById(encodings, list[i].id);

                if (strcmp(first->schema->dictionary->format, list[i].schema->dictionary->format) != 0)
                        return false;
        }
        return true;
}

static int set_schema(struct infp_segment *s, struct infp_err *err)
{
        struct ArrowError error = { { 0 } };
        int code = ArrowIpcDecoderDecodeSchemaWithDictionaries(&s->decoder, &s->schema, &s->encodings, &error);

        if (code != NANOARROW_OK)
                return infp_segment_broken(s, err, error.message);
        s->has_schema = true;
        if (!dictionaries_agree(&s->encodings))
                return infp_segment_broken(s, err, "columns that share a dictionary differ in type");
        code = ArrowIpcDecoderSetEndianness(&s->decoder, s->decoder.endianness);
        if (code == NANOARROW_OK)
                code = ArrowIpcDictionariesInit(&s->dictionaries, &s->encodings, &error);
        if (code == NANOARROW_OK)
                code = ArrowIpcDecoderSetSchemaWithDictionaries(&s->decoder, &s->schema, &s->encodings, &error);
        return code == NANOARROW_OK ? 0 : infp_segment_broken(s, err, error.message);
}

static int64_t count_buffers(enum ArrowType type)
{
        switch (type) {
        case NANOARROW_TYPE_NA:
                return 0;
        case NANOARROW_TYPE_STRING:
        case NANOARROW_TYPE_LARGE_STRING:
                return 3;
        default:
                return 2;
        }
}

static void count_demands(struct infp_segment *s)
{
        s->want = (struct infp_arrow_message){ .max_rows = MAX_ROWS, .n_nodes = s->columns.width };
        for (unsigned i = 0; i < s->columns.width; i++)
                s->want.n_buffers +=
                        s->columns.sources[i].is_dictionary ? 2 : count_buffers(s->columns.sources[i].type);
}

/* "out/cpu/000001.arrows" -> "000001": the name of a table that does not name itself. */
static void stem(const char *path, char *ret, size_t cap)
{
        const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
        size_t size = strcspn(name, ".");

        size = size < cap ? size : cap - 1;
        memcpy(ret, name, size);
        ret[size] = 0;
}

static int read_schema(struct infp_segment *s, struct infp_err *err)
{
        struct infp_err why = { "" };
        uint64_t size = 0;
        char name[64];
        int r;

        if (s->size >= 8 && infp_segment_load(s, 8, err) == 1 && memcmp(infp_segment_here(s), "ARROW1\0\0", 8) == 0)
                s->offset = 8; /* the file format: a stream between two magic words and an index that we do without */
        r = infp_segment_message(s, &size, err);
        if (r == 0)
                return s->error = infp_fail(err, -ENODATA, "%s holds nothing yet, or was cut before its first row",
                                            s->path);
        INFP_TRY(r);
        if (s->decoder.message_type != NANOARROW_IPC_MESSAGE_TYPE_SCHEMA)
                return infp_segment_broken(s, err, "an Arrow stream must begin with its schema");
        if (infp_arrow_check_schema(infp_segment_here(s) + 8, &why) < 0)
                return infp_segment_broken(s, err, why.text);
        INFP_TRY(decode_header(s, err));
        INFP_TRY(set_schema(s, err));
        stem(s->path, name, sizeof(name));
        r = infp_arrow_table_of(&s->schema, name, &s->columns, err);
        if (r < 0)
                return s->error = r;
        count_demands(s);
        s->offset += size;
        s->good = s->offset;
        s->n_messages = 1;
        s->vectors = calloc(s->columns.width, sizeof(*s->vectors));
        s->scratch = calloc(s->columns.width, sizeof(*s->scratch));
        return s->vectors && s->scratch ? 0 : infp_fail(err, -ENOMEM, "not enough memory to read %s", s->path);
}

int infp_segment_open_fd(int fd, const char *path, struct infp_segment **ret, struct infp_err *err)
{
        struct infp_segment *s = calloc(1, sizeof(*s));
        struct stat status;
        int r = 0;

        if (!s) {
                infp_close(fd);
                return infp_fail(err, -ENOMEM, "not enough memory to read %s", path);
        }
        s->fd = fd;
        s->path = strdup(path);
        if (!s->path || ArrowIpcDecoderInit(&s->decoder) != NANOARROW_OK)
                r = infp_fail(err, -ENOMEM, "not enough memory to read %s", path);
        else if (fstat(fd, &status) < 0)
                r = infp_fail_errno(err, -errno, "cannot read %s", path);
        else if (!S_ISREG(status.st_mode))
                r = infp_fail(err, -EINVAL, "cannot read %s: it is not a regular file", path);
        else
                s->size = (uint64_t) status.st_size;
        if (r == 0)
                r = read_schema(s, err);
        if (r < 0) {
                infp_segment_close(s);
                return r;
        }
        *ret = s;
        return 0;
}

int infp_segment_open(int dir_fd, const char *path, struct infp_segment **ret, struct infp_err *err)
{
        int fd = infp_store_open(dir_fd, path, O_RDONLY);

        if (fd < 0)
                return infp_fail_errno(err, fd, "cannot open %s", path);
        return infp_segment_open_fd(fd, path, ret, err);
}

struct infp_segment *infp_segment_close(struct infp_segment *s)
{
        if (!s)
                return NULL;
        if (s->dictionaries.private_data)
                ArrowIpcDictionariesReset(&s->dictionaries);
        if (s->decoder.private_data)
                ArrowIpcDecoderReset(&s->decoder);
        if (s->has_schema) {
                ArrowIpcDictionaryEncodingsReset(&s->encodings);
                ArrowSchemaRelease(&s->schema);
        }
        for (unsigned i = 0; s->scratch && i < s->columns.width; i++)
                infp_arrow_scratch_done(&s->scratch[i]);
        infp_arrow_table_done(&s->columns);
        infp_close(s->fd);
        free(s->scratch);
        free(s->vectors);
        free(s->window);
        free(s->path);
        free(s);
        return NULL;
}

const struct infp_table *infp_segment_table(const struct infp_segment *s)
{
        return &s->columns.table;
}

static int take_dictionary(struct infp_segment *s, struct infp_err *err)
{
        struct infp_arrow_message want = { .body_size = s->decoder.body_size_bytes,
                                           .max_rows = MAX_ROWS,
                                           .n_nodes = 1 };
        const struct ArrowIpcDictionaryEncoding *encoding = NULL;
        const uint8_t *body = infp_segment_here(s) + s->decoder.header_size_bytes;
        struct ArrowError error = { { 0 } };
        struct ArrowSchemaView view;
        struct infp_err why = { "" };
        int64_t id;

        if (infp_arrow_dictionary_id(infp_segment_here(s) + 8, &id) == 0)
                encoding = ArrowIpcDictionaryEncodingsFindById(&s->encodings, id);
        if (!encoding || ArrowSchemaViewInit(&view, encoding->schema->dictionary, &error) != NANOARROW_OK)
                return infp_segment_broken(s, err, "a dictionary that no column uses");
        want.n_buffers = count_buffers(view.type);
        if (infp_arrow_check_dictionary(infp_segment_here(s) + 8, &want, &why) < 0)
                return infp_segment_broken(s, err, why.text);
        INFP_TRY(decode_header(s, err));
        if (ArrowIpcDecoderDecodeDictionary(&s->decoder, infp_segment_view_of(body, (uint64_t) want.body_size),
                                            NANOARROW_VALIDATION_LEVEL_FULL, &s->dictionaries, &error) != NANOARROW_OK)
                return infp_segment_broken(s, err, error.message);
        return 0;
}

static int take_records(struct infp_segment *s, struct infp_err *err)
{
        const uint8_t *body = infp_segment_here(s) + s->decoder.header_size_bytes;
        struct ArrowError error = { { 0 } };
        struct infp_err why = { "" };
        int code;

        s->want.body_size = s->decoder.body_size_bytes;
        if (infp_arrow_check_records(infp_segment_here(s) + 8, &s->want, &why) < 0)
                return infp_segment_broken(s, err, why.text);
        INFP_TRY(decode_header(s, err));
        code = ArrowIpcDecoderDecodeArrayViewWithDictionaries(&s->decoder,
                                                              infp_segment_view_of(body, (uint64_t) s->want.body_size),
                                                              -1, &s->dictionaries, &s->view, &error);
        if (code == NANOARROW_OK)
                code = ArrowArrayViewValidate(s->view, NANOARROW_VALIDATION_LEVEL_FULL, &error);
        if (code != NANOARROW_OK)
                return infp_segment_broken(s, err, error.message);
        s->row = 0;
        s->n_rows = s->view->length;
        s->n_batches++;
        return 0;
}

/* 1; 0 at the end. *ret_size stays 0 when it is no message at all, or a damaged one. */
static int take_message(struct infp_segment *s, uint64_t *ret_size, struct infp_err *err)
{
        int r = infp_segment_message(s, ret_size, err);

        if (r <= 0)
                return r;
        s->n_messages++;
        if (s->decoder.message_type == NANOARROW_IPC_MESSAGE_TYPE_RECORD_BATCH)
                INFP_TRY(take_records(s, err));
        else if (s->decoder.message_type == NANOARROW_IPC_MESSAGE_TYPE_DICTIONARY_BATCH)
                INFP_TRY(take_dictionary(s, err));
        else
                return infp_segment_broken(s, err, "a message that is neither rows nor a dictionary");
        return 1;
}

/* The message at offset is damaged: goes on with the next sound one, or to the end. */
static void skip(struct infp_segment *s, const struct infp_err *why)
{
        const uint64_t from = s->offset;

        if (!s->damage.n++)
                s->damage.why = *why;
        s->error = 0;
        if (!infp_segment_find(s)) {
                s->offset = s->size;
                s->damaged_tail = s->size - from;
                s->is_end = s->is_torn = true;
        }
        s->damage.bytes += s->offset - from;
}

/* What looks like the end is damage when sound messages follow. */
static bool goes_on(struct infp_segment *s)
{
        const uint64_t from = s->offset;

        if (!s->has_sums || s->size - from <= 8 || !infp_segment_find(s))
                return false;
        if (!s->damage.n++)
                infp_fail(&s->damage.why, -EBADMSG, "cannot read %s at byte %llu: a message that does not end", s->path,
                          (unsigned long long) from);
        s->damage.bytes += s->offset - from;
        s->has_marker = false;
        return true;
}

/* Makes the next message with rows the current one. 1, 0 at the end. */
static int advance(struct infp_segment *s, struct infp_err *err)
{
        const bool was_broken = s->error;

        do {
                struct infp_err why = { "" };
                uint64_t size = 0;
                int r = take_message(s, &size, &why);

                /* Sound messages that cannot be read are no damage: all of them are like that. */
                if (r == -EBADMSG && !size && !was_broken)
                        skip(s, &why);
                else if (r < 0)
                        return infp_fail(err, r, "%s", why.text);
                else if (r == 0 && !goes_on(s)) {
                        s->damage.cut_bytes = s->is_torn ? s->size - s->offset : 0;
                        return 0;
                } else if (r > 0) {
                        s->offset += size;
                        s->good = s->offset;
                }
        } while (s->row == s->n_rows);
        return 1;
}

const struct infp_segment_damage *infp_segment_damage(const struct infp_segment *s)
{
        return &s->damage;
}

void infp_segment_note(const struct infp_segment *s, struct infp_run *run)
{
        const struct infp_segment_damage *damage = &s->damage;

        if (damage->n)
                infp_run_note(run, "%s bytes of %s are damaged and skipped (%s)", infp_count(damage->bytes).text,
                              s->path, damage->why.text);
        if (run->state == INFP_RUN_RECORDING || !s->is_torn)
                return;
        if (damage->cut_bytes)
                infp_run_note(run, "%s ends in an incomplete batch: its %s bytes are skipped", s->path,
                              infp_count(damage->cut_bytes).text);
        else if (run->state != INFP_RUN_INTERRUPTED && !damage->n)
                infp_run_note(run,
                              "%s has no end mark: it was cut, or could not be written completely; rows may be missing",
                              s->path);
}

int infp_segment_next(struct infp_segment *s, struct infp_batch *ret, bool *ret_torn, struct infp_err *err)
{
        int r = 1;
        char name[65];
        uint32_t n;

        if (s->row == s->n_rows)
                r = advance(s, err);
        if (ret_torn)
                *ret_torn = s->is_torn;
        if (r <= 0)
                return r;
        n = s->n_rows - s->row > INFP_BATCH_ROWS ? INFP_BATCH_ROWS : (uint32_t) (s->n_rows - s->row);
        for (unsigned i = 0; i < s->columns.width; i++) {
                r = infp_arrow_vector(&s->columns.sources[i], s->view->children[i], s->row, n, &s->scratch[i],
                                      &s->vectors[i]);
                if (r < 0)
                        return s->error = infp_fail_errno(err, r, "cannot read column '%s' of %s",
                                                          infp_arrow_show(s->schema.children[i]->name, name), s->path);
        }
        s->row += n;
        *ret = (struct infp_batch){ .table = &s->columns.table, .columns = s->vectors, .first = 0, .n_rows = n };
        return 1;
}
