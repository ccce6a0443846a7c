/* GPM: two samples and what lies between them. */
#include "gate.h"

#include <stdlib.h>

enum metric {
    METRIC_SM_UTIL = 2,
    METRIC_PCIE_TX_RATE = 20,
    METRIC_PCIE_RX_RATE = 21,
    METRIC_NVLINK_RX_RATE = 60,
    METRIC_NVLINK_TX_RATE = 61,
    METRIC_C2C_TX_RATE = 100,
    METRIC_C2C_RX_RATE = 101,
    METRIC_C2C_DATA_TX_RATE = 102,
    METRIC_C2C_DATA_RX_RATE = 103,
    METRIC_PCIE_TX_BYTES = 255,
    METRIC_PCIE_RX_BYTES = 256
};

#define MIB 1048576.0
#define WITH_HEADERS 1.25 /* of C2C totals over C2C data */
#define SHORTEST_NS 100000000u /* of an interval whose rates are right (NVIDIA/DCGM#310) */
#define FROZEN_BYTES 123456789.0
#define FROZEN_MIB_PER_SECOND 100.0

struct nvmlGpmSample_st {
    struct fake_gpu *gpu;
    int instance;
    struct counts counts;
};

EXPORT nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *support) {
    struct fake_gpu *gpu;
    nvmlReturn_t result = enter_gpu(device, GROUP_GPM, &gpu);
    if (result != NVML_SUCCESS)
        return result;
    if (support->version != NVML_GPM_SUPPORT_VERSION)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    support->isSupportedDevice = gpu->supports_gpm_rate || gpu->supports_gpm_cumulative;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample) {
    nvmlReturn_t result = enter_library();
    if (result != NVML_SUCCESS)
        return result;
    *sample = calloc(1, sizeof **sample);
    return *sample ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

EXPORT nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample) {
    if (!sample)
        return NVML_ERROR_INVALID_ARGUMENT;
    free(sample);
    return NVML_SUCCESS;
}

static nvmlReturn_t take(nvmlDevice_t device, int instance, nvmlGpmSample_t sample) {
    struct fake_gpu *gpu;
    nvmlReturn_t result = enter_gpu(device, GROUP_GPM, &gpu);
    if (result != NVML_SUCCESS)
        return result;
    if (!sample)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!gpu->supports_gpm_rate && !gpu->supports_gpm_cumulative)
        return NVML_ERROR_NOT_SUPPORTED;
    sample->gpu = gpu;
    sample->instance = instance;
    sample->counts = count_bytes(gpu);
    spend_us(gpu->gpm_sample_cost_us);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample) {
    return take(device, device ? device->instance : -1, sample);
}

EXPORT nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned int instance,
                                        nvmlGpmSample_t sample) {
    return take(device, (int)instance, sample);
}

/* Wrong tenfold when the samples lie too close: invalid on Hopper, and nothing says so. */
static double rate_mib(nvmlGpmSample_t first, nvmlGpmSample_t second, enum flow flow) {
    uint64_t elapsed_ns = second->counts.at_ns - first->counts.at_ns;
    double bytes = (double)(second->counts.bytes[flow] - first->counts.bytes[flow]);
    double rate = bytes / MIB / ((double)elapsed_ns / 1e9);
    return elapsed_ns < SHORTEST_NS ? rate * 10 : rate;
}

static nvmlReturn_t put(const struct fake_gpu *gpu, int supported, double value, double *out) {
    if (!supported)
        return NVML_ERROR_NOT_SUPPORTED;
    if (gpu->gpm_metric_error)
        return (nvmlReturn_t)gpu->gpm_metric_error;
    *out = blank_double(gpu, value);
    return NVML_SUCCESS;
}

static nvmlReturn_t put_pcie(nvmlGpmSample_t first, nvmlGpmSample_t second, enum flow flow,
                             double *out) {
    const struct fake_gpu *gpu = second->gpu;
    double rate = gpu->broken_gpm_frozen ? FROZEN_MIB_PER_SECOND : rate_mib(first, second, flow);
    int supported = gpu->supports_gpm_rate && second->instance < 0;
    return put(gpu, supported, gpu->broken_gpm_zero ? 0 : rate, out);
}

static nvmlReturn_t put_total(nvmlGpmSample_t second, enum flow flow, double *out) {
    const struct fake_gpu *gpu = second->gpu;
    double bytes = gpu->broken_gpm_frozen ? FROZEN_BYTES : (double)second->counts.bytes[flow];
    int supported = gpu->supports_gpm_cumulative && second->instance < 0;
    return put(gpu, supported, gpu->broken_gpm_zero ? 0 : bytes, out);
}

static nvmlReturn_t answer(nvmlGpmSample_t first, nvmlGpmSample_t second, unsigned int metric,
                           double *out) {
    const struct fake_gpu *gpu = second->gpu;
    switch (metric) {
    case METRIC_SM_UTIL:
        return put(gpu, 1, gpu->utilisation_percent, out);
    case METRIC_PCIE_TX_RATE:
        return put_pcie(first, second, FLOW_TX, out);
    case METRIC_PCIE_RX_RATE:
        return put_pcie(first, second, FLOW_RX, out);
    case METRIC_NVLINK_RX_RATE:
        return put(gpu, gpu->supports_nvlink, rate_mib(first, second, FLOW_NVLINK_RX), out);
    case METRIC_NVLINK_TX_RATE:
        return put(gpu, gpu->supports_nvlink, rate_mib(first, second, FLOW_NVLINK_TX), out);
    case METRIC_C2C_TX_RATE:
        return put(gpu, gpu->c2c_enabled, rate_mib(first, second, FLOW_C2C_TX) * WITH_HEADERS, out);
    case METRIC_C2C_RX_RATE:
        return put(gpu, gpu->c2c_enabled, rate_mib(first, second, FLOW_C2C_RX) * WITH_HEADERS, out);
    case METRIC_C2C_DATA_TX_RATE:
        return put(gpu, gpu->c2c_enabled, rate_mib(first, second, FLOW_C2C_TX), out);
    case METRIC_C2C_DATA_RX_RATE:
        return put(gpu, gpu->c2c_enabled, rate_mib(first, second, FLOW_C2C_RX), out);
    case METRIC_PCIE_TX_BYTES:
        return put_total(second, FLOW_TX, out);
    case METRIC_PCIE_RX_BYTES:
        return put_total(second, FLOW_RX, out);
    default:
        return NVML_ERROR_NOT_SUPPORTED;
    }
}

static int is_usable(const nvmlGpmMetricsGet_t *request) {
    nvmlGpmSample_t first = request->sample1, second = request->sample2;
    return first && second && first->gpu && first->gpu == second->gpu &&
           first->counts.at_ns < second->counts.at_ns &&
           request->numMetrics <= (unsigned int)machine->gpm_metric_end;
}

EXPORT nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *request) {
    nvmlReturn_t result = enter_library();
    if (result != NVML_SUCCESS)
        return result;
    if (request->version != NVML_GPM_METRICS_GET_VERSION)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (!is_usable(request))
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned int index = 0; index < request->numMetrics; index++) {
        nvmlGpmMetric_t *metric = &request->metrics[index];
        metric->nvmlReturn =
            metric->metricId >= (unsigned int)machine->gpm_metric_end
                ? NVML_ERROR_INVALID_ARGUMENT
                : answer(request->sample1, request->sample2, metric->metricId, &metric->value);
    }
    return NVML_SUCCESS;
}
