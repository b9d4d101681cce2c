/* Lists of processes as drivers write them: records of three lengths under one name, a process in several lists, rests of old
 * samples. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collectors/gpu/nvidia/list.h"

#define MIB (UINT64_C(1) << 20)
enum { NONE = -1, ROOM = 8 * 32 };

struct memory {
        unsigned char at[ROOM];
        size_t size; /* written so far */
};

static void poison(struct memory *m)
{
        memset(m, NVIDIA_POISON, sizeof(*m));
        m->size = 0;
}

/* A record of 16, 24 or 32 bytes, as the ABI lays it out. */
static void put(struct memory *m, size_t stride, uint32_t pid, uint64_t bytes, uint32_t gi, uint32_t ci)
{
        unsigned char *to = m->at + m->size;
        const uint64_t protected_bytes = 0;
        const uint32_t pad = 0;

        memcpy(to, &pid, 4);
        memcpy(to + 4, &pad, 4);
        memcpy(to + 8, &bytes, 8);
        if (stride >= 24) {
                memcpy(to + 16, &gi, 4);
                memcpy(to + 20, &ci, 4);
        }
        if (stride == 32)
                memcpy(to + 24, &protected_bytes, 8);
        m->size += stride;
}

static void stride_is_found(void **state)
{
        static const size_t written[] = { 16, 24, 32 };

        (void) state;
        for (size_t i = 0; i < 3; i++) {
                for (uint32_t n = 1; n <= 7; n++) {
                        const size_t shorter = written[i] == 16 ? 16 : 24, longer = written[i] == 16 ? 24 : 32;
                        struct memory m;
                        size_t stride;

                        poison(&m);
                        for (uint32_t k = 0; k < n; k++)
                                put(&m, written[i], 7100 + k, (512 + k) * MIB, (uint32_t) NONE, (uint32_t) NONE);
                        stride = infp_nvidia_stride(m.at, n, sizeof(m.at), shorter, longer);
                        assert_int_equal(stride, written[i]);
                }
        }
}

/* A call without suffix that writes records of 24 bytes, as was seen with some drivers. */
static void longer_records_under_the_old_name(void **state)
{
        struct memory m;

        (void) state;
        poison(&m);
        put(&m, 24, 100, 5 * MIB, (uint32_t) NONE, (uint32_t) NONE);
        put(&m, 24, 200, 6 * MIB, (uint32_t) NONE, (uint32_t) NONE);
        assert_int_equal(infp_nvidia_stride(m.at, 2, sizeof(m.at), 16, 24), 24);
        /* On MIG the words behind are small numbers, that could be pids: what lies behind the records tells. */
        poison(&m);
        put(&m, 24, 100, 5 * MIB, 3, 0);
        assert_int_equal(infp_nvidia_stride(m.at, 1, sizeof(m.at), 16, 24), 24);
}

static void unsound_records_are_refused(void **state)
{
        struct memory m;
        struct nvidia_list list = { 0 };

        (void) state;
        poison(&m);
        assert_int_equal(infp_nvidia_stride(m.at, 1, sizeof(m.at), 24, 32), 0); /* nothing was written */
        put(&m, 24, 0, 5 * MIB, (uint32_t) NONE, (uint32_t) NONE);
        assert_int_equal(infp_nvidia_stride(m.at, 1, sizeof(m.at), 24, 32), 0); /* pid 0 */
        poison(&m);
        put(&m, 24, 4194305, 5 * MIB, (uint32_t) NONE, (uint32_t) NONE);
        assert_int_equal(infp_nvidia_stride(m.at, 1, sizeof(m.at), 24, 32), 0);
        assert_int_equal(infp_nvidia_list_add(&list, m.at, 1, sizeof(m.at), 24, NVIDIA_COMPUTE), -EBADMSG);
        assert_int_equal(infp_nvidia_list_add(&list, m.at, 1, sizeof(m.at), 0, NVIDIA_COMPUTE), -EBADMSG);
        assert_int_equal(infp_nvidia_stride(m.at, 1000000, sizeof(m.at), 24, 32), 0); /* more than there is room for */
        assert_int_equal(infp_nvidia_list_add(&list, m.at, 1000000, sizeof(m.at), 24, NVIDIA_COMPUTE), -EBADMSG);
        assert_int_equal(list.n, 0);
        free(list.at);
}

/* It alone is not known: the process is, and so are all others. */
static void memory_that_cannot_be(void **state)
{
        static const uint64_t sizes[] = { UINT64_C(30) << 40, UINT64_C(1) << 60 }; /* 30 TiB of 22 GiB */
        struct memory m;

        (void) state;
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                struct nvidia_list list = { .most_bytes = UINT64_C(22) << 30 };

                poison(&m);
                put(&m, 24, 5, sizes[i], (uint32_t) NONE, (uint32_t) NONE);
                put(&m, 24, 6, 512 * MIB, (uint32_t) NONE, (uint32_t) NONE);
                assert_int_equal(infp_nvidia_stride(m.at, 2, sizeof(m.at), 24, 32), 24);
                assert_int_equal(infp_nvidia_list_add(&list, m.at, 2, sizeof(m.at), 24, NVIDIA_COMPUTE), 0);
                assert_int_equal(list.n, 2);
                assert_true(list.at[0].memory == NVML_NONE_U64 && list.at[1].memory == 512 * MIB);
                assert_true(list.refused_bytes == sizes[i]);
                free(list.at);
        }
}

/* Report 10: 7100 computes and draws, and is there once with its memory once. */
static void in_two_lists_once(void **state)
{
        struct memory m;
        struct nvidia_list list = { 0 };
        uint64_t sum = 0;
        char type[4];

        (void) state;
        poison(&m);
        put(&m, 24, 7200, 512 * MIB, (uint32_t) NONE, (uint32_t) NONE);
        put(&m, 24, 7100, 2048 * MIB, (uint32_t) NONE, (uint32_t) NONE);
        assert_int_equal(infp_nvidia_list_add(&list, m.at, 2, sizeof(m.at), 24, NVIDIA_COMPUTE), 0);
        poison(&m);
        put(&m, 16, 7300, 64 * MIB, 0, 0);
        put(&m, 16, 7100, NVML_NONE_U64, 0, 0); /* this list does not know its memory */
        assert_int_equal(infp_nvidia_list_add(&list, m.at, 2, sizeof(m.at), 16, NVIDIA_GRAPHICS), 0);
        infp_nvidia_list_fold(&list);
        assert_int_equal(list.n, 3);
        for (uint32_t i = 0; i < list.n; i++)
                sum += list.at[i].memory;
        assert_int_equal(sum, 2624 * MIB);
        assert_int_equal(list.at[0].pid, 7100);
        infp_nvidia_type_word(list.at[0].types, type);
        assert_string_equal(type, "CG");
        infp_nvidia_type_word(list.at[1].types, type);
        assert_string_equal(type, "C");
        infp_nvidia_type_word(list.at[2].types | NVIDIA_MPS, type);
        assert_string_equal(type, "GM");
        free(list.at);
}

/* On two MIG devices of one GPU it has memory on both. */
static void on_two_instances(void **state)
{
        struct memory m;
        struct nvidia_list list = { 0 };

        (void) state;
        poison(&m);
        put(&m, 24, 50, 100 * MIB, 1, 0);
        put(&m, 24, 50, 200 * MIB, 2, 0);
        put(&m, 24, 60, 7 * MIB, 2, 1);
        put(&m, 24, 70, NVML_NONE_U64, 2, 1);
        assert_int_equal(infp_nvidia_list_add(&list, m.at, 4, sizeof(m.at), 24, NVIDIA_COMPUTE), 0);
        assert_int_equal(list.n, 4);
        infp_nvidia_list_fold(&list);
        assert_int_equal(list.n, 3);
        assert_int_equal(list.at[0].memory, 300 * MIB);
        assert_int_equal(list.at[0].gpu_instance, NVML_NONE_U32);
        assert_int_equal(list.at[1].gpu_instance, 2);
        assert_int_equal(list.at[1].compute_instance, 1);
        assert_true(list.at[2].memory == NVML_NONE_U64);
        free(list.at);
}

static void shares_are_filtered(void **state)
{
        static const struct {
                struct nvml_process_share share;
                uint32_t sm; /* of pid 50 afterwards */
        } cases[] = {
                { { .time_us = 900, .pid = 50, .sm = 99 }, 0 },                 /* older than what was asked for */
                { { .time_us = 1000, .pid = 50, .sm = 99 }, 0 },                /* not newer */
                { { .time_us = 2001, .pid = 50, .sm = 99 }, 0 },                /* from the future */
                { { .time_us = 1500, .pid = 50, .sm = 101 }, 0 },               /* no share */
                { { .time_us = 1500, .pid = 50, .sm = 10, .memory = 400 }, 0 }, /* as a whole not to be trusted */
                { { .time_us = 1500, .pid = 51, .sm = 10 }, 0 },                /* nobody who is in a list */
                { { .time_us = 1500, .pid = 50, .sm = 40, .jpeg = 3 }, 40 },    /* sound */
                { { .time_us = 1400, .pid = 50, .sm = 20 }, 40 },               /* an older one */
                { { .time_us = 1600, .pid = 50, .sm = 0, .ofa = UINT32_MAX },
                  0 }, /* the newest holds, also when it is 0 */
        };
        struct nvidia_process process = { .pid = 50 };
        struct nvidia_list list = { .at = &process, .n = 1, .cap = 1 };

        (void) state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                infp_nvidia_list_share(&list, &cases[i].share, 1000, 2000);
                assert_int_equal(process.sm, cases[i].sm);
        }
        assert_int_equal(process.time_us, 1600);
        assert_int_equal(process.ofa, NVML_NONE_U32);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(stride_is_found),
                cmocka_unit_test(longer_records_under_the_old_name),
                cmocka_unit_test(unsound_records_are_refused),
                cmocka_unit_test(memory_that_cannot_be),
                cmocka_unit_test(in_two_lists_once),
                cmocka_unit_test(on_two_instances),
                cmocka_unit_test(shares_are_filtered),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
