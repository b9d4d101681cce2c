/* Which processes use a card, and how much: fdinfo and KFD. All right answers follow by hand from tests/fixtures/amdgpu-*. */
#include "gpu_tree.h"

#include "collectors/gpu/drm/users.h"
#include "model/id.h"

#define BOOT_ID "01234567-89ab-cdef-0123-456789abcdef"

static void put_client(const struct gpu_world *w, int pid, int fd, int client, long long gfx_ms, long long compute_ms,
                       long long dec_ms)
{
        char path[64], text[512];

        snprintf(path, sizeof(path), "proc/%d/fdinfo/%d", pid, fd);
        snprintf(text, sizeof(text),
                 "drm-driver:\tamdgpu\ndrm-client-id:\t%d\ndrm-pdev:\t0000:03:00.0\ndrm-memory-vram:\t20971520 KiB\n"
                 "drm-engine-gfx:\t%lld ns\ndrm-engine-compute:\t%lld ns\ndrm-engine-dec:\t%lld ns\n",
                 client, gfx_ms * 1000000, compute_ms * 1000000, dec_ms * 1000000);
        tree_put(w->top, path, text);
}

static void put_llama(const struct gpu_world *w, long long gfx_ms, long long compute_ms)
{
        put_client(w, 700, 8, 9, gfx_ms, compute_ms, 0);
        put_client(w, 700, 9, 9, gfx_ms, compute_ms, 0);
        put_client(w, 701, 8, 9, gfx_ms, compute_ms, 0);
}

/* What a sample costs is answered by a pause, and only while somebody records. */
static void test_rest(void **state)
{
        const struct infp_stats stats = { 0 };
        struct gpu_users users = { .rest_until_ns = 5000 };
        struct gpu_world w;

        (void) state;
        gpu_world_new(&w, "amdgpu-rx7900", "amdgpu", INFP_MODE_RUN, false, 700);
        assert_true(infp_gpu_users_begin_cost(&users, &w.m->env, 4999));
        w.m->env.stats = &stats;
        assert_false(infp_gpu_users_begin_cost(&users, &w.m->env, 4999));
        assert_true(infp_gpu_users_begin_cost(&users, &w.m->env, 5000));
        users.begun_cpu_ns -= 1000000000; /* it has used a second since */
        infp_gpu_users_end_cost(&users, &w.m->env);
        assert_true(users.rest_until_ns >= w.m->env.now_ns(&w.m->env) + UINT64_C(9000000000));
        w.m->env.stats = NULL;
        gpu_world_done(&w);
}

/* 700 has client 9 twice (dup) and client 10; its child 701 inherited 9; Xorg is nobody of ours. */
static void test_clients(void **state)
{
        struct gpu_world w;
        const struct kept *k;

        (void) state;
        gpu_world_new(&w, "amdgpu-rx7900", "amdgpu", INFP_MODE_RUN, false, 700);
        gpu_tick(&w, 1);
        k = gpu_process(&w, "amdgpu_processes", 0, 700);
        assert_int_equal(gpu_i64(k, "gProcessMemoryBytes"), (20971520LL + 1024) * 1024);
        assert_int_equal(gpu_i64(k, "gProcessRenderNs"), 4500000000);
        assert_int_equal(gpu_i64(k, "gProcessEncodeNs"), 10000000); /* enc and enc_1 of client 10 */
        assert_true(gpu_is_absent(k, "gProcessSm"));                /* one reading is no share of time */
        gpu_is_text(k, "gProcessType", "CG");
        assert_null(gpu_process(&w, "amdgpu_processes", 0, 701));
        assert_null(gpu_process(&w, "amdgpu_processes", 0, 900));

        put_llama(&w, 4400, 1100);
        put_client(&w, 700, 12, 10, 550, 0, 100);
        gpu_tick(&w, 1);
        k = gpu_process(&w, "amdgpu_processes", 0, 700);
        assert_int_equal(gpu_i64(k, "gProcessSm"), 55);     /* 400 + 50 + 100 ms of 1 s */
        assert_int_equal(gpu_i64(k, "gProcessDecoder"), 2); /* 20 ms */
        assert_int_equal(gpu_i64(k, "gProcessRenderNs"), 4950000000);
        assert_int_equal(gpu_i64(k, "gProcessComputeNs"), 1100000000);

        /* A value that goes down is left; it counts on when it has come past. */
        put_llama(&w, 4000, 1100);
        gpu_tick(&w, 1);
        assert_int_equal(gpu_i64(gpu_process(&w, "amdgpu_processes", 0, 700), "gProcessRenderNs"), 4950000000);
        put_llama(&w, 4500, 1100);
        gpu_tick(&w, 1);
        k = gpu_process(&w, "amdgpu_processes", 0, 700);
        assert_int_equal(gpu_i64(k, "gProcessRenderNs"), 5050000000);
        assert_int_equal(gpu_i64(k, "gProcessSm"), 10);

        /* More than the time that has passed: no share of it. */
        put_llama(&w, 9500, 1100);
        gpu_tick(&w, 1);
        k = gpu_process(&w, "amdgpu_processes", 0, 700);
        assert_int_equal(gpu_i64(k, "gProcessRenderNs"), 10050000000);
        assert_int_equal(gpu_i64(k, "gProcessSm"), 0); /* of compute, and of client 10 */
        gpu_world_done(&w);
}

/* Clients come, go, and give their numbers away. */
static void test_clients_change(void **state)
{
        struct gpu_world w;
        const struct kept *k;

        (void) state;
        gpu_world_new(&w, "amdgpu-rx7900", "amdgpu", INFP_MODE_RUN, false, 700);
        gpu_tick(&w, 1);
        /* The parent closes what it shared: the child's is read from its next look on. */
        tree_command("rm '%s'/proc/700/fd/[89] '%s'/proc/700/fdinfo/[89]", w.top, w.top);
        for (int i = 0; i < 4; i++)
                gpu_tick(&w, 1);
        assert_non_null(gpu_process(&w, "amdgpu_processes", 0, 701));
        k = gpu_process(&w, "amdgpu_processes", 0, 700);
        assert_int_equal(gpu_i64(k, "gProcessMemoryBytes"), 1024 * 1024);
        /* What is closed was used none the less. */
        assert_int_equal(gpu_i64(k, "gProcessRenderNs"), 4500000000);
        /* Another opening behind the same number: its 70 ms are new. */
        put_client(&w, 700, 12, 77, 70, 0, 0);
        gpu_tick(&w, 1);
        assert_int_equal(gpu_i64(gpu_process(&w, "amdgpu_processes", 0, 700), "gProcessRenderNs"), 4570000000);
        /* The pid of another process. */
        put_process(w.top, (struct fake_process){ .pid = 701, .ppid = 700, .name = "other", .start = 9999 });
        gpu_tick(&w, 1);
        k = gpu_process(&w, "amdgpu_processes", 0, 701);
        gpu_is_text(k, "gProcessName", "other");
        assert_int_equal(k->cell[kept_cell(k, "process")].u64, infp_process_id(BOOT_ID, 701, 9999));
        remove_process(w.top, 701);
        gpu_tick(&w, 1);
        assert_null(gpu_process(&w, "amdgpu_processes", 0, 701));
        gpu_world_done(&w);
}

static void test_all_processes(void **state)
{
        struct gpu_world w;

        (void) state;
        gpu_world_new(&w, "amdgpu-rx7900", "amdgpu", INFP_MODE_HOST, true, 0);
        gpu_tick(&w, 1);
        EXPECT(w.m, I64("amdgpu", "0", "gProcessCount", 2),
               TEXT("amdgpu", "0", "gProcesses", "[\"700: llama-server (20481 MB)\",\"900: Xorg (128 MB)\"]"));
        assert_true(gpu_is_absent(gpu_process(&w, "amdgpu_processes", 0, 900), "gInTree"));
        gpu_world_done(&w);
}

static void test_not_asked(void **state)
{
        struct gpu_world w;
        char reason[256];

        (void) state;
        gpu_world_new(&w, "amdgpu-rx7900", "amdgpu", INFP_MODE_HOST, false, 0);
        gpu_tick(&w, 1);
        assert_int_equal(machine_count(w.m, "amdgpu_processes"), 0);
        assert_string_equal(machine_state(w.m, "amdgpu_processes", NULL, reason, sizeof(reason)), "absent");
        assert_int_equal(strncmp(reason, INFP_NOT_ASKED, strlen(INFP_NOT_ASKED)), 0);
        EXPECT(w.m, ABSENT("amdgpu", "0", "gProcessCount"), ABSENT("amdgpu", "0", "gProcesses"));
        gpu_world_done(&w);
}

/* Descriptors that are no cards cost one look, and never more than the budget at once. */
static void test_many_descriptors(void **state)
{
        struct gpu_world w;
        char path[128];

        (void) state;
        gpu_world_new(&w, "amdgpu-rx7900", "amdgpu", INFP_MODE_RUN, false, 699);
        put_process(w.top, (struct fake_process){ .pid = 699, .ppid = 1, .name = "parent" });
        put_process(w.top, (struct fake_process){ .pid = 700, .ppid = 699, .name = "llama-server" });
        snprintf(path, sizeof(path), "%s/proc/699/fd", w.top);
        assert_int_equal(mkdir(path, 0777), 0);
        for (int i = 0; i < 5000; i++) {
                snprintf(path, sizeof(path), "%s/proc/699/fd/%d", w.top, i);
                assert_int_equal(symlink("socket:[1]", path), 0);
        }
        gpu_tick(&w, 1);
        assert_null(gpu_process(&w, "amdgpu_processes", 0, 700)); /* the budget went to its parent */
        gpu_tick(&w, 1);
        assert_non_null(gpu_process(&w, "amdgpu_processes", 0, 700));
        gpu_world_done(&w);
}

static void test_foreign_pids(void **state)
{
        struct gpu_world w;
        const struct kept *k;

        (void) state;
        gpu_world_new(&w, "amdgpu-mi300x", "amdgpu", INFP_MODE_HOST, false, 0);
        infp_collector_close(&w.state);
        tree_command("mkdir -p '%s/proc/self/ns'; ln -s 'pid:[4026532201]' '%s/proc/self/ns/pid'", w.top, w.top);
        assert_int_equal(infp_collector_open(&w.state, infp_collector_find("amdgpu"), &w.m->env, &w.m->emit,
                                             machine_notice, w.m),
                         0);
        gpu_tick(&w, 1);
        k = gpu_process(&w, "amdgpu_processes", 0, 4242);
        assert_non_null(k);
        assert_true(k->cell[kept_cell(k, "gPidIsHost")].b);
        assert_true(gpu_is_absent(k, "gProcessName") && gpu_is_absent(k, "process"));
        gpu_world_done(&w);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rest),           cmocka_unit_test(test_clients),
                cmocka_unit_test(test_clients_change), cmocka_unit_test(test_all_processes),
                cmocka_unit_test(test_not_asked),      cmocka_unit_test(test_many_descriptors),
                cmocka_unit_test(test_foreign_pids),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
