/* Any ring file: rows are whole, memory is bounded, the reader lives. The input is what is changed in a file that a writer could
 * have made: bit 0 of its first byte says that the file is cut after the first read, bit 1 that it is only watched, not consumed.
 * Then come patches: place (4 bytes), number of bytes (1), the bytes. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../unit/ring_sample.h"
#include "base/json/text.h"
#include "base/text.h"
#include "model/tables.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool truth)
{
        if (!truth)
                abort();
}

static int check(void *context, const struct infp_row *row)
{
        uint64_t *n = context;

        for (unsigned i = 0; i < row->table->n_columns; i++) {
                size_t size, at = 0;
                const char *text;

                if (!infp_row_has(row, i) || row->table->columns[i].type != INFP_STR)
                        continue;
                text = infp_row_text(row, i, &size);
                while (at < size) {
                        const unsigned length = infp_utf8_length(text + at, size - at);

                        expect(length > 0);
                        at += length;
                }
                if (row->table == &infp_table_spans && i == INFP_SPANS_ATTRIBUTES)
                        expect(infp_json_is_valid(text, size));
        }
        if (row->table == &infp_table_spans && infp_row_has(row, INFP_SPANS_DURATION_NS))
                expect(row->cell[INFP_SPANS_DURATION_NS].i64 >= 0);
        ++*n;
        return 0;
}

static uint32_t ids[3]; /* of stacks and code */

struct row {
        struct infp_wire_row row;
        union infp_wire_cell cells[4];
};

static void fill(struct ring_sample *s)
{
        uint32_t table;

        sample_init(s);
        sample_add_metric(s, "tokens", "tokens", INFP_WIRE_COUNTER);
        sample_add_metric(s, "queue", "", INFP_WIRE_GAUGE);
        sample_set_slot(s, 1, 900, 2);
        for (unsigned i = 0; i < 2; i++) {
                sample_claim(s, i, 1 + i, 10 + i);
                sample_thread(s, i, 10 + i, 10, "worker");
                sample_mark(s, i, 10 + i, 20, "mark");
                sample_begin(s, i, 10 + i, 100, 1 + i, i, "step");
                sample_attr_text(s, i, 10 + i, 110, 2 - i, "model", "text");
                sample_attr(s, i, 10 + i, 120, 2 - i, "n", INFP_WIRE_DOUBLE, sample_bits(0.5));
                sample_value(s, i, 10 + i, 130, i, 3);
                sample_end(s, i, 10 + i, 200, 1 + i, i, 100, 10, "step");
        }
        sample_begin(s, 0, 10, 300, 9, 0, "open");
        sample_claim(s, 2, 1, 12);
        sample_chunk(s, 2)->class = INFP_WIRE_STAY;
        sample_stack(s, 2, 12, 100, &ids[0]);
        sample_code(s, 2, 12, 100, &ids[1]);
        sample_stack(s, 2, 12, 200, &ids[2]);
        sample_table(s, 2, 12, 100, "torch_trace", "step module duration stage", &table);
        for (unsigned i = 0; i < 3; i++) /* an integer, a text, a real number, a text */
                sample_put(
                        s, 0,
                        &(struct row){
                                { .record = sample_record(INFP_WIRE_ROW, 10, 300 + i), .table = table, .types = 0xed },
                                { { .bits = i },
                                  { .text = { 0, 9 } },
                                  { .bits = sample_bits(0.5) },
                                  { .text = { INFP_WIRE_INLINE | 32, 8 } } } },
                        sizeof(struct row), NULL, NULL, 0);
        sample_arena(s, "some text in the arena");
}

/* All that is handed out can be read, whatever the ids in it are. */
static uint64_t look_up(struct infp_ring *ring, uint32_t id)
{
        struct infp_ring_stack stack;
        struct infp_ring_code code;
        uint64_t sum = 0;

        if (infp_ring_code(ring, id, &code) == 0)
                for (size_t i = 0; i < code.file_size + code.function_size; i++)
                        sum += i < code.file_size ? code.file[i] : code.function[i - code.file_size];
        if (infp_ring_stack(ring, id, &stack) < 0)
                return sum;
        expect(stack.n_addresses <= INFP_WIRE_FRAMES && stack.n_python <= INFP_WIRE_FRAMES);
        for (uint32_t i = 0; i < stack.n_addresses; i++)
                sum += stack.addresses[i];
        for (uint32_t i = 0; i < stack.n_python; i++)
                if (infp_ring_code(ring, stack.python[i].code, &code) == 0)
                        sum += code.file_size;
        return sum;
}

static void patch(struct ring_sample *s, const uint8_t *data, size_t size)
{
        while (size > 5) {
                uint32_t at;
                size_t n = data[4];

                memcpy(&at, data, 4);
                data += 5;
                size -= 5;
                n = n < size ? n : size;
                at %= SAMPLE_BYTES;
                n = n < SAMPLE_BYTES - at ? n : SAMPLE_BYTES - at;
                memcpy(s->bytes + at, data, n);
                data += n;
                size -= n;
        }
}

static void read_it(int file, const struct infp_ring_owner *owner, bool consumer, bool is_cut)
{
        struct infp_ring *ring;
        uint64_t n = 0;

        if (infp_ring_open(file, owner, consumer, &ring, NULL) < 0)
                return;
        infp_ring_read(ring, false, check, &n, NULL);
        if (is_cut)
                expect(ftruncate(file, 8192) == 0);
        infp_ring_has_ended(ring);
        for (unsigned i = 0; i < 3; i++)
                look_up(ring, ids[i]);
        infp_ring_read(ring, false, check, &n, NULL);
        infp_ring_read(ring, true, check, &n, NULL);
        expect(n <= infp_ring_rows(infp_ring_counts(ring)));
        infp_ring_close(ring);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static struct ring_sample sound, *sample; /* sample: the file, mapped */
        static int file = -1;                     /* making a file takes longer than reading it */
        struct infp_ring_owner owner = sample_owner();

        if (size < 1)
                return 0;
        if (file < 0) {
                fill(&sound);
                file = memfd_create("ring", MFD_CLOEXEC);
                sample = mmap(NULL, sizeof(sound), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        }
        expect(file >= 0 && sample != MAP_FAILED && ftruncate(file, sizeof(sound)) == 0);
        *sample = sound;
        patch(sample, data + 1, size - 1);
        /* It is of the process that is looked at; else nothing is read at all. */
        owner.pid = sample_head(sample)->pid;
        owner.start_ticks = sample_head(sample)->start_ticks;
        read_it(file, &owner, !(data[0] & 2), data[0] & 1);
        return 0;
}
