/* Any ring file: rows are whole, memory is bounded, the reader lives. The input is what is changed in a file that a writer could
 * have made: bit 0 of its first byte says that the file is cut after the first read, bit 1 that it is only watched, not consumed.
 * Then come patches: place (4 bytes), number of bytes (1), the bytes.
 * Bit 2: they are of the settings in this process's own file, as others write them there: the program goes on, and takes none that is not
 * one of those that it may take. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../unit/ring_sample.h"
#include "base/json/text.h"
#include "base/text.h"
#include "infprof/infprof.h"
#include "model/tables.h"
#include "ring/settings.h"
#include "ring/writer_parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In place of libc's: who reads settings waits for an owner that is writing them, and nobody writes here. */
int nanosleep(const struct timespec *wanted, struct timespec *left)
{
        (void) wanted;
        (void) left;
        return 0;
}

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
        sample_setting(s, 0, "recording", "on", "off");
        sample_setting(s, 3, "torch.profiling", "off", "0.1");
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

static bool is_printable(const char *text, size_t cap)
{
        const size_t size = strnlen(text, cap);

        for (size_t i = 0; i < size; i++)
                if (text[i] < ' ' || text[i] > '~')
                        return false;
        return size < cap;
}

/* How many there are; all that is said of them ends, and can be printed. */
static int read_settings(int file, const struct infp_ring_owner *owner, struct infp_ring_setting *ret)
{
        const int n = infp_ring_settings(file, owner, ret, NULL);

        expect(n <= INFP_WIRE_SETTINGS);
        for (int i = 0; i < n; i++) {
                const struct infp_ring_setting *s = &ret[i];

                expect(s->number < INFP_WIRE_SETTINGS && s->key[0] && is_printable(s->key, sizeof(s->key)) &&
                       is_printable(s->value, sizeof(s->value)) && is_printable(s->wanted, sizeof(s->wanted)) &&
                       is_printable(s->source, sizeof(s->source)) && is_printable(s->refused, sizeof(s->refused)) &&
                       is_printable(s->may_be, sizeof(s->may_be)));
        }
        return n;
}

/* into: `cap` bytes. */
static void patch(unsigned char *into, size_t cap, const uint8_t *data, size_t size)
{
        while (size > 5) {
                uint32_t at;
                size_t n = data[4];

                memcpy(&at, data, 4);
                data += 5;
                size -= 5;
                n = n < size ? n : size;
                at %= (uint32_t) cap;
                n = n < cap - at ? n : cap - at;
                memcpy(into + at, data, n);
                data += n;
                size -= n;
        }
}

static void read_it(int file, const struct infp_ring_owner *owner, bool consumer, bool is_cut)
{
        struct infp_ring_setting settings[INFP_WIRE_SETTINGS];
        struct infp_ring *ring;
        uint64_t n = 0;

        read_settings(file, owner, settings);

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

static char directory[] = "/tmp/fuzz_ring.XXXXXX";

static void tidy(void)
{
        unlink(infp_writer_file.path);
        rmdir(directory);
}

/* A file of this process, and one setting of its own. */
static infp_setting *begin_program(int *ret_file)
{
        infp_setting *ret;

        expect(mkdtemp(directory) != NULL);
        infp_writer_state = INFP_WRITER_OFF;
        infp_writer_config = (struct infp_writer_config){ 0 };
        snprintf(infp_writer_config.directory, sizeof(infp_writer_config.directory), "%s", directory);
        expect(infp_enable() == 0);
        atexit(tidy);
        ret = infp_setting_open("own", "value", "anything");
        *ret_file = open(infp_writer_file.path, O_RDWR | O_CLOEXEC);
        expect(ret && *ret_file >= 0);
        return ret;
}

/* What it took is one of its values, and what is asked for as it should be is done: at the second time at the latest, for the first may make a
 * number that was scribbled on the one that it has answered. */
static void expect_obedience(int file, const struct infp_ring_owner *owner)
{
        struct infp_ring_setting settings[INFP_WIRE_SETTINGS];

        infp_mark("heard");
        for (unsigned i = 0; i < 2; i++) {
                expect(infp_ring_ask(file, owner, 0, "off", NULL) == 0);
                infp_mark("not recorded");
        }
        expect(!infp_is_recording());
        for (unsigned i = 0; i < 2; i++) {
                expect(infp_ring_ask(file, owner, 0, "on", NULL) == 0);
                infp_mark("recorded");
        }
        expect(infp_is_recording());
        read_settings(file, owner, settings);
        expect(!strcmp(settings[0].key, "recording") && !strcmp(settings[0].value, "on") &&
               settings[0].state == INFP_RING_SETTING_APPLIED);
}

static void harm_program(const uint8_t *data, size_t size)
{
        static infp_setting *own;
        static int file;
        struct infp_ring_setting settings[INFP_WIRE_SETTINGS];
        struct infp_ring_owner owner = { .process = 1, .pid = getpid(), .uid = geteuid() };
        char text[INFP_SETTING_BYTES];

        if (!own)
                own = begin_program(&file);
        owner.start_ticks = infp_writer_file.head->start_ticks;
        memset(infp_writer_file.settings, 0, sizeof(*infp_writer_file.settings)); /* as of a new file */
        infp_writer_settings_all();
        patch((unsigned char *) infp_writer_file.settings, INFP_WIRE_PAGE, data, size);
        read_settings(file, &owner, settings);
        for (unsigned i = 0; i < 3; i++) {
                infp_mark("mark");
                infp_settings_asked();
                if (!infp_setting_asked(own, text, sizeof(text)))
                        continue;
                expect(is_printable(text, sizeof(text)));
                infp_setting_is(own, text, "config");
                infp_setting_answer(own, NULL);
        }
        expect(infp_writer_file.max_chunks <= (infp_writer_file.mapped - INFP_WRITER_CHUNKS_AT) / INFP_WIRE_CHUNK);
        expect(infp_writer_file.n_chunks <= infp_writer_file.max_chunks);
        expect_obedience(file, &owner);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static struct ring_sample sound, *sample; /* sample: the file, mapped */
        static int file = -1;                     /* making a file takes longer than reading it */
        struct infp_ring_owner owner = sample_owner();

        if (size < 1)
                return 0;
        if (data[0] & 4) {
                harm_program(data + 1, size - 1);
                return 0;
        }
        if (file < 0) {
                fill(&sound);
                file = memfd_create("ring", MFD_CLOEXEC);
                sample = mmap(NULL, sizeof(sound), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        }
        expect(file >= 0 && sample != MAP_FAILED && ftruncate(file, sizeof(sound)) == 0);
        *sample = sound;
        patch(sample->bytes, sizeof(sample->bytes), data + 1, size - 1);
        /* It is of the process that is looked at; else nothing is read at all. */
        owner.pid = sample_head(sample)->pid;
        owner.start_ticks = sample_head(sample)->start_ticks;
        read_it(file, &owner, !(data[0] & 2), data[0] & 1);
        return 0;
}
