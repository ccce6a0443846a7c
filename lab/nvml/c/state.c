/* Clocks, power, temperature, memory, utilisation, errors, processes. */
#include "gate.h"

#define MEMORY_V2 (sizeof(nvmlMemory_v2_t) | 2u << 24)
#define TEMPERATURE_V1 (sizeof(nvmlTemperature_t) | 1u << 24)

EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type,
                                           unsigned int *out) {
    return give(device, GROUP_CLOCKS,
                type == NVML_CLOCK_MEM ? offsetof(struct fake_gpu, memory_clock_mhz)
                                       : offsetof(struct fake_gpu, sm_clock_mhz),
                out);
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type,
                                              unsigned int *out) {
    return give(device, GROUP_CLOCKS,
                type == NVML_CLOCK_MEM ? offsetof(struct fake_gpu, max_memory_clock_mhz)
                                       : offsetof(struct fake_gpu, max_sm_clock_mhz),
                out);
}

EXPORT nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device,
                                                           unsigned long long *out) {
    struct fake_gpu *gpu;
    nvmlReturn_t result = enter_gpu(device, GROUP_CLOCKS, &gpu);
    if (result == NVML_SUCCESS)
        *out = gpu->throttle_reasons;
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device,
                                                              unsigned long long *out) {
    return nvmlDeviceGetCurrentClocksEventReasons(device, out);
}

EXPORT nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *out) {
    return give(device, GROUP_POWER, offsetof(struct fake_gpu, power_mw), out);
}

EXPORT nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int *out) {
    return give(device, GROUP_POWER, offsetof(struct fake_gpu, power_limit_mw), out);
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor,
                                             unsigned int *out) {
    (void)sensor;
    return give(device, GROUP_TEMPERATURE, offsetof(struct fake_gpu, temperature_celsius), out);
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *out) {
    if (out->version != TEMPERATURE_V1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    unsigned int celsius;
    nvmlReturn_t result = give(device, GROUP_TEMPERATURE,
                               offsetof(struct fake_gpu, temperature_celsius), &celsius);
    if (result == NVML_SUCCESS)
        out->temperature = (int)celsius;
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *out) {
    struct fake_gpu *gpu;
    nvmlReturn_t result = enter_gpu(device, GROUP_UTILISATION, &gpu);
    if (result != NVML_SUCCESS)
        return result;
    out->gpu = blank_u32(gpu, (uint32_t)gpu->utilisation_percent);
    out->memory = blank_u32(gpu, (uint32_t)gpu->memory_utilisation_percent);
    return NVML_SUCCESS;
}

/* An instance has an equal share. */
static uint64_t share(nvmlDevice_t device, const struct fake_gpu *gpu, uint64_t bytes) {
    uint64_t parts =
        device->instance < 0 || gpu->mig_instances < 1 ? 1 : (uint64_t)gpu->mig_instances;
    return blank_u64(gpu, bytes / parts);
}

/* The first version counts what the driver reserves as used. */
EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *out) {
    struct fake_gpu *gpu;
    nvmlReturn_t result = enter_gpu(device, GROUP_MEMORY, &gpu);
    if (result != NVML_SUCCESS)
        return result;
    uint64_t used = gpu->memory_used_bytes + gpu->memory_reserved_bytes;
    out->total = share(device, gpu, gpu->memory_total_bytes);
    out->used = share(device, gpu, used);
    out->free = share(device, gpu, gpu->memory_total_bytes - used);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *out) {
    if (out->version != MEMORY_V2)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlMemory_t first;
    nvmlReturn_t result = nvmlDeviceGetMemoryInfo(device, &first);
    if (result != NVML_SUCCESS)
        return result;
    const struct fake_gpu *gpu = &machine->gpus[device->gpu];
    out->total = first.total;
    out->free = first.free;
    out->used = share(device, gpu, gpu->memory_used_bytes);
    out->reserved = share(device, gpu, gpu->memory_reserved_bytes);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                                nvmlEccCounterType_t counter,
                                                unsigned long long *out) {
    (void)counter;
    struct fake_gpu *gpu;
    nvmlReturn_t result = enter_gpu(device, GROUP_ECC, &gpu);
    if (result == NVML_SUCCESS)
        *out = blank_u64(gpu, type == NVML_MEMORY_ERROR_TYPE_CORRECTED ? gpu->ecc_corrected
                                                                       : gpu->ecc_uncorrected);
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device,
                                                            unsigned int *count,
                                                            nvmlProcessInfo_t *infos) {
    struct fake_gpu *gpu;
    nvmlReturn_t result = enter_gpu(device, GROUP_PROCESSES, &gpu);
    if (result != NVML_SUCCESS)
        return result;
    unsigned int running = (unsigned int)gpu->processes, room = *count;
    *count = running;
    if (room < running)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned int index = 0; index < running; index++)
        infos[index] = (nvmlProcessInfo_t){.pid = (unsigned int)gpu->process_ids[index],
                                           .usedGpuMemory = gpu->process_bytes[index],
                                           .gpuInstanceId = UINT32_MAX,
                                           .computeInstanceId = UINT32_MAX};
    return NVML_SUCCESS;
}
