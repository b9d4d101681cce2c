/* GPUs of NVIDIA by NVML, the library of its driver, which is loaded at run time. Started once and kept: without persistence
 * mode the first start takes seconds. */
#include "collectors/gpu/nvidia/nvidia.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "collectors/gpu/account.h"
#include "collectors/gpu/bounds.h"

/* The driver's own samples and its energy counter move in steps of about 100 ms. */
enum { FLOOR_MS = 100, MOST_DOUBLINGS = 5 };
static const uint64_t count_period_ns = 10 * INFP_NS_PER_S, slow_period_ns = INFP_NS_PER_S,
                      longest_pause_ns = 30 * INFP_NS_PER_S;

static int grow(struct nvidia *n, uint32_t n_devices)
{
        struct nvidia_device *devices;

        n_devices = n_devices < NVIDIA_MAX_GPUS ? n_devices : NVIDIA_MAX_GPUS;
        if (n_devices <= n->n_devices)
                return 0;
        devices = reallocarray(n->devices, n_devices, sizeof(*devices));
        if (!devices)
                return -ENOMEM;
        n->devices = devices;
        for (uint32_t i = n->n_devices; i < n_devices; i++)
                devices[i] = (struct nvidia_device){ .index = i };
        n->n_devices = n_devices;
        return 0;
}

static void ask_versions(struct nvidia *n)
{
        const struct nvml *nvml = &n->nvml;
        int cuda = 0;

        if (!nvml->SystemGetDriverVersion || nvml->SystemGetDriverVersion(n->driver, sizeof(n->driver)) != NVML_SUCCESS)
                n->driver[0] = 0;
        if (!nvml->SystemGetNVMLVersion || nvml->SystemGetNVMLVersion(n->library, sizeof(n->library)) != NVML_SUCCESS)
                n->library[0] = 0;
        n->driver[sizeof(n->driver) - 1] = n->library[sizeof(n->library) - 1] = 0;
        n->cuda[0] = 0;
        if ((nvml->SystemGetCudaDriverVersion_v2 && nvml->SystemGetCudaDriverVersion_v2(&cuda) == NVML_SUCCESS) ||
            (nvml->SystemGetCudaDriverVersion && nvml->SystemGetCudaDriverVersion(&cuda) == NVML_SUCCESS))
                infp_nvidia_cuda_version(cuda, n->cuda);
}

static int start(struct nvidia *n, const struct infp_env *env, struct infp_err *err)
{
        const char *path = infp_nvml_path(env);
        uint32_t n_devices = 0;
        int r;

        if (!path)
                return infp_fail(err, -ENODEV, "--root has no live GPU of NVIDIA to ask");
        INFP_TRY(infp_nvml_load(&n->nvml, path, err));
        r = n->nvml.DeviceGetCount_v2(&n_devices);
        if (r == NVML_SUCCESS && !n_devices) {
                infp_nvml_unload(&n->nvml);
                return infp_fail(err, -ENODEV, "NVIDIA's driver is here, but it has no GPU");
        }
        if (r != NVML_SUCCESS) {
                infp_nvml_unload(&n->nvml);
                return infp_fail(err, -EIO, "NVIDIA's driver does not report how many GPUs it has (error %d): %s", r,
                                 infp_nvidia_reason(r));
        }
        if (grow(n, n_devices) < 0) {
                infp_nvml_unload(&n->nvml);
                return infp_fail(err, -ENOMEM, "no memory for %u GPUs", n_devices);
        }
        ask_versions(n);
        n->is_up = true;
        n->was_said = false;
        n->counted_ns = env->now_ns(env);
        return 0;
}

static void stop(struct nvidia *n)
{
        if (!n->is_up)
                return;
        for (uint32_t i = 0; i < n->n_devices; i++) {
                struct nvidia_device *device = &n->devices[i];

                infp_nvidia_device_done(n, device);
                device->handle = NULL;
                device->fault = 0;
                device->n_failures = 0;
                device->retry_ns = 0;
        }
        infp_nvidia_events_done(n);
        infp_nvml_unload(&n->nvml);
        n->is_up = false;
}

static int nvidia_open(void *state, const struct infp_env *env, struct infp_err *err)
{
        struct nvidia *n = state;

        n->wants_pcie = infp_env_flag(env, "gpu-pcie");
        n->pids_are_ours = infp_gpu_pids_are_ours(env);
        return start(n, env, err);
}

static void emit_driver(struct nvidia *n, struct infp_emit *emit, uint64_t t_ns)
{
        struct infp_row *row = infp_emit_begin(emit, &infp_table_nvidia_driver, t_ns);

        infp_row_foreign(row, GPU_DRIVER_VERSION, n->driver);
        if (n->cuda[0])
                infp_row_str(row, GPU_DRIVER_CUDA, n->cuda);
        infp_row_foreign(row, GPU_DRIVER_LIBRARY, n->library);
        infp_row_i64(row, GPU_DRIVER_DEVICES, n->n_devices);
        infp_emit_commit(emit);
        n->was_said = true;
}

/* Keeps the cells that were filled since `before`. */
static void keep(struct nvidia_kept *kept, const struct infp_row *row, const uint64_t before[2])
{
        for (int i = 0; i < 2; i++)
                kept->valid[i] = row->valid[i] & ~before[i];
        memcpy(kept->cell, row->cell, sizeof(kept->cell));
        kept->is_filled = true;
}

static void put_kept(const struct nvidia_kept *kept, struct infp_row *row)
{
        for (unsigned cell = 0; cell < GPU_N; cell++)
                if (kept->valid[cell / 64] >> cell % 64 & 1)
                        row->cell[cell] = kept->cell[cell];
        for (int i = 0; i < 2; i++)
                row->valid[i] |= kept->valid[i];
}

static void put_texts(const struct nvidia_reading *reading)
{
        const struct nvidia_device *device = reading->device;

        if (device->recovery[0])
                infp_row_str(reading->row, GPU_RECOVERY_ACTION, device->recovery);
        if (device->fans[0])
                infp_row_str(reading->row, GPU_FANS, device->fans);
        if (device->mig_mode < 0)
                return;
        infp_row_str(reading->row, GPU_MIG_MODE, device->mig_mode ? "enabled" : "disabled");
        infp_row_i64(reading->row, GPU_MIG_DEVICES, device->n_mig);
}

static bool is_slow_field(unsigned cell)
{
        return cell >= GPU_NVLINK_COUNT && cell <= GPU_NVLINK_RECOVERY_ERRORS && cell != GPU_NVLINK_TX_BYTES &&
               cell != GPU_NVLINK_RX_BYTES;
}

static void read_rarely(const struct nvidia_reading *reading)
{
        struct nvidia_device *device = reading->device;
        uint64_t before[2] = { reading->row->valid[0], reading->row->valid[1] };

        if (!device->fixed.is_filled) {
                infp_nvidia_read_fixed(reading);
                keep(&device->fixed, reading->row, before);
        } else {
                put_kept(&device->fixed, reading->row);
        }
        memcpy(before, reading->row->valid, sizeof(before));
        if (reading->is_slow) {
                infp_nvidia_read_lesser(reading);
                infp_nvidia_read_slow(reading);
                keep(&device->slow, reading->row, before);
                device->slow_ns = reading->t_ns;
        } else {
                put_kept(&device->slow, reading->row);
        }
}

/* Rare fields come with the batch of all fields, after the rest. */
static void keep_slow_fields(const struct nvidia_reading *reading)
{
        struct nvidia_kept *slow = &reading->device->slow;

        for (unsigned cell = 0; cell < GPU_N && reading->is_slow; cell++) {
                if (!is_slow_field(cell) || !infp_row_has(reading->row, cell))
                        continue;
                slow->cell[cell] = reading->row->cell[cell];
                slow->valid[cell / 64] |= UINT64_C(1) << cell % 64;
        }
}

/* False: it has stopped answering, and the row must not be sent. */
static bool read_device(struct nvidia_reading *reading, struct infp_emit *emit)
{
        const struct nvidia_device *device = reading->device;

        infp_nvidia_mig_find(reading);
        infp_nvidia_put_identity(reading);
        infp_nvidia_read(reading);
        read_rarely(reading);
        infp_nvidia_read_fields(reading);
        keep_slow_fields(reading);
        infp_gpu_bound(emit, device->uuid); /* before it is integrated */
        infp_nvidia_read_energy(reading);
        infp_nvidia_read_gpm(reading);
        infp_nvidia_processes_read(reading);
        infp_nvidia_put_events(reading);
        put_texts(reading);
        infp_nvidia_processes_put(reading);
        infp_gpu_bound(emit, device->uuid);
        return !device->fault;
}

/* Tried again after a period, then after more and more: asking a dead GPU can take the driver seconds. */
static void failed(struct nvidia_device *device, const struct infp_env *env, uint64_t now)
{
        const uint64_t period_ns = infp_collector_period_ms(&infp_collector_nvidia, env->period_ms) * INFP_NS_PER_MS;
        const unsigned doublings = device->n_failures < MOST_DOUBLINGS ? device->n_failures : MOST_DOUBLINGS;
        uint64_t pause_ns = period_ns << doublings;

        if (pause_ns > longest_pause_ns)
                pause_ns = period_ns > longest_pause_ns ? period_ns : longest_pause_ns;
        device->n_failures++;
        device->retry_ns = now + pause_ns - period_ns / 2; /* samples lie on a grid, and come a little late or early */
}

/* It is known, but has no figures now: a row without values, so that no reader takes the last ones for the present. */
static void emit_silent(const struct nvidia_reading *reading, struct infp_emit *emit)
{
        struct nvidia_reading silent = *reading;

        if (!reading->device->uuid[0])
                return;
        silent.row = infp_emit_begin(emit, &infp_table_nvidia, reading->t_ns);
        infp_nvidia_put_identity(&silent);
        infp_nvidia_put_events(&silent);
        infp_emit_commit(emit);
}

static void sample_device(struct nvidia *n, struct nvidia_device *device, const struct infp_env *env,
                          struct infp_emit *emit)
{
        struct nvidia_reading reading = { .nvidia = n, .device = device, .env = env, .t_ns = env->now_ns(env) };
        bool is_open = device->handle && !device->fault;

        if (!is_open) {
                if (reading.t_ns < device->retry_ns) {
                        emit_silent(&reading, emit);
                        return;
                }
                is_open = infp_nvidia_device_open(n, device, env);
        }
        if (is_open) {
                reading.is_slow = !device->slow.is_filled || reading.t_ns - device->slow_ns >= slow_period_ns;
                reading.row = infp_emit_begin(emit, &infp_table_nvidia, reading.t_ns);
                is_open = read_device(&reading, emit);
        }
        if (!is_open) {
                failed(device, env, reading.t_ns);
                emit_silent(&reading, emit);
                infp_nvidia_say_device(n, device, emit);
                return;
        }
        infp_emit_commit(emit);
        device->n_failures = 0;
        infp_nvidia_say_device(n, device, emit);
        infp_nvidia_processes_emit(&reading, emit);
        infp_nvidia_mig_emit(&reading, emit);
}

/* A single look would never see what lies between two samples. */
static void prime(struct nvidia *n, const struct infp_env *env)
{
        const struct timespec pause = infp_timespec(100 * INFP_NS_PER_MS);
        bool has_any = false;

        for (uint32_t i = 0; i < n->n_devices; i++) {
                struct nvidia_device *device = &n->devices[i];
                const struct nvidia_reading reading = {
                        .nvidia = n, .device = device, .env = env, .t_ns = env->now_ns(env)
                };

                if (infp_nvidia_device_open(n, device, env))
                        has_any |= infp_nvidia_prime_gpm(&reading);
        }
        if (has_any)
                nanosleep(&pause, NULL);
}

/* The driver as a whole has gone: 0, or the fault that all GPUs have. */
static int fault_of_all(const struct nvidia *n)
{
        int fault = 0;

        for (uint32_t i = 0; i < n->n_devices; i++) {
                fault = n->devices[i].fault;
                if (fault != NVML_UNINITIALIZED && fault != NVML_DRIVER_NOT_LOADED &&
                    fault != NVML_LIB_RM_VERSION_MISMATCH)
                        return 0;
        }
        return fault;
}

static int nvidia_sample(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        struct nvidia *n = state;
        uint64_t now = env->now_ns(env);
        uint32_t n_devices;
        int fault;

        if (!n->is_up)
                INFP_TRY(start(n, env, err));
        if (now - n->counted_ns >= count_period_ns) {
                n->counted_ns = now;
                if (n->nvml.DeviceGetCount_v2(&n_devices) == NVML_SUCCESS && n_devices > n->n_devices &&
                    grow(n, n_devices) >= 0)
                        n->was_said = false;
        }
        if (!n->was_said) {
                emit_driver(n, emit, now);
                if (!env->stats) /* no recording */
                        prime(n, env);
        }
        infp_nvidia_who_begin(n, env);
        infp_nvidia_events_poll(n);
        n->is_account_due = infp_gpu_account_is_due(env, now, &n->account_ns);
        for (uint32_t i = 0; i < n->n_devices; i++)
                sample_device(n, &n->devices[i], env, emit);
        infp_nvidia_say_columns(n, emit);
        fault = fault_of_all(n);
        if (!fault)
                return 0;
        stop(n);
        return infp_fail(err, -EIO, "NVIDIA's driver has stopped answering (error %d): %s", fault,
                         infp_nvidia_reason(fault));
}

static void nvidia_close(void *state)
{
        struct nvidia *n = state;

        stop(n);
        for (uint32_t i = 0; i < n->n_devices; i++)
                free(n->devices[i].processes.at);
        free(n->devices);
        free(n->records);
        free(n->shares);
        free(n->who);
        infp_gpu_tree_done(&n->tree);
        infp_str_done(&n->text);
}

static const struct infp_table *const nvidia_tables[] = { &infp_table_nvidia,         &infp_table_nvidia_processes,
                                                          &infp_table_nvidia_mig,     &infp_table_nvidia_driver,
                                                          &infp_table_memory_account, NULL };

const struct infp_collector infp_collector_nvidia = {
        .name = "nvidia",
        .help = "GPUs of NVIDIA, their MIG devices and the processes on them.",
        .tables = nvidia_tables,
        .floor_ms = FLOOR_MS,
        .flags = INFP_MAY_BLOCK,
        .state_size = sizeof(struct nvidia),
        .open = nvidia_open,
        .sample = nvidia_sample,
        .close = nvidia_close,
};
