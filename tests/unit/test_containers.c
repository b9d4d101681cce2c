/* The collector `containers` on trees that stand for machines. The right answers are those of the files written here. */
#include "cgroup_world.h"

#include "collectors/container/state.h"

#define A "aaaaaaaaaaaa0000000000000000000000000000000000000000000000000000"
#define B "bbbbbbbbbbbb0000000000000000000000000000000000000000000000000000"
#define C "cccccccccccc0000000000000000000000000000000000000000000000000000"
#define V2_MOUNT "31 24 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
#define TOP_V2 "sys/fs/cgroup"

static const struct infp_setting all_containers[] = { { "containers", "1" }, { NULL, NULL } };

static void world_new(struct world *w, const char *mountinfo)
{
        world_begin(w, mountinfo, "0::/\n");
        tree_put(w->top, "proc/sys/kernel/random/boot_id", "01234567-89ab-cdef-0123-456789abcdef\n");
}

static void world_open(struct world *w, enum infp_mode mode, pid_t root, bool all)
{
        world_watch(w, "containers", all ? all_containers : NULL, mode, root);
}

static void world_tick(struct world *w)
{
        w->m->n = 0;
        w->m->text_size = 0;
        world_sample(w);
}

static void put(const struct world *w, const char *dir, const char *file, const char *text)
{
        char path[1024];

        snprintf(path, sizeof(path), "%s/%s", dir, file);
        tree_put(w->top, path, text);
}

static void put_member(const struct world *w, int pid, const char *cgroup, unsigned long long net)
{
        struct fake_process p = { .pid = pid, .ppid = 1 };
        char path[64], text[64];

        put_process(w->top, p);
        snprintf(path, sizeof(path), "proc/%d/cgroup", pid);
        tree_put(w->top, path, cgroup);
        if (!net)
                return;
        snprintf(path, sizeof(path), "proc/%d/ns/net", pid);
        snprintf(text, sizeof(text), "net:[%llu]", net);
        tree_put(w->top, path, text);
}

/* The last facts of the container with this cId; NULL: none. */
static const struct kept *facts(const struct world *w, const char *cid)
{
        uint64_t id = 0;
        char text[128];

        for (size_t i = 0; i < w->m->n; i++) {
                const struct kept *k = &w->m->rows[i];

                if (!strcmp(k->table->name, "container") && kept_has(k, kept_cell(k, "cId")) &&
                    !strcmp(kept_text(k, kept_cell(k, "cId"), text, sizeof(text)), cid))
                        id = k->cell[0].u64;
                if (id && !strcmp(k->table->name, "containers") && k->cell[0].u64 == id)
                        return k;
        }
        return NULL;
}

static int64_t number(const struct kept *k, const char *column)
{
        assert_non_null(k);
        if (!kept_has(k, kept_cell(k, column)))
                fail_msg("%s is absent", column);
        return k->cell[kept_cell(k, column)].i64;
}

static bool is_absent(const struct kept *k, const char *column)
{
        assert_non_null(k);
        return !kept_has(k, kept_cell(k, column));
}

static void assert_entity(const struct world *w, const char *cid, const char *column, const char *right)
{
        char text[512];

        for (size_t i = 0; i < w->m->n; i++) {
                const struct kept *k = &w->m->rows[i];

                if (strcmp(k->table->name, "container") ||
                    strcmp(kept_text(k, kept_cell(k, "cId"), text, sizeof(text)), cid))
                        continue;
                assert_string_equal(kept_text(k, kept_cell(k, column), text, sizeof(text)), right);
                return;
        }
        fail_msg("no container %s", cid);
}

/* Three pods of the three classes, by systemd's driver; the limit of one pod is not its container's own. */
static void kubernetes(void **state)
{
        static const char *const dirs[] = {
                "kubepods.slice/kubepods-pod11111111_2222_3333_4444_555555555555.slice/cri-containerd-" A ".scope",
                "kubepods.slice/kubepods-burstable.slice/"
                "kubepods-burstable-pod22222222_2222_3333_4444_555555555555.slice/cri-containerd-" B ".scope",
                "kubepods.slice/kubepods-besteffort.slice/"
                "kubepods-besteffort-pod33333333_2222_3333_4444_555555555555.slice/crio-" C ".scope",
        };
        struct world w;
        char dir[512], cgroup[512];

        (void) state;
        world_new(&w, V2_MOUNT);
        tree_put(w.top, "proc/1/ns/net", "net:[1]");
        for (int i = 0; i < 3; i++) {
                snprintf(dir, sizeof(dir), TOP_V2 "/%s", dirs[i]);
                snprintf(cgroup, sizeof(cgroup), "0::/%s\n", dirs[i]);
                put_member(&w, 100 + i, cgroup, i == 2 ? 1 : 10 + (unsigned) i);
                put(&w, dir, "cgroup.procs", i == 0 ? "100\n" : i == 1 ? "101\n" : "102\n");
                put(&w, dir, "memory.current", i == 0 ? "1048576\n" : "2097152\n");
                put(&w, dir, "memory.max", "max\n");
                put(&w, dir, "cpu.max", i == 1 ? "150000 100000\n" : "max 100000\n");
                put(&w, dir, "cpu.stat",
                    "usage_usec 5000001\nuser_usec 4000000\nsystem_usec 1000001\nnr_periods 40\nnr_throttled 10\n"
                    "throttled_usec 250\n");
                put(&w, dir, "memory.stat",
                    "anon 4096\nfile 8192\nkernel 100\nshmem 7\ninactive_file 48576\npgmajfault 3\n");
                put(&w, dir, "memory.events", "low 0\nhigh 1\nmax 2\noom 3\noom_kill 4\n");
                put(&w, dir, "pids.current", "12\n");
                put(&w, dir, "cpuset.cpus.effective", "0-3,8\n");
                put(&w, dir, "cpu.pressure",
                    "some avg10=0 avg60=0 avg300=0 total=99\nfull avg10=0 avg60=0 avg300=0 total=5\n");
        }
        tree_put(w.top, "proc/100/net/dev",
                 "Inter-|   Receive |  Transmit\n face |bytes packets\n"
                 "    lo: 5 5 0 0 0 0 0 0 5 5 0 0 0 0 0 0\n  eth0: 600 4 0 0 0 0 0 0 500 15 0 0 0 0 0 0\n"
                 "eth0.7:1: 400 6 0 0 0 0 0 0 1500 5 0 0 0 0 0 0\n");
        put(&w,
            TOP_V2 "/kubepods.slice/kubepods-burstable.slice/"
                   "kubepods-burstable-pod22222222_2222_3333_4444_555555555555.slice",
            "memory.max", "4194304\n");
        world_open(&w, INFP_MODE_HOST, 0, true);
        world_tick(&w);
        assert_int_equal(machine_count(w.m, "containers"), 3);
        assert_entity(&w, "aaaaaaaaaaaa", "cRuntime", "containerd");
        assert_entity(&w, "aaaaaaaaaaaa", "cPodQos", "guaranteed");
        assert_entity(&w, "bbbbbbbbbbbb", "cPodUid", "22222222-2222-3333-4444-555555555555");
        assert_entity(&w, "cccccccccccc", "cRuntime", "cri-o");
        assert_entity(&w, "cccccccccccc", "cPodQos", "besteffort");
        assert_int_equal(number(facts(&w, "aaaaaaaaaaaa"), "cCpuTime"), 5000001000);
        assert_int_equal(number(facts(&w, "aaaaaaaaaaaa"), "cCpuTimeUserMode"), 400);
        assert_int_equal(number(facts(&w, "aaaaaaaaaaaa"), "cCpuTimeKernelNs"), 1000001000);
        assert_int_equal(number(facts(&w, "aaaaaaaaaaaa"), "cCpuThrottledTime"), 250000);
        assert_int_equal(number(facts(&w, "aaaaaaaaaaaa"), "cMemoryWorkingSet"), 1000000);
        assert_int_equal(number(facts(&w, "aaaaaaaaaaaa"), "cOomKills"), 4);
        assert_int_equal(number(facts(&w, "aaaaaaaaaaaa"), "cMemoryLimitHits"), 2);
        assert_int_equal(number(facts(&w, "aaaaaaaaaaaa"), "cNumProcessors"), 5);
        assert_int_equal(number(facts(&w, "aaaaaaaaaaaa"), "cPressureCpuSome"), 99000);
        assert_int_equal(number(facts(&w, "aaaaaaaaaaaa"), "cNetworkBytesRecvd"), 1000);
        assert_int_equal(number(facts(&w, "aaaaaaaaaaaa"), "cNetworkPacketsSent"), 20);
        assert_true(is_absent(facts(&w, "aaaaaaaaaaaa"), "cMemoryLimit"));
        assert_true(is_absent(facts(&w, "aaaaaaaaaaaa"), "cMemoryLimitEffective"));
        assert_true(is_absent(facts(&w, "bbbbbbbbbbbb"), "cMemoryLimit"));
        assert_int_equal(number(facts(&w, "bbbbbbbbbbbb"), "cMemoryLimitEffective"), 4194304);
        assert_int_equal(number(facts(&w, "bbbbbbbbbbbb"), "cCpuQuota"), 150000);
        assert_true(facts(&w, "bbbbbbbbbbbb")->cell[kept_cell(facts(&w, "bbbbbbbbbbbb"), "cCpuLimit")].f64 > 1.49);
        /* The namespace of pid 1 is the machine's. */
        assert_true(is_absent(facts(&w, "cccccccccccc"), "cNetworkBytesRecvd"));
        world_done(&w);
}

/* The target's own cgroup, a systemd service below a slice with a quota; others are in it as well. */
static void service_of_the_target(void **state)
{
        struct world w;
        const struct kept *k = NULL;

        (void) state;
        world_new(&w, V2_MOUNT);
        put_member(&w, 50, "0::/system.slice/vllm.service\n", 0);
        put_member(&w, 51, "0::/system.slice/vllm.service\n", 0);
        put(&w, TOP_V2 "/system.slice/vllm.service", "cgroup.procs", "50\n51\n");
        put(&w, TOP_V2 "/system.slice/vllm.service", "memory.current", "1000\n");
        put(&w, TOP_V2 "/system.slice", "cpu.max", "50000 100000\n");
        put(&w, TOP_V2 "/system.slice/vllm.service", "cpu.max", "200000 100000\n");
        world_open(&w, INFP_MODE_PID, 50, false);
        world_tick(&w);
        world_tick(&w); /* one that is seen twice is no process that was just forked */
        k = machine_need(w.m, "containers", NULL);
        assert_int_equal(number(k, "cMemoryUsed"), 1000);
        assert_int_equal(number(k, "cOtherProcesses"), 1);
        assert_true(k->cell[kept_cell(k, "cIsTarget")].b);
        EXPECT(w.m, F64("containers", NULL, "cCpuLimit", 2), F64("containers", NULL, "cCpuLimitEffective", 0.5));
        /* It moves: the row follows. */
        tree_put(w.top, "proc/50/cgroup", "0::/other.slice\n");
        put(&w, TOP_V2 "/other.slice", "memory.current", "7\n");
        world_tick(&w);
        assert_int_equal(machine_count(w.m, "containers"), 1);
        assert_int_equal(number(machine_need(w.m, "containers", NULL), "cMemoryUsed"), 7);
        /* It ends: what was used until then is still read. */
        remove_process(w.top, 50);
        put(&w, TOP_V2 "/other.slice", "memory.current", "9\n");
        world_tick(&w);
        assert_int_equal(number(machine_need(w.m, "containers", NULL), "cMemoryUsed"), 9);
        world_done(&w);
}

static void root_is_the_machine(void **state)
{
        char reason[256];
        struct world w;

        (void) state;
        world_new(&w, V2_MOUNT);
        put_member(&w, 50, "0::/\n", 0);
        put(&w, TOP_V2, "cpu.stat", "usage_usec 1\n");
        world_open(&w, INFP_MODE_PID, 50, false);
        world_tick(&w);
        assert_int_equal(machine_count(w.m, "containers"), 0);
        assert_string_equal(machine_state(w.m, "containers", NULL, reason, sizeof(reason)), "absent");
        assert_non_null(strstr(reason, "root cgroup"));
        world_done(&w);
}

/* Inside of a container with a cgroup namespace of its own: its root is not the machine's, and the id is that of the files that
 * the runtime has mounted. */
static void inside_of_a_container(void **state)
{
        struct world w;

        (void) state;
        world_new(&w, V2_MOUNT "39 24 8:1 /docker/containers/" A "/mounts/shm /inner/shm rw - tmpfs shm rw\n"
                               "40 24 8:1 /var/lib/docker/containers/" B
                               "/hostname /etc/hostname rw - ext4 /dev/sda1 rw\n");
        put(&w, TOP_V2, "cgroup.type", "domain\n");
        put(&w, TOP_V2, "memory.current", "5\n");
        put(&w, TOP_V2, "cgroup.procs", "0\n0\n");
        world_open(&w, INFP_MODE_HOST, 0, false);
        world_tick(&w);
        assert_int_equal(number(facts(&w, "bbbbbbbbbbbb"), "cMemoryUsed"), 5);
        assert_entity(&w, "bbbbbbbbbbbb", "cRuntime", "docker");
        world_done(&w);
        /* The same of a process that is profiled there. */
        world_new(&w, V2_MOUNT);
        tree_put(w.top, "proc/sys/kernel/hostname", "0123456789ab\n");
        put_member(&w, 50, "0::/\n", 0);
        put(&w, TOP_V2, "cgroup.type", "domain\n");
        put(&w, TOP_V2, "memory.current", "6\n");
        world_open(&w, INFP_MODE_PID, 50, false);
        world_tick(&w);
        assert_int_equal(number(facts(&w, "0123456789ab"), "cMemoryUsed"), 6);
        world_done(&w);
}

/* Process 1 that we see is the container's. Its namespace is the container's own, if no card of the machine is in it. */
static void network_inside_of_a_container(void **state)
{
        static const char traffic[] = "Inter-|   Receive  |  Transmit\n face |bytes packets\n"
                                      "  eth0: 700 7 0 0 0 0 0 0 90 9 0 0 0 0 0 0\n";

        (void) state;
        for (unsigned i = 0; i < 4; i++) {
                struct world w;

                world_new(&w, V2_MOUNT);
                tree_put(w.top, "proc/self/ns/pid", i == 1 ? "pid:[4026531836]" : "pid:[4026532444]");
                tree_put(w.top, "proc/1/ns/net", "net:[4026532555]");
                tree_put(w.top, "proc/self/net/dev", traffic);
                if (i == 2)
                        tree_put(w.top, "sys/class/net/eth0/device/vendor", "0x8086\n");
                put_member(&w, 50, i == 3 ? "0::/a.service\n" : "0::/\n", 4026532555ULL);
                tree_put(w.top, "proc/50/net/dev", traffic);
                put(&w, TOP_V2, "cgroup.type", "domain\n");
                put(&w, i == 3 ? TOP_V2 "/a.service" : TOP_V2, "memory.current", "6\n");
                put(&w, i == 3 ? TOP_V2 "/a.service" : TOP_V2, "cgroup.procs", "50\n");
                tree_put(w.top, "proc/sys/kernel/hostname", "0123456789ab\n");
                world_open(&w, INFP_MODE_PID, 50, false);
                world_tick(&w);
                for (size_t k = 0; k < w.m->n; k++) {
                        const struct kept *row = &w.m->rows[k];

                        if (strcmp(row->table->name, "containers"))
                                continue;
                        if (i)
                                assert_true(is_absent(row, "cNetworkBytesRecvd"));
                        else
                                assert_int_equal(number(row, "cNetworkBytesRecvd"), 700);
                        assert_int_equal(number(row, "cMemoryUsed"), 6);
                }
                world_done(&w);
        }
}

/* A threaded cgroup lists threads, and has no memory of its own: what is missing says so. */
static void threaded(void **state)
{
        char reason[256];
        struct world w;

        (void) state;
        world_new(&w, V2_MOUNT);
        put_member(&w, 50, "0::/app.slice/pool/workers\n", 0);
        put(&w, TOP_V2 "/app.slice/pool/workers", "cgroup.type", "threaded\n");
        put(&w, TOP_V2 "/app.slice/pool/workers", "cgroup.threads", "50\n53\n");
        put(&w, TOP_V2 "/app.slice/pool/workers", "cpu.stat", "usage_usec 7\n");
        put(&w, TOP_V2 "/app.slice/pool", "memory.current", "99\n");
        put(&w, TOP_V2 "/app.slice/pool", "memory.max", "1000\n");
        world_open(&w, INFP_MODE_PID, 50, false);
        world_tick(&w);
        EXPECT(w.m, I64("containers", NULL, "cCpuTime", 7000), ABSENT("containers", NULL, "cMemoryUsed"),
               I64("containers", NULL, "cMemoryLimitEffective", 1000), I64("container", NULL, "cPid", 50));
        assert_string_equal(machine_state(w.m, "containers", "cMemoryUsed", reason, sizeof(reason)), "absent");
        assert_non_null(strstr(reason, "memory.current"));
        world_done(&w);
}

/* v1 whose hierarchies are mounted somewhere else, only from the container's own directory on; one is not there at all. */
static void v1_bind_mounts(void **state)
{
        struct world w;

        (void) state;
        world_new(&w, "31 24 0:31 /docker/" A " /mnt/my\\040cg/memory ro - cgroup cgroup rw,memory\n"
                      "32 24 0:32 /docker/" A " /mnt/my\\040cg/cpu ro - cgroup cgroup rw,cpu,cpuacct\n");
        tree_put(w.top, "proc/self/cgroup",
                 "2:cpu,cpuacct:/docker/" A "\n3:memory:/docker/" A "\n4:pids:/docker/" A "\n");
        put(&w, "mnt/my cg/memory", "memory.usage_in_bytes", "77\n");
        put(&w, "mnt/my cg/memory", "memory.limit_in_bytes", "9223372036854710272\n");
        put(&w, "mnt/my cg/memory", "memory.stat",
            "cache 1\nrss 2\nhierarchical_memory_limit 4096\ntotal_cache 3\ntotal_rss 4\n");
        put(&w, "mnt/my cg/cpu", "cpuacct.usage", "123456789012\n");
        put(&w, "mnt/my cg/cpu", "cpuacct.usage_percpu", "5 6 7 \n");
        put(&w, "mnt/my cg/cpu", "cpu.cfs_quota_us", "-1\n");
        put(&w, "mnt/my cg/cpu", "cpu.cfs_period_us", "100000\n");
        world_open(&w, INFP_MODE_HOST, 0, false);
        world_tick(&w);
        assert_int_equal(number(facts(&w, "aaaaaaaaaaaa"), "cMemoryUsed"), 77);
        assert_int_equal(number(facts(&w, "aaaaaaaaaaaa"), "cMemoryAnon"), 4);
        assert_int_equal(number(facts(&w, "aaaaaaaaaaaa"), "cMemoryLimitEffective"),
                         4096); /* a parent's, unseen from here */
        assert_int_equal(number(facts(&w, "aaaaaaaaaaaa"), "cCpuTime"), 123456789012);
        assert_true(is_absent(facts(&w, "aaaaaaaaaaaa"), "cCpuQuota"));
        assert_true(is_absent(facts(&w, "aaaaaaaaaaaa"), "cPids"));
        assert_int_equal(machine_count(w.m, "container_cpu"), 3);
        world_done(&w);
}

/* The root of a v1 hierarchy has no figures: it does not lead the list, nor is it in it. */
static void v1_root_without_values(void **state)
{
        struct world w;

        (void) state;
        world_new(&w, "40 24 0:30 / /cg/memory rw - cgroup cgroup rw,memory\n");
        tree_put(w.top, "proc/self/cgroup", "5:memory:/\n");
        put(&w, "cg/memory/docker/" A, "memory.usage_in_bytes", "4096\n");
        world_open(&w, INFP_MODE_HOST, 0, true);
        world_tick(&w);
        assert_int_equal(machine_count(w.m, "containers"), 1);
        assert_int_equal(number(facts(&w, "aaaaaaaaaaaa"), "cMemoryUsed"), 4096);
        world_done(&w);
}

/* v1 with the unified hierarchy beside it: pressure comes from there. A session's CPU time is counted for all of its slice. */
static void hybrid(void **state)
{
        struct world w;
        const struct kept *k;

        (void) state;
        world_new(&w, "31 24 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                      "32 24 0:32 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
                      "33 24 0:33 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
        put_member(&w, 50, "2:cpu:/user.slice\n3:memory:/user.slice/session-1.scope\n0::/user.slice/session-1.scope\n",
                   0);
        put(&w, "sys/fs/cgroup/memory/user.slice/session-1.scope", "memory.usage_in_bytes", "3\n");
        put(&w, "sys/fs/cgroup/cpu/user.slice", "cpu.stat", "nr_periods 1\n");
        put(&w, "sys/fs/cgroup/unified/user.slice/session-1.scope", "cpu.pressure", "some avg10=0 total=4\n");
        world_open(&w, INFP_MODE_PID, 50, false);
        world_tick(&w);
        k = machine_need(w.m, "containers", NULL);
        assert_int_equal(number(k, "cMemoryUsed"), 3);
        assert_int_equal(number(k, "cPressureCpuSome"), 4000);
        assert_true(is_absent(k, "cCpuPeriods"));
        world_done(&w);
}

/* Texts that were cut, rubbish, files that vanish: what is sure is given, the rest is absent, and nothing else suffers. */
static void faults(void **state)
{
        static const char dir[] = TOP_V2 "/docker/" A;
        struct world w;

        (void) state;
        world_new(&w, V2_MOUNT);
        put(&w, dir, "cgroup.procs", "");
        put(&w, dir, "memory.current", "12345"); /* the line feed is missing: it may be the start of a longer number */
        put(&w, dir, "memory.peak", "nonsense\n");
        put(&w, dir, "memory.max", "18446744073709551615\n");
        put(&w, dir, "pids.current", "-4\n");
        put(&w, dir, "cpu.max", "max\n");
        put(&w, dir, "cpu.stat", "usage_usec 18446744073709551615\nuser_usec\nsystem_usec 20000\nnr_periods 1");
        put(&w, dir, "io.stat", "8:0 rbytes=10 wbytes=20 rios=1 wios=2\n8:16 rbytes=5 wby");
        world_open(&w, INFP_MODE_HOST, 0, true);
        world_tick(&w);
        EXPECT(w.m, ABSENT("containers", NULL, "cMemoryUsed"), ABSENT("containers", NULL, "cMemoryMaxUsed"),
               ABSENT("containers", NULL, "cMemoryLimit"), ABSENT("containers", NULL, "cPids"),
               ABSENT("containers", NULL, "cCpuTime"), ABSENT("containers", NULL, "cCpuTimeUserMode"),
               I64("containers", NULL, "cCpuTimeKernelMode", 2), ABSENT("containers", NULL, "cCpuPeriods"));
        put(&w, dir, "io.stat", "8:0 rbytes=10 wbytes=20 rios=1 wios=2\n8:16 rbytes=5");
        world_tick(&w);
        EXPECT(w.m, ABSENT("containers", NULL, "cDiskReadBytes")); /* never a sum that falls */
        put(&w, dir, "io.stat", "8:0 rbytes=10 wbytes=20 rios=1 wios=2\n8:16 rbytes=5 wbytes=6 rios=7 wios=8\n");
        world_tick(&w);
        EXPECT(w.m, I64("containers", NULL, "cDiskReadBytes", 15), I64("containers", NULL, "cDiskWrites", 10));
        tree_command("rm -r '%s/%s'", w.top, dir);
        world_tick(&w);
        assert_int_equal(machine_count(w.m, "containers"), 0);
        put(&w, dir, "memory.current", "1\n");
        put(&w, TOP_V2 "/docker/" B, "memory.current", "2\n");
        world_tick(&w);
        assert_int_equal(machine_count(w.m, "containers"), 2);
        world_done(&w);
}

static void many(void **state)
{
        struct world w;

        (void) state;
        world_new(&w, V2_MOUNT);
        for (int i = 0; i < 128; i++) {
                char dir[256];

                snprintf(dir, sizeof(dir), TOP_V2 "/system.slice/docker-%064x.scope", i);
                put(&w, dir, "memory.current", "1\n");
        }
        world_open(&w, INFP_MODE_HOST, 0, true);
        world_tick(&w);
        assert_int_equal(machine_count(w.m, "containers"), 128);
        assert_int_equal(machine_count(w.m, "container"), 128);
        world_tick(&w);
        assert_int_equal(machine_count(w.m, "containers"), 128);
        assert_int_equal(machine_count(w.m, "container"), 0); /* who they are is said once */
        world_done(&w);
}

/* "No swap at all" is what kubernetes sets, and no absence of a limit. A list of CPUs is whole or misleads. */
static void limits_of_nothing_and_long_lists(void **state)
{
        static const char dir[] = TOP_V2 "/docker/" A;
        const struct kept *k;
        char list[2048] = "0", right[2048], text[2048];
        size_t size = 1;
        struct world w;

        (void) state;
        for (int i = 2; i < 400; i += 2)
                size += (size_t) snprintf(list + size, sizeof(list) - size, ",%d", i);
        snprintf(right, sizeof(right), "%s", list);
        snprintf(list + size, sizeof(list) - size, "\n");
        world_new(&w, V2_MOUNT);
        put(&w, dir, "memory.current", "1\n");
        put(&w, dir, "memory.high", "max\n");
        put(&w, dir, "memory.swap.max", "0\n");
        put(&w, dir, "pids.max", "0\n");
        put(&w, dir, "cpuset.cpus.effective", list);
        world_open(&w, INFP_MODE_HOST, 0, true);
        world_tick(&w);
        k = facts(&w, "aaaaaaaaaaaa");
        assert_int_equal(number(k, "cSwapLimit"), 0);
        assert_int_equal(number(k, "cPidsLimit"), 0);
        assert_int_equal(number(k, "cNumProcessors"), 200);
        assert_true(is_absent(k, "cMemoryHigh"));
        assert_string_equal(kept_text(k, kept_cell(k, "cCpuset"), text, sizeof(text)), right);
        put(&w, dir, "memory.swap.max", "max\n");
        world_tick(&w);
        assert_true(is_absent(machine_need(w.m, "containers", NULL), "cSwapLimit"));
        world_done(&w);
}

/* What sources says of all that is not followed. */
static const char *said_of_others(const struct world *w, char *text, size_t cap)
{
        for (size_t i = 0; i < w->m->n; i++) {
                const struct kept *k = &w->m->rows[i];

                if (k->table == &infp_table_sources && kept_has(k, INFP_SOURCES_INSTANCE) &&
                    !strcmp(kept_text(k, INFP_SOURCES_INSTANCE, text, cap), "others"))
                        return kept_text(k, INFP_SOURCES_REASON, text, cap);
        }
        return "";
}

static void too_many(void **state)
{
        char text[256];
        struct world w;

        (void) state;
        world_new(&w, V2_MOUNT);
        for (int i = 0; i < CONTAINER_MOST + 1; i++) {
                char dir[256];

                snprintf(dir, sizeof(dir), TOP_V2 "/docker/%064x", i);
                put(&w, dir, "pids.max", "max\n");
        }
        world_open(&w, INFP_MODE_HOST, 0, true);
        world_tick(&w);
        assert_int_equal(machine_count(w.m, "containers"), CONTAINER_MOST);
        assert_non_null(strstr(said_of_others(&w, text, sizeof(text)), "left out"));
        world_done(&w);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(kubernetes),
                cmocka_unit_test(service_of_the_target),
                cmocka_unit_test(root_is_the_machine),
                cmocka_unit_test(inside_of_a_container),
                cmocka_unit_test(v1_bind_mounts),
                cmocka_unit_test(v1_root_without_values),
                cmocka_unit_test(hybrid),
                cmocka_unit_test(faults),
                cmocka_unit_test(many),
                cmocka_unit_test(too_many),
                cmocka_unit_test(limits_of_nothing_and_long_lists),
                cmocka_unit_test(network_inside_of_a_container),
                cmocka_unit_test(threaded),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
