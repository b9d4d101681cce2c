/* pprof, speedscope and gzip: contents made by hand, sums by hand. */
#include "import_text.h"

#include <math.h>
#include <zlib.h>

/* A message under construction: bytes by a few calls. */
struct message {
        unsigned char data[4096];
        size_t size;
};

static void varint(struct message *m, uint64_t v)
{
        for (; v >= 0x80; v >>= 7)
                m->data[m->size++] = (unsigned char) (v | 0x80);
        m->data[m->size++] = (unsigned char) v;
}

static void u64(struct message *m, unsigned field, uint64_t v)
{
        varint(m, field << 3);
        varint(m, v);
}

static void bytes(struct message *m, unsigned field, const void *data, size_t size)
{
        varint(m, field << 3 | 2);
        varint(m, size);
        memcpy(m->data + m->size, data, size);
        m->size += size;
}

static void put(struct message *m, unsigned field, struct message *inner)
{
        bytes(m, field, inner->data, inner->size);
        inner->size = 0;
}

static void pair(struct message *m, unsigned field, uint64_t one, uint64_t two)
{
        struct message inner = { .size = 0 };

        u64(&inner, 1, one);
        u64(&inner, 2, two);
        put(m, field, &inner);
}

static void strings(struct message *m, const char *const *texts)
{
        for (; *texts; texts++)
                bytes(m, 6, *texts, strlen(*texts));
}

static void function(struct message *m, uint64_t id, uint64_t name)
{
        struct message inner = { .size = 0 };

        u64(&inner, 1, id);
        u64(&inner, 2, name);
        put(m, 5, &inner);
}

/* innermost first; 0: no more. */
static void location(struct message *m, uint64_t id, uint64_t mapping, uint64_t address, uint64_t inner_function,
                     uint64_t outer_function)
{
        struct message inner = { .size = 0 };

        u64(&inner, 1, id);
        u64(&inner, 2, mapping);
        u64(&inner, 3, address);
        if (inner_function)
                pair(&inner, 4, inner_function, 7);
        if (outer_function)
                pair(&inner, 4, outer_function, 9);
        put(m, 4, &inner);
}

static void sample(struct message *m, const uint64_t *locations, unsigned n, uint64_t count, uint64_t value)
{
        struct message inner = { .size = 0 }, list = { .size = 0 };

        for (unsigned i = 0; i < n; i++)
                varint(&list, locations[i]);
        put(&inner, 1, &list);
        varint(&list, count);
        varint(&list, value);
        put(&inner, 2, &list);
        put(m, 2, &inner);
}

/* main calls f, into which g was inlined; and code of libx.so without a name. */
static struct message profile(void)
{
        static const char *const texts[] = {
                "", "samples", "count", "cpu", "nanoseconds", "main", "f", "g", "/lib/libx.so (deleted)", "abcd", NULL
        };
        static const uint64_t one[] = { 2, 1 }, two[] = { 3, 1 };
        struct message m = { .size = 0 }, mapping = { .size = 0 };

        pair(&m, 1, 1, 2);
        pair(&m, 1, 3, 4);
        sample(&m, one, 2, 3, 30000000);
        sample(&m, two, 2, 1, 10000000);
        sample(&m, one, 2, 2, 20000000);
        u64(&mapping, 1, 1);
        u64(&mapping, 2, 0x7000);
        u64(&mapping, 3, 0x9000);
        u64(&mapping, 4, 0x1000);
        u64(&mapping, 5, 8);
        u64(&mapping, 6, 9);
        put(&m, 3, &mapping);
        location(&m, 1, 0, 0, 1, 0);
        location(&m, 2, 0, 0, 3, 2);
        location(&m, 3, 1, 0x7123, 0, 0);
        function(&m, 1, 5);
        function(&m, 2, 6);
        function(&m, 3, 7);
        strings(&m, texts);
        u64(&m, 9, 1700000000000000000);
        u64(&m, 10, 5000000000);
        return m;
}

static void check_profile(struct imported *i)
{
        assert_string_equal(i->found.format, "pprof");
        import_expect(i, NULL, "main;[libx.so+0x1123] 1\nmain;f;g 5\n");
        assert_int_equal(i->found.n_modes, 1);
        assert_string_equal(i->found.modes[0].mode, "cpu");
        assert_true(fabs(i->found.modes[0].weight - 0.06) < 1e-12);
        assert_int_equal(i->found.unix_ns, 1700000000000000000);
        assert_int_equal(i->found.duration_ns, 5000000000);
        import_done(i);
}

static void test_pprof(void **state)
{
        struct message m = profile();

        (void) state;
        check_profile(import_bytes(m.data, m.size, NULL));
}

static size_t pack(const void *data, size_t size, unsigned char *ret, size_t cap)
{
        z_stream z = { .next_in = (unsigned char *) (uintptr_t) data,
                       .avail_in = (unsigned) size,
                       .next_out = ret,
                       .avail_out = (unsigned) cap };

        assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
        assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
        deflateEnd(&z);
        return z.total_out;
}

static void test_gzip(void **state)
{
        struct message m = profile();
        unsigned char packed[8192], twice[8192];
        size_t half = pack(m.data, 100, packed, sizeof(packed)),
               size = half + pack(m.data + 100, m.size - 100, packed + half, sizeof(packed) - half), n;

        (void) state;
        check_profile(import_bytes(packed, size, NULL)); /* two members */
        import_refused(import_bytes(packed, size - 4, NULL), "gzip data end or fail");
        packed[half + 30] ^= 0x55;
        import_refused(import_bytes(packed, size, NULL), "gzip data end or fail");
        n = pack("a;b 1\n", 6, packed, sizeof(packed));
        memcpy(packed + n, "\0\0\0\0", 4); /* padding */
        import_done(import_bytes(packed, n + 4, NULL));
        n = pack(packed, n, twice, sizeof(twice));
        import_refused(import_bytes(twice, n, NULL), "gzip within gzip");
}

static void test_bomb(void **state)
{
        size_t size = 200 << 20, n;
        char *zeros = calloc(1, size);
        unsigned char *packed = malloc(1 << 20);

        (void) state;
        memset(zeros, '\n', size);
        memcpy(zeros, "a;b 1\n", 6);
        n = pack(zeros, size, packed, 1 << 20);
        import_refused(import_bytes(packed, n, NULL), "500 times its size");
        free(zeros);
        free(packed);
}

/* Each is what profile() makes with one thing wrong. */
static void test_pprof_refused(void **state)
{
        static const uint64_t gone[] = { 9 }, there[] = { 1 };
        struct message m = profile();

        (void) state;
        for (size_t cut = 1; cut < m.size; cut += 3) {
                struct imported *i = import_bytes(m.data, m.size - cut, "pprof");

                if (i->r >= 0)
                        import_done(i); /* cut between fields */
                else
                        import_refused(i, "FILE");
        }
        sample(&m, gone, 1, 1, 1);
        import_refused(import_bytes(m.data, m.size, NULL), "a missing location");
        m = profile();
        sample(&m, there, 1, (uint64_t) -1, 1);
        import_refused(import_bytes(m.data, m.size, NULL), "negative");
        m = profile();
        function(&m, 1, 5);
        import_refused(import_bytes(m.data, m.size, NULL), "two entries have the same id");
        m = profile();
        function(&m, 9, 99);
        location(&m, 9, 0, 0, 9, 0);
        sample(&m, gone, 1, 1, 1);
        import_refused(import_bytes(m.data, m.size, NULL), "beyond the table of strings");
        m = profile();
        pair(&m, 1, 1, 2);
        import_refused(import_bytes(m.data, m.size, NULL), "fewer values");
}

/* Counts without a time, of a clock whose period is told. */
static void test_pprof_period(void **state)
{
        static const char *const texts[] = { "", "samples", "count", "cpu", "nanoseconds", "main", NULL };
        struct message m = { .size = 0 }, inner = { .size = 0 }, list = { .size = 0 };

        (void) state;
        pair(&m, 1, 1, 2);
        varint(&list, 1);
        put(&inner, 1, &list);
        u64(&inner, 2, 4); /* not packed */
        put(&m, 2, &inner);
        location(&m, 1, 0, 0, 1, 0);
        function(&m, 1, 5);
        strings(&m, texts);
        pair(&m, 11, 3, 4);
        u64(&m, 12, 10000000);
        {
                struct imported *i = import_bytes(m.data, m.size, NULL);

                import_expect(i, "cpu", "main 4\n");
                assert_true(fabs(i->found.modes[0].weight - 0.04) < 1e-12);
                import_done(i);
        }
}

/* A weight that is no time of ours keeps its name; a count that goes with nothing is a mode of its own. */
static void test_pprof_modes(void **state)
{
        static const char *const texts[] = { "",     "contentions", "count", "delay", "nanoseconds",
                                             "main", "goroutine",   NULL };
        static const uint64_t one[] = { 1 };
        struct message m = { .size = 0 };
        struct imported *i;

        (void) state;
        pair(&m, 1, 1, 2);
        pair(&m, 1, 3, 4);
        sample(&m, one, 1, 3, 500);
        location(&m, 1, 0, 0, 1, 0);
        function(&m, 1, 5);
        strings(&m, texts);
        i = import_bytes(m.data, m.size, NULL);
        import_expect(i, "delay/nanoseconds", "main 3\n");
        assert_int_equal(i->found.n_modes, 1);
        assert_true(i->found.modes[0].weight == 500);
        import_done(i);
        m.size = 0;
        pair(&m, 1, 1, 2);
        pair(&m, 1, 6, 2);
        sample(&m, one, 1, 3, 5);
        location(&m, 1, 0, 0, 1, 0);
        function(&m, 1, 5);
        strings(&m, texts);
        i = import_bytes(m.data, m.size, NULL);
        import_expect(i, "contentions/count", "main 3\n");
        import_expect(i, "goroutine/count", "main 5\n");
        import_done(i);
}

#define HEAD                                                                                           \
        "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"shared\":{\"frames\":[" \
        "{\"name\":\"main\",\"file\":\"a.py\",\"line\":3},{\"name\":\"b\"},{\"name\":\"c\"}]},\"profiles\":["

static void test_speedscope(void **state)
{
        struct imported *i = import_text(
                HEAD
                "{\"type\":\"sampled\",\"name\":\"T 1\",\"unit\":\"milliseconds\",\"startValue\":100,\"endValue\":110,"
                "\"samples\":[[0,1],[0,1,2],[0]],\"weights\":[2,3,5.5]},"
                "{\"type\":\"evented\",\"name\":\"T 2\",\"unit\":\"milliseconds\",\"startValue\":101,\"endValue\":109,"
                "\"events\":[{\"type\":\"O\",\"frame\":0,\"at\":101},{\"type\":\"O\",\"frame\":2,\"at\":103},"
                "{\"type\":\"C\",\"frame\":2,\"at\":106}]},"
                "{\"type\":\"sampled\",\"name\":\"h\",\"unit\":\"bytes\",\"startValue\":0,\"endValue\":1,"
                "\"samples\":[[0,1]],\"weights\":[4096]}]}");

        (void) state;
        import_expect(i, "time/seconds", "main 3\nmain;b 1\nmain;b;c 1\nmain;c 1\n");
        import_expect(i, "weight/bytes", "main;b 4096\n");
        assert_string_equal(i->found.modes[0].mode, "time/seconds");
        assert_true(fabs(i->found.modes[0].weight - (0.0105 + 0.002 + 0.003 + 0.003)) < 1e-12);
        assert_int_equal(i->found.last_t_ns - i->found.first_t_ns, 6000000); /* from 100 to 106 */
        assert_true(i->found.has_times);
        import_done(i);
}

static void test_speedscope_refused(void **state)
{
        (void) state;
        import_refused(import_text(HEAD "{\"type\":\"sampled\",\"name\":\"x\",\"unit\":\"none\",\"samples\":[[3]],"
                                        "\"weights\":[1]}]}"),
                       "not in the list of frames (profile 'x')");
        import_refused(import_text(HEAD "{\"type\":\"sampled\",\"unit\":\"none\",\"samples\":[[1]],\"weights\":[]}]}"),
                       "fewer or more weights");
        import_refused(
                import_text(HEAD "{\"type\":\"sampled\",\"unit\":\"none\",\"samples\":[[1]],\"weights\":[-1]}]}"),
                "negative");
        import_refused(
                import_text(HEAD "{\"type\":\"sampled\",\"unit\":\"none\",\"samples\":[[1]],\"weights\":[NaN]}]}"),
                "not JSON");
        import_refused(import_text(HEAD "{\"type\":\"evented\",\"unit\":\"seconds\",\"events\":[{\"type\":\"C\","
                                        "\"frame\":0,\"at\":1}]}]}"),
                       "not the innermost");
        import_refused(import_text(HEAD "{\"type\":\"evented\",\"unit\":\"seconds\",\"events\":[{\"type\":\"O\","
                                        "\"frame\":0,\"at\":5},{\"type\":\"C\",\"frame\":0,\"at\":1}]}]}"),
                       "backwards");
        import_refused(import_text(HEAD "{\"type\":\"sampled\",\"unit\":\"seconds\",\"samples\":[[1],[1]],"
                                        "\"weights\":[1e300,1]}]}"),
                       "a century");
        import_refused(import_text(HEAD "{\"type\":\"sampl"), "line 1: not JSON");
        import_refused(import_text("{\"traceEvents\":[]}"), "JSON, but not speedscope");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_pprof),        cmocka_unit_test(test_gzip),
                cmocka_unit_test(test_bomb),         cmocka_unit_test(test_pprof_refused),
                cmocka_unit_test(test_pprof_period), cmocka_unit_test(test_pprof_modes),
                cmocka_unit_test(test_speedscope),   cmocka_unit_test(test_speedscope_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
