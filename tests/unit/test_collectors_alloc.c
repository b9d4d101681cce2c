/* Collector threads allocate nothing once they are warm: counted, on machines that stay as they are and on this one. */
#include "machine.h"

#include <stdatomic.h>

#include "collect/collector.h"

static atomic_bool is_counting;
static atomic_uint n_allocations;

static void count_one(void)
{
        if (atomic_load(&is_counting))
                atomic_fetch_add(&n_allocations, 1);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

#ifdef SANITIZED
int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void *, size_t),
                                              void (*free_hook)(const volatile void *));

static void on_malloc(const volatile void *p, size_t size)
{
        (void) p;
        (void) size;
        count_one();
}

static void on_free(const volatile void *p)
{
        (void) p;
}

static void install(void)
{
        assert_true(__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free) > 0);
}
#else
/* The program's own functions stand before those of the C library, also for the library itself. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);

void *malloc(size_t size)
{
        count_one();
        return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
        count_one();
        return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
        count_one();
        return __libc_realloc(p, size);
}

static void install(void)
{
}
#endif

static const char *const files[] = { "cpu", "cpu_clock", "mem", "disk", "net", "energy", "host", NULL };
static const char *const driver[] = { "nvidia", NULL };
enum { MOST = 8, WARM = 3, COUNTED = 5 };

static int put_nowhere(void *context, const struct infp_row *row)
{
        *(uint64_t *) context += row->valid[0];
        return 0;
}

static void sample(struct infp_collector_state *s, struct machine *m)
{
        for (unsigned i = 0; s[i].collector; i++)
                if (!s[i].is_closed)
                        assert_int_equal(infp_collector_sample(&s[i], &m->env, &m->emit, machine_notice, m), 0);
        m->clock_ns += UINT64_C(20000000000);
}

static void count(struct machine *m, const char *const *names)
{
        struct infp_collector_state s[MOST + 1] = { 0 };
        uint64_t sum = 0;

        infp_emit_init(&m->emit, put_nowhere, &sum);
        for (unsigned i = 0; names[i]; i++)
                infp_collector_open(&s[i], infp_collector_find(names[i]), &m->env, &m->emit, machine_notice, m);
        for (int i = 0; i < WARM; i++)
                sample(s, m);
        atomic_store(&n_allocations, 0);
        atomic_store(&is_counting, true);
        for (int i = 0; i < COUNTED; i++)
                sample(s, m);
        atomic_store(&is_counting, false);
        if (atomic_load(&n_allocations))
                fail_msg("%u allocations in %d samples of %s", atomic_load(&n_allocations), COUNTED, names[0]);
        assert_true(sum > 0);
        for (unsigned i = 0; names[i]; i++)
                infp_collector_close(&s[i]);
        machine_close(m);
}

static void count_on(const char *root)
{
        count(machine_open(root), files);
}

static void fixture_machines(void **state)
{
        (void) state;
        count_on(fixture("bare-metal"));
        count_on(fixture("vm"));
        count_on(fixture("hybrid-cgroup"));
}

static void this_machine(void **state)
{
        (void) state;
        count_on("/");
}

/* GPUs and their processes, by a driver that answers as a script says (tests/fakes/nvml). */
static void gpus(void **state)
{
        static const char script[] = "system devices 3\nsystem driver 580.65.06\nsystem cuda 13000\n* profile h100\n"
                                     "1 uuid GPU-1\n2 uuid GPU-2\n2 mig.mode 1\n2/0 uuid MIG-0\n2/0 gi 7\n2/0 ci 0\n"
                                     "2/0 memory.total 1000\n2/0 memory.used 10\n2/0 process 2 memory=10 gi=7 ci=0\n"
                                     "* process 1 type=CG memory=2147483648 sm=33\n";
        const char *directory = getenv("INFP_FAKES");
        char library[PATH_MAX], path[] = "/tmp/infprof-test-XXXXXX";
        const struct infp_setting settings[] = { { "nvidia-library", library }, { NULL, NULL } };
        struct machine *m;
        int fd;

        (void) state;
        if (!directory)
                skip();
        snprintf(library, sizeof(library), "%s/nvml/libfake_nvml_580.so", directory);
        fd = mkstemp(path);
        assert_true(fd >= 0 && write(fd, script, sizeof(script) - 1) == sizeof(script) - 1);
        close(fd);
        setenv("FAKE_NVML_SCRIPT", path, 1);
        m = machine_open("/");
        m->env.settings = settings;
        count(m, driver);
        unlink(path);
}

/* The counter counts. */
static void counter(void **state)
{
        char *p;

        (void) state;
        atomic_store(&n_allocations, 0);
        atomic_store(&is_counting, true);
        p = malloc(strlen(files[0]) + 1);
        atomic_store(&is_counting, false);
        strcpy(p, files[0]);
        assert_string_equal(p, "cpu");
        free(p);
        assert_int_equal(atomic_load(&n_allocations), 1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(counter),
                cmocka_unit_test(fixture_machines),
                cmocka_unit_test(this_machine),
                cmocka_unit_test(gpus),
        };

        install();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
