/* Any text in a file of cgroupfs or of /proc: the collector gives what is sure of it, and neither crashes nor fails as a whole.
 * The first byte says which file. */
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "collect/run_one.h"
#include "collectors/container_name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define V2 "sys/fs/cgroup/unified/docker/" ID "/"
#define V1 "sys/fs/cgroup/all/docker/" ID "/"

static const struct {
        const char *path, *text;
} files[] = {
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

static char top[] = "/tmp/infp-fuzz-XXXXXX";

static void put(const char *name, const void *text, size_t size)
{
        char path[1024];
        int fd;

        snprintf(path, sizeof(path), "%s/%s", top, name);
        for (char *at = path + strlen(top) + 1; (at = strchr(at, '/')); at++) {
                *at = 0;
                mkdir(path, 0777);
                *at = '/';
        }
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (fd < 0 || write(fd, text, size) != (ssize_t) size)
                abort();
        close(fd);
}

static void remove_tree(void)
{
        char command[128];

        snprintf(command, sizeof(command), "rm -rf %s", top);
        if (system(command) != 0)
                fprintf(stderr, "%s is left\n", top);
}

static int put_nowhere(void *context, const struct infp_row *row)
{
        *(uint64_t *) context += row->text_size;
        return 0;
}

static void begin(void)
{
        if (!mkdtemp(top))
                abort();
        atexit(remove_tree);
        for (size_t i = 0; i < INFP_COUNT(files); i++)
                put(files[i].path, files[i].text, strlen(files[i].text));
}

static void sample(void)
{
        static const struct infp_setting settings[] = { { "containers", "1" }, { NULL, NULL } };
        static struct infp_emit emit;
        const struct infp_collector *collector = infp_collector_find("containers");
        struct infp_collector_state state = { 0 };
        struct infp_env env;
        uint64_t sum = 0;

        if (infp_env_open(&env, top, NULL) < 0)
                abort();
        env.settings = settings;
        infp_emit_init(&emit, put_nowhere, &sum);
        if (infp_collector_open(&state, collector, &env, &emit, NULL, NULL) == 0)
                infp_collector_sample(&state, &env, &emit, NULL, NULL);
        infp_collector_close(&state);
        infp_env_close(&env);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static bool has_begun;
        struct infp_container_name name;
        size_t which;

        if (!size)
                return 0;
        if (!has_begun)
                begin();
        has_begun = true;
        infp_container_name((struct infp_span){ (const char *) data, size }, &name);
        which = data[0] % INFP_COUNT(files);
        put(files[which].path, data + 1, size - 1);
        sample();
        put(files[which].path, files[which].text, strlen(files[which].text));
        return 0;
}
