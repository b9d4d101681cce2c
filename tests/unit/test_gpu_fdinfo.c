/* fdinfo of DRM drivers, in their own words; the right answers are in the texts. */
#include "gpu_tree.h"

#include "base/mem.h"
#include "collectors/gpu/drm/fdinfo.h"

static struct gpu_fdinfo parse(const char *text)
{
        struct gpu_fdinfo info;

        assert_true(infp_gpu_fdinfo_parse(text, strlen(text), &info));
        return info;
}

static void test_amdgpu(void **state)
{
        struct gpu_fdinfo info =
                parse("pos:\t0\nflags:\t02100002\nmnt_id:\t26\nino:\t512\ndrm-driver:\tamdgpu\ndrm-client-id:\t41\n"
                      "drm-pdev:\t0000:05:00.0\npasid:\t32771\ndrm-total-vram:\t900 KiB\ndrm-shared-vram:\t0\n"
                      "drm-resident-vram:\t800 KiB\ndrm-memory-vram:\t700 KiB\ndrm-memory-gtt: \t2 MiB\n"
                      "drm-memory-cpu: \t5 KiB\namd-evicted-vram:\t1 KiB\ndrm-engine-gfx:\t123456789 ns\n"
                      "drm-engine-compute:\t5 ns\ndrm-engine-dma:\t6 ns\ndrm-engine-dec:\t7 ns\ndrm-engine-enc:\t8 ns\n"
                      "drm-engine-enc_1:\t9 ns\ndrm-engine-jpeg:\t10 ns\ndrm-engine-future:\t11 ns\n");

        (void) state;
        assert_string_equal(info.driver, "amdgpu");
        assert_string_equal(info.pci, "0000:05:00.0");
        assert_true(info.has_client && info.client == 41);
        assert_true(info.has_vram && info.vram_bytes == 700 * 1024);
        assert_true(info.has_system && info.system_bytes == 2 << 20);
        assert_int_equal(info.engine[GPU_ENGINE_RENDER].busy_ns, 123456789);
        assert_int_equal(info.engine[GPU_ENGINE_COMPUTE].busy_ns, 5);
        assert_int_equal(info.engine[GPU_ENGINE_COPY].busy_ns, 6);
        assert_int_equal(info.engine[GPU_ENGINE_VIDEO].busy_ns, 7);
        assert_int_equal(info.engine[GPU_ENGINE_ENCODE].busy_ns, 17);
        assert_int_equal(info.engine[GPU_ENGINE_JPEG].busy_ns, 10);
        assert_int_equal(info.engine[GPU_ENGINE_RENDER].capacity, 1);
        assert_false(info.engine[GPU_ENGINE_ENHANCE].has_busy);
}

/* Linux 5.14 to 5.18. */
static void test_amdgpu_old(void **state)
{
        struct gpu_fdinfo info = parse(
                "pos:\t0\nflags:\t02100002\nmnt_id:\t26\npdev:\t0000:0a:00.0\npasid:\t32770\nvram mem:\t2048 kB\n"
                "gtt mem:\t12 kB\ncpu mem:\t0 kB\ngfx0:\t12.34%\ncompute0:\t1.50%\ncompute1:\t2.25%\ndma0:\t0.00%\n");

        (void) state;
        assert_string_equal(info.driver, "amdgpu");
        assert_string_equal(info.pci, "0000:0a:00.0");
        assert_true(info.has_client && info.client == 32770);
        assert_true(info.engine[GPU_ENGINE_RENDER].has_percent && info.engine[GPU_ENGINE_RENDER].percent == 12.34);
        assert_true(info.engine[GPU_ENGINE_COMPUTE].percent == 3.75);
        assert_false(info.engine[GPU_ENGINE_RENDER].has_busy);
        assert_int_equal(info.vram_bytes, 2 << 20);
        assert_int_equal(info.system_bytes, 12 << 10);
}

static void test_i915(void **state)
{
        struct gpu_fdinfo info = parse(
                "drm-driver: i915\ndrm-client-id: 7\ndrm-pdev: 0000:00:02.0\ndrm-total-system0: 4 MiB\n"
                "drm-resident-system0: 3 MiB\ndrm-total-local0: 8 GiB\ndrm-resident-local0: 7 GiB\n"
                "drm-resident-stolen-system0: 1 MiB\ndrm-engine-render: 9288864723 ns\ndrm-engine-copy: 2035071108 ns\n"
                "drm-engine-video: 5 ns\ndrm-engine-capacity-video: 2\ndrm-engine-video-enhance: 6 ns\n"
                "drm-engine-compute: 8 ns\ndrm-engine-capacity-compute: 4\n");

        (void) state;
        assert_string_equal(info.driver, "i915");
        assert_int_equal(info.engine[GPU_ENGINE_RENDER].busy_ns, 9288864723);
        assert_int_equal(info.engine[GPU_ENGINE_VIDEO].capacity, 2);
        assert_int_equal(info.engine[GPU_ENGINE_ENHANCE].busy_ns, 6);
        assert_int_equal(info.engine[GPU_ENGINE_COMPUTE].capacity, 4);
        assert_int_equal(info.vram_bytes, UINT64_C(7) << 30);
        assert_int_equal(info.system_bytes, 3 << 20);
}

static void test_xe(void **state)
{
        struct gpu_fdinfo info =
                parse("drm-driver:\txe\ndrm-client-id:\t3\ndrm-pdev:\t0000:03:00.0\ndrm-total-system:\t0\n"
                      "drm-resident-system:\t100\ndrm-total-gtt:\t192 KiB\ndrm-resident-gtt:\t192 KiB\n"
                      "drm-total-vram0:\t23992 KiB\ndrm-resident-vram0:\t23000 KiB\ndrm-resident-vram1:\t1000 KiB\n"
                      "drm-cycles-rcs:\t28257900\ndrm-total-cycles-rcs:\t7655183225\ndrm-cycles-vcs:\t4\n"
                      "drm-total-cycles-vcs:\t7655183225\ndrm-engine-capacity-vcs:\t2\n");

        (void) state;
        assert_true(info.engine[GPU_ENGINE_RENDER].has_cycles && !info.engine[GPU_ENGINE_RENDER].has_busy);
        assert_int_equal(info.engine[GPU_ENGINE_RENDER].cycles, 28257900);
        assert_int_equal(info.engine[GPU_ENGINE_RENDER].total_cycles, 7655183225);
        assert_int_equal(info.engine[GPU_ENGINE_VIDEO].capacity, 2);
        assert_int_equal(info.vram_bytes, 24000 << 10);
        assert_int_equal(info.system_bytes, (192 << 10) + 100);
}

static void test_no_gpu(void **state)
{
        static const char *const texts[] = { "",
                                             "pos:\t0\nflags:\t0100002\n",
                                             "pdev: x\n",
                                             "gfx0: 12%\n",
                                             "drm-driver:\n",
                                             "eventfd-count: 0\n",
                                             ":\n:::\n\n" };
        struct gpu_fdinfo info;

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(texts); i++)
                assert_false(infp_gpu_fdinfo_parse(texts[i], strlen(texts[i]), &info));
}

/* Lines that say nothing sound are left out, the rest counts. */
static void test_hostile(void **state)
{
        struct gpu_fdinfo info = parse(
                "drm-driver: a name that is much longer than any driver has\n"
                "drm-pdev: 0000:03:00.0-and-much-more-than-an-address\ndrm-client-id: -1\n"
                "drm-engine-render: 99999999999999999999999 ns\ndrm-engine-compute: x ns\ndrm-engine-copy:\n"
                "drm-engine-capacity-render: 0\ndrm-engine-capacity-copy: 4000000000\ndrm-memory-vram: 5 parsecs\n"
                "drm-memory-gtt: 18446744073709551615 KiB\ndrm-memory-: 5 KiB\ndrm-engine-: 5 ns\ngfx0: nan%\n"
                "dma0: -5%\nenc0: 1e999%\n%\n");

        (void) state;
        assert_int_equal(strlen(info.driver), GPU_DRIVER_NAME - 1);
        assert_int_equal(strlen(info.pci), GPU_PCI_NAME - 1);
        assert_false(info.has_client);
        for (int i = 0; i < GPU_ENGINE_N; i++) {
                assert_false(info.engine[i].has_busy || info.engine[i].has_percent || info.engine[i].has_cycles);
                assert_int_equal(info.engine[i].capacity, 1);
        }
        assert_false(info.has_vram || info.has_system);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_amdgpu), cmocka_unit_test(test_amdgpu_old), cmocka_unit_test(test_i915),
                cmocka_unit_test(test_xe),     cmocka_unit_test(test_no_gpu),     cmocka_unit_test(test_hostile),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
