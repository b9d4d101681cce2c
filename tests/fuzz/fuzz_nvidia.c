/* Memory that a driver has written, of any content: the reading of its lists stays within, and what it makes of them is sound. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "collectors/gpu/nvidia/list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool truth)
{
        if (!truth)
                abort();
}

static void add(struct nvidia_list *list, const uint8_t *data, size_t size, uint32_t n, size_t shorter, size_t longer,
                unsigned type)
{
        const size_t stride = infp_nvidia_stride(data, n, size, shorter, longer);
        const int r = infp_nvidia_list_add(list, data, n, size, stride, type);

        expect(stride == 0 || stride == shorter || stride == longer);
        expect((r == -EBADMSG) == (stride == 0));
        expect(stride == 0 || n * stride <= size);
}

/* First byte: how many records; second: which call. The rest is what the driver wrote, and poison that it did not. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct nvidia_list list = { 0 };
        char type[4];

        if (size < 2)
                return 0;
        add(&list, data + 2, size - 2, data[0], data[1] & 1 ? 16 : 24, data[1] & 1 ? 24 : 32, NVIDIA_COMPUTE);
        add(&list, data + 2, size - 2, (data[0] + 1u) / 2, 24, 32, NVIDIA_GRAPHICS);
        for (size_t at = 2; at + sizeof(struct nvml_process_share) <= size; at += sizeof(struct nvml_process_share)) {
                struct nvml_process_share share;

                memcpy(&share, data + at, sizeof(share));
                infp_nvidia_list_share(&list, &share, 1000, UINT64_C(1) << 60);
        }
        infp_nvidia_list_fold(&list);
        for (uint32_t i = 0; i < list.n; i++) {
                const struct nvidia_process *process = &list.at[i];

                expect(process->pid > 0 && process->pid <= 4194304 && (!i || process->pid > list.at[i - 1].pid));
                expect(process->sm <= 100 && process->mem <= 100 && process->encoder <= 100 && process->decoder <= 100);
                expect(process->types);
                infp_nvidia_type_word(process->types, type);
                expect(strlen(type) >= 1 && strlen(type) <= 2);
        }
        free(list.at);
        return 0;
}
