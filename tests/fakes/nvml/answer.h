/* Ways in which many functions of NVML answer alike. */
#pragma once

#include "script.h"
#include "shapes.h"

/* Exported; NVIDIA's names have no prototype here. */
#define NVML(name, ...)                                               \
        __attribute__((visibility("default"))) int name(__VA_ARGS__); \
        int name(__VA_ARGS__)

#define ENTER(device)                                               \
        do {                                                        \
                const int r_ = fake_device_enter(device, __func__); \
                if (r_)                                             \
                        return r_;                                  \
        } while (0)
/* Power, clocks of the board and the like belong to the GPU, never to a MIG device. */
#define ENTER_WHOLE(device)                        \
        do {                                       \
                ENTER(device);                     \
                if ((device)->part != FAKE_WHOLE)  \
                        return NVML_NOT_SUPPORTED; \
        } while (0)
#define ENTER_SYSTEM()                                     \
        do {                                               \
                const int r_ = fake_enter(NULL, __func__); \
                if (r_)                                    \
                        return r_;                         \
        } while (0)

/* A handle that was never given out is refused. */
int fake_device_enter(const struct fake_device *device, const char *function);
const struct fake_device *fake_device_at(int index, int part);
bool fake_has_part(const struct fake_device *whole, int part);

int fake_give_u32(const struct fake_device *device, const char *key, uint32_t *ret);
int fake_give_u64(const struct fake_device *device, const char *key, uint64_t *ret);
int fake_give_text(const struct fake_device *device, const char *key, char *ret, uint32_t size);
uint32_t fake_version(size_t size, unsigned version); /* the word that a structure must bring */
