/* gpu_metrics in each layout that Linux has had. The fields stand here in the order of the kernel's structs; offsets follow from
 * alignment (gpu_tree.h), values are written into the fields and must come out of the parser. */
#include "gpu_tree.h"

#include <math.h>

#include "base/mem.h"
#include "collectors/gpu/drm/amdgpu_metrics.h"

#define HEAD(size, format, content) "u16 structure_size = " #size "\nu8 f = " #format "\nu8 c = " #content "\n"
#define V1_HEAD                                                                                                      \
        "u16 edge = 51\nu16 hotspot = 62\nu16 mem = 73\nu16*3 vr = 40\nu16 gfx = 81\nu16 umc = 42\nu16 mm = 3\nu16 " \
        "power = 254\n"
#define V1_CLOCKS \
        "u16*7 average = 1\nu16 gfxclk = 2100\nu16 socclk = 1200\nu16 uclk = 1600\nu16 vclk = 900\nu16*3 x = 2\n"
#define V1_1                                                             \
        V1_HEAD "u64 energy = 655360\nu64 clock = 7\n" V1_CLOCKS         \
                "u32 throttle = 3\nu16 fan = 1700\nu16 width = 16\nu16 " \
                "speed = 160\nu16 pad\n"
#define V1_4 "u16 hotspot = 62\nu16 mem = 73\nu16 vrsoc = 4\nu16 power = 254\nu16 gfx = 81\nu16 umc = 42\n"
#define RESIDENCIES "u32 rounds = 1000\nu32 prochot = 1\nu32 ppt = 2\nu32 socket = 3\nu32 vr = 4\nu32 hbm = 5\n"
#define LINKS                                                                                                   \
        "u16 width = 16\nu16 speed = 320\nu16*2 xgmi = 1\nu32*2 acc = 9\nu64*2 bandwidth = 5\nu64 l0 = 1\nu64 " \
        "replays = 17\nu64 rollover = 2\n"
#define CLOCKS                                                                                                         \
        "u64 firmware = 5\nu16*8 gfxclk = 2090 2100 2080\nu16*4 socclk = 1200\nu16*4 vclk = 900\nu16*4 dclk = 3\nu16 " \
        "uclk = 1600\nu16 last = 1\npad 8\n"
#define V2_1                                                                                                           \
        "u16*2 t = 4500\nu16*8 tc = 1\nu16*2 tl3 = 1\nu16 gfx = 8100\nu16 mm = 300\nu64 clock = 1\nu16 power = "       \
        "25400\n"                                                                                                      \
        "u16*2 p = 1\nu16 gfxpower = 11000\nu16*8 core = 1\nu16*6 average = 1\nu16 gfxclk = 2100\nu16 socclk = 1200\n" \
        "u16 uclk = 1600\nu16 fclk = 1\nu16 vclk = 900\nu16 dclk = 1\nu16*8 cclk = 1\nu16*2 l3clk = 1\nu32 throttle "  \
        "= 1\n"                                                                                                        \
        "u16 pwm = 1\nu16*3 pad\n"

struct right {
        enum amdgpu_metric metric;
        double value;
};
enum { NO = -1 }; /* it must have no value */

#define V1_VALUES                                                                                                    \
        { AMD_TEMPERATURE_EDGE, 51 }, { AMD_TEMPERATURE_HOTSPOT, 62 }, { AMD_TEMPERATURE_MEM, 73 },                  \
                { AMD_ACTIVITY_GFX, 81 }, { AMD_ACTIVITY_UMC, 42 }, { AMD_ACTIVITY_MEDIA, 3 }, { AMD_POWER, 254 },   \
                { AMD_CLOCK_GFX, 2100 }, { AMD_CLOCK_SOC, 1200 }, { AMD_CLOCK_MEM, 1600 }, { AMD_CLOCK_VIDEO, 900 }, \
        {                                                                                                            \
                AMD_FAN_RPM, 1700                                                                                    \
        }
#define V1_4_VALUES                                                                                                  \
        { AMD_TEMPERATURE_EDGE, NO }, { AMD_TEMPERATURE_HOTSPOT, 62 }, { AMD_TEMPERATURE_MEM, 73 },                  \
                { AMD_ACTIVITY_GFX, 81 }, { AMD_ACTIVITY_UMC, 42 }, { AMD_POWER, 254 }, { AMD_ENERGY, 655360 },      \
                { AMD_CLOCK_GFX, 2100 }, { AMD_CLOCK_SOC, 1200 }, { AMD_CLOCK_MEM, 1600 }, { AMD_CLOCK_VIDEO, 900 }, \
                { AMD_PCIE_WIDTH, 16 }, { AMD_PCIE_SPEED, 320 }, { AMD_XGMI_READ, 210 }, { AMD_XGMI_WRITE, 40 },     \
        {                                                                                                            \
                AMD_PCIE_REPLAYS, 17                                                                                 \
        }
#define RESIDENCY_VALUES                                                                      \
        { AMD_ACCUMULATION, 1000 }, { AMD_RESIDENCY_PROCHOT, 1 }, { AMD_RESIDENCY_POWER, 2 }, \
                { AMD_RESIDENCY_SOCKET_THERMAL, 3 }, { AMD_RESIDENCY_VR_THERMAL, 4 },         \
        {                                                                                     \
                AMD_RESIDENCY_HBM_THERMAL, 5                                                  \
        }

static const struct {
        const char *text;
        unsigned format, content;
        size_t size;
        struct right right[32];
} versions[] = {
        { HEAD(80, 1, 0) "u64 clock = 7\n" V1_HEAD "u32 energy = 655360\n" V1_CLOCKS
                         "u32 throttle = 3\nu16 fan = 1700\nu8 width = 16\nu8 speed = 80\npad 8\n",
          1,
          0,
          80,
          { V1_VALUES, { AMD_PCIE_WIDTH, 16 }, { AMD_PCIE_SPEED, 80 }, { AMD_ENERGY, NO }, { AMD_THROTTLE, NO } } },
        { HEAD(96, 1, 1) V1_1 "u32*2 acc\nu16*4 hbm = 70\n",
          1,
          1,
          96,
          { V1_VALUES, { AMD_PCIE_WIDTH, 16 }, { AMD_PCIE_SPEED, 160 }, { AMD_ENERGY, NO } } },
        { HEAD(104, 1, 2) V1_1 "u32*2 acc = 4000\nu16*4 hbm = 70\nu64 firmware = 1\n",
          1,
          2,
          104,
          { V1_VALUES, { AMD_ENERGY, 655360 }, { AMD_THROTTLE, NO } } },
        { HEAD(120, 1, 3) V1_1 "u32*2 acc = 4000\nu16*4 hbm = 70\nu64 firmware = 1\nu16*3 voltage = 9\nu16 pad1\n"
                               "u64 indep = 0x1000000001\n",
          1,
          3,
          120,
          { V1_VALUES, { AMD_ENERGY, 655360 }, { AMD_THROTTLE, 68719476737.0 } } },
        { HEAD(288, 1, 4) V1_4
          "u16*4 vcn = 3 9 1\nu64 energy = 655360\nu64 clock = 1\nu32 throttle = 1\nu32 lock = 0\n" LINKS
          "u64*8 xr = 10 20 30\nu64*8 xw = 5\n" CLOCKS,
          1,
          4,
          288,
          { V1_4_VALUES, { AMD_ACTIVITY_MEDIA, 9 } } },
        { HEAD(360, 1, 5) V1_4
          "u16*4 vcn = 3 9 1\nu16*32 jpeg = 4 5 0\nu64 energy = 655360\nu64 clock = 1\nu32 throttle = 1\n"
          "u32 lock = 0\n" LINKS "u32*2 nak = 1\nu64*8 xr = 10 20 30\nu64*8 xw = 5\n" CLOCKS,
          1,
          5,
          360,
          { V1_4_VALUES, { AMD_ACTIVITY_MEDIA, 9 }, { AMD_ACTIVITY_JPEG, 5 } } },
        { HEAD(384, 1, 6) V1_4
          "u16*4 vcn = 3 9 1\nu16*32 jpeg = 4 5 0\nu64 energy = 655360\nu64 clock = 1\n" RESIDENCIES
          "u32 throttle = 1\nu32 lock = 0\n" LINKS "u32*2 nak = 1\nu64*8 xr = 10 20 30\nu64*8 xw = 5\n" CLOCKS,
          1,
          6,
          384,
          { V1_4_VALUES, RESIDENCY_VALUES, { AMD_ACTIVITY_MEDIA, 9 }, { AMD_ACTIVITY_JPEG, 5 } } },
        { HEAD(1664, 1, 6) V1_4 "u64 energy = 655360\nu64 clock = 1\n" RESIDENCIES "u32 lock = 0\n" LINKS
                                "u32*2 nak = 1\nu64*8 xr = 10 20 30\nu64*8 xw = 5\n" CLOCKS
                                "u64*168 xcp = 1\nu32 other = 1\npad 8\n",
          1,
          6,
          1664,
          { V1_4_VALUES, RESIDENCY_VALUES, { AMD_ACTIVITY_MEDIA, NO } } },
        { HEAD(2208, 1, 7) V1_4 "u64 bandwidth_max = 5325\nu64 energy = 655360\nu64 clock = 1\n" RESIDENCIES
                                "u32 lock = 0\n" LINKS
                                "u32*2 nak = 1\nu64*8 xr = 10 20 30\nu64*8 xw = 5\nu16*8 status = 1\nu16 pad\n" CLOCKS
                                "u64*232 xcp = 1\nu32 other = 1\npad 8\n",
          1,
          7,
          2208,
          { V1_4_VALUES, RESIDENCY_VALUES, { AMD_BANDWIDTH_MAX, 5325 } } },
        { HEAD(3872, 1, 8) V1_4 "u64 bandwidth_max = 5325\nu64 energy = 655360\nu64 clock = 1\n" RESIDENCIES
                                "u32 lock = 0\n" LINKS
                                "u32*2 nak = 1\nu64*8 xr = 10 20 30\nu64*8 xw = 5\nu16*8 status = 1\nu16 pad\n" CLOCKS
                                "u64*440 xcp = 1\nu32 other = 1\npad 8\n",
          1,
          8,
          3872,
          { V1_4_VALUES, RESIDENCY_VALUES, { AMD_BANDWIDTH_MAX, 5325 } } },
        { HEAD(120, 2, 0) "u64 clock = 1\nu16*2 t = 45\nu16*8 tc = 1\nu16*2 tl3 = 1\nu16 gfx = 81\nu16 mm = 3\nu16*4 "
                          "power = 25\n"
                          "u16*8 core = 1\nu16*6 average = 1\nu16 gfxclk = 2100\nu16 socclk = 1200\nu16 uclk = "
                          "1600\nu16 fclk = 1\n"
                          "u16 vclk = 900\nu16 dclk = 1\nu16*8 cclk = 1\nu16*2 l3clk = 1\nu32 throttle = 1\nu16 pwm = "
                          "1\nu16 pad\n",
          2,
          0,
          120,
          { { AMD_CLOCK_GFX, 2100 },
            { AMD_CLOCK_SOC, 1200 },
            { AMD_CLOCK_MEM, 1600 },
            { AMD_CLOCK_VIDEO, 900 },
            { AMD_TEMPERATURE_EDGE, NO },
            { AMD_POWER, NO },
            { AMD_ACTIVITY_GFX, NO } } },
        { HEAD(120, 2, 1) V2_1,
          2,
          1,
          120,
          { { AMD_CLOCK_GFX, 2100 }, { AMD_CLOCK_VIDEO, 900 }, { AMD_THROTTLE, NO } } },
        { HEAD(128, 2, 2) V2_1 "u64 indep = 16\n", 2, 2, 128, { { AMD_CLOCK_MEM, 1600 }, { AMD_THROTTLE, 16 } } },
        { HEAD(152, 2, 3) V2_1 "u64 indep = 16\nu16*12 averages = 1\n",
          2,
          3,
          152,
          { { AMD_CLOCK_SOC, 1200 }, { AMD_THROTTLE, 16 }, { AMD_POWER, NO } } },
        { HEAD(168, 2, 4) V2_1 "u64 indep = 16\nu16*12 averages = 1\nu16*3 mv = 1\nu16*3 ma = 1\npad 8\n",
          2,
          4,
          168,
          { { AMD_TEMPERATURE_EDGE, 45 },
            { AMD_ACTIVITY_GFX, 81 },
            { AMD_ACTIVITY_MEDIA, 3 },
            { AMD_POWER, 25.4 },
            { AMD_POWER_GFX, 11 },
            { AMD_THROTTLE, 16 } } },
        { HEAD(264, 3,
               0) "u16*2 t = 4500\nu16*16 tc = 1\nu16 skin = 1\nu16 gfx = 81\nu16 vcn = 3\nu16*8 ipu = 1\nu16*16 c0 = "
                  "1\n"
                  "u16 reads = 21000\nu16 writes = 3000\nu16*2 ipurw = 1\nu64 clock = 1\nu32 socket = 25400\nu16 ipup "
                  "= 1\n"
                  "u32 apu = 1\nu32 gfxp = 11000\nu32 dgpu\nu32 all = 1\nu16*16 core = 1\nu16 sys = 1\nu16*2 stapm = "
                  "1\n"
                  "u16 gfxclk = 2100\nu16 socclk = 1200\nu16 vpe = 1\nu16 ipuclk = 1\nu16 fclk = 1\nu16 vclk = 900\n"
                  "u16 uclk = 1600\nu16 mpipu = 1\nu16*16 cclk = 1\nu16*2 most = 1\nu32 prochot = 1\nu32 spl = 2\nu32 "
                  "fppt = 3\n"
                  "u32 sppt = 4\nu32 core_t = 5\nu32 gfx_t = 6\nu32 soc_t = 7\nu32 alpha = 1\npad 8\n",
          3,
          0,
          264,
          { { AMD_TEMPERATURE_EDGE, 45 },
            { AMD_ACTIVITY_GFX, 81 },
            { AMD_ACTIVITY_MEDIA, 3 },
            { AMD_DRAM_READ, 21000 },
            { AMD_DRAM_WRITE, 3000 },
            { AMD_POWER, 25.4 },
            { AMD_POWER_GFX, 11 },
            { AMD_CLOCK_GFX, 2100 },
            { AMD_CLOCK_SOC, 1200 },
            { AMD_CLOCK_MEM, 1600 },
            { AMD_CLOCK_VIDEO, 900 },
            { AMD_RESIDENCY_PROCHOT, 1 },
            { AMD_RESIDENCY_SPL, 2 },
            { AMD_RESIDENCY_FPPT, 3 },
            { AMD_RESIDENCY_SPPT, 4 },
            { AMD_RESIDENCY_CORE_THERMAL, 5 },
            { AMD_RESIDENCY_GFX_THERMAL, 6 },
            { AMD_RESIDENCY_SOC_THERMAL, 7 } } },
};

static struct amdgpu_metrics parse(const void *data, size_t size, int right)
{
        struct amdgpu_metrics m;
        struct infp_err err = { "" };
        int r = infp_amdgpu_metrics_parse(data, size, &m, &err);

        if (r != right)
                fail_msg("%d, not %d: %s", r, right, err.text);
        if (r < 0) {
                assert_true(*err.text);
                assert_int_equal(m.has, 0);
        }
        return m;
}

static void test_each_version(void **state)
{
        static uint8_t table[GPU_TABLE_MAX];

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(versions); i++) {
                size_t size = gpu_table_from_text(versions[i].text, table);
                struct amdgpu_metrics m;

                if (size != versions[i].size)
                        fail_msg("%u.%u has %zu bytes", versions[i].format, versions[i].content, size);
                m = parse(table, size, 0);
                assert_int_equal(m.format, versions[i].format);
                assert_int_equal(m.content, versions[i].content);
                for (size_t k = 0; k < INFP_COUNT(versions[i].right) && versions[i].right[k].value != 0; k++) {
                        const struct right *right = &versions[i].right[k];
                        const bool has = amdgpu_has(&m, right->metric);

                        if (has != (right->value != NO))
                                fail_msg("%u.%u: metric %d is %s", m.format, m.content, right->metric,
                                         has ? "there" : "absent");
                        if (has && fabs(m.value[right->metric] - right->value) > 1e-9 * right->value)
                                fail_msg("%u.%u: metric %d is %g, not %g", m.format, m.content, right->metric,
                                         m.value[right->metric], right->value);
                }
        }
}

static void test_absent(void **state)
{
        static uint8_t table[GPU_TABLE_MAX];

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(versions); i++) {
                size_t size = gpu_table_from_text(versions[i].text, table);

                memset(table + 4, 0xff, size - 4);
                assert_int_equal(parse(table, size, 0).has, 0);
        }
}

/* What the kernel has not written is not read. */
static void test_cut(void **state)
{
        static uint8_t table[GPU_TABLE_MAX];

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(versions); i++) {
                size_t size = gpu_table_from_text(versions[i].text, table);

                for (size_t n = 0; n < size; n++) {
                        uint8_t *exact = malloc(n ? n : 1); /* so that the sanitizer sees one byte too many */

                        assert_non_null(exact);
                        memcpy(exact, table, n);
                        parse(exact, n, -EBADMSG);
                        free(exact);
                }
        }
}

static void test_unsound(void **state)
{
        uint8_t table[512];

        (void) state;
        memset(table, 0xff, sizeof(table));
        table[0] = table[1] = 0;
        parse(table, sizeof(table), -ENOTSUP); /* version 255.255 */
        table[2] = 1;
        table[3] = 3;
        parse(table, sizeof(table), -EBADMSG); /* says that it has 0 bytes */
        table[0] = 119;
        parse(table, sizeof(table), -EBADMSG); /* one byte less than that version */
        table[0] = 120;
        assert_int_equal(parse(table, sizeof(table), 0).has, 0);
        table[3] = 99;
        parse(table, sizeof(table), -ENOTSUP);
}

static void test_impossible(void **state)
{
        static uint8_t table[GPU_TABLE_MAX];
        struct amdgpu_metrics m;
        size_t size = gpu_table_from_text(
                HEAD(120, 1, 3) "u16 edge = 300\nu16 hotspot = 62\nu16 mem = 65000\nu16*3 vr = 1\nu16 gfx = 101\n"
                                "u16 umc = 100\nu16 mm = 6000\nu16 power = 60000\nu64*12 rest\n",
                table);

        (void) state;
        m = parse(table, size, 0);
        assert_false(amdgpu_has(&m, AMD_TEMPERATURE_EDGE));
        assert_true(amdgpu_has(&m, AMD_TEMPERATURE_HOTSPOT));
        assert_false(amdgpu_has(&m, AMD_TEMPERATURE_MEM));
        assert_false(amdgpu_has(&m, AMD_ACTIVITY_GFX));
        assert_true(amdgpu_has(&m, AMD_ACTIVITY_UMC));
        assert_false(amdgpu_has(&m, AMD_ACTIVITY_MEDIA));
        assert_false(amdgpu_has(&m, AMD_POWER));
}

/* 1.9: {unit, type, id, how many} in 64 bits, then the values, without alignment. */
struct attributes {
        uint8_t data[1024];
        size_t size;
        uint32_t n;
};

enum { T_U8, T_S8, T_U16, T_S16, T_U32, T_S32, T_U64, T_S64 };

static void put(struct attributes *a, const void *data, size_t size)
{
        memcpy(a->data + a->size, data, size);
        a->size += size;
}

static void attribute(struct attributes *a, unsigned unit, unsigned type, unsigned id, unsigned n,
                      const uint64_t *values)
{
        uint64_t head = (uint64_t) unit << 24 | (uint64_t) type << 20 | (uint64_t) id << 10 | n;

        put(a, &head, sizeof(head));
        for (unsigned i = 0; i < n; i++)
                put(a, &values[i], 1u << type / 2);
        a->n++;
}

static void finish(struct attributes *a)
{
        a->data[0] = (uint8_t) a->size;
        a->data[1] = (uint8_t) (a->size >> 8);
        a->data[2] = 1;
        a->data[3] = 9;
        memcpy(a->data + 4, &a->n, sizeof(a->n));
}

static void test_attributes(void **state)
{
        static const uint64_t hotspot[] = { 62 }, power[] = { 254 }, clocks[] = { 2090, 2100, UINT32_MAX },
                              energy[] = { 655360 }, speed[] = { 32 }, none[] = { UINT64_MAX }, unknown[] = { 1, 2, 3 },
                              links[] = { 7, UINT64_MAX, 5 };
        struct attributes a = { .size = 8 };
        struct amdgpu_metrics m;

        (void) state;
        attribute(&a, 2, T_S16, 0, 1, hotspot);
        attribute(&a, 0, T_U8, 900, 3, unknown);
        attribute(&a, 3, T_U16, 3, 1, power);
        attribute(&a, 1, T_U32, 33, 3, clocks);
        attribute(&a, 0, T_U64, 7, 1, energy);
        attribute(&a, 6, T_U16, 17, 1, speed); /* in GT/s, not in tenths */
        attribute(&a, 10, T_U16, 4, 1, none);
        attribute(&a, 9, T_U64, 29, 3, links);
        finish(&a);
        m = parse(a.data, a.size, 0);
        assert_int_equal(m.content, 9);
        assert_true(m.value[AMD_TEMPERATURE_HOTSPOT] == 62 && m.value[AMD_POWER] == 254);
        assert_true(m.value[AMD_CLOCK_GFX] == 2100 && m.value[AMD_ENERGY] == 655360);
        assert_true(m.value[AMD_PCIE_SPEED] == 320 && m.value[AMD_XGMI_READ] == 12);
        assert_false(amdgpu_has(&m, AMD_ACTIVITY_GFX));

        a.n = 1000000; /* more than there are */
        finish(&a);
        parse(a.data, a.size, -EBADMSG);
}

static void test_attributes_unsound(void **state)
{
        static const uint64_t one[] = { 1 };
        struct attributes a = { .size = 8 };
        uint64_t head = 1023; /* so many values of one byte do not follow */

        (void) state;
        attribute(&a, 0, T_U64, 7, 1, one);
        put(&a, &head, sizeof(head));
        a.n++;
        finish(&a);
        parse(a.data, a.size, -EBADMSG);
        a.data[a.size - 8] = 1; /* one value, of a type that there is not */
        a.data[a.size - 7] = 0;
        a.data[a.size - 6] = 0xf0;
        a.size += 8;
        finish(&a);
        parse(a.data, a.size, -EBADMSG);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_each_version),
                cmocka_unit_test(test_absent),
                cmocka_unit_test(test_cut),
                cmocka_unit_test(test_unsound),
                cmocka_unit_test(test_impossible),
                cmocka_unit_test(test_attributes),
                cmocka_unit_test(test_attributes_unsound),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
