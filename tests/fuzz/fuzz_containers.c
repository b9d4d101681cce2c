/* Any text in a file of cgroupfs or of /proc: the collector gives what is sure of it, and neither crashes nor fails as a whole.
 * The first byte says which file. */
#include "collect/cgroup.h"
#include "collectors/container/name.h"
#include "collectors/cpus.h"
#include "fuzz_tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define V2 "sys/fs/cgroup/unified/docker/" ID "/"
#define V1 "sys/fs/cgroup/all/docker/" ID "/"

static const struct tree_file files[] = {
        { "proc/self/mountinfo",
          "31 24 0:31 / /sys/fs/cgroup/all rw - cgroup cgroup rw,memory,cpu,cpuacct,blkio,pids,cpuset\n"
          "33 24 0:33 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n" },
        { "proc/self/cgroup", "1:memory,cpu,cpuacct,blkio,pids,cpuset:/docker/" ID "\n0::/docker/" ID "\n" },
        { V1 "cgroup.procs", "1\n" },
        { V1 "cpu.stat", "nr_periods 1\n" },
        { V1 "cpuacct.usage_percpu", "1 2 \n" },
        { V1 "cpuacct.stat", "user 1\nsystem 2\n" },
        { V1 "memory.stat", "rss 1\ntotal_rss 2\n" },
        { V1 "memory.limit_in_bytes", "4096\n" },
        { V1 "memory.usage_in_bytes", "1\n" },
        { V1 "blkio.throttle.io_service_bytes", "8:0 Read 1\n" },
        { V1 "cpu.cfs_quota_us", "1000\n" },
        { V1 "cpu.cfs_period_us", "100000\n" },
        { V1 "cpuset.cpus", "0-3\n" },
        { V2 "cpu.pressure", "some total=1\n" },
        { "proc/1/ns/net", "net:[1]" },
        { "proc/1/net/dev", "eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n" },
        { "sys/dev/block/8:0", "../../block/sda" },
};

static void sample(void)
{
        static const struct infp_setting settings[] = { { "containers", "1" }, { NULL, NULL } };
        static struct infp_emit emit;
        const struct infp_collector *collector = infp_collector_find("containers");
        struct infp_collector_state state = { 0 };
        struct infp_env env;
        uint64_t sum = 0;

        if (infp_env_open(&env, tree_top, NULL) < 0)
                abort();
        env.settings = settings;
        infp_emit_init(&emit, tree_put_nowhere, &sum);
        if (infp_collector_open(&state, collector, &env, &emit, NULL, NULL) == 0)
                infp_collector_sample(&state, &env, &emit, NULL, NULL);
        infp_collector_close(&state);
        infp_env_close(&env);
}

/* What is made of a file's text without the file. */
static void parse(struct infp_span text)
{
        static struct infp_cpus cpus;
        struct infp_container_name name;
        struct infp_span line;

        infp_container_name(text, &name);
        infp_cpus_parse(&cpus, text);
        while (infp_span_line(&text, &line)) {
                infp_container_name(line, &name);
                infp_cgroup_limit(line);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        size_t which;

        if (!size)
                return 0;
        parse((struct infp_span){ (const char *) data, size });
        if (!tree_is_chosen(data, size))
                return 0;
        if (tree_fd < 0)
                tree_begin(files, INFP_COUNT(files));
        which = data[0] % INFP_COUNT(files);
        tree_put(files[which].path, data + 1, size - 1);
        sample();
        tree_put(files[which].path, files[which].text, strlen(files[which].text));
        return 0;
}
