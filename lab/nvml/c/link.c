/* The PCIe link: its state, the 20 ms throughput window, replays. */
#include "gate.h"

#include <pthread.h>

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

/* An idle link steps down to save power; a kernel or a copy brings it up again. */
static int32_t current_generation(const struct fake_gpu *gpu) {
    struct counts now = count_bytes(gpu);
    int busy = gpu->utilisation_percent > 0 || now.moving[FLOW_RX] || now.moving[FLOW_TX];
    return gpu->idle_generation > 0 && !busy ? gpu->idle_generation : gpu->generation;
}

static nvmlReturn_t give_link(nvmlDevice_t device, size_t offset, unsigned int *out) {
    struct fake_gpu *gpu;
    nvmlReturn_t result = enter_gpu(device, GROUP_LINK, &gpu);
    if (result == NVML_SUCCESS)
        *out = *(const uint32_t *)((const char *)gpu + offset);
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned int *out) {
    struct fake_gpu *gpu;
    nvmlReturn_t result = enter_gpu(device, GROUP_LINK, &gpu);
    if (result == NVML_SUCCESS)
        *out = (unsigned int)current_generation(gpu);
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int *out) {
    return give_link(device, offsetof(struct fake_gpu, width), out);
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int *out) {
    return give_link(device, offsetof(struct fake_gpu, max_generation), out);
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned int *out) {
    return give_link(device, offsetof(struct fake_gpu, max_width), out);
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int *out) {
    return give_link(device, offsetof(struct fake_gpu, gpu_max_generation), out);
}

/* MT/s per lane, whatever the name says. */
EXPORT nvmlReturn_t nvmlDeviceGetPcieSpeed(nvmlDevice_t device, unsigned int *out) {
    static const unsigned int megatransfers[] = {0, 2500, 5000, 8000, 16000, 32000, 64000};
    struct fake_gpu *gpu;
    nvmlReturn_t result = enter_gpu(device, GROUP_LINK, &gpu);
    if (result == NVML_SUCCESS)
        *out = megatransfers[current_generation(gpu) % 7];
    return result;
}

static uint64_t watch_window(const struct fake_gpu *gpu, enum flow flow) {
    struct counts start = count_bytes(gpu);
    spend_us(gpu->throughput_block_us);
    struct counts end = count_bytes(gpu);
    uint64_t window_ns = end.at_ns > start.at_ns ? end.at_ns - start.at_ns : 1;
    uint64_t bytes = end.bytes[flow] - start.bytes[flow];
    return (uint64_t)((unsigned __int128)bytes * 1000000000u / window_ns);
}

static uint64_t measure_rate(const struct fake_gpu *gpu, enum flow flow) {
    if (!machine->throughput_serialised)
        return watch_window(gpu, flow);
    pthread_mutex_lock(&one_at_a_time);
    uint64_t bytes_per_second = watch_window(gpu, flow);
    pthread_mutex_unlock(&one_at_a_time);
    return bytes_per_second;
}

EXPORT nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, nvmlPcieUtilCounter_t counter,
                                                unsigned int *value) {
    struct fake_gpu *gpu;
    nvmlReturn_t result = enter_gpu(device, GROUP_THROUGHPUT, &gpu);
    if (result != NVML_SUCCESS)
        return result;
    if (!gpu->supports_throughput)
        return NVML_ERROR_NOT_SUPPORTED;
    if (counter != NVML_PCIE_UTIL_TX_BYTES && counter != NVML_PCIE_UTIL_RX_BYTES)
        return NVML_ERROR_INVALID_ARGUMENT;
    uint64_t rate = measure_rate(gpu, counter == NVML_PCIE_UTIL_TX_BYTES ? FLOW_TX : FLOW_RX);
    *value = blank_u32(gpu, (uint32_t)(rate / (uint64_t)machine->throughput_unit_bytes));
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned int *out) {
    return give(device, GROUP_REPLAY, offsetof(struct fake_gpu, replay_counter), out);
}
