#include "collectors/gpu/table.h"

#include "base/mem.h"

// clang-format off
static const struct infp_column gpu_keys[] = {
        INFP_COLUMN(gGpuIndex, I64, LABEL, none, MEASURED, NO, NULL, 0, "gpu", "Number of the GPU in its driver; another one after a restart of the machine, and not that of CUDA."),
        INFP_COLUMN(gUuid, STR, LABEL, none, MEASURED, NO, NULL, 0, "uuid", "UUID or serial number of the GPU, which stays the same; where it has none, its PCI address."),
};

static const struct infp_column gpu_columns[] = {
        [GPU_VENDOR - 2] = INFP_COLUMN(gVendor, STR, LABEL, none, DERIVED, NO, NULL, 0, "vendor", "Maker: nvidia, amd or intel."),
        [GPU_NAME - 2] = INFP_COLUMN(gName, STR, LABEL, none, MEASURED, NO, "nvmlDeviceGetName", 0, "model", "Product name."),
        [GPU_PCI_BUS_ID - 2] = INFP_COLUMN(gPciBusId, STR, LABEL, none, MEASURED, NO, "nvmlDeviceGetPciInfo_v3", 0, "pci_bus_id", "PCI address, domain:bus:device.function."),
        [GPU_DRIVER - 2] = INFP_COLUMN(gDriver, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Kernel driver: nvidia, amdgpu, i915 or xe."),
        [GPU_ARCHITECTURE - 2] = INFP_COLUMN(gArchitecture, STR, LABEL, none, MEASURED, NO, "nvmlDeviceGetCudaComputeCapability", 0, NULL, "What programs are compiled for: compute capability (9.0) of NVIDIA, gfx version of AMD."),
        [GPU_NUMA_NODE - 2] = INFP_COLUMN(gNumaNode, I64, LABEL, none, MEASURED, NO, "numa_node", 0, NULL, "NUMA node whose memory is nearest; absent where the machine has only one or does not report it."),
        [GPU_UTILIZATION_GPU - 2] = INFP_COLUMN(gUtilizationGpu, I64, GAUGE, percent, MEASURED, NO, "nvmlDeviceGetUtilizationRates", 0, "infprof_gpu_utilization_ratio", "Share of time in which at least one kernel ran, over the driver's last sample period (1/6 to 1 s); it does not show how much of the chip the kernel used; for Intel the sum over the processes that were looked at, an estimate."),
        [GPU_UTILIZATION_MEM - 2] = INFP_COLUMN(gUtilizationMem, I64, GAUGE, percent, MEASURED, NO, "nvmlDeviceGetUtilizationRates", 0, "infprof_gpu_memory_utilization_ratio", "Share of time in which its memory was read or written; of AMD the activity of the memory controller."),
        [GPU_UTILIZATION_ENCODER - 2] = INFP_COLUMN(gUtilizationEncoder, I64, GAUGE, percent, MEASURED, NO, "nvmlDeviceGetEncoderUtilization", 0, "infprof_gpu_encoder_utilization_ratio", "Video encoder."),
        [GPU_UTILIZATION_DECODER - 2] = INFP_COLUMN(gUtilizationDecoder, I64, GAUGE, percent, MEASURED, NO, "nvmlDeviceGetDecoderUtilization", 0, "infprof_gpu_decoder_utilization_ratio", "Video decoder."),
        [GPU_UTILIZATION_JPEG - 2] = INFP_COLUMN(gUtilizationJpeg, I64, GAUGE, percent, MEASURED, NO, "nvmlDeviceGetJpgUtilization", 0, "infprof_gpu_jpeg_utilization_ratio", "JPEG decoder."),
        [GPU_UTILIZATION_OFA - 2] = INFP_COLUMN(gUtilizationOfa, I64, GAUGE, percent, MEASURED, NO, "nvmlDeviceGetOfaUtilization", 0, "infprof_gpu_ofa_utilization_ratio", "Optical flow accelerator."),
        [GPU_UTILIZATION_MEDIA - 2] = INFP_COLUMN(gUtilizationMedia, I64, GAUGE, percent, MEASURED, NO, NULL, 0, "infprof_gpu_media_utilization_ratio", "Video engines together, where encoder and decoder are not separate (AMD, Intel)."),
        [GPU_UTILIZATION_COPY - 2] = INFP_COLUMN(gUtilizationCopy, I64, GAUGE, percent, MEASURED, NO, NULL, 0, "infprof_gpu_copy_utilization_ratio", "Copy engines (AMD, Intel)."),
        [GPU_UTILIZATION_COMPUTE - 2] = INFP_COLUMN(gUtilizationCompute, I64, GAUGE, percent, MEASURED, NO, NULL, 0, "infprof_gpu_compute_utilization_ratio", "Compute engines, where they are counted apart from graphics (AMD, Intel)."),
        [GPU_MEMORY_TOTAL_MB - 2] = INFP_COLUMN(gMemoryTotalMb, I64, GAUGE, mib, MEASURED, NO, "nvmlDeviceGetMemoryInfo_v2", 0, NULL, "Memory of the GPU in MiB, the part that the driver reserves included."),
        [GPU_MEMORY_USED_MB - 2] = INFP_COLUMN(gMemoryUsedMb, I64, GAUGE, mib, MEASURED, NO, "nvmlDeviceGetMemoryInfo_v2", 0, NULL, "Memory in use in MiB, without what the driver reserves."),
        [GPU_MEMORY_FREE_MB - 2] = INFP_COLUMN(gMemoryFreeMb, I64, GAUGE, mib, MEASURED, NO, "nvmlDeviceGetMemoryInfo_v2", 0, NULL, "Free memory in MiB."),
        [GPU_MEMORY_RESERVED_MB - 2] = INFP_COLUMN(gMemoryReservedMb, I64, GAUGE, mib, MEASURED, NO, "nvmlDeviceGetMemoryInfo_v2", 0, NULL, "Memory that driver and firmware keep for themselves, in MiB."),
        [GPU_MEMORY_TOTAL_BYTES - 2] = INFP_COLUMN(gMemoryTotalBytes, I64, GAUGE, bytes, MEASURED, NO, "nvmlDeviceGetMemoryInfo_v2", 0, "infprof_gpu_memory_total_bytes", "gMemoryTotalMb in bytes."),
        [GPU_MEMORY_USED_BYTES - 2] = INFP_COLUMN(gMemoryUsedBytes, I64, GAUGE, bytes, MEASURED, NO, "nvmlDeviceGetMemoryInfo_v2", 0, "infprof_gpu_memory_used_bytes", "gMemoryUsedMb in bytes; for drivers before 510, which do not separate them, with gMemoryReservedBytes."),
        [GPU_MEMORY_FREE_BYTES - 2] = INFP_COLUMN(gMemoryFreeBytes, I64, GAUGE, bytes, MEASURED, NO, "nvmlDeviceGetMemoryInfo_v2", 0, "infprof_gpu_memory_free_bytes", "gMemoryFreeMb in bytes."),
        [GPU_MEMORY_RESERVED_BYTES - 2] = INFP_COLUMN(gMemoryReservedBytes, I64, GAUGE, bytes, MEASURED, NO, "nvmlDeviceGetMemoryInfo_v2", 0, "infprof_gpu_memory_reserved_bytes", "gMemoryReservedMb in bytes."),
        [GPU_BAR1_TOTAL_MB - 2] = INFP_COLUMN(gBar1TotalMb, I64, GAUGE, mib, MEASURED, NO, "nvmlDeviceGetBAR1MemoryInfo", 0, "infprof_gpu_bar1_total_bytes", "Window through which CPUs and other devices reach its memory, in MiB (AMD: visible VRAM)."),
        [GPU_BAR1_USED_MB - 2] = INFP_COLUMN(gBar1UsedMb, I64, GAUGE, mib, MEASURED, NO, "nvmlDeviceGetBAR1MemoryInfo", 0, "infprof_gpu_bar1_used_bytes", "Of gBar1TotalMb in use, in MiB."),
        [GPU_BAR1_FREE_MB - 2] = INFP_COLUMN(gBar1FreeMb, I64, GAUGE, mib, MEASURED, NO, "nvmlDeviceGetBAR1MemoryInfo", 0, "infprof_gpu_bar1_free_bytes", "Of gBar1TotalMb free, in MiB."),
        [GPU_SYSTEM_MEMORY_TOTAL_BYTES - 2] = INFP_COLUMN(gSystemMemoryTotalBytes, I64, GAUGE, bytes, MEASURED, NO, NULL, 0, "infprof_gpu_system_memory_total_bytes", "Memory of the machine that the GPU may map (AMD GTT)."),
        [GPU_SYSTEM_MEMORY_USED_BYTES - 2] = INFP_COLUMN(gSystemMemoryUsedBytes, I64, GAUGE, bytes, MEASURED, NO, NULL, 0, "infprof_gpu_system_memory_used_bytes", "Memory of the machine that the GPU has mapped (AMD GTT, Intel)."),
        [GPU_TEMPERATURE - 2] = INFP_COLUMN(gTemperatureC, I64, GAUGE, celsius, MEASURED, NO, "nvmlDeviceGetTemperatureV", 0, "infprof_gpu_temperature_celsius", "Temperature of the chip (AMD: edge)."),
        [GPU_TEMPERATURE_MEMORY - 2] = INFP_COLUMN(gTemperatureMemoryC, I64, GAUGE, celsius, MEASURED, NO, "field 82", 0, "infprof_gpu_memory_temperature_celsius", "Temperature of its memory."),
        [GPU_TEMPERATURE_HOTSPOT - 2] = INFP_COLUMN(gTemperatureHotspotC, I64, GAUGE, celsius, MEASURED, NO, NULL, 0, "infprof_gpu_hotspot_temperature_celsius", "The hottest place of the chip (AMD: junction)."),
        [GPU_TEMPERATURE_SHUTDOWN - 2] = INFP_COLUMN(gTemperatureShutdownC, I64, GAUGE, celsius, MEASURED, NO, "nvmlDeviceGetTemperatureThreshold 0", 0, "infprof_gpu_temperature_shutdown_celsius", "Temperature at which it turns itself off."),
        [GPU_TEMPERATURE_SLOWDOWN - 2] = INFP_COLUMN(gTemperatureSlowdownC, I64, GAUGE, celsius, MEASURED, NO, "nvmlDeviceGetTemperatureThreshold 1", 0, "infprof_gpu_temperature_slowdown_celsius", "Temperature at which hardware slows it down."),
        [GPU_TEMPERATURE_GPU_MAX - 2] = INFP_COLUMN(gTemperatureGpuMaxC, I64, GAUGE, celsius, MEASURED, NO, "nvmlDeviceGetTemperatureThreshold 3", 0, "infprof_gpu_temperature_max_celsius", "Temperature at which software begins to slow it down."),
        [GPU_TEMPERATURE_MEMORY_MAX - 2] = INFP_COLUMN(gTemperatureMemoryMaxC, I64, GAUGE, celsius, MEASURED, NO, "nvmlDeviceGetTemperatureThreshold 2", 0, "infprof_gpu_memory_temperature_max_celsius", "Temperature of its memory at which it is slowed down."),
        [GPU_TEMPERATURE_MARGIN - 2] = INFP_COLUMN(gTemperatureMarginC, I64, GAUGE, celsius, MEASURED, NO, "nvmlDeviceGetMarginTemperature", 0, "infprof_gpu_temperature_margin_celsius", "Degrees that are left until it is slowed down."),
        [GPU_FAN_SPEED - 2] = INFP_COLUMN(gFanSpeed, I64, GAUGE, percent, MEASURED, NO, "nvmlDeviceGetFanSpeed", 0, "infprof_gpu_fan_ratio", "Speed that the first fan is asked for, in per cent of its highest; absent of cards without fans."),
        [GPU_FAN_RPM - 2] = INFP_COLUMN(gFanRpm, I64, GAUGE, count, MEASURED, NO, "nvmlDeviceGetFanSpeedRPM", 0, "infprof_gpu_fan_revolutions_per_minute", "Revolutions per minute of the first fan."),
        [GPU_FANS - 2] = INFP_COLUMN(gFans, STR, LABEL, json, MEASURED, NO, "nvmlDeviceGetFanSpeed_v2", 0, NULL, "Each fan: percent asked for, revolutions per minute."),
        [GPU_POWER_DRAW - 2] = INFP_COLUMN(gPowerDrawW, F64, GAUGE, watts, MEASURED, NO, "nvmlDeviceGetPowerUsage", 0, "infprof_gpu_power_watts", "Power of the board; of Ampere and later (but GA100) the average of the last second, of others of this moment."),
        [GPU_POWER_AVERAGE - 2] = INFP_COLUMN(gPowerAverageW, F64, GAUGE, watts, MEASURED, NO, "field 185", 0, "infprof_gpu_power_average_watts", "Power of the board, average of the last second."),
        [GPU_POWER_INSTANT - 2] = INFP_COLUMN(gPowerInstantW, F64, GAUGE, watts, MEASURED, NO, "field 186", 0, "infprof_gpu_power_instant_watts", "Power of the board at this moment."),
        [GPU_POWER_MEMORY - 2] = INFP_COLUMN(gPowerMemoryW, F64, GAUGE, watts, MEASURED, NO, "field 186 scope 2", 0, "infprof_gpu_memory_power_watts", "Of gPowerInstantW: its memory."),
        [GPU_POWER_LIMIT - 2] = INFP_COLUMN(gPowerLimitW, F64, GAUGE, watts, MEASURED, NO, "nvmlDeviceGetPowerManagementLimit", 0, "infprof_gpu_power_limit_watts", "Power limit as it was set."),
        [GPU_POWER_LIMIT_ENFORCED - 2] = INFP_COLUMN(gPowerLimitEnforcedW, F64, GAUGE, watts, MEASURED, NO, "nvmlDeviceGetEnforcedPowerLimit", 0, "infprof_gpu_power_limit_enforced_watts", "Power limit that holds: the least of those set by software, board and thermal policy."),
        [GPU_POWER_LIMIT_DEFAULT - 2] = INFP_COLUMN(gPowerLimitDefaultW, F64, GAUGE, watts, MEASURED, NO, "nvmlDeviceGetPowerManagementDefaultLimit", 0, "infprof_gpu_power_limit_default_watts", "Power limit after the driver has started."),
        [GPU_POWER_LIMIT_MIN - 2] = INFP_COLUMN(gPowerLimitMinW, F64, GAUGE, watts, MEASURED, NO, "nvmlDeviceGetPowerManagementLimitConstraints", 0, "infprof_gpu_power_limit_min_watts", "Lowest power limit that can be set."),
        [GPU_POWER_LIMIT_MAX - 2] = INFP_COLUMN(gPowerLimitMaxW, F64, GAUGE, watts, MEASURED, NO, "nvmlDeviceGetPowerManagementLimitConstraints", 0, "infprof_gpu_power_limit_max_watts", "Highest power limit that can be set."),
        [GPU_ENERGY_MJ - 2] = INFP_COLUMN(gEnergyMj, U64, COUNTER, mj, MEASURED, ZERO, "nvmlDeviceGetTotalEnergyConsumption", 0, "infprof_gpu_energy_raw_joules_total", "Its own counter of energy in millijoules, since the driver was loaded; it moves in steps of about 100 ms."),
        [GPU_ENERGY_JOULES - 2] = INFP_COLUMN(gEnergyJoules, F64, COUNTER, joules, DERIVED, GAP, "gEnergyMeasuredS", 0, "infprof_gpu_energy_joules_total", "Energy since its first reading in this recording, restarts of the counter taken out; gEnergyQuality says whether it was counted or integrated."),
        [GPU_ENERGY_SOURCE - 2] = INFP_COLUMN(gEnergySource, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "What gEnergyJoules rests on: counter, or the power that was integrated (instant power, power)."),
        [GPU_ENERGY_QUALITY - 2] = INFP_COLUMN(gEnergyQuality, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Of gEnergyJoules: measured (a counter) or estimated (power, integrated by the trapezoid rule)."),
        [GPU_CLOCK_GRAPHICS - 2] = INFP_COLUMN(gClockGraphicsMhz, I64, GAUGE, mhz, MEASURED, NO, "nvmlDeviceGetClockInfo 0", 0, "infprof_gpu_graphics_clock_hertz", "Clock of the graphics engine."),
        [GPU_CLOCK_SM - 2] = INFP_COLUMN(gClockSmMhz, I64, GAUGE, mhz, MEASURED, NO, "nvmlDeviceGetClockInfo 1", 0, "infprof_gpu_sm_clock_hertz", "Clock of the streaming multiprocessors."),
        [GPU_CLOCK_MEM - 2] = INFP_COLUMN(gClockMemMhz, I64, GAUGE, mhz, MEASURED, NO, "nvmlDeviceGetClockInfo 2", 0, "infprof_gpu_memory_clock_hertz", "Clock of the memory."),
        [GPU_CLOCK_VIDEO - 2] = INFP_COLUMN(gClockVideoMhz, I64, GAUGE, mhz, MEASURED, NO, "nvmlDeviceGetClockInfo 3", 0, "infprof_gpu_video_clock_hertz", "Clock of the video engines."),
        [GPU_CLOCK_SOC - 2] = INFP_COLUMN(gClockSocMhz, I64, GAUGE, mhz, MEASURED, NO, NULL, 0, "infprof_gpu_soc_clock_hertz", "Clock of the fabric between the parts of the chip (AMD)."),
        [GPU_CLOCK_GRAPHICS_MAX - 2] = INFP_COLUMN(gClockGraphicsMaxMhz, I64, GAUGE, mhz, MEASURED, NO, "nvmlDeviceGetMaxClockInfo 0", 0, "infprof_gpu_graphics_clock_max_hertz", "Highest clock of the graphics engine."),
        [GPU_CLOCK_SM_MAX - 2] = INFP_COLUMN(gClockSmMaxMhz, I64, GAUGE, mhz, MEASURED, NO, "nvmlDeviceGetMaxClockInfo 1", 0, "infprof_gpu_sm_clock_max_hertz", "Highest clock of the streaming multiprocessors."),
        [GPU_CLOCK_MEM_MAX - 2] = INFP_COLUMN(gClockMemMaxMhz, I64, GAUGE, mhz, MEASURED, NO, "nvmlDeviceGetMaxClockInfo 2", 0, "infprof_gpu_memory_clock_max_hertz", "Highest clock of the memory."),
        [GPU_CLOCK_VIDEO_MAX - 2] = INFP_COLUMN(gClockVideoMaxMhz, I64, GAUGE, mhz, MEASURED, NO, "nvmlDeviceGetMaxClockInfo 3", 0, "infprof_gpu_video_clock_max_hertz", "Highest clock of the video engines."),
        [GPU_PERF_STATE - 2] = INFP_COLUMN(gPerfState, STR, GAUGE, none, MEASURED, NO, "nvmlDeviceGetPerformanceState", 0, NULL, "Performance state, from P0 (highest) to P15; of AMD the performance level."),
        [GPU_EVENT_REASONS - 2] = INFP_COLUMN(gClocksEventReasons, I64, GAUGE, none, MEASURED, NO, "nvmlDeviceGetCurrentClocksEventReasons", 0, "infprof_gpu_clocks_event_reasons", "Why the clocks are not higher at this moment, as bits of the driver; short events pass between two samples, so see the violation times."),
        [GPU_EVENT_REASONS_TEXT - 2] = INFP_COLUMN(gClocksEventReasonsText, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "gClocksEventReasons in words, separated by commas; none: no reason."),
        [GPU_VIOLATION_POWER - 2] = INFP_COLUMN(gViolationPowerNs, I64, COUNTER, ns, MEASURED, ZERO, "nvmlDeviceGetViolationStatus 0", 0, "infprof_gpu_violation_power_seconds_total", "Time in which the clocks were held down by the power limit."),
        [GPU_VIOLATION_THERMAL - 2] = INFP_COLUMN(gViolationThermalNs, I64, COUNTER, ns, MEASURED, ZERO, "nvmlDeviceGetViolationStatus 1", 0, "infprof_gpu_violation_thermal_seconds_total", "Time in which the clocks were held down by heat."),
        [GPU_VIOLATION_SYNC_BOOST - 2] = INFP_COLUMN(gViolationSyncBoostNs, I64, COUNTER, ns, MEASURED, ZERO, "nvmlDeviceGetViolationStatus 2", 0, "infprof_gpu_violation_sync_boost_seconds_total", "Time in which the clocks waited for another GPU of the same group."),
        [GPU_VIOLATION_BOARD_LIMIT - 2] = INFP_COLUMN(gViolationBoardLimitNs, I64, COUNTER, ns, MEASURED, ZERO, "nvmlDeviceGetViolationStatus 3", 0, "infprof_gpu_violation_board_limit_seconds_total", "Time in which the clocks were held down by a limit of the board."),
        [GPU_VIOLATION_LOW_UTILIZATION - 2] = INFP_COLUMN(gViolationLowUtilizationNs, I64, COUNTER, ns, MEASURED, ZERO, "nvmlDeviceGetViolationStatus 4", 0, "infprof_gpu_violation_low_utilization_seconds_total", "Time in which the clocks were low since there was little to do."),
        [GPU_VIOLATION_RELIABILITY - 2] = INFP_COLUMN(gViolationReliabilityNs, I64, COUNTER, ns, MEASURED, ZERO, "nvmlDeviceGetViolationStatus 5", 0, "infprof_gpu_violation_reliability_seconds_total", "Time in which the clocks were held down by the board's reliability limit."),
        [GPU_VIOLATION_SW_THERMAL - 2] = INFP_COLUMN(gViolationSwThermalNs, I64, COUNTER, ns, MEASURED, ZERO, "field 269; of drivers before 590 251", 0, "infprof_gpu_violation_sw_thermal_seconds_total", "Time in which software slowed it down because of heat (driver 575 and later)."),
        [GPU_VIOLATION_HW_THERMAL - 2] = INFP_COLUMN(gViolationHwThermalNs, I64, COUNTER, ns, MEASURED, ZERO, "field 270; of drivers before 590 252", 0, "infprof_gpu_violation_hw_thermal_seconds_total", "Time in which hardware slowed it down because of heat (driver 575 and later)."),
        [GPU_VIOLATION_HW_POWER_BRAKE - 2] = INFP_COLUMN(gViolationHwPowerBrakeNs, I64, COUNTER, ns, MEASURED, ZERO, "field 271; of drivers before 590 253", 0, "infprof_gpu_violation_hw_power_brake_seconds_total", "Time in which the power supply asked for less (driver 575 and later)."),
        [GPU_PCIE_TX_KBPS - 2] = INFP_COLUMN(gPcieTxKbps, I64, GAUGE, kib_per_s, MEASURED, NO, "nvmlDeviceGetPcieThroughput 0", 0, "infprof_gpu_pcie_tx_bytes_per_second", "PCIe traffic from the GPU in KiB/s over 20 ms; each reading takes that long, so it is read only with --gpu-pcie."),
        [GPU_PCIE_RX_KBPS - 2] = INFP_COLUMN(gPcieRxKbps, I64, GAUGE, kib_per_s, MEASURED, NO, "nvmlDeviceGetPcieThroughput 1", 0, "infprof_gpu_pcie_rx_bytes_per_second", "PCIe traffic to the GPU in KiB/s, read like gPcieTxKbps."),
        [GPU_PCIE_TX_BYTES - 2] = INFP_COLUMN(gPcieTxBytes, I64, COUNTER, bytes, DERIVED, ZERO, "field 197", 0, "infprof_gpu_pcie_tx_bytes_total", "Bytes from the GPU by PCIe since its first reading, wraps of the driver's 32 bits counted."),
        [GPU_PCIE_RX_BYTES - 2] = INFP_COLUMN(gPcieRxBytes, I64, COUNTER, bytes, DERIVED, ZERO, "field 198", 0, "infprof_gpu_pcie_rx_bytes_total", "Bytes to the GPU by PCIe since its first reading, wraps of the driver's 32 bits counted."),
        [GPU_PCIE_GEN - 2] = INFP_COLUMN(gPcieGen, I64, GAUGE, none, MEASURED, NO, "nvmlDeviceGetCurrPcieLinkGeneration", 0, "infprof_gpu_pcie_generation", "Generation that its PCIe link runs at; an idle GPU goes down to 1."),
        [GPU_PCIE_WIDTH - 2] = INFP_COLUMN(gPcieWidth, I64, GAUGE, none, MEASURED, NO, "nvmlDeviceGetCurrPcieLinkWidth", 0, "infprof_gpu_pcie_lanes", "Lanes that its PCIe link uses."),
        [GPU_PCIE_GEN_MAX - 2] = INFP_COLUMN(gPcieGenMax, I64, GAUGE, none, MEASURED, NO, "nvmlDeviceGetMaxPcieLinkGeneration", 0, "infprof_gpu_pcie_generation_max", "Highest generation that GPU and slot can do."),
        [GPU_PCIE_WIDTH_MAX - 2] = INFP_COLUMN(gPcieWidthMax, I64, GAUGE, none, MEASURED, NO, "nvmlDeviceGetMaxPcieLinkWidth", 0, "infprof_gpu_pcie_lanes_max", "Most lanes that GPU and slot can use."),
        [GPU_PCIE_REPLAYS - 2] = INFP_COLUMN(gPcieReplays, I64, COUNTER, count, MEASURED, ZERO, "nvmlDeviceGetPcieReplayCounter", 0, "infprof_gpu_pcie_replays_total", "Packets that had to be sent again by PCIe."),
        [GPU_NVLINK_COUNT - 2] = INFP_COLUMN(gNvlinkCount, I64, GAUGE, count, MEASURED, NO, "field 91", 0, "infprof_gpu_nvlinks", "NVLinks that it has."),
        [GPU_NVLINK_TX_BYTES - 2] = INFP_COLUMN(gNvlinkTxBytes, I64, COUNTER, bytes, MEASURED, ZERO, "field 138", 0, "infprof_gpu_nvlink_tx_bytes_total", "Data sent by all NVLinks, of AMD by XGMI."),
        [GPU_NVLINK_RX_BYTES - 2] = INFP_COLUMN(gNvlinkRxBytes, I64, COUNTER, bytes, MEASURED, ZERO, "field 139", 0, "infprof_gpu_nvlink_rx_bytes_total", "Data received by all NVLinks, of AMD by XGMI."),
        [GPU_NVLINK_CRC_ERRORS - 2] = INFP_COLUMN(gNvlinkCrcErrors, I64, COUNTER, count, MEASURED, ZERO, "field 38", 0, "infprof_gpu_nvlink_crc_errors_total", "Checksum errors of all NVLinks."),
        [GPU_NVLINK_REPLAY_ERRORS - 2] = INFP_COLUMN(gNvlinkReplayErrors, I64, COUNTER, count, MEASURED, ZERO, "field 52", 0, "infprof_gpu_nvlink_replay_errors_total", "Replays of all NVLinks."),
        [GPU_NVLINK_RECOVERY_ERRORS - 2] = INFP_COLUMN(gNvlinkRecoveryErrors, I64, COUNTER, count, MEASURED, ZERO, "field 59", 0, "infprof_gpu_nvlink_recovery_errors_total", "Recoveries of all NVLinks."),
        [GPU_ECC_ENABLED - 2] = INFP_COLUMN(gEccEnabled, BOOL, LABEL, none, MEASURED, NO, "nvmlDeviceGetEccMode", 0, NULL, "Its memory corrects errors (ECC); without it the counters below stay empty."),
        [GPU_ECC_SINGLE_BIT - 2] = INFP_COLUMN(gEccSingleBitErrors, I64, COUNTER, count, MEASURED, ZERO, "nvmlDeviceGetTotalEccErrors 0 0", 0, "infprof_gpu_ecc_corrected_errors_total", "Memory errors that were corrected since the driver was loaded."),
        [GPU_ECC_DOUBLE_BIT - 2] = INFP_COLUMN(gEccDoubleBitErrors, I64, COUNTER, count, MEASURED, ZERO, "nvmlDeviceGetTotalEccErrors 1 0", 0, "infprof_gpu_ecc_uncorrected_errors_total", "Memory errors that could not be corrected since the driver was loaded."),
        [GPU_ECC_AGGREGATE_SINGLE_BIT - 2] = INFP_COLUMN(gEccAggregateSingleBitErrors, I64, COUNTER, count, MEASURED, ZERO, "nvmlDeviceGetTotalEccErrors 0 1", 0, "infprof_gpu_ecc_corrected_errors_lifetime_total", "Memory errors that were corrected in the life of the board."),
        [GPU_ECC_AGGREGATE_DOUBLE_BIT - 2] = INFP_COLUMN(gEccAggregateDoubleBitErrors, I64, COUNTER, count, MEASURED, ZERO, "nvmlDeviceGetTotalEccErrors 1 1", 0, "infprof_gpu_ecc_uncorrected_errors_lifetime_total", "Memory errors that could not be corrected in the life of the board."),
        [GPU_RETIRED_PAGES_SINGLE_BIT - 2] = INFP_COLUMN(gRetiredPagesSingleBit, I64, COUNTER, count, MEASURED, ZERO, "nvmlDeviceGetRetiredPages 0", 0, "infprof_gpu_retired_pages_corrected_total", "Pages taken out of use after several corrected errors (before Ampere)."),
        [GPU_RETIRED_PAGES_DOUBLE_BIT - 2] = INFP_COLUMN(gRetiredPagesDoubleBit, I64, COUNTER, count, MEASURED, ZERO, "nvmlDeviceGetRetiredPages 1", 0, "infprof_gpu_retired_pages_uncorrected_total", "Pages taken out of use after an uncorrected error (before Ampere; AMD: bad pages)."),
        [GPU_RETIRED_PAGES_PENDING - 2] = INFP_COLUMN(gRetiredPagesPending, BOOL, GAUGE, none, MEASURED, NO, "nvmlDeviceGetRetiredPagesPendingStatus", 0, "infprof_gpu_retired_pages_pending", "Pages will be taken out of use at its next reset."),
        [GPU_REMAPPED_ROWS_CORRECTABLE - 2] = INFP_COLUMN(gRemappedRowsCorrectable, I64, COUNTER, count, MEASURED, ZERO, "nvmlDeviceGetRemappedRows", 0, "infprof_gpu_remapped_rows_corrected_total", "Memory rows replaced by spare ones after corrected errors (Ampere and later)."),
        [GPU_REMAPPED_ROWS_UNCORRECTABLE - 2] = INFP_COLUMN(gRemappedRowsUncorrectable, I64, COUNTER, count, MEASURED, ZERO, "nvmlDeviceGetRemappedRows", 0, "infprof_gpu_remapped_rows_uncorrected_total", "Memory rows replaced by spare ones after uncorrected errors."),
        [GPU_REMAPPED_ROWS_PENDING - 2] = INFP_COLUMN(gRemappedRowsPending, BOOL, GAUGE, none, MEASURED, NO, "nvmlDeviceGetRemappedRows", 0, "infprof_gpu_remapped_rows_pending", "Rows wait to be replaced: the GPU needs a reset."),
        [GPU_REMAPPED_ROWS_FAILURE - 2] = INFP_COLUMN(gRemappedRowsFailure, BOOL, GAUGE, none, MEASURED, NO, "nvmlDeviceGetRemappedRows", 0, "infprof_gpu_remapped_rows_failure", "A row could not be replaced: the board must be returned."),
        [GPU_RECOVERY_ACTION - 2] = INFP_COLUMN(gRecoveryAction, STR, LABEL, none, MEASURED, NO, "field 230", 0, NULL, "What the driver asks for: none, reset, reboot, drain peer-to-peer, drain and reset, recover IMEX domain."),
        [GPU_XID_ERRORS - 2] = INFP_COLUMN(gXidErrors, I64, COUNTER, count, MEASURED, ZERO, "nvmlEventSetWait_v2", 0, "infprof_gpu_xid_errors_total", "Xid errors that the driver reported since this recording began."),
        [GPU_XID_LAST - 2] = INFP_COLUMN(gXidLast, I64, GAUGE, none, MEASURED, NO, "nvmlEventSetWait_v2", 0, "infprof_gpu_xid_last", "Number of the last Xid error; absent until one comes."),
        [GPU_GPM_GRAPHICS - 2] = INFP_COLUMN(gGpmGraphicsActive, F64, GAUGE, percent, MEASURED, NO, "GPM 1", 0, "infprof_gpu_gpm_graphics_active_ratio", "Share of time in which graphics or compute engine were busy, counted in the chip since the last sample (Hopper and later)."),
        [GPU_GPM_SM - 2] = INFP_COLUMN(gGpmSmActive, F64, GAUGE, percent, MEASURED, NO, "GPM 2", 0, "infprof_gpu_gpm_sm_active_ratio", "Share of multiprocessors that had a warp, over time: how much of the chip was in use."),
        [GPU_GPM_SM_OCCUPANCY - 2] = INFP_COLUMN(gGpmSmOccupancy, F64, GAUGE, percent, MEASURED, NO, "GPM 3", 0, "infprof_gpu_gpm_sm_occupancy_ratio", "Warps on the multiprocessors, of all that they could hold."),
        [GPU_GPM_TENSOR - 2] = INFP_COLUMN(gGpmTensorActive, F64, GAUGE, percent, MEASURED, NO, "GPM 5", 0, "infprof_gpu_gpm_tensor_active_ratio", "Share of time in which tensor cores worked."),
        [GPU_GPM_DRAM_BANDWIDTH - 2] = INFP_COLUMN(gGpmDramBandwidth, F64, GAUGE, percent, MEASURED, NO, "GPM 10", 0, "infprof_gpu_gpm_dram_bandwidth_ratio", "Traffic to its memory, of what the memory can do at most: near 100 a decode is bound by bandwidth."),
        [GPU_GPM_FP64 - 2] = INFP_COLUMN(gGpmFp64Active, F64, GAUGE, percent, MEASURED, NO, "GPM 11", 0, "infprof_gpu_gpm_fp64_active_ratio", "Share of time in which FP64 units worked."),
        [GPU_GPM_FP32 - 2] = INFP_COLUMN(gGpmFp32Active, F64, GAUGE, percent, MEASURED, NO, "GPM 12", 0, "infprof_gpu_gpm_fp32_active_ratio", "Share of time in which FP32 units worked."),
        [GPU_GPM_FP16 - 2] = INFP_COLUMN(gGpmFp16Active, F64, GAUGE, percent, MEASURED, NO, "GPM 13", 0, "infprof_gpu_gpm_fp16_active_ratio", "Share of time in which FP16 units (not tensor cores) worked."),
        [GPU_GPM_PCIE_TX_KBPS - 2] = INFP_COLUMN(gGpmPcieTxKbps, F64, GAUGE, kib_per_s, MEASURED, NO, "GPM 20", 0, "infprof_gpu_gpm_pcie_tx_bytes_per_second", "PCIe traffic from the GPU in KiB/s since the last sample."),
        [GPU_GPM_PCIE_RX_KBPS - 2] = INFP_COLUMN(gGpmPcieRxKbps, F64, GAUGE, kib_per_s, MEASURED, NO, "GPM 21", 0, "infprof_gpu_gpm_pcie_rx_bytes_per_second", "PCIe traffic to the GPU in KiB/s since the last sample."),
        [GPU_GPM_NVLINK_TX_KBPS - 2] = INFP_COLUMN(gGpmNvlinkTxKbps, F64, GAUGE, kib_per_s, MEASURED, NO, "GPM 61", 0, "infprof_gpu_gpm_nvlink_tx_bytes_per_second", "NVLink traffic from the GPU in KiB/s since the last sample."),
        [GPU_GPM_NVLINK_RX_KBPS - 2] = INFP_COLUMN(gGpmNvlinkRxKbps, F64, GAUGE, kib_per_s, MEASURED, NO, "GPM 60", 0, "infprof_gpu_gpm_nvlink_rx_bytes_per_second", "NVLink traffic to the GPU in KiB/s since the last sample."),
        [GPU_MEMORY_BANDWIDTH_KBPS - 2] = INFP_COLUMN(gMemoryBandwidthKbps, F64, GAUGE, kib_per_s, ESTIMATED, NO, NULL, 0, "infprof_gpu_memory_bandwidth_bytes_per_second", "Traffic to its memory in KiB/s: gGpmDramBandwidth of the peak that highest memory clock and bus width give."),
        [GPU_MIG_MODE - 2] = INFP_COLUMN(gMigMode, STR, LABEL, none, MEASURED, NO, "nvmlDeviceGetMigMode", 0, NULL, "Multi-instance mode: enabled or disabled; with it the driver gives no utilisation of the whole GPU."),
        [GPU_MIG_DEVICES - 2] = INFP_COLUMN(gMigDevices, I64, GAUGE, count, MEASURED, NO, "nvmlDeviceGetMigDeviceHandleByIndex", 0, "infprof_gpu_mig_devices", "MIG devices that it is cut into: table nvidia_mig."),
        [GPU_PROCESS_COUNT - 2] = INFP_COLUMN(gProcessCount, I64, GAUGE, count, MEASURED, NO, NULL, 0, "infprof_gpu_processes", "Processes that use it, each once."),
        [GPU_PROCESSES - 2] = INFP_COLUMN(gProcesses, STR, LABEL, json, DERIVED, NO, NULL, 0, NULL, "Processes that use it, as 123: python (456 MB); the MB are MiB, and a process of another pid namespace has no name."),
        [GPU_VOLTAGE - 2] = INFP_COLUMN(gVoltageV, F64, GAUGE, volts, MEASURED, NO, NULL, 0, "infprof_gpu_voltage_volts", "Voltage of the graphics engine (AMD), of the package (Intel)."),
        [GPU_VBIOS - 2] = INFP_COLUMN(gVbios, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Version of the firmware in its ROM."),
        [GPU_ENERGY_MEASURED - 2] = INFP_COLUMN(gEnergyMeasuredS, F64, COUNTER, s, DERIVED, ZERO, NULL, 0, NULL, "Seconds that gEnergyJoules covers: not those of which nothing is known. Mean watts are the increase of gEnergyJoules by the increase of this."),
};

static const struct infp_column process_keys[] = {
        INFP_COLUMN(gGpuIndex, I64, LABEL, none, MEASURED, NO, NULL, 0, "gpu", "Number of the GPU in its driver; another one after a restart of the machine, and not that of CUDA."),
        INFP_COLUMN(gUuid, STR, LABEL, none, MEASURED, NO, NULL, 0, "uuid", "UUID or serial number of the GPU, which stays the same; where it has none, its PCI address."),
        INFP_COLUMN(gPid, I64, LABEL, none, MEASURED, NO, "pid", 0, "pid", "Pid, as the driver reports it: NVIDIA's is that of the host (gPidIsHost)."),
};

static const struct infp_column process_columns[] = {
        [GPU_PROCESS_VENDOR - 3] = INFP_COLUMN(gVendor, STR, LABEL, none, DERIVED, NO, NULL, 0, "vendor", "Maker: nvidia, amd or intel."),
        [GPU_PROCESS_NAME - 3] = INFP_COLUMN(gProcessName, STR, LABEL, none, MEASURED, NO, "comm", 0, "process", "Name that the kernel keeps (comm); absent where the pid is not one of our namespace."),
        [GPU_PROCESS_TYPE - 3] = INFP_COLUMN(gProcessType, STR, LABEL, none, MEASURED, NO, NULL, 0, "type", "C computes, G draws, CG both; M: through MPS."),
        [GPU_PROCESS_IS_HOST_PID - 3] = INFP_COLUMN(gPidIsHost, BOOL, LABEL, none, DERIVED, NO, NULL, 0, NULL, "The pid belongs to the host and means another process, or none, in the container that infprof runs in."),
        [GPU_PROCESS_IN_TREE - 3] = INFP_COLUMN(gInTree, BOOL, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Of the target: the command or the attached process, or a descendant."),
        [GPU_PROCESS_CONTAINER - 3] = INFP_COLUMN(gContainer, STR, LABEL, none, MEASURED, NO, "cgroup", 0, "container", "Container that it runs in: the first 12 digits of its id, or its name; absent: none."),
        [GPU_PROCESS_GPU_INSTANCE - 3] = INFP_COLUMN(gGpuInstance, I64, LABEL, none, MEASURED, NO, "gpuInstanceId", 0, NULL, "GPU instance of the MIG device that it runs on."),
        [GPU_PROCESS_COMPUTE_INSTANCE - 3] = INFP_COLUMN(gComputeInstance, I64, LABEL, none, MEASURED, NO, "computeInstanceId", 0, NULL, "Compute instance of the MIG device that it runs on."),
        [GPU_PROCESS_MEMORY_BYTES - 3] = INFP_COLUMN(gProcessMemoryBytes, I64, GAUGE, bytes, MEASURED, NO, "usedGpuMemory", 0, "infprof_gpu_process_memory_bytes", "Memory of the GPU that it uses."),
        [GPU_PROCESS_SYSTEM_MEMORY_BYTES - 3] = INFP_COLUMN(gProcessSystemMemoryBytes, I64, GAUGE, bytes, MEASURED, NO, NULL, 0, "infprof_gpu_process_system_memory_bytes", "Memory of the machine that it has the GPU map (AMD, Intel)."),
        [GPU_PROCESS_SM - 3] = INFP_COLUMN(gProcessSm, I64, GAUGE, percent, MEASURED, NO, "smUtil", 0, "infprof_gpu_process_sm_ratio", "Share of time in which its kernels ran, over the driver's last sample; the sum over processes can exceed 100."),
        [GPU_PROCESS_MEM - 3] = INFP_COLUMN(gProcessMem, I64, GAUGE, percent, MEASURED, NO, "memUtil", 0, "infprof_gpu_process_memory_utilization_ratio", "Share of time in which it read or wrote memory of the GPU."),
        [GPU_PROCESS_ENCODER - 3] = INFP_COLUMN(gProcessEncoder, I64, GAUGE, percent, MEASURED, NO, "encUtil", 0, "infprof_gpu_process_encoder_ratio", "Video encoder."),
        [GPU_PROCESS_DECODER - 3] = INFP_COLUMN(gProcessDecoder, I64, GAUGE, percent, MEASURED, NO, "decUtil", 0, "infprof_gpu_process_decoder_ratio", "Video decoder."),
        [GPU_PROCESS_JPEG - 3] = INFP_COLUMN(gProcessJpeg, I64, GAUGE, percent, MEASURED, NO, "jpgUtil", 0, "infprof_gpu_process_jpeg_ratio", "JPEG decoder (driver 550 and later)."),
        [GPU_PROCESS_OFA - 3] = INFP_COLUMN(gProcessOfa, I64, GAUGE, percent, MEASURED, NO, "ofaUtil", 0, "infprof_gpu_process_ofa_ratio", "Optical flow accelerator (driver 550 and later)."),
        [GPU_PROCESS_SAMPLED_AT - 3] = INFP_COLUMN(gProcessSampledAt, TS_NS, LABEL, none, MEASURED, NO, "timeStamp", 0, NULL, "When the driver took the shares of time; absent: it had no sample of the process since our last one."),
        [GPU_PROCESS_RENDER_NS - 3] = INFP_COLUMN(gProcessRenderNs, I64, COUNTER, ns, MEASURED, ZERO, "drm-engine-gfx", 0, "infprof_gpu_process_render_seconds_total", "Time of the graphics engine (AMD gfx, Intel render)."),
        [GPU_PROCESS_COMPUTE_NS - 3] = INFP_COLUMN(gProcessComputeNs, I64, COUNTER, ns, MEASURED, ZERO, "drm-engine-compute", 0, "infprof_gpu_process_compute_seconds_total", "Time of compute engines (AMD, Intel)."),
        [GPU_PROCESS_COPY_NS - 3] = INFP_COLUMN(gProcessCopyNs, I64, COUNTER, ns, MEASURED, ZERO, "drm-engine-dma", 0, "infprof_gpu_process_copy_seconds_total", "Time of copy engines (AMD dma, Intel copy)."),
        [GPU_PROCESS_VIDEO_NS - 3] = INFP_COLUMN(gProcessVideoNs, I64, COUNTER, ns, MEASURED, ZERO, "drm-engine-dec", 0, "infprof_gpu_process_video_seconds_total", "Time of video decoders, of Intel of all video engines."),
        [GPU_PROCESS_ENCODE_NS - 3] = INFP_COLUMN(gProcessEncodeNs, I64, COUNTER, ns, MEASURED, ZERO, "drm-engine-enc", 0, "infprof_gpu_process_encode_seconds_total", "Time of video encoders (AMD)."),
        [GPU_PROCESS_ID - 3] = INFP_COLUMN(process, ID64, LABEL, none, DERIVED, NO, "process", 0, NULL, "The same process in table processes; absent where the pid is not one of our namespace."),
        [GPU_PROCESS_OCCUPANCY - 3] = INFP_COLUMN(gProcessOccupancy, F64, GAUGE, percent, MEASURED, NO, "cu_occupancy", 0, "infprof_gpu_process_occupancy_ratio", "Compute units that its waves hold at this moment, of all that the GPU has (AMD, through KFD)."),
};

static const struct infp_column mig_keys[] = {
        INFP_COLUMN(gGpuIndex, I64, LABEL, none, MEASURED, NO, NULL, 0, "gpu", "Number of the GPU in its driver; another one after a restart of the machine, and not that of CUDA."),
        INFP_COLUMN(gUuid, STR, LABEL, none, MEASURED, NO, NULL, 0, "uuid", "UUID or serial number of the GPU, which stays the same; where it has none, its PCI address."),
        INFP_COLUMN(gGpuInstance, I64, LABEL, none, MEASURED, NO, "nvmlDeviceGetGpuInstanceId", 0, "gpu_instance", "Number of its GPU instance."),
        INFP_COLUMN(gComputeInstance, I64, LABEL, none, MEASURED, NO, "nvmlDeviceGetComputeInstanceId", 0, "compute_instance", "Number of its compute instance in that."),
};

static const struct infp_column mig_columns[] = {
        [GPU_MIG_VENDOR - 4] = INFP_COLUMN(gVendor, STR, LABEL, none, DERIVED, NO, NULL, 0, "vendor", "Maker: nvidia."),
        [GPU_MIG_NUMBER - 4] = INFP_COLUMN(gMigIndex, I64, LABEL, none, MEASURED, NO, "nvmlDeviceGetMigDeviceHandleByIndex", 0, NULL, "Its number among the MIG devices of the GPU."),
        [GPU_MIG_OWN_UUID - 4] = INFP_COLUMN(gMigUuid, STR, LABEL, none, MEASURED, NO, "nvmlDeviceGetUUID", 0, "mig_uuid", "Its own UUID, as CUDA_VISIBLE_DEVICES takes it."),
        [GPU_MIG_NAME - 4] = INFP_COLUMN(gMigName, STR, LABEL, none, MEASURED, NO, "nvmlDeviceGetName", 0, "model", "Name with its profile, as 1g.10gb."),
        [GPU_MIG_SM_COUNT - 4] = INFP_COLUMN(gMigSmCount, I64, GAUGE, count, MEASURED, NO, "nvmlDeviceGetAttributes_v2", 0, "infprof_gpu_mig_multiprocessors", "Streaming multiprocessors that it has."),
        [GPU_MIG_SLICES - 4] = INFP_COLUMN(gMigSlices, I64, GAUGE, count, MEASURED, NO, "nvmlDeviceGetAttributes_v2", 0, "infprof_gpu_mig_slices", "Slices of the GPU that its GPU instance has."),
        [GPU_MIG_MEMORY_TOTAL_BYTES - 4] = INFP_COLUMN(gMigMemoryTotalBytes, I64, GAUGE, bytes, MEASURED, NO, "nvmlDeviceGetMemoryInfo_v2", 0, "infprof_gpu_mig_memory_total_bytes", "Memory of its GPU instance."),
        [GPU_MIG_MEMORY_USED_BYTES - 4] = INFP_COLUMN(gMigMemoryUsedBytes, I64, GAUGE, bytes, MEASURED, NO, "nvmlDeviceGetMemoryInfo_v2", 0, "infprof_gpu_mig_memory_used_bytes", "Of that in use."),
        [GPU_MIG_MEMORY_FREE_BYTES - 4] = INFP_COLUMN(gMigMemoryFreeBytes, I64, GAUGE, bytes, MEASURED, NO, "nvmlDeviceGetMemoryInfo_v2", 0, "infprof_gpu_mig_memory_free_bytes", "Of that free."),
        [GPU_MIG_MEMORY_RESERVED_BYTES - 4] = INFP_COLUMN(gMigMemoryReservedBytes, I64, GAUGE, bytes, MEASURED, NO, "nvmlDeviceGetMemoryInfo_v2", 0, "infprof_gpu_mig_memory_reserved_bytes", "Of that kept by driver and firmware."),
        [GPU_MIG_PROCESS_COUNT - 4] = INFP_COLUMN(gMigProcessCount, I64, GAUGE, count, MEASURED, NO, NULL, 0, "infprof_gpu_mig_processes", "Processes that use it."),
        [GPU_MIG_GPM_GRAPHICS - 4] = INFP_COLUMN(gMigGraphicsActive, F64, GAUGE, percent, MEASURED, NO, "GPM 1", 0, "infprof_gpu_mig_graphics_active_ratio", "Share of time in which its compute engine was busy since the last sample (Hopper and later, like all below)."),
        [GPU_MIG_GPM_SM - 4] = INFP_COLUMN(gMigSmActive, F64, GAUGE, percent, MEASURED, NO, "GPM 2", 0, "infprof_gpu_mig_sm_active_ratio", "Share of its multiprocessors that had a warp, over time."),
        [GPU_MIG_GPM_SM_OCCUPANCY - 4] = INFP_COLUMN(gMigSmOccupancy, F64, GAUGE, percent, MEASURED, NO, "GPM 3", 0, "infprof_gpu_mig_sm_occupancy_ratio", "Warps on its multiprocessors, of all that they could hold."),
        [GPU_MIG_GPM_TENSOR - 4] = INFP_COLUMN(gMigTensorActive, F64, GAUGE, percent, MEASURED, NO, "GPM 5", 0, "infprof_gpu_mig_tensor_active_ratio", "Share of time in which its tensor cores worked."),
        [GPU_MIG_GPM_DRAM_BANDWIDTH - 4] = INFP_COLUMN(gMigDramBandwidth, F64, GAUGE, percent, MEASURED, NO, "GPM 10", 0, "infprof_gpu_mig_dram_bandwidth_ratio", "Traffic to its memory, of what that can do at most."),
        [GPU_MIG_GPM_FP64 - 4] = INFP_COLUMN(gMigFp64Active, F64, GAUGE, percent, MEASURED, NO, "GPM 11", 0, "infprof_gpu_mig_fp64_active_ratio", "Share of time in which FP64 units worked."),
        [GPU_MIG_GPM_FP32 - 4] = INFP_COLUMN(gMigFp32Active, F64, GAUGE, percent, MEASURED, NO, "GPM 12", 0, "infprof_gpu_mig_fp32_active_ratio", "Share of time in which FP32 units worked."),
        [GPU_MIG_GPM_FP16 - 4] = INFP_COLUMN(gMigFp16Active, F64, GAUGE, percent, MEASURED, NO, "GPM 13", 0, "infprof_gpu_mig_fp16_active_ratio", "Share of time in which FP16 units worked."),
};

static const struct infp_column driver_columns[] = {
        [GPU_DRIVER_VERSION] = INFP_COLUMN(gDriverVersion, STR, LABEL, none, MEASURED, NO, "nvmlSystemGetDriverVersion", 0, NULL, "Version of the driver."),
        [GPU_DRIVER_CUDA] = INFP_COLUMN(gCudaVersion, STR, LABEL, none, MEASURED, NO, "nvmlSystemGetCudaDriverVersion_v2", 0, NULL, "Newest CUDA that the driver can run."),
        [GPU_DRIVER_LIBRARY] = INFP_COLUMN(gNvmlVersion, STR, LABEL, none, MEASURED, NO, "nvmlSystemGetNVMLVersion", 0, NULL, "Version of its library NVML."),
        [GPU_DRIVER_DEVICES] = INFP_COLUMN(gGpuCount, I64, LABEL, none, MEASURED, NO, "nvmlDeviceGetCount_v2", 0, NULL, "GPUs that the driver counts, with those that may not be opened."),
};
// clang-format on

_Static_assert(INFP_COUNT(gpu_columns) == GPU_N - 2, "a column for each cell");
_Static_assert(INFP_COUNT(process_columns) == GPU_PROCESS_N - 3, "a column for each cell");
_Static_assert(INFP_COUNT(mig_columns) == GPU_MIG_N - 4, "a column for each cell");
_Static_assert(INFP_COUNT(driver_columns) == GPU_DRIVER_N, "a column for each cell");
_Static_assert((int) GPU_N <= INFP_MAX_COLUMNS, "a table has no more");

#define GPU_TABLE(name_, help_)                                                                      \
        {                                                                                            \
                .name = name_, .help = help_, .keys = gpu_keys, .n_keys = 2, .columns = gpu_columns, \
                .n_columns = GPU_N - 2, .section = name_, .series = name_,                           \
        }
#define PROCESS_TABLE(name_, help_)                                                                          \
        {                                                                                                    \
                .name = name_, .help = help_, .keys = process_keys, .n_keys = 3, .columns = process_columns, \
                .n_columns = GPU_PROCESS_N - 3, .section = name_,                                            \
        }

const struct infp_table infp_table_nvidia = GPU_TABLE("nvidia", "GPUs of NVIDIA, by its library NVML.");
const struct infp_table infp_table_amdgpu = GPU_TABLE("amdgpu", "GPUs of AMD, by the driver amdgpu.");
const struct infp_table infp_table_intel = GPU_TABLE("intel", "GPUs of Intel, by the drivers i915 and xe.");

const struct infp_table infp_table_nvidia_processes = PROCESS_TABLE("nvidia_processes", "Processes on GPUs of NVIDIA.");
const struct infp_table infp_table_amdgpu_processes = PROCESS_TABLE("amdgpu_processes", "Processes on GPUs of AMD.");
const struct infp_table infp_table_intel_processes = PROCESS_TABLE("intel_processes", "Processes on GPUs of Intel.");

const struct infp_table infp_table_nvidia_mig = {
        .name = "nvidia_mig",
        .help = "MIG devices: parts of a GPU that programs see as GPUs of their own.",
        .keys = mig_keys,
        .n_keys = 4,
        .columns = mig_columns,
        .n_columns = GPU_MIG_N - 4,
        .section = "nvidia_mig",
};
const struct infp_table infp_table_nvidia_driver = {
        .name = "nvidia_driver",
        .help = "Driver of NVIDIA's GPUs.",
        .columns = driver_columns,
        .n_columns = GPU_DRIVER_N,
        .on_change = true,
};
