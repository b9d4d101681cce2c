#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "collect/process_stat.h"
#include "collect/target.h"
#include "collectors/gpu/account.h"
#include "collectors/gpu/bounds.h"
#include "collectors/gpu/nvidia/nvidia.h"
#include "collectors/gpu/pids.h"
#include "model/id.h"

/* The process of a pid that the driver reports. */

/* Forgets processes that no GPU had in the last sample. */
static void drop_unused(struct nvidia *nvidia)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < nvidia->n_who; i++)
                if (nvidia->who[i].used + 1 >= nvidia->sample)
                        nvidia->who[n++] = nvidia->who[i];
        nvidia->n_who = n;
}

void infp_nvidia_who_begin(struct nvidia *nvidia, const struct infp_env *env)
{
        nvidia->sample++;
        drop_unused(nvidia);
        if (nvidia->pids_are_ours)
                infp_gpu_tree_read(&nvidia->tree, env);
}

/* Name and start are read at each sample: a name changes at exec, and the pid may have a new owner. */
static void look_at_who(const struct infp_env *env, struct nvidia_who *who)
{
        struct infp_process process;

        if (infp_process_stat_read(env->root_fd, (int32_t) who->pid, &process) < 0) {
                who->is_known = false;
                return;
        }
        if (!who->is_known || process.start_ticks != who->start_ticks) {
                who->start_ticks = process.start_ticks;
                who->id = infp_process_id(env->boot_id, (int32_t) who->pid, process.start_ticks);
                infp_gpu_container(env, (int32_t) who->pid, who->container);
        }
        memcpy(who->name, process.comm, process.comm_size);
        who->name_size = process.comm_size;
        who->is_known = true;
}

static struct nvidia_who *find_who(struct nvidia *nvidia, uint32_t pid)
{
        for (uint32_t i = 0; i < nvidia->n_who; i++)
                if (nvidia->who[i].pid == pid)
                        return &nvidia->who[i];
        if (!INFP_MAKE_ROOM(nvidia->who, nvidia->n_who, nvidia->cap_who, 32))
                return NULL;
        nvidia->who[nvidia->n_who] = (struct nvidia_who){ .pid = pid };
        return &nvidia->who[nvidia->n_who++];
}

static const struct nvidia_who *who_is(struct nvidia *nvidia, const struct infp_env *env, uint32_t pid)
{
        struct nvidia_who *who = nvidia->pids_are_ours ? find_who(nvidia, pid) : NULL;

        if (!who)
                return NULL;
        if (who->used != nvidia->sample)
                look_at_who(env, who);
        who->used = nvidia->sample;
        return who->is_known ? who : NULL;
}

/* The share of a GPU that each process had: the driver keeps samples of the last seconds for processes that did something. */

/* It takes a sample in 1/6 to 1 s. A shorter window finds nothing now and then, as if all had stopped. */
static const uint64_t least_us = 1000 * 1000;
enum { ROOM = 64, SHARE_TRIES = 3, MOST_SHARES = 1 << 16 };

static void *room(struct nvidia *nvidia, size_t size)
{
        void *shares;

        if (size > nvidia->shares_size) {
                shares = realloc(nvidia->shares, size);
                if (!shares)
                        return NULL;
                nvidia->shares = shares;
                nvidia->shares_size = size;
        }
        memset(nvidia->shares, 0, nvidia->shares_size);
        return nvidia->shares;
}

struct window {
        uint64_t since_us, now_us;
};

static int read_wide(struct nvidia *nvidia, struct nvidia_device *device, struct window window)
{
        uint32_t cap = ROOM;
        int r = NVML_MEMORY;

        for (int i = 0; i < SHARE_TRIES; i++) {
                struct nvml_process_shares all = { .version = NVML_PROCESS_SHARES_V1,
                                                   .n = cap,
                                                   .last_seen_us = window.since_us,
                                                   .shares = room(nvidia, cap * sizeof(struct nvml_process_share)) };

                if (!all.shares)
                        return NVML_MEMORY;
                r = nvidia->nvml.DeviceGetProcessesUtilizationInfo(device->handle, &all);
                if (r == NVML_INSUFFICIENT_SIZE && all.n > cap && all.n <= MOST_SHARES) {
                        cap = 2 * all.n;
                        continue;
                }
                /* bound: the driver has filled no more than cap */
                for (uint32_t k = 0; r == NVML_SUCCESS && k < all.n && k < cap; k++)
                        infp_nvidia_list_share(&device->processes, &all.shares[k], window.since_us, window.now_us);
                return r;
        }
        return r;
}

static int read_narrow(struct nvidia *nvidia, struct nvidia_device *device, struct window window)
{
        uint32_t cap = ROOM;
        int r = NVML_MEMORY;

        for (int i = 0; i < SHARE_TRIES; i++) {
                struct nvml_process_sample *samples = room(nvidia, cap * sizeof(*samples));
                uint32_t n = cap;

                if (!samples)
                        return NVML_MEMORY;
                r = nvidia->nvml.DeviceGetProcessUtilization(device->handle, samples, &n, window.since_us);
                if (r == NVML_INSUFFICIENT_SIZE && n > cap && n <= MOST_SHARES) {
                        cap = 2 * n;
                        continue;
                }
                /* bound: the driver has filled no more than cap */
                for (uint32_t k = 0; r == NVML_SUCCESS && k < n && k < cap; k++) {
                        const struct nvml_process_share share = { .time_us = samples[k].time_us,
                                                                  .pid = samples[k].pid,
                                                                  .sm = samples[k].sm,
                                                                  .memory = samples[k].memory,
                                                                  .encoder = samples[k].encoder,
                                                                  .decoder = samples[k].decoder,
                                                                  .jpeg = NVML_NONE_U32,
                                                                  .ofa = NVML_NONE_U32 };

                        infp_nvidia_list_share(&device->processes, &share, window.since_us, window.now_us);
                }
                return r;
        }
        return r;
}

static void read_shares(const struct nvidia_reading *reading)
{
        struct nvidia *nvidia = reading->nvidia;
        struct nvidia_device *device = reading->device;
        const uint64_t now_us = infp_clock_ns(CLOCK_REALTIME) / 1000,
                       period_us = (uint64_t) reading->env->period_ms * 1000,
                       back_us = period_us > least_us ? period_us : least_us;
        const struct window window = { now_us > back_us ? now_us - back_us : 0, now_us + least_us };
        int r = NVML_FUNCTION_NOT_FOUND;

        device->has_shares = false;
        if (device->is_share_refused || !device->processes.n)
                return;
        if (nvidia->nvml.DeviceGetProcessesUtilizationInfo && device->has_wide_shares) {
                r = read_wide(nvidia, device, window);
                device->has_wide_shares = !infp_nvidia_is_refusal(r);
        }
        if (infp_nvidia_is_refusal(r) && nvidia->nvml.DeviceGetProcessUtilization)
                r = read_narrow(nvidia, device, window);
        if (infp_nvidia_is_fault(r))
                device->fault = r;
        device->is_share_refused = infp_nvidia_is_refusal(r);
        device->has_shares = r == NVML_SUCCESS || r == NVML_NOT_FOUND;
}

/* Processes on a GPU: the driver keeps one list each of those that compute, that draw and that come through MPS. */

typedef int list_call(nvml_device, uint32_t *, void *);

enum {
        FIRST_ROOM = 32,
        TRIES = 4,
        LONGEST_RECORD = NVML_PROCESS_LONG_BYTES,
        MOST_NAMED = 200,
        MOST_PROCESSES = 1 << 16
};

struct kind {
        unsigned type;
        list_call *calls[3]; /* _v3, _v2, without suffix */
};

static bool make_room(struct nvidia *nvidia, uint32_t n)
{
        const size_t size = ((size_t) n + 1) * LONGEST_RECORD; /* one more, which stays poisoned */
        void *records;

        if (size <= nvidia->records_size)
                return true;
        records = realloc(nvidia->records, size);
        if (!records)
                return false;
        nvidia->records = records;
        nvidia->records_size = size;
        return true;
}

/* The driver's list; *ret_n records. It can grow between two calls, so there is always more room than was needed, and a list
 * that does not fit is read again. */
static int ask(struct nvidia *nvidia, list_call *call, nvml_device handle, uint32_t *ret_n)
{
        uint32_t room = FIRST_ROOM;

        for (int i = 0; i < TRIES; i++) {
                uint32_t n;
                int r;

                if (!make_room(nvidia, room))
                        return NVML_MEMORY;
                room = (uint32_t) (nvidia->records_size / LONGEST_RECORD) - 1;
                memset(nvidia->records, NVIDIA_POISON, nvidia->records_size);
                n = room;
                r = call(handle, &n, nvidia->records);
                if (r == NVML_SUCCESS && n <= room) {
                        *ret_n = n;
                        return r;
                }
                if (r != NVML_INSUFFICIENT_SIZE && r != NVML_SUCCESS)
                        return r;
                if (n > MOST_PROCESSES)
                        return NVML_UNKNOWN;
                room = 2 * (n > room ? n : room) + 5;
        }
        return NVML_INSUFFICIENT_SIZE;
}

static int add(struct nvidia *nvidia, struct nvidia_list *list, uint32_t n, int version, unsigned type)
{
        const size_t shorter = version == 1 ? NVML_PROCESS_V1_BYTES : NVML_PROCESS_BYTES,
                     longer = version == 1 ? NVML_PROCESS_BYTES : NVML_PROCESS_LONG_BYTES;
        size_t stride;

        if (!n)
                return 0;
        stride = infp_nvidia_stride(nvidia->records, n, nvidia->records_size, shorter, longer);
        return infp_nvidia_list_add(list, nvidia->records, n, nvidia->records_size, stride, type);
}

/* Version 3 of the call, else 2, else 1, the first that this GPU answers, which is remembered. */
static int read_kind(struct nvidia *nvidia, struct nvidia_device *device, nvml_device handle, int *version,
                     const struct kind *kind)
{
        int r = NVML_FUNCTION_NOT_FOUND;

        if (!*version)
                return device->process_refusal ? device->process_refusal : NVML_NOT_SUPPORTED;
        for (int v = *version > 0 ? *version : 3; v > 0; v--) {
                uint32_t n = 0;

                if (!kind->calls[3 - v])
                        continue;
                r = ask(nvidia, kind->calls[3 - v], handle, &n);
                if (r == NVML_SUCCESS) {
                        *version = v;
                        return add(nvidia, &device->processes, n, v, kind->type) < 0 ? NVML_UNKNOWN : r;
                }
                if (!infp_nvidia_is_refusal(r) || r == NVML_NO_PERMISSION)
                        return r;
        }
        *version = 0;
        device->process_refusal = r;
        return r;
}

/* True: at least one list could be read. */
static bool read_lists(struct nvidia *nvidia, struct nvidia_device *device, nvml_device handle, int versions[3])
{
        const struct nvml *nvml = &nvidia->nvml;
        const struct kind kinds[] = {
                { NVIDIA_COMPUTE,
                  { nvml->DeviceGetComputeRunningProcesses_v3, nvml->DeviceGetComputeRunningProcesses_v2,
                    nvml->DeviceGetComputeRunningProcesses } },
                { NVIDIA_GRAPHICS,
                  { nvml->DeviceGetGraphicsRunningProcesses_v3, nvml->DeviceGetGraphicsRunningProcesses_v2,
                    nvml->DeviceGetGraphicsRunningProcesses } },
                { NVIDIA_MPS,
                  { nvml->DeviceGetMPSComputeRunningProcesses_v3, nvml->DeviceGetMPSComputeRunningProcesses_v2,
                    nvml->DeviceGetMPSComputeRunningProcesses } },
        };
        bool has_any = false;

        for (unsigned i = 0; i < INFP_COUNT(kinds); i++) {
                const int r = read_kind(nvidia, device, handle, &versions[i], &kinds[i]);

                has_any |= r == NVML_SUCCESS;
                if (infp_nvidia_is_fault(r)) {
                        device->fault = r;
                        return false;
                }
                if (r != NVML_SUCCESS && i == 0)
                        device->process_result = r;
        }
        return has_any;
}

/* Where the list of the whole GPU is refused, the lists of MIG devices have what this user may see. */
static bool read_mig_lists(struct nvidia *nvidia, struct nvidia_device *device)
{
        bool has_any = false;

        for (uint32_t i = 0; i < device->n_mig && !device->fault; i++) {
                struct nvidia_mig *mig = &device->mig[i];
                const uint32_t before = device->processes.n;
                int versions[3] = { -1, -1, -1 };

                has_any |= read_lists(nvidia, device, mig->handle, versions);
                for (uint32_t k = before; k < device->processes.n; k++) {
                        device->processes.at[k].gpu_instance = mig->gpu_instance;
                        device->processes.at[k].compute_instance = mig->compute_instance;
                }
        }
        return has_any;
}

static void count_mig(struct nvidia_device *device)
{
        for (uint32_t i = 0; i < device->n_mig; i++) {
                struct nvidia_mig *mig = &device->mig[i];

                mig->n_processes = 0;
                for (uint32_t k = 0; k < device->processes.n; k++)
                        mig->n_processes += device->processes.at[k].gpu_instance == mig->gpu_instance &&
                                            device->processes.at[k].compute_instance == mig->compute_instance;
        }
}

void infp_nvidia_processes_read(const struct nvidia_reading *reading)
{
        struct nvidia_device *device = reading->device;

        device->processes.n = 0;
        device->processes.refused_bytes = 0;
        device->processes.most_bytes = infp_row_has(reading->row, GPU_MEMORY_TOTAL_BYTES)
                                               ? (uint64_t) reading->row->cell[GPU_MEMORY_TOTAL_BYTES].i64
                                               : 0;
        device->has_processes = false;
        device->process_result = NVML_SUCCESS;
        if (device->fault)
                return;
        device->has_processes = read_lists(reading->nvidia, device, device->handle, device->process_version);
        if (device->n_mig && !device->fault && (!device->has_processes || device->process_result != NVML_SUCCESS))
                device->has_processes |= read_mig_lists(reading->nvidia, device);
        if (device->fault || !device->has_processes)
                return;
        count_mig(device);
        infp_nvidia_list_fold(&device->processes);
        read_shares(reading);
}

/* "123: python (456 MB)"; the MB are MiB. */
static void put_entry(struct infp_json *json, const struct nvidia_process *process, const struct nvidia_who *who)
{
        char name[4 * sizeof(who->name) + 1] = "unknown", text[sizeof(name) + 64], memory[32] = "memory not known";

        if (who && who->name_size)
                name[infp_text_escape(who->name, who->name_size, name, sizeof(name) - 1)] = 0;
        if (process->memory != NVML_NONE_U64)
                snprintf(memory, sizeof(memory), "%llu MB", (unsigned long long) (process->memory >> 20));
        snprintf(text, sizeof(text), "%u: %s (%s)", process->pid, name, memory);
        infp_json_str(json, text);
}

void infp_nvidia_processes_put(const struct nvidia_reading *reading)
{
        struct nvidia *nvidia = reading->nvidia;
        const struct nvidia_device *device = reading->device;
        const struct nvidia_list *list = &device->processes;
        struct infp_json json;
        char more[64];

        if (!device->has_processes)
                return;
        infp_row_i64(reading->row, GPU_PROCESS_COUNT, list->n);
        infp_str_clear(&nvidia->text);
        infp_json_begin(&json, &nvidia->text, 0);
        infp_json_array(&json);
        for (uint32_t i = 0; i < list->n && i < MOST_NAMED; i++) /* bound: "and N more" ends the list */
                put_entry(&json, &list->at[i], who_is(nvidia, reading->env, list->at[i].pid));
        if (list->n > MOST_NAMED) {
                snprintf(more, sizeof(more), "and %u more", list->n - MOST_NAMED);
                infp_json_str(&json, more);
        }
        infp_json_array_end(&json);
        if (!nvidia->text.failed)
                infp_row_str(reading->row, GPU_PROCESSES, nvidia->text.data);
}

static void put_shares(const struct nvidia_device *device, const struct nvidia_process *process, struct infp_row *row)
{
        if (!device->has_shares || (process->is_unsound && !process->time_us))
                return;
        /* No sample means that it did nothing: the driver lists only processes with some share. */
        infp_row_i64(row, GPU_PROCESS_SM, process->sm);
        infp_row_i64(row, GPU_PROCESS_MEM, process->mem);
        infp_row_i64(row, GPU_PROCESS_ENCODER, process->encoder);
        infp_row_i64(row, GPU_PROCESS_DECODER, process->decoder);
        if (process->jpeg != NVML_NONE_U32)
                infp_row_i64(row, GPU_PROCESS_JPEG, process->jpeg);
        if (process->ofa != NVML_NONE_U32)
                infp_row_i64(row, GPU_PROCESS_OFA, process->ofa);
        if (process->time_us && process->time_us < INT64_MAX / 1000)
                infp_row_ts(row, GPU_PROCESS_SAMPLED_AT, (int64_t) process->time_us * 1000);
}

static void put_who(struct nvidia *nvidia, const struct infp_env *env, uint32_t pid, struct infp_row *row)
{
        const struct nvidia_who *who = who_is(nvidia, env, pid);

        infp_row_bool(row, GPU_PROCESS_IS_HOST_PID, !nvidia->pids_are_ours);
        if (!nvidia->pids_are_ours)
                return;
        /* Before the target's processes are known nothing is reported of it. */
        if (nvidia->tree.n || (env->target && infp_target_mode(env->target) == INFP_MODE_HOST))
                infp_row_bool(row, GPU_PROCESS_IN_TREE, infp_gpu_tree_has(&nvidia->tree, (int32_t) pid));
        if (!who)
                return;
        infp_row_bytes(row, GPU_PROCESS_NAME, who->name, who->name_size);
        infp_row_id(row, GPU_PROCESS_ID, who->id);
        infp_row_foreign(row, GPU_PROCESS_CONTAINER, who->container);
}

static void put_account(const struct nvidia_reading *reading, const struct nvidia_process *process,
                        struct infp_emit *emit)
{
        const struct nvidia *nvidia = reading->nvidia;
        const struct nvidia_who *who;

        if (!nvidia->is_account_due || process->memory == NVML_NONE_U64 ||
            !infp_gpu_tree_has(&nvidia->tree, (int32_t) process->pid))
                return;
        who = who_is(reading->nvidia, reading->env, process->pid);
        if (who)
                infp_gpu_account_put(emit, reading->t_ns, who->id, reading->device->uuid, process->memory);
}

void infp_nvidia_processes_emit(const struct nvidia_reading *reading, struct infp_emit *emit)
{
        const struct nvidia_device *device = reading->device;

        if (device->has_processes)
                infp_gpu_say_memory(emit, &infp_table_nvidia_processes, device->uuid, device->processes.refused_bytes);
        for (uint32_t i = 0; i < device->processes.n && device->has_processes; i++) {
                const struct nvidia_process *process = &device->processes.at[i];
                struct infp_row *row = infp_emit_begin(emit, &infp_table_nvidia_processes, reading->t_ns);
                char type[4];

                infp_row_i64(row, GPU_PROCESS_INDEX, device->index);
                infp_row_foreign(row, GPU_PROCESS_UUID, device->uuid);
                infp_row_i64(row, GPU_PROCESS_PID, process->pid);
                infp_row_str(row, GPU_PROCESS_VENDOR, "nvidia");
                infp_nvidia_type_word(process->types, type);
                infp_row_str(row, GPU_PROCESS_TYPE, type);
                if (process->gpu_instance != NVML_NONE_U32)
                        infp_row_i64(row, GPU_PROCESS_GPU_INSTANCE, process->gpu_instance);
                if (process->compute_instance != NVML_NONE_U32)
                        infp_row_i64(row, GPU_PROCESS_COMPUTE_INSTANCE, process->compute_instance);
                if (process->memory != NVML_NONE_U64)
                        infp_row_raw(row, GPU_PROCESS_MEMORY_BYTES, process->memory);
                put_shares(device, process, row);
                put_who(reading->nvidia, reading->env, process->pid, row);
                infp_emit_commit(emit);
                put_account(reading, process, emit);
        }
}
