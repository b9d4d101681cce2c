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
        bool is_unsound;  /* the driver's last sample of it is invalid: its shares are not known */
        uint32_t sm, mem, encoder, decoder, jpeg,
                ofa; /* %; the last two NVML_NONE_U32 when the driver does not report them */
};

struct nvidia_list {
        struct nvidia_process *at;
        uint32_t n, cap;
        uint64_t most_bytes;    /* the most that a process can have: that of the GPU; 0: not known */
        uint64_t refused_bytes; /* an impossible figure of the driver; 0: none */
};

/* Byte that fills the memory for records before the driver writes them. */
enum { NVIDIA_POISON = 0xa5 };

/* The length of a record in bytes, which changed between drivers under one name: `shorter` or `longer`, whichever gives n
 * sound records and leaves what follows them unchanged; 0: neither. `size` bytes were poisoned before the call. */
size_t infp_nvidia_stride(const void *records, uint32_t n, size_t size, size_t shorter, size_t longer);

/* Adds the records of one list. A process in several lists (it computes and draws) is added once: its memory is the larger
 * figure, not the sum. Impossible memory is not known. 0, -EBADMSG (no sound records), -ENOMEM. */
int infp_nvidia_list_add(struct nvidia_list *list, const void *records, uint32_t n, size_t size, size_t stride,
                         unsigned type);

/* One entry per pid, in order: memory on several MIG devices is added up. */
void infp_nvidia_list_fold(struct nvidia_list *list);

/* Takes the newest sound sample of a process in the list. Drivers return leftovers of long ended processes, shares above 100
 * % and stamps before the requested time. */
void infp_nvidia_list_share(struct nvidia_list *list, const struct nvml_process_share *share, uint64_t since_us,
                            uint64_t now_us);

/* "C", "G", "CG", "CM" ... */
void infp_nvidia_type_word(unsigned types, char ret[4]);
