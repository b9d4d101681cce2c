#include "import/input.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/human.h"
#include "base/mem.h"

enum {
        CHUNK = 64 << 10,
        FIRST_CHUNK = 4 << 10, /* of the first reads; later ones double what was read, up to CHUNK */
        GZIP_WINDOW = 15 + 16, /* zlib: the largest window, with gzip's own header */
        /* A profile shrinks to a tenth, a text of one line again and again to a hundredth; deflate itself ends at 1,032. */
        BOMB_FACTOR = 500,
        STOP_EACH = 1024, /* stacks from one question whether to stop to the next */
};
static const uint64_t bomb_bytes = 64 << 20; /* a small file may be anything */

struct infp_import_input {
        struct infp_import_source source;
        bool is_gzip, is_end; /* end: of the file */
        bool in_member;       /* of a gzip file: its end has not come yet */
        z_stream z;
        char *raw; /* CHUNK bytes of a gzip file; else NULL */
        uint64_t bytes, unpacked, line;
        char *data; /* content: begin .. end of cap */
        size_t begin, end, cap;
};

const char *infp_import_path(const struct infp_import_input *input)
{
        return input->source.path;
}

bool infp_import_is_compressed(const struct infp_import_input *input)
{
        return input->is_gzip;
}

int64_t infp_import_written(const struct infp_import_input *input)
{
        struct stat st;

        return fstat(input->source.fd, &st) == 0 ? st.st_mtime : 0;
}

uint64_t infp_import_bytes(const struct infp_import_input *input)
{
        return input->bytes;
}

uint64_t infp_import_unpacked(const struct infp_import_input *input)
{
        return input->unpacked;
}

uint64_t infp_import_line_number(const struct infp_import_input *input)
{
        return input->line;
}

static int ask_to_stop(const struct infp_import_input *input, struct infp_err *err)
{
        return input->source.is_stop(input->source.context)
                       ? infp_fail(err, -ECANCELED, "the import of %s was stopped; nothing was kept",
                                   input->source.path)
                       : 0;
}

int infp_import_stopped(const struct infp_import_input *input, uint64_t n, struct infp_err *err)
{
        struct pollfd stop = { .fd = input->source.stop_fd, .events = POLLIN };

        return n % STOP_EACH == 0 && poll(&stop, 1, 0) > 0 ? ask_to_stop(input, err) : 0;
}

/* The user may want to stop while a pipe makes us wait. */
static int wait_for_data(const struct infp_import_input *input, struct infp_err *err)
{
        struct pollfd fds[2] = { { .fd = input->source.fd, .events = POLLIN },
                                 { .fd = input->source.stop_fd, .events = POLLIN } };

        if (input->source.stop_fd < 0)
                return 0;
        do {
                if (poll(fds, 2, -1) < 0 && errno != EINTR)
                        return 0; /* read reports it */
                if (fds[1].revents & POLLIN)
                        INFP_TRY(ask_to_stop(input, err));
        } while (!fds[0].revents);
        return 0;
}

/* The number of bytes, 0 at the end. */
static ssize_t read_some(struct infp_import_input *input, char *to, size_t cap, struct infp_err *err)
{
        ssize_t n;

        INFP_TRY(wait_for_data(input, err));
        do
                n = read(input->source.fd, to, cap);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return infp_fail_errno(err, -errno, "cannot read %s", input->source.path);
        input->bytes += (uint64_t) n;
        infp_progress(input->source.notices, "import: %s MiB of %s read", infp_count(input->bytes >> 20).text,
                      input->source.path);
        input->is_end = n == 0;
        return n;
}

static int broken_gzip(const struct infp_import_input *input, struct infp_err *err)
{
        return infp_fail(err, -EBADMSG, "%s is damaged: its gzip data end or fail near byte %llu%s%s",
                         input->source.path, (unsigned long long) (input->bytes - input->z.avail_in),
                         input->z.msg ? ": " : "", input->z.msg ? input->z.msg : "");
}

/* Members of a gzip file follow one another; padding after the last one ends the file, as in gzip(1). */
static bool next_member(struct infp_import_input *input)
{
        if (input->z.avail_in && input->z.next_in[0] != 0x1f)
                return false;
        return inflateReset(&input->z) == Z_OK;
}

static ssize_t inflate_some(struct infp_import_input *input, char *to, size_t cap, struct infp_err *err)
{
        input->z.next_out = (Bytef *) to;
        input->z.avail_out = (uInt) cap;
        while (input->z.avail_out == cap) {
                int r;

                if (!input->z.avail_in && !input->is_end) {
                        ssize_t n = read_some(input, input->raw, CHUNK, err);

                        if (n < 0)
                                return n;
                        input->z.next_in = (Bytef *) input->raw;
                        input->z.avail_in = (uInt) n;
                }
                if (!input->z.avail_in) {
                        if (input->in_member)
                                return broken_gzip(input, err);
                        return 0;
                }
                if (!input->in_member && !next_member(input))
                        return 0;
                input->in_member = true;
                r = inflate(&input->z, Z_NO_FLUSH);
                if (r == Z_STREAM_END)
                        input->in_member = false;
                else if (r != Z_OK && r != Z_BUF_ERROR)
                        return broken_gzip(input, err);
        }
        return (ssize_t) (cap - input->z.avail_out);
}

static int reserve(struct infp_import_input *input, size_t more, struct infp_err *err)
{
        size_t cap = input->cap ? input->cap : 2 * FIRST_CHUNK;
        char *grown;

        if (input->begin && (input->begin == input->end || input->cap - input->end < more)) {
                memmove(input->data, input->data + input->begin, input->end - input->begin);
                input->end -= input->begin;
                input->begin = 0;
        }
        if (input->cap - input->end >= more)
                return 0;
        while (cap - input->end < more)
                cap *= 2;
        grown = realloc(input->data, cap);
        if (!grown)
                return infp_fail(err, -ENOMEM, "not enough memory to read %s", input->source.path);
        input->data = grown;
        input->cap = cap;
        return 0;
}

/* More content after what is there: 1, or 0 at the end. One byte stays free after it. */
static int fill(struct infp_import_input *input, struct infp_err *err)
{
        const size_t wanted = input->is_gzip || input->unpacked >= CHUNK ? CHUNK
                              : input->unpacked > FIRST_CHUNK            ? input->unpacked
                                                                         : FIRST_CHUNK;
        ssize_t n;

        INFP_TRY(reserve(input, wanted + 1, err));
        n = input->is_gzip ? inflate_some(input, input->data + input->end, wanted, err)
                           : read_some(input, input->data + input->end, wanted, err);
        if (n <= 0)
                return (int) n;
        input->end += (size_t) n;
        input->unpacked += (uint64_t) n;
        if (input->is_gzip && input->unpacked > bomb_bytes && input->unpacked / BOMB_FACTOR > input->bytes)
                return infp_fail(err, -EFBIG,
                                 "%s is refused: it unpacks to more than %u times its size; if it really is a profile, "
                                 "unpack it first",
                                 input->source.path, BOMB_FACTOR);
        return 1;
}

static bool is_gzip(const char *data, size_t size)
{
        return size >= 2 && (unsigned char) data[0] == 0x1f && (unsigned char) data[1] == 0x8b;
}

/* What was read so far is gzip: replace it by its content. */
static int begin_gzip(struct infp_import_input *input, struct infp_err *err)
{
        input->raw = malloc(CHUNK);
        if (!input->raw || inflateInit2(&input->z, GZIP_WINDOW) != Z_OK)
                return infp_fail(err, -ENOMEM, "not enough memory to unpack %s", input->source.path);
        input->is_gzip = input->in_member = true;
        input->unpacked = 0;
        memcpy(input->raw, input->data, input->end); /* one read: at most FIRST_CHUNK */
        input->z.next_in = (Bytef *) input->raw;
        input->z.avail_in = (uInt) input->end;
        input->begin = input->end = 0;
        return 0;
}

/* Two bytes decide, and a pipe may deliver one. */
static int look_for_gzip(struct infp_import_input *input, struct infp_err *err)
{
        int r = 1;

        INFP_TRY(reserve(input, FIRST_CHUNK + 1, err));
        while (r > 0 && input->end < 2) {
                ssize_t n = read_some(input, input->data + input->end, FIRST_CHUNK - input->end, err);

                if (n < 0)
                        return (int) n;
                input->end += (size_t) n;
                r = n > 0;
        }
        input->unpacked = input->end;
        return is_gzip(input->data, input->end) ? begin_gzip(input, err) : 0;
}

int infp_import_input_open(const struct infp_import_source *source, struct infp_import_input **ret,
                           struct infp_err *err)
{
        struct infp_import_input *input = calloc(1, sizeof(*input));
        int r;

        if (!input)
                return infp_fail(err, -ENOMEM, "not enough memory to read %s", source->path);
        input->source = *source;
        r = look_for_gzip(input, err);
        if (r < 0)
                infp_import_input_close(input);
        else
                *ret = input;
        return r;
}

struct infp_import_input *infp_import_input_close(struct infp_import_input *input)
{
        if (!input)
                return NULL;
        if (input->is_gzip)
                inflateEnd(&input->z);
        free(input->raw);
        free(input->data);
        free(input);
        return NULL;
}

int infp_import_peek(struct infp_import_input *input, const char **ret, size_t *ret_size, struct infp_err *err)
{
        int r = 1;

        while (r > 0 && input->end - input->begin < INFP_IMPORT_HEAD)
                r = fill(input, err);
        if (r < 0)
                return r;
        if (input->end - input->begin >= 3 && !memcmp(input->data + input->begin, "\xef\xbb\xbf", 3))
                input->begin += 3; /* a byte order mark */
        *ret = input->data + input->begin;
        *ret_size = input->end - input->begin < INFP_IMPORT_HEAD ? input->end - input->begin : INFP_IMPORT_HEAD;
        if (input->is_gzip && is_gzip(*ret, *ret_size))
                return infp_fail(err, -EBADMSG, "%s is gzip within gzip; unpack it once (gzip -d)", input->source.path);
        return 0;
}

static int bad_line(const struct infp_import_input *input, const char *why, struct infp_err *err)
{
        return infp_fail(err, -EBADMSG, "%s, line %llu: %s", input->source.path, (unsigned long long) input->line, why);
}

int infp_import_line(struct infp_import_input *input, const char **ret, size_t *ret_size, struct infp_err *err)
{
        size_t searched = 0, size;
        const char *line, *end = NULL;
        int r = 1;

        input->line++;
        for (;;) {
                size_t there = input->end - input->begin;

                end = there > searched ? memchr(input->data + input->begin + searched, '\n', there - searched) : NULL;
                if (end || r == 0)
                        break;
                if (there > INFP_IMPORT_LINE_MAX)
                        return bad_line(input, "longer than 4 MiB, which is too long for a profile", err);
                searched = there;
                r = fill(input, err);
                if (r < 0)
                        return r;
        }
        line = input->data + input->begin;
        size = end ? (size_t) (end - line) : input->end - input->begin;
        if (!end && !size) {
                input->line--;
                return 0;
        }
        input->begin += size + (end != NULL);
        if (memchr(line, 0, size))
                return bad_line(input, "a NUL byte, which is not text", err);
        *ret = line;
        *ret_size = size && line[size - 1] == '\r' ? size - 1 : size;
        return 1;
}

int infp_import_all(struct infp_import_input *input, size_t max, const char **ret, size_t *ret_size,
                    struct infp_err *err)
{
        int r = 1;

        while (r > 0) {
                if (input->end - input->begin > max)
                        return infp_fail(err, -EFBIG, "%s is too large: more than %zu MiB of content",
                                         input->source.path, max >> 20);
                r = fill(input, err);
        }
        if (r < 0)
                return r;
        INFP_TRY(reserve(input, 1, err));
        input->data[input->end] = 0;
        *ret = input->data + input->begin;
        *ret_size = input->end - input->begin;
        return 0;
}
