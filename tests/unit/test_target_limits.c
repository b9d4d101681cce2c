/* The collector `limits`: what the target may use, on trees that stand for machines. Expected values were computed by hand. */
#include "cgroup_world.h"

#include <sched.h>
#include <sys/prctl.h>

#include "base/mem.h"

#define V2 "sys/fs/cgroup"
#define MOUNT_V2 "31 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"

#define NOT(table, key, column)                          \
        {                                                \
                table, key, column, IS_FALSE, 0, 0, NULL \
        }

/* Eight CPUs; infprof itself is elsewhere and has all of them. */
static void world_new(struct world *w, const char *mountinfo)
{
        world_begin(w, mountinfo, "0::/user.slice\n");
        tree_put(w->top, "proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-7\n");
        tree_put(w->top, "sys/devices/system/cpu/online", "0-7\n");
}

static void put_member(const struct world *w, int pid, int ppid, const char *cgroup, const char *cpus)
{
        char path[64], text[96];

        put_process(w->top, (struct fake_process){ .pid = pid, .ppid = ppid });
        snprintf(path, sizeof(path), "proc/%d/cgroup", pid);
        tree_put(w->top, path, cgroup);
        snprintf(path, sizeof(path), "proc/%d/status", pid);
        snprintf(text, sizeof(text), "Name:\tx\nCpus_allowed_list:\t%s\n", cpus);
        tree_put(w->top, path, text);
}

static void world_open(struct world *w)
{
        world_watch(w, "limits", NULL, INFP_MODE_PID, 50);
}

/* The quota is the pod's, and so are the periods; a thread is bound to CPUs of its own; the limits change while it runs. */
static void of_a_pod(void **state)
{
        struct world w;

        (void) state;
        world_new(&w, MOUNT_V2);
        put_member(&w, 50, 1, "0::/kubepods/pod1/ctr\n", "0-3");
        tree_put(w.top, "proc/50/task/50/status", "Cpus_allowed_list:\t0-3\n");
        tree_put(w.top, "proc/50/task/51/status", "Cpus_allowed_list:\t4\n");
        tree_put(w.top, V2 "/kubepods/cpu.max", "max 100000\n");
        tree_put(w.top, V2 "/kubepods/pod1/cpu.max", "150000 100000\n");
        tree_put(w.top, V2 "/kubepods/pod1/cpu.stat",
                 "usage_usec 1\nnr_periods 1000\nnr_throttled 900\nthrottled_usec 7\n");
        tree_put(w.top, V2 "/kubepods/pod1/memory.max", "3221225472\n");
        tree_put(w.top, V2 "/kubepods/pod1/ctr/cpu.max", "max 100000\n");
        tree_put(w.top, V2 "/kubepods/pod1/ctr/cpu.stat", "usage_usec 1\nnr_periods 0\nnr_throttled 0\n");
        tree_put(w.top, V2 "/kubepods/pod1/ctr/memory.max", "4294967296\n");
        tree_put(w.top, V2 "/kubepods/pod1/ctr/cpuset.cpus.effective", "0-5\n");
        world_open(&w);
        world_sample(&w);
        EXPECT(w.m, F64("limits", NULL, "lEffectiveCpus", 1.5), I64("limits", NULL, "lAffinityCpus", 5),
               I64("limits", NULL, "lCpusetCpus", 6), F64("limits", NULL, "lCpuQuota", 1.5),
               I64("limits", NULL, "lMemoryLimitBytes", 3221225472), I64("limits", NULL, "lGroups", 1),
               NOT("limits", NULL, "lIsHidden"), I64("limits", NULL, "lCpuPeriods", 0));
        tree_put(w.top, V2 "/kubepods/pod1/cpu.stat", "nr_periods 1010\nnr_throttled 908\nthrottled_usec 2007\n");
        tree_put(w.top, V2 "/kubepods/pod1/cpu.max", "max 100000\n");
        tree_put(w.top, V2 "/kubepods/pod1/memory.max", "max\n");
        world_sample(&w);
        EXPECT(w.m, F64("limits", NULL, "lEffectiveCpus", 5), ABSENT("limits", NULL, "lCpuQuota"),
               I64("limits", NULL, "lMemoryLimitBytes", 4294967296));
        tree_put(w.top, V2 "/kubepods/pod1/cpu.max", "300000 100000\n");
        world_sample(&w); /* counted on from here: what passed without a quota was no throttling */
        tree_put(w.top, V2 "/kubepods/pod1/cpu.stat", "nr_periods 1020\nnr_throttled 910\nthrottled_usec 4007\n");
        world_sample(&w);
        EXPECT(w.m, F64("limits", NULL, "lEffectiveCpus", 3), I64("limits", NULL, "lCpuPeriods", 10),
               I64("limits", NULL, "lCpuThrottledPeriods", 2), I64("limits", NULL, "lCpuThrottledTimeNs", 2000000));
        world_done(&w);
}

/* Two groups with quotas of their own may use both together, up to what all of them have. */
static void of_several_groups(void **state)
{
        struct world w;

        (void) state;
        world_new(&w, MOUNT_V2);
        put_member(&w, 50, 1, "0::/app/a\n", "0-7");
        put_member(&w, 60, 50, "0::/app/b\n", "0-7");
        tree_put(w.top, V2 "/app/a/cpu.max", "100000 100000\n");
        tree_put(w.top, V2 "/app/b/cpu.max", "200000 100000\n");
        tree_put(w.top, V2 "/app/a/memory.max", "1000000\n");
        world_open(&w);
        world_sample(&w);
        EXPECT(w.m, F64("limits", NULL, "lEffectiveCpus", 3), I64("limits", NULL, "lGroups", 2),
               ABSENT("limits", NULL, "lMemoryLimitBytes"));
        tree_put(w.top, V2 "/app/cpu.max", "250000 100000\n");
        tree_put(w.top, V2 "/app/memory.max", "5000000\n");
        world_sample(&w);
        EXPECT(w.m, F64("limits", NULL, "lEffectiveCpus", 2.5), I64("limits", NULL, "lMemoryLimitBytes", 5000000));
        world_done(&w);
}

static void of_version_1(void **state)
{
        struct world w;

        (void) state;
        world_new(&w, "32 24 0:27 / /cg/memory rw - cgroup cgroup rw,memory\n"
                      "33 24 0:28 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
                      "34 24 0:29 / /cg/cpuset rw - cgroup cgroup rw,cpuset\n");
        tree_put(w.top, "cg/cpu/release_agent", "");
        tree_put(w.top, "cg/memory/release_agent", "");
        put_member(&w, 50, 1, "4:memory:/d/x\n3:cpuset:/d/x\n2:cpu,cpuacct:/d/x\n", "0-7");
        tree_put(w.top, "cg/cpu/d/cpu.cfs_quota_us", "350000\n");
        tree_put(w.top, "cg/cpu/d/cpu.cfs_period_us", "100000\n");
        tree_put(w.top, "cg/cpu/d/cpu.stat", "nr_periods 5\nnr_throttled 1\nthrottled_time 1000\n");
        tree_put(w.top, "cg/cpu/d/x/cpu.cfs_quota_us", "-1\n");
        tree_put(w.top, "cg/cpu/d/x/cpu.cfs_period_us", "100000\n");
        tree_put(w.top, "cg/cpuset/d/x/cpuset.cpus", "2-3\n");
        tree_put(w.top, "cg/memory/d/x/memory.limit_in_bytes", "9223372036854771712\n");
        tree_put(w.top, "cg/memory/d/x/memory.stat", "cache 0\nhierarchical_memory_limit 1073741824\n");
        world_open(&w);
        world_sample(&w);
        tree_put(w.top, "cg/cpu/d/cpu.stat", "nr_periods 9\nnr_throttled 4\nthrottled_time 51000\n");
        world_sample(&w);
        EXPECT(w.m, F64("limits", NULL, "lEffectiveCpus", 2), F64("limits", NULL, "lCpuQuota", 3.5),
               I64("limits", NULL, "lCpusetCpus", 2), I64("limits", NULL, "lMemoryLimitBytes", 1073741824),
               I64("limits", NULL, "lCpuPeriods", 4), I64("limits", NULL, "lCpuThrottledPeriods", 3),
               I64("limits", NULL, "lCpuThrottledTimeNs", 50000), NOT("limits", NULL, "lIsHidden"));
        world_done(&w);
}

/* In a namespace the parents do not show, and of a sibling nothing does. */
static void what_is_hidden(void **state)
{
        static const char *const groups[] = { "0::/\n", "0::/../sibling\n" };
        char reason[256];

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(groups); i++) {
                struct world w;

                world_new(&w, MOUNT_V2);
                tree_put(w.top, V2 "/cgroup.type", "domain\n");
                put_member(&w, 50, 1, groups[i], "0-7");
                world_open(&w);
                world_sample(&w);
                EXPECT(w.m, F64("limits", NULL, "lEffectiveCpus", 8), YES("limits", NULL, "lIsHidden"),
                       ABSENT("limits", NULL, "lCpuQuota"));
                assert_string_equal(machine_state(w.m, "limits", "lCpuQuota", reason, sizeof(reason)), "absent");
                assert_non_null(strstr(reason, "hidden"));
                world_done(&w);
        }
}

/* The kernel's own answer, of another process than ours. It is bound from its start: the thread sanitizer starts a thread in it, and
 * what any thread may use counts. */
static void of_a_bound_process(void **state)
{
        struct machine *m = live_machine();
        struct infp_collector_state s;
        cpu_set_t one, before;
        pid_t pid;

        (void) state;
        assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
        pid = fork();
        if (!pid) {
                prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that has failed leaves nobody who holds its output */
                pause();
                _exit(0);
        }
        assert_true(pid > 0);
        assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
        m->env.target = new_target(INFP_MODE_PID, false, pid);
        refresh(m->env.target, &m->env);
        assert_int_equal(infp_collector_open(&s, infp_collector_find("limits"), &m->env, &m->emit, machine_notice, m),
                         0);
        assert_int_equal(infp_collector_sample(&s, &m->env, &m->emit, machine_notice, m), 0);
        EXPECT(m, I64("limits", NULL, "lAffinityCpus", 1));
        infp_collector_close(&s);
        infp_target_free(m->env.target);
        machine_close(m);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(of_a_pod),       cmocka_unit_test(of_several_groups),  cmocka_unit_test(of_version_1),
                cmocka_unit_test(what_is_hidden), cmocka_unit_test(of_a_bound_process),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
