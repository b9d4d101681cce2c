/* The bytes of a segment, message by message. Files are read, not mapped: the recorder cuts a segment back when a write fails,
 * and a mapping would then raise SIGBUS. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/segment.h"

enum {
        READ_AHEAD = 256 << 10,
        MAX_HEADER = 16 << 20,
        MAX_BODY = 1 << 30,
        MAX_FOUND_HEADER = 1 << 20,
        MOST_TRIES = 200
};

int infp_segment_broken(struct infp_segment *s, struct infp_err *err, const char *why)
{
        return s->error = infp_fail(err, -EBADMSG, "cannot read %s at byte %llu: %s", s->path,
                                    (unsigned long long) s->offset, *why ? why : "not enough memory");
}

static void end_torn(struct infp_segment *s)
{
        s->is_end = s->is_torn = true;
}

int infp_segment_load(struct infp_segment *s, uint64_t size, struct infp_err *err)
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

const uint8_t *infp_segment_here(const struct infp_segment *s)
{
        return s->window + (s->offset - s->window_at);
}

struct ArrowBufferView infp_segment_view_of(const uint8_t *data, uint64_t size)
{
        return (struct ArrowBufferView){ .data.as_uint8 = data, .size_bytes = (int64_t) size };
}

/* 1 when a header may follow; 0 at the end. */
static int read_prefix(struct infp_segment *s, int32_t *ret_length, struct infp_err *err)
{
        uint32_t prefix[2];
        int r = infp_segment_load(s, sizeof(prefix), err);

        if (r == 0)
                end_torn(s); /* also where the last whole message ends the file: no end marker */
        if (r <= 0)
                return r;
        memcpy(prefix, infp_segment_here(s), sizeof(prefix));
        if (prefix[0] != 0xffffffff) {
                /* After a power cut a file can end in zeros that were never written. */
                if (prefix[0] != 0 || s->n_messages == 0)
                        return infp_segment_broken(s, err, "no Arrow stream message begins there");
                end_torn(s);
                return 0;
        }
        if (prefix[1] == 0) {
                s->is_end = s->has_marker = true;
                return 0;
        }
        if (prefix[1] > MAX_HEADER || prefix[1] % 8 != 0)
                return infp_segment_broken(s, err, "a message header of impossible size");
        *ret_length = (int32_t) prefix[1];
        return 1;
}

int infp_segment_message(struct infp_segment *s, uint64_t *ret_size, struct infp_err *err)
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
        r = infp_segment_load(s, header, err);
        if (r == 0)
                end_torn(s);
        if (r <= 0)
                return r;
        if (ArrowIpcDecoderVerifyHeader(&s->decoder, infp_segment_view_of(infp_segment_here(s), header), &error) !=
            NANOARROW_OK)
                return infp_segment_broken(s, err, error.message);
        if (s->decoder.body_size_bytes < 0 || s->decoder.body_size_bytes > MAX_BODY ||
            s->decoder.body_size_bytes % 8 != 0)
                return infp_segment_broken(s, err, "a message body of impossible size");
        body = (uint64_t) s->decoder.body_size_bytes;
        r = infp_segment_load(s, header + body, err);
        if (r == 0)
                end_torn(s);
        if (r <= 0)
                return r;
        s->sum = infp_arrow_check_sum(infp_segment_here(s), header, body);
        if (s->sum == INFP_ARROW_SUM_WRONG)
                return infp_segment_broken(s, err, "its checksum is wrong");
        if (s->sum == INFP_ARROW_NO_SUM && s->has_sums)
                return infp_segment_broken(s, err, "its checksum is gone");
        s->has_sums |= s->sum == INFP_ARROW_SUM_RIGHT;
        *ret_size = header + body;
        return 1;
}

/* Whether a message with a right checksum begins at offset. */
static bool is_sound(struct infp_segment *s, unsigned *tries)
{
        uint32_t prefix[2];
        uint64_t size;

        if (infp_segment_load(s, sizeof(prefix), NULL) != 1)
                return false;
        memcpy(prefix, infp_segment_here(s), sizeof(prefix));
        if (prefix[0] != 0xffffffff || !prefix[1] || prefix[1] > MAX_FOUND_HEADER || prefix[1] % 8)
                return false;
        ++*tries;
        if (infp_segment_message(s, &size, NULL) == 1 && s->sum == INFP_ARROW_SUM_RIGHT)
                return true;
        s->is_end = s->is_torn = false;
        s->error = 0;
        return false;
}

bool infp_segment_find(struct infp_segment *s)
{
        const uint64_t from = s->offset;
        const bool is_end = s->is_end, is_torn = s->is_torn;
        unsigned tries = 0;

        s->is_end = s->is_torn = false;
        /* bound: bytes that look like messages again and again are somebody's mischief; all that follows counts as damaged */
        for (s->offset += 8; tries < MOST_TRIES && s->offset + 8 <= s->size; s->offset += 8)
                if (is_sound(s, &tries))
                        return true;
        s->offset = from;
        s->is_end = is_end;
        s->is_torn = is_torn;
        return false;
}
