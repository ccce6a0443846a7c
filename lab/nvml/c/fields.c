/* nvmlDeviceGetFieldValues: the call succeeds, each field has a verdict of its own. */
#include "gate.h"

#include <string.h>
#include <time.h>

enum field {
    FIELD_REPLAYS = 94,
    FIELD_REPLAY_ROLLOVERS = 95,
    FIELD_NVLINK_TX_KIB = 138,
    FIELD_NVLINK_RX_KIB = 139,
    FIELD_NVLINK_RAW_TX_KIB = 140,
    FIELD_NVLINK_RAW_RX_KIB = 141,
    FIELD_RECOVERIES = 169,
    FIELD_C2C_LINKS = 170,
    FIELD_C2C_STATUS = 171,
    FIELD_C2C_MAX_MBPS = 172,
    FIELD_ERRORS_FIRST = 173,
    FIELD_ERRORS_LAST = 183,
    FIELD_TX_BYTES = 197,
    FIELD_RX_BYTES = 198
};

#define FROZEN_BYTES 123456789u
#define ALL_LINKS 0xffffffffu
#define LINKS 18u /* of an H100; the traffic is spread evenly */
#define C2C_MBPS 45000u /* per link; ten links on a GH200 */

static void put_u32(const struct fake_gpu *gpu, nvmlFieldValue_t *out, int32_t value) {
    out->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
    out->value.uiVal = blank_u32(gpu, (uint32_t)value);
}

static void put_u64(const struct fake_gpu *gpu, nvmlFieldValue_t *out, uint64_t value) {
    out->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
    out->value.ullVal = blank_u64(gpu, value);
}

static uint64_t counted_bytes(const struct fake_gpu *gpu, enum flow flow) {
    if (gpu->broken_field_zero)
        return 0;
    uint64_t bytes = gpu->broken_field_frozen ? FROZEN_BYTES : count_bytes(gpu).bytes[flow];
    return gpu->field_counter_bits == 32 ? bytes & UINT32_MAX : bytes;
}

/* Only the union member that the type names holds the value; the rest is rubbish on purpose. */
static nvmlReturn_t put_counter(const struct fake_gpu *gpu, nvmlFieldValue_t *out,
                                enum flow flow) {
    if (!gpu->supports_field_counter ||
        gpu->virtualization_mode == NVML_GPU_VIRTUALIZATION_MODE_VGPU)
        return NVML_ERROR_NOT_SUPPORTED;
    if (gpu->field_counter_error)
        return (nvmlReturn_t)gpu->field_counter_error;
    uint64_t bytes = counted_bytes(gpu, flow);
    out->valueType = (nvmlValueType_t)gpu->field_value_type;
    switch (gpu->field_value_type) {
    case NVML_VALUE_TYPE_DOUBLE:
        out->value.dVal = blank_double(gpu, (double)bytes);
        break;
    case NVML_VALUE_TYPE_UNSIGNED_INT:
    case NVML_VALUE_TYPE_SIGNED_INT:
        out->value.uiVal = blank_u32(gpu, (uint32_t)bytes);
        break;
    default:
        out->value.ullVal = blank_u64(gpu, bytes);
    }
    return NVML_SUCCESS;
}

static nvmlReturn_t put_nvlink(const struct fake_gpu *gpu, nvmlFieldValue_t *out,
                               enum flow flow) {
    if (!gpu->supports_nvlink)
        return NVML_ERROR_NOT_SUPPORTED;
    uint64_t bytes = count_bytes(gpu).bytes[flow];
    if (out->fieldId == FIELD_NVLINK_RAW_TX_KIB || out->fieldId == FIELD_NVLINK_RAW_RX_KIB)
        bytes += bytes / 4; /* headers */
    put_u64(gpu, out, bytes / 1024u / (out->scopeId == ALL_LINKS ? 1 : LINKS));
    return NVML_SUCCESS;
}

static nvmlReturn_t put_c2c(const struct fake_gpu *gpu, nvmlFieldValue_t *out) {
    if (gpu->c2c_links <= 0)
        return NVML_ERROR_NOT_SUPPORTED;
    switch (out->fieldId) {
    case FIELD_C2C_LINKS:
        put_u32(gpu, out, gpu->c2c_links);
        break;
    case FIELD_C2C_STATUS:
        put_u32(gpu, out, gpu->c2c_enabled);
        break;
    default:
        put_u32(gpu, out, (int32_t)C2C_MBPS);
    }
    return NVML_SUCCESS;
}

static nvmlReturn_t put_error_count(const struct fake_gpu *gpu, nvmlFieldValue_t *out) {
    switch (out->fieldId) {
    case FIELD_REPLAYS:
        put_u32(gpu, out, gpu->replay_counter);
        return NVML_SUCCESS;
    case FIELD_REPLAY_ROLLOVERS:
        put_u32(gpu, out, gpu->replay_rollovers);
        return NVML_SUCCESS;
    case FIELD_RECOVERIES:
        put_u32(gpu, out, gpu->link_recoveries);
        return NVML_SUCCESS;
    default:
        if (out->fieldId < FIELD_ERRORS_FIRST || out->fieldId > FIELD_ERRORS_LAST)
            return NVML_ERROR_NOT_SUPPORTED;
        put_u32(gpu, out, gpu->pcie_errors[out->fieldId - FIELD_ERRORS_FIRST]);
        return NVML_SUCCESS;
    }
}

static nvmlReturn_t put_value(const struct fake_gpu *gpu, nvmlFieldValue_t *out) {
    switch (out->fieldId) {
    case FIELD_TX_BYTES:
        return put_counter(gpu, out, FLOW_TX);
    case FIELD_RX_BYTES:
        return put_counter(gpu, out, FLOW_RX);
    case FIELD_NVLINK_TX_KIB:
    case FIELD_NVLINK_RAW_TX_KIB:
        return put_nvlink(gpu, out, FLOW_NVLINK_TX);
    case FIELD_NVLINK_RX_KIB:
    case FIELD_NVLINK_RAW_RX_KIB:
        return put_nvlink(gpu, out, FLOW_NVLINK_RX);
    case FIELD_C2C_LINKS:
    case FIELD_C2C_STATUS:
    case FIELD_C2C_MAX_MBPS:
        return put_c2c(gpu, out);
    default:
        return put_error_count(gpu, out);
    }
}

static int32_t cost_us(const struct fake_gpu *gpu, const nvmlFieldValue_t *out) {
    if (out->nvmlReturn != NVML_SUCCESS)
        return gpu->unsupported_field_cost_us;
    int counts_bytes = out->fieldId == FIELD_TX_BYTES || out->fieldId == FIELD_RX_BYTES;
    return counts_bytes ? gpu->field_pair_cost_us / 2 : 0;
}

static void read_field(nvmlDevice_t device, const struct fake_gpu *gpu, nvmlFieldValue_t *out) {
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    memset(&out->value, 0xa5, sizeof out->value);
    out->timestamp = (long long)wall.tv_sec * 1000000 + wall.tv_nsec / 1000;
    out->nvmlReturn = device->instance < 0 ? put_value(gpu, out) : NVML_ERROR_NOT_SUPPORTED;
    out->latencyUsec = cost_us(gpu, out);
    spend_us(cost_us(gpu, out));
}

EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count,
                                             nvmlFieldValue_t *values) {
    struct fake_gpu *gpu;
    nvmlReturn_t result = enter_gpu(device, GROUP_FIELDS, &gpu);
    if (result != NVML_SUCCESS)
        return result;
    if (count <= 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (int index = 0; index < count; index++)
        read_field(device, gpu, &values[index]);
    return NVML_SUCCESS;
}
