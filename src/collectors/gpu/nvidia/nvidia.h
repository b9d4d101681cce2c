/* Parts of the collector `nvidia`. All of it runs in the collector's own thread: the driver may take milliseconds for a call
 * and seconds for its start.
 *
 * A call that a GPU refuses for good (not supported, no permission, unknown to the library) is not made again: `refused` has
 * the cell that it would fill. A call that reports that the GPU is lost ends the reading of that GPU only: it has no row
 * until it answers again. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "collect/collector.h"
#include "collectors/gpu/drm/energy.h"
#include "collectors/gpu/nvidia/list.h"
#include "collectors/gpu/nvidia/nvml.h"
#include "collectors/gpu/pids.h"
#include "collectors/gpu/table.h"

enum { NVIDIA_MAX_GPUS = 64, NVIDIA_MAX_CELLS = INFP_MAX_COLUMNS };

/* Cells whose values hold for longer than a sample. */
struct nvidia_kept {
        bool is_filled;
        uint64_t valid[2];
        union infp_cell cell[NVIDIA_MAX_CELLS];
};

/* Two samples of the counters in the chip; metrics lie between them. */
struct nvidia_gpm {
        nvml_gpm_sample older, newer;
        uint64_t newer_ns; /* 0: none taken yet */
        bool is_refused, has_values;
        double value[NVML_GPM_METRICS];
        bool has[NVML_GPM_METRICS];
};

struct nvidia_mig {
        nvml_device handle;
        uint32_t number, gpu_instance, compute_instance;
        char uuid[NVML_NAME_SIZE], name[NVML_NAME_SIZE];
        bool has_attributes;
        struct nvml_attributes attributes;
        uint32_t n_processes;
        struct nvidia_gpm gpm;
};

/* A counter of the driver that may have only 32 bits. */
struct nvidia_wrapping {
        bool has_last;
        uint64_t last, sum;
};

struct nvidia_device {
        unsigned index;
        nvml_device handle; /* NULL: not open */
        char uuid[NVML_NAME_SIZE], name[NVML_NAME_SIZE], bus_id[32], architecture[16], vbios[32];
        char said_as[NVML_NAME_SIZE]; /* instance under which `sources` has its fault; "" none */
        int fault;                    /* enum nvml_result that ended its reading; 0 */
        unsigned n_failures;
        uint64_t retry_ns;

        uint64_t refused[2];
        int16_t why[NVIDIA_MAX_CELLS]; /* enum nvml_result of a refused cell */
        uint64_t said[2];              /* cells with a reason in `sources` for this GPU alone */
        struct nvidia_kept fixed, slow;
        uint64_t slow_ns;
        uint32_t bus_width;
        char recovery[24], fans[768];
        bool has_old_memory, has_old_temperature, has_events, has_no_fields;
        unsigned checked_violations; /* by policy: the field's unit was compared */
        uint64_t refused_fields;     /* missing fields whose cell another call can fill */
        int mig_mode;                /* -1: not known */

        struct gpu_energy energy;
        struct nvidia_wrapping pcie[2];
        int64_t n_xid, last_xid;
        struct nvidia_gpm gpm;
        struct nvidia_mig *mig; /* NVML_MAX_MIG, once there are some */
        uint32_t n_mig;
        uint64_t mig_ns;

        struct nvidia_list processes;
        int process_version[3]; /* of the calls for compute, graphics, MPS: 3, 2, 1; 0: none; -1: not yet known */
        bool has_processes;     /* at least one list could be read */
        int process_result;     /* of the list of those that compute, when it could not */
        int process_refusal;    /* why a list is not requested any more */
        bool has_shares, has_wide_shares, is_share_refused;
};

/* What is known of a process by its pid. */
struct nvidia_who {
        uint32_t pid;
        uint64_t start_ticks, id, used; /* used: the last sample that asked for it */
        char name[64];                  /* raw bytes */
        char container[INFP_GPU_CONTAINER];
        uint8_t name_size;
        bool is_known;
};

struct nvidia {
        struct nvml nvml;
        bool is_up, wants_pcie, pids_are_ours, was_said;
        char driver[NVML_VERSION_SIZE], library[NVML_VERSION_SIZE], cuda[16];
        struct nvidia_device *devices;
        uint32_t n_devices;
        uint64_t counted_ns, sample;
        uint64_t account_ns; /* when memory_account is due again */
        bool is_account_due;
        uint64_t said[2]; /* columns that were reported absent */
        nvml_event_set events;

        void *records; /* where the driver writes lists of processes */
        size_t records_size;
        void *shares;
        size_t shares_size;
        struct nvidia_who *who;
        uint32_t n_who, cap_who;
        struct infp_gpu_tree tree; /* empty where the pids are not ours */
        struct infp_str text;
};

/* One GPU at one moment. */
struct nvidia_reading {
        struct nvidia *nvidia;
        struct nvidia_device *device;
        const struct infp_env *env;
        struct infp_row *row;
        uint64_t t_ns;
        bool is_slow; /* values that change rarely are read, too */
};

extern const struct infp_collector infp_collector_nvidia;

/* library.c. 0; -ENODEV: not installed; else a negative errno. */
int infp_nvml_load(struct nvml *nvml, const char *path, struct infp_err *err);
void infp_nvml_unload(struct nvml *nvml);
/* The library to load: the setting nvidia-library, INFPROF_NVML_LIBRARY, "" for the system's; NULL: the root is a copy of a
 * machine, without a GPU to ask. */
const char *infp_nvml_path(const struct infp_env *env);

/* say.c: words for results, columns and devices. */
bool infp_nvidia_is_known(int result);
const char *infp_nvidia_reason(int result); /* why a GPU or a column has no values */
const char *infp_nvidia_fix(int result);    /* NULL */
enum infp_source_state infp_nvidia_state(int result);
bool infp_nvidia_is_fault(int result);   /* the GPU as a whole does not answer */
bool infp_nvidia_is_refusal(int result); /* it would answer the same again */
/* Names of the bits of clocks event reasons, separated by ", "; "none". Returns its length; bits without a name as 0x.... */
size_t infp_nvidia_event_words(uint64_t bits, char *ret, size_t cap);
const char *infp_nvidia_recovery_word(uint64_t action); /* NULL: unknown */
/* 12080: "12.8". */
void infp_nvidia_cuda_version(int version, char ret[16]);

/* device.c: opens and identifies GPU number device->index. False: no values, device->fault has the reason. */
bool infp_nvidia_device_open(struct nvidia *nvidia, struct nvidia_device *device, const struct infp_env *env);
void infp_nvidia_device_done(struct nvidia *nvidia, struct nvidia_device *device);
void infp_nvidia_put_identity(const struct nvidia_reading *reading);

/* Forgets which cells it has refused. */
void infp_nvidia_ask_anew(struct nvidia_device *device);
static inline bool infp_nvidia_wants(const struct nvidia_device *device, unsigned cell)
{
        return !device->fault && !(device->refused[cell / 64] >> cell % 64 & 1);
}
/* Notes the result of a call that fills the cell; true: it has a value. */
bool infp_nvidia_took(struct nvidia_device *device, unsigned cell, int result);
/* The library lacks the call. */
void infp_nvidia_lacks(struct nvidia_device *device, unsigned cell);

/* read.c, fields.c, gpm.c: each fills cells of the row. */
void infp_nvidia_read(const struct nvidia_reading *reading);
/* Video engines, of which the driver has samples of 1/6 to 1 s, and BAR1. */
void infp_nvidia_read_lesser(const struct nvidia_reading *reading);
void infp_nvidia_read_slow(const struct nvidia_reading *reading);
void infp_nvidia_read_fixed(const struct nvidia_reading *reading);
void infp_nvidia_read_fields(const struct nvidia_reading *reading);
void infp_nvidia_read_energy(const struct nvidia_reading *reading);
void infp_nvidia_read_gpm(const struct nvidia_reading *reading);
/* Takes the first of two samples; false: there is none. */
bool infp_nvidia_prime_gpm(const struct nvidia_reading *reading);

/* read.c: memory of a GPU or MIG device, by the newer call where it can be trusted. NVML's result. */
int infp_nvidia_memory(const struct nvidia *nvidia, nvml_device handle, bool *has_old, struct nvml_memory_v2 *ret);

/* A number into a cell of type I64, U64, F64 or BOOL. */
void infp_nvidia_put(const struct nvidia_reading *reading, unsigned cell, uint64_t value);

/* gpm.c. MIG: through the parent where possible; -1: a whole GPU. */
void infp_nvidia_gpm_sample(const struct nvidia *nvidia, struct nvidia_gpm *gpm, nvml_device device,
                            int64_t gpu_instance, uint64_t t_ns);
void infp_nvidia_gpm_done(const struct nvidia *nvidia, struct nvidia_gpm *gpm);
/* Puts the values into cells: those of nvidia or, from GPU_MIG_GPM_GRAPHICS on, of nvidia_mig. */
void infp_nvidia_gpm_put_mig(const struct nvidia_gpm *gpm, struct infp_row *row);

/* device.c: MIG devices */
void infp_nvidia_mig_find(const struct nvidia_reading *reading);
void infp_nvidia_mig_emit(const struct nvidia_reading *reading, struct infp_emit *emit);

/* device.c: faults that the driver reports by events */
void infp_nvidia_events_poll(struct nvidia *nvidia);
void infp_nvidia_events_done(struct nvidia *nvidia);
void infp_nvidia_put_events(const struct nvidia_reading *reading);

/* processes.c */
/* Names and containers by pid, for one sample. */
void infp_nvidia_who_begin(struct nvidia *nvidia, const struct infp_env *env);
void infp_nvidia_processes_read(const struct nvidia_reading *reading);
void infp_nvidia_processes_put(const struct nvidia_reading *reading);
void infp_nvidia_processes_emit(const struct nvidia_reading *reading, struct infp_emit *emit);

void infp_nvidia_say_device(const struct nvidia *nvidia, struct nvidia_device *device, struct infp_emit *emit);
void infp_nvidia_say_columns(struct nvidia *nvidia, struct infp_emit *emit);
