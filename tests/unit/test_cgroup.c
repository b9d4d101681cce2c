/* The finder of control groups: mounts, paths, namespaces, limits that are none. */
#include "machine.h"

#include "collect/cgroup.h"

static struct infp_cgroups cgroups;
static struct infp_cgroup_paths paths;

static void limits(void **state)
{
        static const struct {
                const char *text;
                uint64_t right;
        } all[] = {
                { "max", 0 },
                { "", 0 },
                { "-1", 0 },
                { "9223372036854771712", 0 },  /* none, pages of 4 KiB */
                { "9223372036854710272", 0 },  /* 64 KiB */
                { "9223372036854775807", 0 },  /* old kernels */
                { "18446744073709551615", 0 }, /* older ones */
                { "536870912", 536870912 },
                { "4611686018427387903", 4611686018427387903 },
        };

        (void) state;
        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
                assert_int_equal(infp_cgroup_limit((struct infp_span){ all[i].text, strlen(all[i].text) }),
                                 all[i].right);
}

/* The path below the root directory of a controller's cgroup; NULL: it cannot be seen. */
static const char *place_of(enum infp_controller controller, struct infp_cgroup_place *place)
{
        return infp_cgroup_place(&cgroups, &paths, controller, false, place) ? place->path : NULL;
}

static void places(void **state)
{
        struct infp_cgroup_place place;
        struct machine *m;
        char top[64];

        (void) state;
        tree_new(top);
        tree_put(top, "proc/self/mountinfo",
                 "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
                 "31 24 0:27 / /old/memory rw - cgroup cgroup rw,memory\n"
                 "32 24 0:27 /a/b /mnt/x\\134y/memory rw shared:1 master:2 - cgroup cgroup rw,memory\n"
                 "33 24 0:28 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
                 "34 24 0:29 / /cg/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
                 "35 24 0:30 / /cg/un\\0!!ied rw - cgroup2 cgroup2 rw\n" /* no escape */
                 "36 24 0:31 / /cg/rdma rw - cgroup cgroup rw,rdma\nrubbish\n");
        tree_put(top, "proc/self/cgroup",
                 "5:memory:/a/b/c\n4:cpu,cpuacct:/x:y/\n1:name=systemd:/../outside\n3:pids:/p "
                 "(deleted)\n0::/u\nrubbish\n");
        m = machine_open(top);
        assert_int_equal(infp_cgroups_find(&m->env, &cgroups), 0);
        assert_int_equal(cgroups.n, 5);
        assert_int_equal(infp_cgroup_paths_read(&m->env, 0, &paths), 0);
        assert_string_equal(infp_cgroup_mode(&paths), "hybrid");
        assert_string_equal(place_of(INFP_CG_MEMORY, &place), "mnt/x\\y/memory/c"); /* the later mount, of a part */
        assert_true(infp_cgroup_up(&place));
        assert_int_equal(place.size, strlen("mnt/x\\y/memory"));
        assert_false(infp_cgroup_up(&place));
        assert_string_equal(place_of(INFP_CG_CPUACCT, &place), "cg/cpu/x:y");
        assert_null(place_of(INFP_CG_NAMED, &place)); /* outside of our namespace */
        assert_string_equal(place_of(INFP_CG_PIDS, &place),
                            "cg/un\\0!!ied/u"); /* no v1 cgroup that lives: the unified one */
        assert_true(place.is_v2);
        assert_int_equal(infp_cgroup_paths_read(&m->env, 77, &paths), -ENOENT);
        assert_null(infp_cgroup_mode(&paths));
        machine_close(m);
        tree_remove(top);
}

static void the_least_of_all_levels(void **state)
{
        struct infp_cgroup_place place;
        uint64_t quota, period;
        struct machine *m;
        char top[64];

        (void) state;
        tree_new(top);
        tree_put(top, "proc/self/mountinfo", "31 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        tree_put(top, "proc/self/cgroup", "0::/a/b/c\n");
        tree_put(top, "sys/fs/cgroup/a/cpu.max", "150000 100000\n");
        tree_put(top, "sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
        tree_put(top, "sys/fs/cgroup/a/b/c/cpu.max", "400000 100000");
        tree_put(top, "sys/fs/cgroup/a/memory.max", "1000\n");
        tree_put(top, "sys/fs/cgroup/a/b/memory.max", "2000\n");
        tree_put(top, "sys/fs/cgroup/a/b/c/memory.max", "max\n");
        m = machine_open(top);
        assert_int_equal(infp_cgroups_find(&m->env, &cgroups), 0);
        assert_int_equal(infp_cgroup_paths_read(&m->env, 0, &paths), 0);
        assert_non_null(place_of(INFP_CG_CPU, &place));
        assert_true(infp_cgroup_quota(&m->env, &place, &quota, &period) > 3.99);
        assert_int_equal(quota, 400000);
        assert_int_equal(period, 100000);
        assert_true(infp_cgroup_quota_effective(&m->env, place) > 1.49 &&
                    infp_cgroup_quota_effective(&m->env, place) < 1.51);
        assert_int_equal(infp_cgroup_memory_effective(&m->env, place), 1000);
        assert_false(infp_cgroup_is_machine(&m->env, &place));
        while (infp_cgroup_up(&place))
                ;
        assert_true(infp_cgroup_is_machine(&m->env, &place));
        tree_put(top, "sys/fs/cgroup/cgroup.type", "domain\n"); /* only the root of a namespace has it */
        assert_false(infp_cgroup_is_machine(&m->env, &place));
        machine_close(m);
        tree_remove(top);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(limits),
                cmocka_unit_test(places),
                cmocka_unit_test(the_least_of_all_levels),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
