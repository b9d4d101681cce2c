/* Fields that one call gives together: the driver fetches those of one kind once, and each has a result of its own. Without
 * that call, the violation times have one. */
#include <stdlib.h>

#include "base/mem.h"
#include "collectors/gpu/nvidia/nvidia.h"

static const struct field {
        unsigned cell;
        uint32_t id, scope;
        bool is_slow;
        double scale;
} fields[] = {
        { GPU_VIOLATION_POWER, NVML_FIELD_VIOLATION_POWER + NVML_POLICY_POWER, 0, false, 0 },
        { GPU_VIOLATION_THERMAL, NVML_FIELD_VIOLATION_POWER + NVML_POLICY_THERMAL, 0, false, 0 },
        { GPU_VIOLATION_SYNC_BOOST, NVML_FIELD_VIOLATION_POWER + NVML_POLICY_SYNC_BOOST, 0, false, 0 },
        { GPU_VIOLATION_BOARD_LIMIT, NVML_FIELD_VIOLATION_POWER + NVML_POLICY_BOARD_LIMIT, 0, false, 0 },
        { GPU_VIOLATION_LOW_UTILIZATION, NVML_FIELD_VIOLATION_POWER + NVML_POLICY_LOW_UTILIZATION, 0, false, 0 },
        { GPU_VIOLATION_RELIABILITY, NVML_FIELD_VIOLATION_POWER + NVML_POLICY_RELIABILITY, 0, false, 0 },
        { GPU_VIOLATION_SW_THERMAL, NVML_FIELD_SW_THERMAL, 0, false, 0 },
        { GPU_VIOLATION_HW_THERMAL, NVML_FIELD_HW_THERMAL, 0, false, 0 },
        { GPU_VIOLATION_HW_POWER_BRAKE, NVML_FIELD_HW_POWER_BRAKE, 0, false, 0 },
        { GPU_TEMPERATURE_MEMORY, NVML_FIELD_MEMORY_TEMPERATURE, 0, false, 0 },
        { GPU_POWER_AVERAGE, NVML_FIELD_POWER_AVERAGE, NVML_SCOPE_GPU, false, 1e3 },
        { GPU_POWER_INSTANT, NVML_FIELD_POWER_INSTANT, NVML_SCOPE_GPU, false, 1e3 },
        { GPU_POWER_MEMORY, NVML_FIELD_POWER_INSTANT, NVML_SCOPE_MEMORY, false, 1e3 },
        { GPU_PCIE_TX_BYTES, NVML_FIELD_PCIE_TX, 0, false, 0 },
        { GPU_PCIE_RX_BYTES, NVML_FIELD_PCIE_RX, 0, false, 0 },
        { GPU_NVLINK_TX_BYTES, NVML_FIELD_NVLINK_TX, NVML_NONE_U32, false, 0 },
        { GPU_NVLINK_RX_BYTES, NVML_FIELD_NVLINK_RX, NVML_NONE_U32, false, 0 },
        { GPU_NVLINK_COUNT, NVML_FIELD_NVLINK_COUNT, 0, true, 0 },
        { GPU_NVLINK_CRC_ERRORS, NVML_FIELD_NVLINK_CRC_ERRORS, 0, true, 0 },
        { GPU_NVLINK_CRC_ERRORS, NVML_FIELD_NVLINK_CRC_DATA_ERRORS, 0, true, 0 }, /* added to the one before */
        { GPU_NVLINK_REPLAY_ERRORS, NVML_FIELD_NVLINK_REPLAY_ERRORS, 0, true, 0 },
        { GPU_NVLINK_RECOVERY_ERRORS, NVML_FIELD_NVLINK_RECOVERY_ERRORS, 0, true, 0 },
        { GPU_RECOVERY_ACTION, NVML_FIELD_RECOVERY_ACTION, 0, true, 0 },
};

static const uint64_t bytes_per_kib = 1024;

/* False: the type is unknown, or the value means that there is none. */
static bool value_of(const struct nvml_field *field, uint64_t *ret)
{
        switch (field->type) {
        case NVML_DOUBLE:
                *ret = field->value.d >= 0 && field->value.d < 1e19 ? (uint64_t) field->value.d : NVML_NONE_U64;
                return *ret != NVML_NONE_U64;
        case NVML_UNSIGNED_INT:
                *ret = field->value.u32;
                return field->value.u32 != NVML_NONE_U32;
        case NVML_UNSIGNED_LONG:
        case NVML_UNSIGNED_LONG_LONG:
                *ret = field->value.u64;
                return field->value.u64 != NVML_NONE_U64;
        case NVML_SIGNED_LONG_LONG:
                *ret = (uint64_t) field->value.i64;
                return field->value.i64 >= 0;
        case NVML_SIGNED_INT:
                *ret = (uint64_t) field->value.i32;
                return field->value.i32 >= 0;
        case NVML_UNSIGNED_SHORT:
                *ret = field->value.u16;
                return true;
        default:
                return false;
        }
}

/* Some drivers count in 32 bits; a counter that was larger than that has 64 and restarted. */
static uint64_t sum_of(struct nvidia_wrapping *w, uint64_t now)
{
        if (w->has_last && now >= w->last)
                w->sum += now - w->last;
        else if (w->has_last)
                w->sum += now + (w->last <= UINT32_MAX ? UINT64_C(1) << 32 : w->last) - w->last;
        w->last = now;
        w->has_last = true;
        return w->sum;
}

static void put_recovery(struct nvidia_device *device, uint64_t action)
{
        const char *word = infp_nvidia_recovery_word(action);

        device->recovery[0] = 0;
        for (unsigned i = 0; word && i < sizeof(device->recovery); i++)
                if (!(device->recovery[i] = word[i]))
                        return;
}

static void put(const struct nvidia_reading *reading, const struct field *field, uint64_t value)
{
        switch (field->cell) {
        case GPU_PCIE_TX_BYTES:
        case GPU_PCIE_RX_BYTES:
                infp_nvidia_put(reading, field->cell,
                                sum_of(&reading->device->pcie[field->cell - GPU_PCIE_TX_BYTES], value));
                return;
        case GPU_NVLINK_TX_BYTES:
        case GPU_NVLINK_RX_BYTES:
                infp_nvidia_put(reading, field->cell, value * bytes_per_kib);
                return;
        case GPU_NVLINK_CRC_ERRORS:
                if (infp_row_has(reading->row, field->cell))
                        value += (uint64_t) reading->row->cell[field->cell].i64;
                infp_nvidia_put(reading, field->cell, value);
                return;
        case GPU_RECOVERY_ACTION:
                put_recovery(reading->device, value);
                return;
        default:
                if (field->scale > 0)
                        infp_row_f64(reading->row, field->cell, (double) value / field->scale);
                else
                        infp_nvidia_put(reading, field->cell, value);
        }
}

static bool is_violation(unsigned cell)
{
        return cell >= GPU_VIOLATION_POWER && cell < GPU_VIOLATION_POWER + NVML_POLICY_N;
}

/* Old drivers: a call for each. */
static void put_violation(const struct nvidia_reading *reading, unsigned policy)
{
        const unsigned cell = GPU_VIOLATION_POWER + policy;
        struct nvml_violation violation = { 0 };

        if (!infp_nvidia_wants(reading->device, cell))
                return;
        if (!reading->nvidia->nvml.DeviceGetViolationStatus)
                infp_nvidia_lacks(reading->device, cell);
        else if (infp_nvidia_took(reading->device, cell,
                                  reading->nvidia->nvml.DeviceGetViolationStatus(reading->device->handle, (int) policy,
                                                                                 &violation)))
                infp_nvidia_put(reading, cell, violation.violation_ns);
}

/* The call gives nanoseconds, as its declaration says; for the fields only newer headers say so. Once both have counted
 * something they are compared, and a field in another unit is not used. */
static void check_violation(const struct nvidia_reading *reading, unsigned policy)
{
        struct nvidia_device *device = reading->device;
        const unsigned cell = GPU_VIOLATION_POWER + policy;
        const uint64_t by_field = (uint64_t) reading->row->cell[cell].i64, bit = UINT64_C(1) << policy;
        struct nvml_violation violation = { 0 };

        if (device->checked_violations & bit || !reading->is_slow || !reading->nvidia->nvml.DeviceGetViolationStatus)
                return;
        if (reading->nvidia->nvml.DeviceGetViolationStatus(device->handle, (int) policy, &violation) != NVML_SUCCESS) {
                device->checked_violations |= bit;
                return;
        }
        if (!by_field || !violation.violation_ns)
                return;
        device->checked_violations |= bit;
        if (by_field / 10 <= violation.violation_ns && violation.violation_ns / 10 <= by_field)
                return;
        device->refused_fields |= bit; /* those of violations come first in their order */
        infp_nvidia_put(reading, cell, violation.violation_ns);
}

static void put_violations(const struct nvidia_reading *reading)
{
        for (unsigned policy = 0; policy < NVML_POLICY_N; policy++)
                if (infp_row_has(reading->row, GPU_VIOLATION_POWER + policy))
                        check_violation(reading, policy);
                else
                        put_violation(reading, policy);
}

/* The batch as a whole failed: none of its fields is available. */
static void refuse_all(struct nvidia_device *device, int result)
{
        for (size_t i = 0; i < INFP_COUNT(fields); i++)
                if (!is_violation(fields[i].cell))
                        infp_nvidia_took(device, fields[i].cell, result);
        device->has_no_fields = true;
}

static void take(const struct nvidia_reading *reading, const struct field *field, const struct nvml_field *answer)
{
        uint64_t value;

        /* Violation times without a field may still have a call; for checksum errors a part is better than nothing. */
        if (is_violation(field->cell) || field->id == NVML_FIELD_NVLINK_CRC_DATA_ERRORS) {
                if (answer->result == NVML_SUCCESS && value_of(answer, &value))
                        put(reading, field, value);
                else if (infp_nvidia_is_refusal(answer->result))
                        reading->device->refused_fields |= UINT64_C(1) << (field - fields);
                return;
        }
        if (infp_nvidia_took(reading->device, field->cell, answer->result) && value_of(answer, &value))
                put(reading, field, value);
}

/* Three fields got new numbers; the other driver has something else under them. 0: this driver lacks the field, or does not
 * show which number it has. */
static uint32_t id_of(const struct nvidia *nvidia, const struct field *field)
{
        enum { FIRST_BRANCH = 575, ANEW = 590 };
        const unsigned long branch = strtoul(nvidia->driver, NULL, 10);

        if (field->id < NVML_FIELD_SW_THERMAL || field->id > NVML_FIELD_HW_POWER_BRAKE || branch >= ANEW)
                return field->id;
        return branch < FIRST_BRANCH ? 0 : NVML_FIELD_SW_THERMAL_575 + field->id - NVML_FIELD_SW_THERMAL;
}

static void read_batch(const struct nvidia_reading *reading)
{
        struct nvidia_device *device = reading->device;
        struct nvml_field answers[INFP_COUNT(fields)];
        const struct field *asked[INFP_COUNT(fields)];
        int n = 0, r;

        _Static_assert(INFP_COUNT(fields) <= 64, "a bit for each");
        for (size_t i = 0; i < INFP_COUNT(fields); i++) {
                const uint32_t id = id_of(reading->nvidia, &fields[i]);

                if ((fields[i].is_slow && !reading->is_slow) || !infp_nvidia_wants(device, fields[i].cell) ||
                    device->refused_fields >> i & 1)
                        continue;
                if (!id) {
                        infp_nvidia_lacks(device, fields[i].cell);
                        continue;
                }
                asked[n] = &fields[i];
                answers[n++] = (struct nvml_field){ .id = id, .scope = fields[i].scope, .result = NVML_NOT_SUPPORTED };
        }
        if (!n)
                return;
        r = reading->nvidia->nvml.DeviceGetFieldValues(device->handle, n, answers);
        if (infp_nvidia_is_fault(r))
                device->fault = r;
        else if (infp_nvidia_is_refusal(r))
                refuse_all(device, r);
        for (int i = 0; i < n && r == NVML_SUCCESS; i++)
                take(reading, asked[i], &answers[i]);
}

void infp_nvidia_read_fields(const struct nvidia_reading *reading)
{
        if (!reading->nvidia->nvml.DeviceGetFieldValues && !reading->device->has_no_fields)
                refuse_all(reading->device, NVML_FUNCTION_NOT_FOUND);
        if (!reading->device->has_no_fields)
                read_batch(reading);
        put_violations(reading);
}
