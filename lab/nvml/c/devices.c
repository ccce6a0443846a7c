/* Which GPUs there are, their names, and MIG instances. */
#include "gate.h"

#include <stdio.h>
#include <string.h>

#define DEVICE_ID 0x233010deu /* device and vendor of an H100, the vendor in the low half */

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
    nvmlReturn_t result = enter_library();
    if (result == NVML_SUCCESS)
        result = (nvmlReturn_t)machine->count_error;
    if (result == NVML_SUCCESS)
        *count = (unsigned int)machine->gpu_count;
    return result;
}

/* A handle is not given out when the GPU is lost or its handle group fails (dcgm-exporter#604). */
static nvmlReturn_t open_gpu(int index, nvmlDevice_t *device) {
    struct fake_gpu *gpu;
    nvmlReturn_t result = enter_gpu(handle_of(index, -1), GROUP_HANDLE, &gpu);
    if (result == NVML_SUCCESS)
        *device = handle_of(index, -1);
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    if (machine && index < (unsigned int)machine->gpu_count)
        return open_gpu((int)index, device);
    nvmlReturn_t result = enter_library();
    return result == NVML_SUCCESS ? NVML_ERROR_INVALID_ARGUMENT : result;
}

static nvmlReturn_t find_gpu(const char *wanted, size_t offset, nvmlDevice_t *device) {
    nvmlReturn_t result = enter_library();
    if (result != NVML_SUCCESS)
        return result;
    for (int index = 0; index < machine->gpu_count; index++)
        if (strcmp((const char *)&machine->gpus[index] + offset, wanted) == 0)
            return open_gpu(index, device);
    return NVML_ERROR_NOT_FOUND;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    return find_gpu(uuid, offsetof(struct fake_gpu, uuid), device);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device) {
    return find_gpu(bus_id, offsetof(struct fake_gpu, bus_id), device);
}

EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length) {
    struct fake_gpu *gpu;
    nvmlReturn_t result = enter_gpu(device, GROUP_IDENTITY, &gpu);
    if (result != NVML_SUCCESS)
        return result;
    char text[sizeof gpu->name + 16];
    snprintf(text, sizeof text, device->instance < 0 ? "%s" : "%s MIG 1g", gpu->name);
    return give_text(text, name, length);
}

EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length) {
    struct fake_gpu *gpu;
    nvmlReturn_t result = enter_gpu(device, GROUP_IDENTITY, &gpu);
    if (result != NVML_SUCCESS)
        return result;
    char text[sizeof gpu->uuid + 16];
    if (device->instance < 0)
        snprintf(text, sizeof text, "%s", gpu->uuid);
    else
        snprintf(text, sizeof text, "MIG-%d-%s", device->instance, gpu->uuid);
    return give_text(text, uuid, length);
}

EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index) {
    struct fake_gpu *gpu;
    nvmlReturn_t result = enter_gpu(device, GROUP_IDENTITY, &gpu);
    if (result == NVML_SUCCESS)
        *index = (unsigned int)(device->instance < 0 ? device->gpu : device->instance);
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor) {
    struct fake_gpu *gpu;
    nvmlReturn_t result = enter_gpu(device, GROUP_IDENTITY, &gpu);
    if (result == NVML_SUCCESS)
        *minor = (unsigned int)gpu->minor_number;
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device,
                                              nvmlDeviceArchitecture_t *architecture) {
    struct fake_gpu *gpu;
    nvmlReturn_t result = enter_gpu(device, GROUP_IDENTITY, &gpu);
    if (result == NVML_SUCCESS)
        *architecture = (unsigned int)gpu->architecture;
    return result;
}

/* NVML spells the domain with eight digits in busId and with four in busIdLegacy. */
EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *info) {
    struct fake_gpu *gpu;
    nvmlReturn_t result = enter_gpu(device, GROUP_IDENTITY, &gpu);
    if (result != NVML_SUCCESS)
        return result;
    memset(info, 0, sizeof *info);
    sscanf(gpu->bus_id, "%x:%x:%x", &info->domain, &info->bus, &info->device);
    snprintf(info->busIdLegacy, sizeof info->busIdLegacy, "%04X:%02X:%02X.0",
             info->domain & 0xffffu, info->bus & 0xffu, info->device & 0xffu);
    snprintf(info->busId, sizeof info->busId, "%s", gpu->bus_id);
    info->pciDeviceId = DEVICE_ID;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current,
                                         unsigned int *pending) {
    struct fake_gpu *gpu;
    nvmlReturn_t result = enter_gpu(device, GROUP_MIG, &gpu);
    if (result == NVML_SUCCESS)
        *current = *pending = (unsigned int)gpu->mig_enabled;
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count) {
    struct fake_gpu *gpu;
    nvmlReturn_t result = enter_gpu(device, GROUP_MIG, &gpu);
    if (result == NVML_SUCCESS)
        *count = gpu->mig_enabled ? FAKE_MAX_INSTANCES : 0;
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
                                                        nvmlDevice_t *instance) {
    struct fake_gpu *gpu;
    nvmlReturn_t result = enter_gpu(device, GROUP_MIG, &gpu);
    if (result != NVML_SUCCESS)
        return result;
    if (index >= FAKE_MAX_INSTANCES)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!gpu->mig_enabled || (int)index >= gpu->mig_instances)
        return NVML_ERROR_NOT_FOUND;
    *instance = handle_of(device->gpu, (int)index);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_instance) {
    struct fake_gpu *gpu;
    nvmlReturn_t result = enter_gpu(device, GROUP_MIG, &gpu);
    if (result == NVML_SUCCESS)
        *is_instance = device->instance >= 0;
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id) {
    struct fake_gpu *gpu;
    nvmlReturn_t result = enter_gpu(device, GROUP_MIG, &gpu);
    if (result == NVML_SUCCESS && device->instance < 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *id = (unsigned int)device->instance + 1;
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t instance,
                                                                 nvmlDevice_t *device) {
    struct fake_gpu *gpu;
    nvmlReturn_t result = enter_gpu(instance, GROUP_MIG, &gpu);
    if (result == NVML_SUCCESS)
        *device = handle_of(instance->gpu, -1);
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device,
                                                    nvmlGpuVirtualizationMode_t *mode) {
    struct fake_gpu *gpu;
    nvmlReturn_t result = enter_gpu(device, GROUP_VIRTUALISATION, &gpu);
    if (result == NVML_SUCCESS)
        *mode = (nvmlGpuVirtualizationMode_t)gpu->virtualization_mode;
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetC2cModeInfoV(nvmlDevice_t device, nvmlC2cModeInfo_v1_t *info) {
    struct fake_gpu *gpu;
    nvmlReturn_t result = enter_gpu(device, GROUP_C2C, &gpu);
    if (result == NVML_SUCCESS)
        info->isC2cEnabled = (unsigned int)gpu->c2c_enabled;
    return result;
}
