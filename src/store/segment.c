/* Reading a segment: each message is checked whole before a cell of it is touched. */
#include "store/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/human.h"
#include "base/mem.h"
#include "store/arrow_read.h"
#include "store/path.h"

/* Files are read, not mapped: the recorder cuts a segment back when a write fails, and a mapping would then raise SIGBUS. */
enum {
        READ_AHEAD = 256 << 10,
        MAX_HEADER = 16 << 20,
        MAX_BODY = 1 << 30,
        MAX_FOUND_HEADER = 1 << 20,
        MOST_TRIES = 200
};

/* Remembers that it cannot go on; -EBADMSG with the place and why. */
static int broken(struct infp_segment *s, struct infp_err *err, const char *why)
{
        return s->error = infp_fail(err, -EBADMSG, "cannot read %s at byte %llu: %s", s->path,
                                    (unsigned long long) s->offset, *why ? why : "not enough memory");
}

static void end_torn(struct infp_segment *s)
{
        s->is_end = s->is_torn = true;
}

/* Reads `size` bytes at offset into memory. 1, 0 when the file ends before, or a negative errno. */
static int load(struct infp_segment *s, uint64_t size, struct infp_err *err)
{
        uint64_t left = s->size - s->offset;
        size_t want = size < READ_AHEAD ? READ_AHEAD : (size_t) size;
        ssize_t n;

        if (left < size)
                return 0;
        if (s->offset >= s->window_at && s->offset + size <= s->window_at + s->window_size)
                return 1;
        if (want > left)
                want = (size_t) left;
        if (want > s->window_cap) {
                free(s->window);
                s->window = malloc(want);
                s->window_size = 0;
                s->window_cap = s->window ? want : 0;
                if (!s->window)
                        return s->error = infp_fail(err, -ENOMEM, "not enough memory to read %s", s->path);
        }
        s->window_at = s->offset;
        s->window_size = 0;
        while (s->window_size < want) {
                n = pread(s->fd, s->window + s->window_size, want - s->window_size,
                          (off_t) (s->offset + s->window_size));
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return s->error = infp_fail_errno(err, -errno, "cannot read %s", s->path);
                if (n == 0)
                        break; /* cut since it was opened */
                s->window_size += (size_t) n;
        }
        return s->window_size >= size;
}

/* The byte at offset, 8-byte aligned; good until the next load. */
static const uint8_t *here(const struct infp_segment *s)
{
        return s->window + (s->offset - s->window_at);
}

static struct ArrowBufferView view_of(const uint8_t *data, uint64_t size)
{
        return (struct ArrowBufferView){ .data.as_uint8 = data, .size_bytes = (int64_t) size };
}

/* 1 when a header may follow; 0 at the end. */
static int read_prefix(struct infp_segment *s, int32_t *ret_length, struct infp_err *err)
{
        uint32_t prefix[2];
        int r = load(s, sizeof(prefix), err);

        if (r == 0)
                end_torn(s); /* also where the last whole message ends the file: no end marker */
        if (r <= 0)
                return r;
        memcpy(prefix, here(s), sizeof(prefix));
        if (prefix[0] != 0xffffffff) {
                /* After a power cut a file can end in zeros that were never written. */
                if (prefix[0] != 0 || s->n_messages == 0)
                        return broken(s, err, "no Arrow stream message begins there");
                end_torn(s);
                return 0;
        }
        if (prefix[1] == 0) {
                s->is_end = s->has_marker = true;
                return 0;
        }
        if (prefix[1] > MAX_HEADER || prefix[1] % 8 != 0)
                return broken(s, err, "a message header of impossible size");
        *ret_length = (int32_t) prefix[1];
        return 1;
}

/* Loads the message at offset, verifies its header and looks at its checksum; its size into ret. 1, 0 at the end. */
static int read_message(struct infp_segment *s, uint64_t *ret_size, struct infp_err *err)
{
        struct ArrowError error = { { 0 } };
        int32_t length = 0;
        uint64_t header, body;
        int r;

        if (s->error)
                return infp_fail(err, s->error, "cannot read the rest of %s", s->path);
        if (s->is_end)
                return 0;
        r = read_prefix(s, &length, err);
        if (r <= 0)
                return r;
        header = 8 + (uint64_t) length;
        r = load(s, header, err);
        if (r == 0)
                end_torn(s);
        if (r <= 0)
                return r;
        if (ArrowIpcDecoderVerifyHeader(&s->decoder, view_of(here(s), header), &error) != NANOARROW_OK)
                return broken(s, err, error.message);
        if (s->decoder.body_size_bytes < 0 || s->decoder.body_size_bytes > MAX_BODY ||
            s->decoder.body_size_bytes % 8 != 0)
                return broken(s, err, "a message body of impossible size");
        body = (uint64_t) s->decoder.body_size_bytes;
        r = load(s, header + body, err);
        if (r == 0)
                end_torn(s);
        if (r <= 0)
                return r;
        s->sum = infp_arrow_check_sum(here(s), header, body);
        if (s->sum == INFP_ARROW_SUM_WRONG)
                return broken(s, err, "its checksum is wrong");
        if (s->sum == INFP_ARROW_NO_SUM && s->has_sums)
                return broken(s, err, "its checksum is gone");
        s->has_sums |= s->sum == INFP_ARROW_SUM_RIGHT;
        *ret_size = header + body;
        return 1;
}

/* Whether a message with a right checksum begins at offset. */
static bool is_sound(struct infp_segment *s, unsigned *tries)
{
        uint32_t prefix[2];
        uint64_t size;

        if (load(s, sizeof(prefix), NULL) != 1)
                return false;
        memcpy(prefix, here(s), sizeof(prefix));
        if (prefix[0] != 0xffffffff || !prefix[1] || prefix[1] > MAX_FOUND_HEADER || prefix[1] % 8)
                return false;
        ++*tries;
        if (read_message(s, &size, NULL) == 1 && s->sum == INFP_ARROW_SUM_RIGHT)
                return true;
        s->is_end = s->is_torn = false;
        s->error = 0;
        return false;
}

/* After offset: to the next message whose checksum is right. False: there is none, and offset stays. */
static bool find_sound(struct infp_segment *s)
{
        const uint64_t from = s->offset;
        const bool is_end = s->is_end, is_torn = s->is_torn;
        unsigned tries = 0;

        s->is_end = s->is_torn = false;
        /* bound: a file crafted to look like many messages; all that follows counts as damaged */
        for (s->offset += 8; tries < MOST_TRIES && s->offset + 8 <= s->size; s->offset += 8)
                if (is_sound(s, &tries))
                        return true;
        s->offset = from;
        s->is_end = is_end;
        s->is_torn = is_torn;
        return false;
}

enum { MAX_ROWS = 1 << 28 };

static int decode_header(struct infp_segment *s, struct infp_err *err)
{
        struct ArrowError error = { { 0 } };
        uint64_t size = (uint64_t) s->decoder.header_size_bytes;

        if (ArrowIpcDecoderDecodeHeader(&s->decoder, view_of(here(s), size), &error) != NANOARROW_OK)
                return broken(s, err, error.message);
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
                return broken(s, err, error.message);
        s->has_schema = true;
        if (!dictionaries_agree(&s->encodings))
                return broken(s, err, "columns that share a dictionary differ in type");
        code = ArrowIpcDecoderSetEndianness(&s->decoder, s->decoder.endianness);
        if (code == NANOARROW_OK)
                code = ArrowIpcDictionariesInit(&s->dictionaries, &s->encodings, &error);
        if (code == NANOARROW_OK)
                code = ArrowIpcDecoderSetSchemaWithDictionaries(&s->decoder, &s->schema, &s->encodings, &error);
        return code == NANOARROW_OK ? 0 : broken(s, err, error.message);
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

        if (s->size >= 8 && load(s, 8, err) == 1 && memcmp(here(s), "ARROW1\0\0", 8) == 0)
                s->offset = 8; /* the file format: a stream between two magic words, and an index that we do not need */
        r = read_message(s, &size, err);
        if (r == 0)
                return s->error = infp_fail(err, -ENODATA, "%s holds nothing yet, or was cut before its first row",
                                            s->path);
        INFP_TRY(r);
        if (s->decoder.message_type != NANOARROW_IPC_MESSAGE_TYPE_SCHEMA)
                return broken(s, err, "an Arrow stream must begin with its schema");
        if (infp_arrow_check_schema(here(s) + 8, &why) < 0)
                return broken(s, err, why.text);
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
        const uint8_t *body = here(s) + s->decoder.header_size_bytes;
        struct ArrowError error = { { 0 } };
        struct ArrowSchemaView view;
        struct infp_err why = { "" };
        int64_t id;

        if (infp_arrow_dictionary_id(here(s) + 8, &id) == 0)
                encoding = ArrowIpcDictionaryEncodingsFindById(&s->encodings, id);
        if (!encoding || ArrowSchemaViewInit(&view, encoding->schema->dictionary, &error) != NANOARROW_OK)
                return broken(s, err, "a dictionary that no column uses");
        want.n_buffers = count_buffers(view.type);
        if (infp_arrow_check_dictionary(here(s) + 8, &want, &why) < 0)
                return broken(s, err, why.text);
        INFP_TRY(decode_header(s, err));
        if (ArrowIpcDecoderDecodeDictionary(&s->decoder, view_of(body, (uint64_t) want.body_size),
                                            NANOARROW_VALIDATION_LEVEL_FULL, &s->dictionaries, &error) != NANOARROW_OK)
                return broken(s, err, error.message);
        return 0;
}

static int take_records(struct infp_segment *s, struct infp_err *err)
{
        const uint8_t *body = here(s) + s->decoder.header_size_bytes;
        struct ArrowError error = { { 0 } };
        struct infp_err why = { "" };
        int code;

        s->want.body_size = s->decoder.body_size_bytes;
        if (infp_arrow_check_records(here(s) + 8, &s->want, &why) < 0)
                return broken(s, err, why.text);
        INFP_TRY(decode_header(s, err));
        code = ArrowIpcDecoderDecodeArrayViewWithDictionaries(&s->decoder, view_of(body, (uint64_t) s->want.body_size),
                                                              -1, &s->dictionaries, &s->view, &error);
        if (code == NANOARROW_OK)
                code = ArrowArrayViewValidate(s->view, NANOARROW_VALIDATION_LEVEL_FULL, &error);
        if (code != NANOARROW_OK)
                return broken(s, err, error.message);
        s->row = 0;
        s->n_rows = s->view->length;
        s->n_batches++;
        return 0;
}

/* 1; 0 at the end. *ret_size stays 0 if it is not a message, or a damaged one. */
static int take_message(struct infp_segment *s, uint64_t *ret_size, struct infp_err *err)
{
        int r = read_message(s, ret_size, err);

        if (r <= 0)
                return r;
        s->n_messages++;
        if (s->decoder.message_type == NANOARROW_IPC_MESSAGE_TYPE_RECORD_BATCH)
                INFP_TRY(take_records(s, err));
        else if (s->decoder.message_type == NANOARROW_IPC_MESSAGE_TYPE_DICTIONARY_BATCH)
                INFP_TRY(take_dictionary(s, err));
        else
                return broken(s, err, "a message that is neither rows nor a dictionary");
        return 1;
}

/* The message at offset is damaged: skips to the next sound one, or to the end. */
static void skip(struct infp_segment *s, const struct infp_err *why)
{
        const uint64_t from = s->offset;

        if (!s->damage.n++)
                s->damage.why = *why;
        s->error = 0;
        if (!find_sound(s)) {
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

        if (!s->has_sums || s->size - from <= 8 || !find_sound(s))
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

                /* Sound messages that cannot be read are not damage: all messages of the file are alike. */
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

int infp_segment_grow(struct infp_segment *s, struct infp_err *err)
{
        struct stat status;

        if (s->error || s->has_marker)
                return 0;
        if (fstat(s->fd, &status) < 0)
                return infp_fail_errno(err, -errno, "cannot read %s", s->path);
        if ((uint64_t) status.st_size <= s->size)
                return 0;
        s->size = (uint64_t) status.st_size;
        s->window_size = 0; /* what was cut back after a failed write may be other bytes now */
        s->is_end = s->is_torn = false;
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
