#include "answer.h"

#include <string.h>

static struct fake_device devices[FAKE_DEVICES][1 + FAKE_PARTS];

const struct fake_device *fake_device_at(int index, int part)
{
        struct fake_device *device = &devices[index][1 + part];

        *device = (struct fake_device){ .index = index, .part = part };
        return device;
}

bool fake_has_part(const struct fake_device *whole, int part)
{
        const struct fake_device device = { .index = whole->index, .part = part };

        return fake_text(&device, "uuid") != NULL;
}

int fake_device_enter(const struct fake_device *device, const char *function)
{
        const struct fake_device *first = &devices[0][0];
        const size_t n = sizeof(devices) / sizeof(*first);

        if (device < first || device >= first + n)
                return fake_enter(NULL, function) == NVML_UNINITIALIZED ? NVML_UNINITIALIZED : NVML_INVALID_ARGUMENT;
        return fake_enter(device, function);
}

int fake_give_u32(const struct fake_device *device, const char *key, uint32_t *ret)
{
        uint64_t v;

        if (!ret)
                return NVML_INVALID_ARGUMENT;
        if (!fake_u64(device, key, &v))
                return NVML_NOT_SUPPORTED;
        *ret = (uint32_t) v;
        return NVML_OK;
}

int fake_give_u64(const struct fake_device *device, const char *key, uint64_t *ret)
{
        if (!ret)
                return NVML_INVALID_ARGUMENT;
        return fake_u64(device, key, ret) ? NVML_OK : NVML_NOT_SUPPORTED;
}

int fake_give_text(const struct fake_device *device, const char *key, char *ret, uint32_t size)
{
        const char *text = fake_text(device, key);

        if (!ret)
                return NVML_INVALID_ARGUMENT;
        if (!text)
                return NVML_NOT_SUPPORTED;
        if (strlen(text) >= size)
                return NVML_INSUFFICIENT_SIZE;
        strcpy(ret, text);
        return NVML_OK;
}

uint32_t fake_version(size_t size, unsigned version)
{
        return (uint32_t) size | version << 24;
}
