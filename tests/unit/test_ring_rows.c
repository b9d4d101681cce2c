/* Rows of tables in ring files: what a program says by infp_row(), read back by the names of tables and columns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>

#include "base/str.h"
#include "count_mallocs.h"
#include "model/python_tables.h"
#include "ring_file.h"
#include "ring_sample.h"

static struct infp_ring *open_reader(bool is_consumer)
{
        const struct infp_ring_owner owner = {
                .process = 42, .start_ticks = ring_head()->start_ticks, .pid = getpid(), .uid = geteuid()
        };
        int file = open(infp_writer_file.path, (is_consumer ? O_RDWR : O_RDONLY) | O_CLOEXEC);
        struct infp_ring *ring = NULL;
        struct infp_err err;

        CHECK_EQUAL(infp_ring_open(file, &owner, is_consumer, &ring, &err), 0);
        return ring;
}

struct seen {
        struct infp_str rows;        /* "table column=value ...", a line a row */
        uint64_t t_ns, n, sum, last; /* t_ns: of the last; sum, last: of column seq */
        int64_t tid;
};

static int see(void *context, const struct infp_row *row)
{
        struct seen *seen = context;
        const int seq = infp_table_find(row->table, "seq") - INFP_FIXED_COLUMNS;

        CHECK_EQUAL(row->cell[INFP_PYTHON_PROCESS].u64, 42);
        seen->tid = row->cell[INFP_PYTHON_TID].i64;
        seen->t_ns = row->t_ns;
        seen->n++;
        if (seq >= 0 && infp_row_has(row, (unsigned) seq)) {
                seen->last = (uint64_t) row->cell[seq].i64;
                seen->sum += seen->last;
        }
        if (seen->rows.size > 65536)
                return 0;
        infp_str_puts(&seen->rows, row->table->name);
        for (unsigned i = INFP_PYTHON_THREAD; i < row->table->n_columns; i++) {
                const struct infp_column *column = &row->table->columns[i];
                const char *text;
                size_t size;

                if (!infp_row_has(row, i))
                        continue;
                infp_str_printf(&seen->rows, " %s=", column->name);
                if (column->type == INFP_F64)
                        infp_str_f64(&seen->rows, row->cell[i].f64);
                else if (column->type == INFP_I64)
                        infp_str_i64(&seen->rows, row->cell[i].i64);
                if (column->type != INFP_STR)
                        continue;
                text = infp_row_text(row, i, &size);
                infp_str_put(&seen->rows, text, size);
        }
        infp_str_puts(&seen->rows, "\n");
        return 0;
}

static struct infp_ring_counts read_all(struct seen *seen)
{
        struct infp_ring *ring = open_reader(false);
        struct infp_ring_counts counts;

        CHECK(infp_ring_read(ring, true, see, seen, NULL) >= 0);
        counts = *infp_ring_counts(ring);
        CHECK_EQUAL(counts.broken, 0);
        CHECK_EQUAL(counts.rows[INFP_RING_PYTHON], seen->n);
        infp_ring_close(ring);
        return counts;
}

static infp_cell of_int(int64_t i)
{
        infp_cell cell = { INFP_CELL_INT, 0, { 0 } };

        cell.value.i = i;
        return cell;
}

static infp_cell of_double(double d)
{
        infp_cell cell = { INFP_CELL_DOUBLE, 0, { 0 } };

        cell.value.d = d;
        return cell;
}

static infp_cell of_text(const char *text)
{
        infp_cell cell = { INFP_CELL_TEXT, 0, { 0 } };

        cell.value.text = text;
        return cell;
}

static infp_cell once(const char *text)
{
        infp_cell cell = { INFP_CELL_TEXT_ONCE, 0, { 0 } };

        cell.value.text = text;
        return cell;
}

static const infp_cell none = { INFP_CELL_NONE, 0, { 0 } };

#define ROW(table, t_ns, ...) \
        infp_row(table, t_ns, (infp_cell[]){ __VA_ARGS__ }, sizeof((infp_cell[]){ __VA_ARGS__ }) / sizeof(infp_cell))

static void expect(const struct seen *seen, const char *rows)
{
        if (!seen->rows.data || strcmp(seen->rows.data, rows) != 0) {
                fprintf(stderr, "not\n%sbut\n%s", rows, seen->rows.data ? seen->rows.data : "nothing\n");
                _exit(1);
        }
}

static void check_cells(void)
{
        struct seen seen = { 0 };
        unsigned long before;
        infp_table *table;
        uint64_t begin_ns;

        CHECK_EQUAL(infp_enable(), 0);
        before = n_mallocs;
        table = infp_table_open("torch_trace", " step  seq module stage duration allocated rank ");
        CHECK(table != NULL);
        infp_thread_name("main");
        begin_ns = infp_now_ns();
        ROW(table, begin_ns, of_int(7), of_int(-1), of_text("layers.0"), of_text("forward"), of_double(0.25), none,
            none);
        CHECK_EQUAL(n_mallocs, before);
        /* Integers stand for real numbers; a cell that is no value of its column is absent, as is what no number is. */
        ROW(table, 0, of_double(7), of_int(2), of_int(3), of_text(""), of_int(2), of_double(0.0 / 0.0), of_text("x"));
        ROW(table, UINT64_MAX, none, of_int(INT64_MIN),
            of_text(NULL)); /* fewer than columns, and a time that lies ahead */
        ROW(table, 1, none, none, none, none, none, none, of_int(1), of_int(2), of_int(3)); /* more */
        infp_row(table, 0, NULL, 3);
        infp_row(NULL, 0, &none, 1);
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_TABLE), 1);
        read_all(&seen);
        expect(&seen, "torch_trace rank=1\n" /* from before the name */
                      "torch_trace thread=main step=7 seq=-1 module=layers.0 stage=forward duration=0.25\n"
                      "torch_trace thread=main seq=2 stage= duration=2.0\n"
                      "torch_trace thread=main seq=-9223372036854775808\n");
        CHECK(seen.t_ns > begin_ns && seen.t_ns <= infp_now_ns());
        CHECK_EQUAL(seen.tid, getpid());
}

static void test_cells(void **state)
{
        (void) state;
        in_child(directory, check_cells);
}

/* Too many, too long, or none. What the reader does not know is counted there. */
static void check_names(void)
{
        struct seen seen = { 0 };
        struct infp_ring_counts counts;
        char many[200] = "", name[80];
        infp_table *table;

        CHECK_EQUAL(infp_enable(), 0);
        for (unsigned i = 0; i < 33; i++)
                snprintf(many + strlen(many), sizeof many - strlen(many), "c%u ", i);
        memset(name, 'n', sizeof name);
        name[sizeof name - 1] = 0;
        CHECK(!infp_table_open(NULL, "a") && !infp_table_open("", "a") && !infp_table_open("t", NULL));
        CHECK(!infp_table_open("t", "  ") && !infp_table_open("t", many) && !infp_table_open(name, "a"));
        CHECK_EQUAL(ring_head()->refused_tables, 6);

        table = infp_table_open("torch_trace", "seq later process tid seq");
        CHECK(table == infp_table_open("torch_trace", "seq later process tid seq"));
        ROW(table, 0, of_int(1));
        ROW(table, 0, of_int(2), of_int(3), of_int(4), of_int(5),
            of_int(6)); /* a column comes once, and the process is the file's */
        ROW(infp_table_open("torch_trace", "module seq"), 0, of_text("m"), of_int(3));
        ROW(infp_table_open("marks", "tag"), 0, of_text("no"));
        ROW(infp_table_open("backtrace", "func"), 0, of_text("no"));
        counts = read_all(&seen);
        expect(&seen, "torch_trace seq=1\ntorch_trace seq=2\ntorch_trace seq=3 module=m\n");
        CHECK_EQUAL(counts.unknown, 3);
        CHECK_EQUAL(seen.tid, getpid());

        for (unsigned i = 0; i < INFP_WRITER_TABLES; i++) {
                snprintf(name, sizeof name, "t%u", i);
                CHECK((infp_table_open(name, "a") == NULL) == (i >= INFP_WRITER_TABLES - 4));
        }
        CHECK_EQUAL(ring_head()->refused_tables, 6 + 4);
        CHECK(infp_table_open("t1", "a") != NULL);
}

static void test_names(void **state)
{
        (void) state;
        in_child(directory, check_names);
}

/* A table that names `tid` is about threads that the program names, and a cell that it leaves out is absent. */
static void check_threads_of_rows(void)
{
        struct seen seen = { 0 };
        infp_table *table;

        CHECK_EQUAL(infp_enable(), 0);
        infp_thread_name("writer");
        table = infp_table_open("own_stacks", "tid thread depth");
        ROW(table, 0, of_int(4711), of_text("other"), of_int(0));
        ROW(table, 0, none, none, of_int(1));
        ROW(infp_table_open("own_stacks", "depth"), 0, of_int(2));
        ROW(table, 0, of_int(4712), none, of_int(3));
        read_all(&seen);
        expect(&seen, "own_stacks thread=other depth=0\nown_stacks depth=1\nown_stacks thread=writer depth=2\n"
                      "own_stacks depth=3\n");
        CHECK_EQUAL(seen.tid, 4712);
}

static void test_threads_of_rows(void **state)
{
        (void) state;
        in_child(directory, check_threads_of_rows);
}

/* Texts that come again lie in the arena; long ones in the record, cut when it is full. */
static void check_texts(void)
{
        static char long_text[3000];
        struct seen seen = { 0 };
        infp_table *table;
        const struct infp_wire_row *row;
        uint32_t used;

        memset(long_text, 'x', sizeof long_text - 1);
        CHECK_EQUAL(infp_enable(), 0);
        table = infp_table_open("torch_trace", "module stage class device");
        ROW(table, 0, of_text("m"), of_text("forward"), of_text("Linear"), of_text("cpu"));
        ROW(table, 0, of_text("m"), of_text("forward"), of_text("Linear"), of_text("cpu"));
        row = ring_record(INFP_WIRE_ROW, 1);
        CHECK_EQUAL(row->record.size, sizeof *row + 4 * 8);
        CHECK_EQUAL(row->record.flags, 0);
        ROW(table, 0, of_text(long_text), of_text(long_text), of_text("Linear"), of_text(""));
        row = ring_record(INFP_WIRE_ROW, 2);
        CHECK(row->record.size <= INFP_WIRE_MAX_RECORD && row->record.flags == INFP_WIRE_CUT);
        CHECK(ring_head()->cut_texts >= 2);
        /* One that will not come again leaves the arena as it is. */
        used = atomic_load(&ring_head()->arena_used);
        ROW(table, 0, once("value"), of_text("forward"), once(long_text), once(NULL));
        CHECK_EQUAL(atomic_load(&ring_head()->arena_used), used);
        read_all(&seen);
        CHECK_EQUAL(seen.n, 4);
        CHECK(strstr(seen.rows.data, "xxx class=Linear device=\n") != NULL);
        CHECK(strstr(seen.rows.data, " module=value stage=forward class=xxx") != NULL);
}

static void test_texts(void **state)
{
        (void) state;
        in_child(directory, check_texts);
}

enum { MANY = 100000 };

/* Nobody reads: the newest are there, and the others are counted. */
static void check_eviction(void)
{
        struct seen seen = { 0 };
        struct infp_ring_counts counts;
        infp_table *table;

        CHECK_EQUAL(infp_enable(), 0);
        table = infp_table_open("torch_trace", "seq module duration");
        for (int i = 0; i < MANY; i++)
                ROW(table, 0, of_int(i), of_text("layers.0.attention"), of_double(i / 2.0));
        counts = read_all(&seen);
        CHECK_EQUAL(seen.last, MANY - 1);
        CHECK_EQUAL(counts.dropped_full, 0);
        CHECK(seen.n > 10000 && seen.n < MANY);
        CHECK_EQUAL(counts.evicted_rows + seen.n, MANY);
        /* All of them are the last ones. */
        CHECK_EQUAL(seen.sum, (uint64_t) (MANY - 1) * MANY / 2 - (MANY - seen.n - 1) * (MANY - seen.n) / 2);
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_TABLE), 1);
}

/* A consumer loses none, whatever it has taken of a chunk when that is used anew. */
static void check_consumer(void)
{
        struct seen seen = { 0 };
        struct infp_ring *ring;
        infp_table *table;

        CHECK_EQUAL(infp_enable(), 0);
        table = infp_table_open("torch_trace", "seq");
        ring = open_reader(true);
        for (int i = 0; i < MANY; i++) {
                ROW(table, 0, of_int(i));
                if (i % 1000 == 0)
                        while (infp_ring_read(ring, false, see, &seen, NULL) == 1)
                                ;
        }
        CHECK(infp_ring_read(ring, true, see, &seen, NULL) >= 0);
        CHECK_EQUAL(seen.n, MANY);
        CHECK_EQUAL(seen.sum, (uint64_t) (MANY - 1) * MANY / 2);
        CHECK_EQUAL(infp_ring_counts(ring)->evicted_rows, 0);
        infp_ring_close(ring);
}

static void test_eviction(void **state)
{
        (void) state;
        in_child(directory, check_eviction);
        in_child(directory, check_consumer);
}

static infp_table *shared;

static void check_child(void)
{
        struct seen seen = { 0 };

        ROW(shared, 0, of_int(5));
        CHECK_EQUAL(ring_head()->pid, getpid());
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_TABLE), 1);
        read_all(&seen);
        expect(&seen, "torch_trace seq=5\n");
        infp_writer_unlink(&infp_writer_file);
}

/* A child's file has the table's record too, and off and on again it is the same file. */
static void check_lives(void)
{
        struct seen seen = { 0 };
        int status;
        pid_t pid;

        shared = infp_table_open("torch_trace", "seq");
        ROW(shared, 0, of_int(0));
        CHECK_EQUAL(infp_enable(), 0);
        ROW(shared, 0, of_int(1));
        infp_disable();
        ROW(shared, 0, of_int(2));
        CHECK_EQUAL(infp_enable(), 0);
        ROW(shared, 0, of_int(3));
        pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
                check_child();
                _exit(0);
        }
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
        ROW(shared, 0, of_int(4));
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_TABLE), 1);
        read_all(&seen);
        expect(&seen, "torch_trace seq=1\ntorch_trace seq=3\ntorch_trace seq=4\n");
}

static void test_lives(void **state)
{
        (void) state;
        in_child(directory, check_lives);
}

enum { THREADS = 4, FEW = 4000, MORE = 20000 };
static int each;

static void *write_rows(void *first)
{
        for (int i = 0; i < each; i++)
                ROW(infp_table_open("torch_trace", "seq module"), 0, of_int((intptr_t) first + i), of_text("m"));
        return NULL;
}

/* The first rows of several threads at once: each reads back, whichever thread has written the table's record. */
static void write_and_read(int rows, struct seen *seen, struct infp_ring_counts *ret)
{
        pthread_t threads[THREADS];

        each = rows;
        CHECK_EQUAL(infp_enable(), 0);
        for (intptr_t i = 0; i < THREADS; i++)
                CHECK(pthread_create(&threads[i], NULL, write_rows, (void *) (i * each)) == 0);
        for (unsigned i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        *ret = read_all(seen);
        CHECK_EQUAL(seen->n + ret->evicted_rows + ret->dropped_full, THREADS * rows);
        CHECK(ring_count_kind(INFP_WIRE_TABLE) >= 1 && ring_count_kind(INFP_WIRE_TABLE) <= THREADS);
}

/* A new file has room for all of them. */
static void check_room(void)
{
        struct seen seen = { 0 };
        struct infp_ring_counts counts;

        write_and_read(FEW, &seen, &counts);
        CHECK_EQUAL(seen.n, THREADS * FEW);
        CHECK(seen.sum == (uint64_t) THREADS * FEW * (THREADS * FEW - 1) / 2);
}

/* All of them overwrite each other's. */
static void check_no_room(void)
{
        struct seen seen = { 0 };
        struct infp_ring_counts counts;

        write_and_read(MORE, &seen, &counts);
        CHECK(counts.evicted_rows > THREADS * MORE / 2);
}

static void test_threads(void **state)
{
        (void) state;
        in_child(directory, check_room);
        in_child(directory, check_no_room);
}

/* Spans have filled the file: the rows find no room, which is counted, and the program goes on. */
static void check_full(void)
{
        infp_table *table;

        CHECK_EQUAL(infp_enable(), 0);
        table = infp_table_open("torch_trace", "seq");
        while (!ring_head()->dropped_full)
                infp_mark("fills the file");
        ROW(table, 0, of_int(1));
        CHECK(ring_head()->dropped_full >= 2);
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_ROW), 0);
}

static void test_full(void **state)
{
        (void) state;
        in_child(directory, check_full);
}

static int count(void *context, const struct infp_row *row)
{
        (void) row;
        ++*(unsigned *) context;
        return 0;
}

static void *put_row(struct ring_sample *s, uint32_t table, uint64_t types, unsigned n)
{
        struct {
                struct infp_wire_row row;
                union infp_wire_cell cells[INFP_WIRE_COLUMNS];
        } r = { .row = { .record = sample_record(INFP_WIRE_ROW, 10, 100), .table = table, .types = types } };

        return sample_put(s, 0, &r, sizeof(r.row) + n * 8, NULL, NULL, 0);
}

/* What no writer makes is skipped and counted; what comes after it is read. */
static void test_hostile(void **state)
{
        static struct ring_sample sample;
        static const struct infp_wire_text outside = { INFP_WIRE_INLINE | 16, 8 }, beyond = { 3000, 64 };
        const struct infp_ring_owner owner = sample_owner();
        unsigned n = 0;
        uint32_t good, code, cut, broken = 0;
        struct infp_ring *ring;
        struct infp_wire_row *row;
        struct infp_wire_table *table;
        struct infp_err err;
        int file = memfd_create("ring", MFD_CLOEXEC);

        (void) state;
        sample_init(&sample);
        sample_claim(&sample, 0, 1, 10);
        sample_claim(&sample, 1, 1, 10);
        sample_chunk(&sample, 1)->class = INFP_WIRE_STAY;
        sample_code(&sample, 1, 10, 50, &code);
        sample_table(&sample, 1, 10, 50, "torch_trace", "seq module", &good);
        table = sample_table(&sample, 1, 10, 50, "torch_trace", "seq module", &cut);
        table->columns = beyond;

        for (uint32_t i = 0; i < 4; i++, broken++)
                put_row(&sample, i == 0 ? 0 : i == 1 ? code : i == 2 ? good + 1 : UINT32_MAX, 1, 1);
        put_row(&sample, cut, 1, 1);
        put_row(&sample, good, 5, 1);          /* two cells, and room for one */
        put_row(&sample, good, UINT64_MAX, 0); /* 32 texts, and room for none */
        row = put_row(&sample, good, 0xd, 2);
        ((union infp_wire_cell *) (row + 1))[1].text = outside;
        sample_table(&sample, 0, 10, 50, "torch_trace", "seq", &code); /* among records that do not stay */
        broken += 5;
        put_row(&sample, good, 1, 1);
        assert_int_equal(write(file, &sample, sizeof sample), sizeof sample);
        assert_int_equal(infp_ring_open(file, &owner, false, &ring, &err), 0);
        assert_true(infp_ring_read(ring, true, count, &n, &err) >= 0);
        assert_int_equal(n, 1);
        assert_int_equal(infp_ring_counts(ring)->broken, broken);
        infp_ring_close(ring);
        close(file);
}

/* A file with more tables than are kept: each row still finds its own. */
static void test_many_tables(void **state)
{
        static struct ring_sample sample;
        const struct infp_ring_owner owner = sample_owner();
        struct infp_ring *ring;
        uint32_t ids[80];
        struct infp_err err;
        unsigned n = 0;
        int file = memfd_create("ring", MFD_CLOEXEC);

        (void) state;
        sample_init(&sample);
        for (unsigned i = 0; i < 4; i++) {
                sample_claim(&sample, i, 1, 10);
                if (i)
                        sample_chunk(&sample, i)->class = INFP_WIRE_STAY;
        }
        for (unsigned i = 0; i < 80; i++)
                sample_table(&sample, 1 + i / 40, 10, 50, "torch_trace", i % 2 ? "seq" : "step", &ids[i]);
        for (unsigned i = 0; i < 80; i++)
                put_row(&sample, ids[i], 1, 1);
        assert_int_equal(write(file, &sample, sizeof sample), sizeof sample);
        assert_int_equal(infp_ring_open(file, &owner, false, &ring, &err), 0);
        assert_true(infp_ring_read(ring, true, count, &n, &err) >= 0);
        assert_int_equal(n, 80);
        assert_int_equal(infp_ring_counts(ring)->broken, 0);
        infp_ring_close(ring);
        close(file);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_cells),       cmocka_unit_test(test_names),
                cmocka_unit_test(test_texts),       cmocka_unit_test(test_eviction),
                cmocka_unit_test(test_lives),       cmocka_unit_test(test_threads),
                cmocka_unit_test(test_full),        cmocka_unit_test(test_hostile),
                cmocka_unit_test(test_many_tables), cmocka_unit_test(test_threads_of_rows),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
