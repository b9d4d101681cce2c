/* Cards that sleep are not woken; those that go away and come back are the same. */
#include "gpu_tree.h"

#include <sys/inotify.h>

#include "base/mem.h"

#define CARD0 "sys/class/drm/card0/device/"

/* Files of a card that were opened, apart from those that are the kernel's own. */
struct watch {
        int fd;
};

static void watch_begin(struct watch *watch, const struct gpu_world *w)
{
        static const char *const places[] = { "sys/class/drm/card0/device", "sys/class/drm/card0/device/hwmon/hwmon2",
                                              "proc/700/fdinfo" };

        watch->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
        assert_true(watch->fd >= 0);
        for (size_t i = 0; i < INFP_COUNT(places); i++) {
                char path[128];

                snprintf(path, sizeof(path), "%.64s/%.60s", w->top, places[i]);
                assert_true(inotify_add_watch(watch->fd, path, IN_OPEN) > 0);
        }
}

static unsigned watch_count(const struct watch *watch)
{
        _Alignas(struct inotify_event) char buffer[16384];
        unsigned count = 0;
        ssize_t n;

        while ((n = read(watch->fd, buffer, sizeof(buffer))) > 0)
                for (ssize_t at = 0; at < n;) {
                        const struct inotify_event *event = (const void *) (buffer + at);

                        if (event->len && !(event->mask & IN_ISDIR) && strcmp(event->name, "uevent"))
                                count++;
                        at += (ssize_t) (sizeof(*event) + event->len);
                }
        return count;
}

/* A reading would wake it. */
static void test_asleep(void **state)
{
        struct gpu_world w;
        struct watch watch;
        char reason[256];

        (void) state;
        gpu_world_new(&w, "amdgpu-rx7900", "amdgpu", INFP_MODE_RUN, false, 700);
        gpu_tick(&w, 1);
        gpu_put(&w, CARD0 "power/runtime_status", "suspended\n");
        watch_begin(&watch, &w);
        gpu_tick(&w, 1);
        gpu_tick(&w, 20); /* with a look for new cards */
        assert_int_equal(watch_count(&watch), 0);
        EXPECT(w.m, TEXT("amdgpu", "0", "gPciBusId", "0000:03:00.0"), ABSENT("amdgpu", "0", "gUtilizationGpu"),
               ABSENT("amdgpu", "0", "gPowerDrawW"), ABSENT("amdgpu", "0", "gEnergyJoules"));
        assert_int_equal(machine_count(w.m, "amdgpu_processes"), 0);
        gpu_put(&w, CARD0 "power/runtime_status", "active\n");
        gpu_tick(&w, 1);
        assert_true(watch_count(&watch) > 10);
        assert_string_equal(machine_state(w.m, "amdgpu", NULL, reason, sizeof(reason)), "ok");
        /* What it drew while nobody looked is not known: nothing is made of it. */
        gpu_tick(&w, 1);
        EXPECT(w.m, I64("amdgpu", "0", "gUtilizationGpu", 98), F64("amdgpu", "0", "gEnergyJoules", 339));
        close(watch.fd);
        gpu_world_done(&w);
}

/* Nobody uses it, and it could sleep if it were not asked each second. */
static void test_left_alone(void **state)
{
        struct gpu_world w;
        struct watch watch;

        (void) state;
        gpu_world_new(&w, "amdgpu-rx7900", "amdgpu", INFP_MODE_HOST, false, 0);
        gpu_put(&w, CARD0 "gpu_busy_percent", "0\n");
        for (int i = 0; i < 11; i++)
                gpu_tick(&w, 1);
        EXPECT(w.m, I64("amdgpu", "0", "gUtilizationGpu", 0));
        watch_begin(&watch, &w);
        for (int i = 0; i < 6; i++) /* its autosuspend delay is 5 s, and 2 s beside */
                gpu_tick(&w, 1);
        assert_int_equal(watch_count(&watch), 0);
        EXPECT(w.m, ABSENT("amdgpu", "0", "gUtilizationGpu"));
        gpu_tick(&w, 1);
        /* It did not sleep: its 339 W are those of all the 17 s. */
        EXPECT(w.m, I64("amdgpu", "0", "gUtilizationGpu", 0), F64("amdgpu", "0", "gEnergyJoules", 5763));
        /* One that may not sleep is read on. */
        gpu_put(&w, CARD0 "power/control", "on\n");
        for (int i = 0; i < 30; i++) {
                gpu_tick(&w, 1);
                EXPECT(w.m, I64("amdgpu", "0", "gUtilizationGpu", 0));
        }
        close(watch.fd);
        gpu_world_done(&w);
}

static void test_used_is_read(void **state)
{
        struct gpu_world w;

        (void) state;
        gpu_world_new(&w, "amdgpu-rx7900", "amdgpu", INFP_MODE_RUN, false, 700);
        gpu_put(&w, CARD0 "gpu_busy_percent", "0\n");
        for (int i = 0; i < 30; i++) {
                gpu_tick(&w, 1);
                EXPECT(w.m, I64("amdgpu", "0", "gUtilizationGpu", 0));
        }
        gpu_world_done(&w);
}

static void test_goes_and_comes(void **state)
{
        struct gpu_world w;

        (void) state;
        gpu_world_new(&w, "amdgpu-mi300x", "amdgpu", INFP_MODE_RUN, false, 4242);
        gpu_tick(&w, 1);
        tree_command("mv '%s/sys/class/drm/card1' '%s/kept'", w.top, w.top);
        /* The descriptor of its directory still works on a tree: the files below must go as the kernel's would. */
        tree_command("mv '%s/kept/device' '%s/device'; mkdir '%s/kept/device'", w.top, w.top, w.top);
        gpu_tick(&w, 11);
        assert_int_equal(machine_count(w.m, "amdgpu"), 1);
        assert_null(machine_row(w.m, "amdgpu", "0"));
        assert_null(gpu_process(&w, "amdgpu_processes", 0, 4242));
        assert_string_equal(machine_state(w.m, "amdgpu", NULL, NULL, 0), "absent");
        /* Under another number: the same GPU. */
        tree_command("rmdir '%s/kept/device'; mv '%s/device' '%s/kept/device'; mv '%s/kept' '%s/sys/class/drm/card7'",
                     w.top, w.top, w.top, w.top, w.top);
        gpu_tick(&w, 11);
        EXPECT(w.m, TEXT("amdgpu", "0", "gUuid", "GPU-d1c5ffa2b3e4f001"), I64("amdgpu", "0", "gUtilizationGpu", 87));
        gpu_tick(&w, 40);
        assert_non_null(gpu_process(&w, "amdgpu_processes", 0, 4242));
        gpu_world_done(&w);
}

/* The meters of the machine show a GPU's sensor, too: as the same meter, and not where a reading would keep the GPU awake. */
static void test_meters_of_the_machine(void **state)
{
        struct infp_collector_state meters = { 0 };
        struct machine *m;
        char top[64];

        (void) state;
        tree_new(top);
        tree_put(top, "sys/class/hwmon/hwmon0/name", "amdgpu\n");
        tree_put(top, "sys/class/hwmon/hwmon0/power1_average", "50000000\n");
        tree_put(top, "sys/class/hwmon/hwmon0/power1_label", "PPT\n");
        tree_put(top, "pci/0000:03:00.0/power/control", "auto\n");
        tree_command("ln -s ../../../../pci/0000:03:00.0 '%s/sys/class/hwmon/hwmon0/device'", top);
        m = machine_open(top);
        assert_int_equal(
                infp_collector_open(&meters, infp_collector_find("energy"), &m->env, &m->emit, machine_notice, m), 0);
        assert_int_equal(infp_collector_sample(&meters, &m->env, &m->emit, machine_notice, m), -EAGAIN);
        assert_int_equal(machine_count(m, "energy"), 0);
        assert_string_equal(machine_state(m, "energy", NULL, NULL, 0), "absent");
        tree_put(top, "pci/0000:03:00.0/power/control", "on\n");
        for (int i = 0; i < 2; i++) {
                m->clock_ns += UINT64_C(1000000000);
                assert_int_equal(infp_collector_sample(&meters, &m->env, &m->emit, machine_notice, m), 0);
        }
        EXPECT(m, F64("energy", "amdgpu/PPT", "eJoules", 50),
               TEXT("energy", "amdgpu/PPT", "eSameAs", "amdgpu 0000:03:00.0"));
        assert_false(machine_need(m, "energy", "amdgpu/PPT")
                             ->cell[kept_cell(machine_need(m, "energy", NULL), "eIsCounted")]
                             .b);
        EXPECT(m, ABSENT("energy_total", NULL, "eMachineJoules"));
        infp_collector_close(&meters);
        machine_close(m);
        tree_remove(top);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_asleep),
                cmocka_unit_test(test_left_alone),
                cmocka_unit_test(test_used_is_read),
                cmocka_unit_test(test_goes_and_comes),
                cmocka_unit_test(test_meters_of_the_machine),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
