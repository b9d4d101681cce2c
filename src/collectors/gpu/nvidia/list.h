/* Processes on one GPU, from the driver's lists. Pure: no driver is called here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectors/gpu/nvidia/nvml.h"

enum { NVIDIA_COMPUTE = 1, NVIDIA_GRAPHICS = 2, NVIDIA_MPS = 4 };

struct nvidia_process {
        uint32_t pid;
        uint32_t gpu_instance, compute_instance; /* NVML_NONE_U32: none, or several */
        uint64_t memory;                         /* bytes; NVML_NONE_U64: not known */
        unsigned types;
        uint64_t time_us; /* of the driver's sample of its shares; 0: none */
        bool is_unsound;  /* the driver's last sample of it is not valid: what it did is not known */
        uint32_t sm, mem, encoder, decoder, jpeg,
                ofa; /* %; the last two NVML_NONE_U32 when the driver does not report them */
};

struct nvidia_list {
        struct nvidia_process *at;
        uint32_t n, cap;
        uint64_t most_bytes;    /* that a process can have: what the GPU has; 0: not known */
        uint64_t refused_bytes; /* what the driver said of one that cannot be; 0: nothing */
};

/* Byte that fills the memory that the driver is to write records into. */
enum { NVIDIA_POISON = 0xa5 };

/* How many bytes a record has, which changed between drivers under one name: `shorter` or `longer`, whichever gives n sound
 * records and leaves what follows them alone; 0: neither. `size` bytes were poisoned before the call. */
size_t infp_nvidia_stride(const void *records, uint32_t n, size_t size, size_t shorter, size_t longer);

/* Adds the records of one list. A process that is in several lists (it computes and draws) is there once: its memory is the
 * larger figure, not the sum. Memory that cannot be is not known. 0, -EBADMSG (no sound records), -ENOMEM. */
int infp_nvidia_list_add(struct nvidia_list *list, const void *records, uint32_t n, size_t size, size_t stride,
                         unsigned type);

/* One entry a pid, in their order: memory on several MIG devices is added up. */
void infp_nvidia_list_fold(struct nvidia_list *list);

/* Takes the newest sound sample of a process that is in the list. Drivers give rests of processes long gone, shares above 100 %
 * and stamps before the time asked for. */
void infp_nvidia_list_share(struct nvidia_list *list, const struct nvml_process_share *share, uint64_t since_us,
                            uint64_t now_us);

/* "C", "G", "CG", "CM" ... */
void infp_nvidia_type_word(unsigned types, char ret[4]);
