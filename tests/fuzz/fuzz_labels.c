/* Any output of a command: the labels in it do not depend on how it came in pieces, and none is empty or too long. The first
 * byte says how large the pieces are. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "record/label_line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
        uint64_t n, sum; /* of labels, and of all that is in them */
};

static void expect(bool truth)
{
        if (!truth)
                abort();
}

static void add(struct seen *seen, uint64_t v)
{
        seen->sum = (seen->sum ^ v) * UINT64_C(0x100000001b3);
}

static void note(void *context, const struct infp_label *label)
{
        struct seen *seen = context;

        expect(label->size > 0 && label->size <= INFP_LABEL_TAG);
        expect(!memchr(label->tag, '\n', label->size) && !memchr(label->tag, '\r', label->size));
        seen->n++;
        for (size_t i = 0; i < label->size; i++)
                add(seen, (unsigned char) label->tag[i]);
        add(seen, label->is_filename);
        add(seen, label->epoch);
        if (label->epoch == INFP_LABEL_HAS_TIME) {
                expect(label->unix_ns >= 0);
                add(seen, (uint64_t) label->unix_ns);
        }
}

static struct seen read_pieces(const char *text, size_t size, size_t piece)
{
        struct infp_label_lines *lines = calloc(1, sizeof(*lines));
        struct seen seen = { 0 };

        expect(lines != NULL);
        for (size_t i = 0; i < size; i += piece)
                infp_label_lines_feed(lines, text + i, size - i < piece ? size - i : piece, note, &seen);
        infp_label_lines_end(lines, note, &seen);
        free(lines);
        return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const char *text = (const char *) data + 1;
        struct seen whole, parts;

        if (size < 2)
                return 0;
        whole = read_pieces(text, size - 1, size);
        parts = read_pieces(text, size - 1, (size_t) data[0] + 1);
        expect(whole.n == parts.n && whole.sum == parts.sum);
        return 0;
}
