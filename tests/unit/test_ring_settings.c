/* Settings in a ring file: what the process says, what is asked for and what becomes of it, also of a page that holds nonsense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>

#include "ring/settings.h"
#include "ring_calls.h"

static struct infp_ring_setting found[INFP_WIRE_SETTINGS];

static struct infp_ring_owner owner(void)
{
        return (struct infp_ring_owner){
                .process = 1, .start_ticks = ring_head()->start_ticks, .pid = getpid(), .uid = geteuid()
        };
}

static int open_ring(void)
{
        return open(infp_writer_file.path, O_RDWR | O_CLOEXEC);
}

static const struct infp_ring_setting *look(const char *key)
{
        const struct infp_ring_owner own = owner();
        struct infp_err err = { "" };
        int file = open_ring(), n = infp_ring_settings(file, &own, found, &err);

        close(file);
        for (int i = 0; i < n; i++)
                if (strcmp(found[i].key, key) == 0)
                        return &found[i];
        return NULL;
}

static int ask(const char *key, const char *value)
{
        const struct infp_ring_setting *setting = look(key);
        const struct infp_ring_owner own = owner();
        struct infp_err err = { "" };
        int file = open_ring(), r;

        CHECK(setting != NULL);
        r = infp_ring_ask(file, &own, setting->number, value, &err);
        close(file);
        return r;
}

static void expect(const char *key, const char *value, const char *source, enum infp_ring_setting_state state)
{
        const struct infp_ring_setting *setting = look(key);

        CHECK(setting != NULL);
        if (strcmp(setting->value, value) != 0 || strcmp(setting->source, source) != 0 || setting->state != state)
                fprintf(stderr, "%s is %s by %s, state %d: %s\n", key, setting->value, setting->source, setting->state,
                        setting->refused);
        CHECK(strcmp(setting->value, value) == 0 && strcmp(setting->source, source) == 0 && setting->state == state);
}

static void check_recording(void)
{
        infp_span span;

        CHECK_EQUAL(infp_enable(), 0);
        expect("recording", "on", "program", INFP_RING_SETTING_APPLIED);
        span = infp_span_begin("open when it stops");
        CHECK_EQUAL(ask("recording", "off"), 0);
        expect("recording", "on", "program", INFP_RING_SETTING_PENDING);
        infp_mark("the call that sees it");
        expect("recording", "off", "config", INFP_RING_SETTING_APPLIED);
        infp_span_end(&span);
        CHECK(!infp_is_recording());
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_MARK), 0);
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_SPAN_END), 0);
        CHECK_EQUAL(ask("recording", "on"), 0);
        CHECK(infp_is_recording()); /* who asks before a call sees it, too */
        expect("recording", "on", "config", INFP_RING_SETTING_APPLIED);
        infp_mark("again");
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_MARK), 1);
        CHECK_EQUAL(ask("recording", "maybe"), 0);
        infp_mark("goes on");
        expect("recording", "on", "config", INFP_RING_SETTING_REFUSED);
        CHECK(strcmp(look("recording")->refused, "it is on or off") == 0);
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_MARK), 2);
        infp_disable(); /* the program's word: what is asked for waits until it enables recording again */
        expect("recording", "off", "program", INFP_RING_SETTING_REFUSED);
        CHECK_EQUAL(ask("recording", "on"), 0);
        infp_mark("unheard");
        expect("recording", "off", "program", INFP_RING_SETTING_PENDING);
        CHECK_EQUAL(infp_enable(), 0);
        infp_mark("heard");
        expect("recording", "on", "config", INFP_RING_SETTING_APPLIED);
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_MARK), 3);
}

/* A thread that has begun a span before sees what is asked for at its next call. */
static void *mark_once(void *context)
{
        (void) context;
        infp_mark("of a thread");
        return NULL;
}

static void check_other_thread(void)
{
        pthread_t thread;

        CHECK_EQUAL(infp_enable(), 0);
        infp_mark("first");
        CHECK_EQUAL(ask("recording", "off"), 0);
        CHECK(pthread_create(&thread, NULL, mark_once, NULL) == 0 && pthread_join(thread, NULL) == 0);
        expect("recording", "off", "config", INFP_RING_SETTING_APPLIED);
        infp_mark("not recorded");
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_MARK), 1);
}

/* Threads that write meanwhile, and a thread that asks for this and that: all of them go on, and the last word holds. */
static _Atomic int is_over;

static void *write_on(void *context)
{
        unsigned *n = context;

        while (!is_over) {
                infp_span span = infp_span_begin("span");

                infp_mark("mark");
                infp_span_end(&span);
                ++*n;
        }
        return NULL;
}

static void check_threads(void)
{
        enum { N = 4 };
        pthread_t threads[N];
        unsigned n[N] = { 0 };
        char text[INFP_SETTING_BYTES];
        infp_setting *setting = infp_setting_open("own", "value", "");

        CHECK_EQUAL(infp_enable(), 0);
        infp_mark("first");
        for (unsigned i = 0; i < N; i++)
                CHECK(pthread_create(&threads[i], NULL, write_on, &n[i]) == 0);
        for (unsigned i = 0; i < 150; i++) {
                CHECK_EQUAL(ask("recording", i % 2 ? "on" : "off"), 0);
                CHECK_EQUAL(ask("own", i % 2 ? "one" : "another"), 0);
                if (infp_settings_asked() && infp_setting_asked(setting, text, sizeof text)) {
                        CHECK(strcmp(text, i % 2 ? "one" : "another") == 0);
                        infp_setting_is(setting, text, "config");
                        infp_setting_answer(setting, NULL);
                }
                if (i % 50 == 0)
                        CHECK_EQUAL(ask("ring.records", i == 0 ? "12000" : i == 50 ? "20000" : "30000"), 0);
        }
        for (unsigned i = 0; i < 1000 && look("recording")->state == INFP_RING_SETTING_PENDING; i++)
                usleep(1000);
        expect("recording", "on", "config", INFP_RING_SETTING_APPLIED);
        expect("own", "one", "config", INFP_RING_SETTING_APPLIED);
        expect("ring.records", "30000", "config", INFP_RING_SETTING_APPLIED);
        is_over = 1;
        for (unsigned i = 0; i < N; i++)
                CHECK(pthread_join(threads[i], NULL) == 0 && n[i] > 0);
        CHECK(infp_is_recording());
}

/* An agent's file has none, and its process does nothing of what is written where they would be. */
static void check_agent(void)
{
        const struct infp_ring_owner ours = { .process = 1, .pid = getpid(), .uid = geteuid() };
        struct infp_ring_owner own = ours;
        struct infp_err err = { "" };
        int file;

        infp_writer_heap_mean = 4096;
        CHECK_EQUAL(infp_enable(), 0);
        own.start_ticks = ring_head()->start_ticks;
        file = open_ring();
        CHECK_EQUAL(infp_ring_settings(file, &own, found, &err), 0);
        CHECK_EQUAL(infp_ring_ask(file, &own, 0, "off", &err), -ENOENT);
        close(file);
        infp_writer_file.settings->setting[0].asked = 2;
        strcpy((char *) infp_writer_file.settings->setting[0].wanted, "off");
        infp_writer_file.settings->asked = 1;
        infp_mark("recorded");
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_MARK), 1);
        CHECK(infp_is_recording());
}

static void check_size(void)
{
        const uint32_t before = 221;

        CHECK_EQUAL(infp_enable(), 0);
        expect("ring.bytes", "1048576", "default", INFP_RING_SETTING_APPLIED);
        expect("ring.records", "10000", "default", INFP_RING_SETTING_APPLIED);
        counter = infp_counter("c", NULL, NULL);
        for (unsigned i = 0; i < 60000; i++)
                infp_add(counter, 1);
        CHECK_EQUAL(ring_head()->n_chunks, before);
        CHECK_EQUAL(ask("ring.bytes", "2M"), 0);
        for (unsigned i = 0; i < 120000; i++)
                infp_add(counter, 1);
        expect("ring.bytes", "2097152", "config", INFP_RING_SETTING_APPLIED);
        expect("ring.records", "21000", "config", INFP_RING_SETTING_APPLIED);
        CHECK_EQUAL(ring_head()->n_chunks, 2 * 1024 * 1024 / 4096 - 35);
        CHECK_EQUAL(ask("ring.records", "30000"), 0);
        infp_add(counter, 1);
        expect("ring.records", "30000", "config", INFP_RING_SETTING_APPLIED);
        expect("ring.bytes", "2859008", "config", INFP_RING_SETTING_APPLIED); /* 663 chunks and 35 pages */
        static const struct {
                const char *key, *value, *why;
        } refused[] = {
                { "ring.bytes", "1M", "does not shrink" },
                { "ring.bytes", "17M", "more than this process can have" },
                { "ring.bytes", "", "a number of bytes" },
                { "ring.bytes", "3 M", "a number of bytes" },
                { "ring.bytes", "-1", "a number of bytes" },
                { "ring.bytes", "99999999999999999999", "a number of bytes" },
                { "ring.bytes", "9999999999M", "more than" },
                { "ring.records", "9999999999", "more than" },
                { "ring.records", "10k", "number of records" },
        };
        for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
                CHECK_EQUAL(ask(refused[i].key, refused[i].value), 0);
                infp_add(counter, 1);
                CHECK_EQUAL(look(refused[i].key)->state, INFP_RING_SETTING_REFUSED);
                CHECK(strstr(look(refused[i].key)->refused, refused[i].why));
        }
        expect("ring.records", "30000", "config", INFP_RING_SETTING_REFUSED);
}

static void check_own(void)
{
        uint32_t seen;
        char text[INFP_SETTING_BYTES] = "";
        infp_setting *setting = infp_setting_open("torch.profiling", "off", "on, off"), *other;

        CHECK(setting && setting == infp_setting_open("torch.profiling", "on", ""));
        CHECK(!infp_setting_open("recording", "on", "") && !infp_setting_open("", "", ""));
        CHECK(!infp_setting_open("a.key.that.is.longer.than.31.bytes", "", ""));
        CHECK(!infp_setting_asked(setting, text, sizeof text)); /* there is no file yet */
        CHECK_EQUAL(infp_enable(), 0);
        expect("torch.profiling", "off", "default", INFP_RING_SETTING_APPLIED);
        seen = infp_settings_asked();
        CHECK_EQUAL(ask("torch.profiling", "0.1"), 0);
        CHECK(infp_settings_asked() != seen);
        seen = infp_settings_asked();
        CHECK(infp_setting_asked(setting, text, sizeof text) && strcmp(text, "0.1") == 0);
        expect("torch.profiling", "off", "default", INFP_RING_SETTING_PENDING);
        infp_setting_is(setting, text, "config");
        infp_setting_answer(setting, NULL);
        expect("torch.profiling", "0.1", "config", INFP_RING_SETTING_APPLIED);
        CHECK(infp_settings_asked() == seen && !infp_setting_asked(setting, text, sizeof text));
        CHECK_EQUAL(ask("torch.profiling", "loud"), 0);
        CHECK(infp_setting_asked(setting, text, 3) && strcmp(text, "lo") == 0);
        infp_setting_answer(
                setting, "loud is no way of it, and this sentence goes on until it is longer than any reason may be: "
                         "so it is cut");
        expect("torch.profiling", "0.1", "config", INFP_RING_SETTING_REFUSED);
        CHECK_EQUAL(strlen(look("torch.profiling")->refused), 95);
        for (unsigned i = 1; i < 7; i++) {
                snprintf(text, sizeof text, "key.%u", i);
                CHECK(infp_setting_open(text, "", NULL) != NULL);
        }
        CHECK(!infp_setting_open("one.too.many", "", ""));
        CHECK_EQUAL(ask("torch.profiling", "tab\t"), -EINVAL);
        CHECK_EQUAL(ask("torch.profiling", "a value of more bytes than any value may have: 63 is what it takes"),
                    -EINVAL);
        other = NULL;
        infp_setting_is(other, "x", NULL);
        infp_setting_answer(other, NULL);
        infp_setting_answer((infp_setting *) 77, NULL);
        CHECK(!infp_setting_asked((infp_setting *) 1, text, sizeof text)); /* the library's own */
}

/* A child has a file of its own with what its parent has then, and is asked by itself. */
static void check_fork(void)
{
        infp_setting *setting = infp_setting_open("own", "first", "");
        int status;
        pid_t pid;

        CHECK_EQUAL(infp_enable(), 0);
        infp_mark("parent");
        CHECK_EQUAL(ask("recording", "off"), 0);
        CHECK_EQUAL(ask("ring.bytes", "4M"), 0);
        infp_mark("stops");
        infp_setting_is(setting, "second", "program");
        fflush(stderr);
        pid = fork();
        if (pid == 0) {
                infp_mark("not recorded, but the child has a file");
                expect("recording", "off", "config", INFP_RING_SETTING_APPLIED);
                expect("ring.bytes", "4194304", "config", INFP_RING_SETTING_APPLIED);
                expect("own", "second", "program", INFP_RING_SETTING_APPLIED);
                CHECK_EQUAL(ring_head()->pid, getpid());
                CHECK_EQUAL(ask("recording", "on"), 0);
                infp_mark("recorded");
                CHECK_EQUAL(ring_count_kind(INFP_WIRE_MARK), 1);
                _exit(0);
        }
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
        expect("recording", "off", "config", INFP_RING_SETTING_APPLIED);
}

/* Another process of this user writes nonsense into the page: texts stay within their bounds on both sides, and the program goes on. */
static void check_scribbled(void)
{
        uint64_t random = 88172645463325252, *words;
        infp_setting *setting = infp_setting_open("own", "value", "");
        char text[INFP_SETTING_BYTES];

        open_all();
        words = (uint64_t *) (void *) infp_writer_file.settings;
        for (unsigned i = 0; i < 20000; i++) {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                __atomic_store_n(words + random % 512, random % 3 ? random : UINT64_MAX, __ATOMIC_RELAXED);
                __atomic_store_n(words, random, __ATOMIC_RELAXED);
                call_all(2);
                if (infp_setting_asked(setting, text, sizeof text)) {
                        CHECK(strnlen(text, sizeof text) < sizeof text);
                        infp_setting_answer(setting, text);
                }
                if (i % 4000 == 0)
                        look("own");
                for (int k = 0; i % 4000 == 0 && k < INFP_WIRE_SETTINGS; k++)
                        CHECK(strlen(found[k].value) <= 64 && strlen(found[k].may_be) <= 96 &&
                              strlen(found[k].key) <= 32);
        }
        CHECK(ring_head()->n_chunks <= ring_head()->max_chunks);
}

/* Heads whose page of settings lies nowhere. */
static void check_hostile(void)
{
        const struct infp_ring_owner own = { .process = 1, .pid = getpid(), .uid = geteuid() };
        struct infp_ring_owner ours;
        struct infp_err err = { "" };
        int file;

        CHECK_EQUAL(infp_enable(), 0);
        ours = own;
        ours.start_ticks = ring_head()->start_ticks;
        file = open_ring();
        CHECK_EQUAL(infp_ring_settings(file, &ours, found, &err), 3);
        static const uint32_t places[] = { 4096 + 8, 0xfffff000, 64, INFP_WRITER_CHUNKS_AT };
        for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
                ring_head()->settings_at = places[i];
                CHECK_EQUAL(infp_ring_settings(file, &ours, found, &err), -EBADMSG);
                CHECK_EQUAL(infp_ring_ask(file, &ours, 0, "on", &err), -EBADMSG);
        }
        ring_head()->settings_at = 0; /* an older library's */
        CHECK_EQUAL(infp_ring_settings(file, &ours, found, &err), 0);
        CHECK_EQUAL(infp_ring_ask(file, &ours, 0, "on", &err), -ENOENT);
        ring_head()->settings_at = INFP_WRITER_SETTINGS_AT;
        CHECK_EQUAL(infp_ring_settings(file, &own, found, &err), -ESTALE); /* another process of that pid */
        CHECK(ftruncate(file, INFP_WRITER_SETTINGS_AT) == 0);
        CHECK(infp_ring_settings(file, &ours, found, &err) < 0);
        close(file);
}

#define TEST(name)                                 \
        static void test_##name(void **state)      \
        {                                          \
                (void) state;                      \
                in_child(directory, check_##name); \
        }
TEST(recording)
TEST(other_thread)
TEST(threads)
TEST(agent)
TEST(size)
TEST(own)
TEST(fork)
TEST(scribbled)
TEST(hostile)

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_recording), cmocka_unit_test(test_other_thread), cmocka_unit_test(test_size),
                cmocka_unit_test(test_own),       cmocka_unit_test(test_fork),         cmocka_unit_test(test_scribbled),
                cmocka_unit_test(test_hostile),   cmocka_unit_test(test_threads),      cmocka_unit_test(test_agent),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
