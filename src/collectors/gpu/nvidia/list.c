#include "collectors/gpu/nvidia/list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"

/* Linux has no higher pid; instances of MIG are numbered from 0 to 14; no GPU has a pebibyte. */
enum { PID_MAX = 4194304, INSTANCE_MAX = 64 };
static const uint64_t memory_max = UINT64_C(1) << 50;

static struct nvml_process record_at(const void *records, uint32_t index, size_t stride)
{
        struct nvml_process record = { .gpu_instance = NVML_NONE_U32, .compute_instance = NVML_NONE_U32 };
        const size_t size = stride < sizeof(record) ? stride : sizeof(record);

        memcpy(&record, (const char *) records + index * stride, size);
        return record;
}

static bool is_instance(uint32_t instance)
{
        return instance == NVML_NONE_U32 || instance <= INSTANCE_MAX;
}

/* The memory figures show the length of records; an odd one is no reason to drop a process. */
static bool are_sound(const void *records, uint32_t n, size_t stride, bool with_memory)
{
        for (uint32_t i = 0; i < n; i++) {
                const struct nvml_process record = record_at(records, i, stride);

                if (!record.pid || record.pid > PID_MAX)
                        return false;
                if (with_memory && record.memory != NVML_NONE_U64 && record.memory > memory_max)
                        return false;
                if (!is_instance(record.gpu_instance) || !is_instance(record.compute_instance))
                        return false;
        }
        return true;
}

/* What follows n records was not written. */
static bool ends_there(const void *records, uint32_t n, size_t size, size_t stride)
{
        const unsigned char *at = records;

        for (size_t i = n * stride; i < n * stride + 8; i++)
                if (i >= size || at[i] != NVIDIA_POISON)
                        return false;
        return true;
}

static size_t stride_of(const void *records, uint32_t n, size_t size, size_t shorter, size_t longer, bool with_memory)
{
        const bool fits_short = n <= size / shorter && are_sound(records, n, shorter, with_memory),
                   fits_long = n <= size / longer && are_sound(records, n, longer, with_memory);

        if (fits_short && fits_long)
                return !ends_there(records, n, size, shorter) && ends_there(records, n, size, longer) ? longer
                                                                                                      : shorter;
        return fits_short ? shorter : fits_long ? longer : 0;
}

size_t infp_nvidia_stride(const void *records, uint32_t n, size_t size, size_t shorter, size_t longer)
{
        const size_t stride = stride_of(records, n, size, shorter, longer, true);

        return stride ? stride : stride_of(records, n, size, shorter, longer, false);
}

static struct nvidia_process *find(const struct nvidia_list *list, const struct nvml_process *record)
{
        for (uint32_t i = 0; i < list->n; i++)
                if (list->at[i].pid == record->pid && list->at[i].gpu_instance == record->gpu_instance &&
                    list->at[i].compute_instance == record->compute_instance)
                        return &list->at[i];
        return NULL;
}

static struct nvidia_process *append(struct nvidia_list *list)
{
        if (!INFP_MAKE_ROOM(list->at, list->n, list->cap, 16))
                return NULL;
        return &list->at[list->n++];
}

/* Unknown is less than any figure. */
static uint64_t larger(uint64_t a, uint64_t b)
{
        if (a == NVML_NONE_U64 || b == NVML_NONE_U64)
                return a == NVML_NONE_U64 ? b : a;
        return a > b ? a : b;
}

int infp_nvidia_list_add(struct nvidia_list *list, const void *records, uint32_t n, size_t size, size_t stride,
                         unsigned type)
{
        if (!stride || n > size / stride || !are_sound(records, n, stride, false))
                return -EBADMSG;
        for (uint32_t i = 0; i < n; i++) {
                struct nvml_process record = record_at(records, i, stride);
                struct nvidia_process *process = find(list, &record);

                if (record.memory != NVML_NONE_U64 &&
                    record.memory > (list->most_bytes ? list->most_bytes : memory_max)) {
                        list->refused_bytes = record.memory;
                        record.memory = NVML_NONE_U64;
                }
                if (!process) {
                        process = append(list);
                        if (!process)
                                return -ENOMEM;
                        *process = (struct nvidia_process){ .pid = record.pid,
                                                            .gpu_instance = record.gpu_instance,
                                                            .compute_instance = record.compute_instance,
                                                            .memory = NVML_NONE_U64,
                                                            .jpeg = NVML_NONE_U32,
                                                            .ofa = NVML_NONE_U32 };
                }
                process->memory = larger(process->memory, record.memory);
                process->types |= type;
        }
        return 0;
}

static int by_pid(const void *a, const void *b)
{
        const struct nvidia_process *x = a, *y = b;

        return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static void join(struct nvidia_process *process, const struct nvidia_process *other)
{
        if (process->memory == NVML_NONE_U64)
                process->memory = other->memory;
        else if (other->memory != NVML_NONE_U64)
                process->memory += other->memory;
        if (process->gpu_instance != other->gpu_instance)
                process->gpu_instance = process->compute_instance = NVML_NONE_U32;
        else if (process->compute_instance != other->compute_instance)
                process->compute_instance = NVML_NONE_U32;
        process->types |= other->types;
}

void infp_nvidia_list_fold(struct nvidia_list *list)
{
        uint32_t n = 0;

        infp_sort(list->at, list->n, sizeof(*list->at), by_pid);
        for (uint32_t i = 0; i < list->n; i++) {
                if (n && list->at[n - 1].pid == list->at[i].pid)
                        join(&list->at[n - 1], &list->at[i]);
                else
                        list->at[n++] = list->at[i];
        }
        list->n = n;
}

static bool is_share(uint32_t share)
{
        return share <= 100;
}

static bool is_optional_share(uint32_t share)
{
        return is_share(share) || share == NVML_NONE_U32;
}

void infp_nvidia_list_share(struct nvidia_list *list, const struct nvml_process_share *share, uint64_t since_us,
                            uint64_t now_us)
{
        const bool is_sound = is_share(share->sm) && is_share(share->memory) && is_share(share->encoder) &&
                              is_share(share->decoder) && is_optional_share(share->jpeg) &&
                              is_optional_share(share->ofa);

        if (share->time_us <= since_us || share->time_us > now_us)
                return;
        for (uint32_t i = 0; i < list->n; i++) {
                struct nvidia_process *process = &list->at[i];

                if (process->pid != share->pid || process->time_us >= share->time_us)
                        continue;
                process->is_unsound = !is_sound;
                if (!is_sound)
                        continue;
                process->time_us = share->time_us;
                process->sm = share->sm;
                process->mem = share->memory;
                process->encoder = share->encoder;
                process->decoder = share->decoder;
                process->jpeg = share->jpeg;
                process->ofa = share->ofa;
        }
}

void infp_nvidia_type_word(unsigned types, char ret[4])
{
        size_t n = 0;

        if (types & NVIDIA_COMPUTE)
                ret[n++] = 'C';
        if (types & NVIDIA_GRAPHICS)
                ret[n++] = 'G';
        if (types & NVIDIA_MPS)
                ret[n++] = 'M';
        ret[n] = 0;
}
