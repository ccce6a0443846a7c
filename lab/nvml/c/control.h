/* The state of the make-believe machine, in a file that a test maps and changes while we run.
 *
 * lab/nvml/control.py mirrors it; layout.c tells a test where each field lies.
 */
#ifndef STALLSCOPE_CONTROL_H
#define STALLSCOPE_CONTROL_H

#include <stdint.h>

#define FAKE_MAGIC 0x4e564d4cu
#define FAKE_MAX_GPUS 16
#define FAKE_MAX_INSTANCES 7
#define FAKE_MAX_PIDS 16
#define FAKE_PCIE_ERROR_CLASSES 11 /* fields 173 to 183 */

/* Calls that fail together; the order is that of Group in control.py. */
enum group {
    GROUP_HANDLE,
    GROUP_IDENTITY,
    GROUP_LINK,
    GROUP_THROUGHPUT,
    GROUP_REPLAY,
    GROUP_FIELDS,
    GROUP_GPM,
    GROUP_CLOCKS,
    GROUP_POWER,
    GROUP_TEMPERATURE,
    GROUP_MEMORY,
    GROUP_UTILISATION,
    GROUP_PROCESSES,
    GROUP_ECC,
    GROUP_MIG,
    GROUP_VIRTUALISATION,
    GROUP_C2C,
    GROUP_COUNT
};

/* Bytes since `since_ns`: constant, or `on_ns` of every `period_ns` when the period is not 0. */
struct fake_leg {
    uint64_t base_bytes;
    uint64_t bytes_per_second;
    uint64_t since_ns;
    uint64_t on_ns;
    uint64_t period_ns;
};

/* The order is that of FlowName in control.py. */
enum flow {
    FLOW_RX,
    FLOW_TX,
    FLOW_C2C_RX,
    FLOW_C2C_TX,
    FLOW_NVLINK_RX,
    FLOW_NVLINK_TX,
    FLOW_COUNT
};

/* `turn` is odd while the writer is at it. Half of it, modulo 2, is the set that holds. */
struct fake_traffic {
    uint64_t turn;
    struct fake_leg sets[2][FLOW_COUNT];
};

#define GPU_FIELDS(ONE, MANY)                    \
    ONE(struct fake_traffic, traffic)            \
    ONE(uint64_t, calls)                         \
    MANY(uint64_t, group_calls, GROUP_COUNT)     \
    ONE(uint64_t, memory_total_bytes)            \
    ONE(uint64_t, memory_used_bytes)             \
    ONE(uint64_t, memory_reserved_bytes)         \
    ONE(uint64_t, throttle_reasons)              \
    ONE(uint64_t, ecc_corrected)                 \
    ONE(uint64_t, ecc_uncorrected)               \
    MANY(uint64_t, process_bytes, FAKE_MAX_PIDS) \
    MANY(int32_t, error_codes, GROUP_COUNT)      \
    MANY(int32_t, process_ids, FAKE_MAX_PIDS)    \
    MANY(int32_t, pcie_errors, FAKE_PCIE_ERROR_CLASSES) \
    ONE(int32_t, processes)                      \
    ONE(int32_t, generation)                     \
    ONE(int32_t, idle_generation)                \
    ONE(int32_t, width)                          \
    ONE(int32_t, max_generation)                 \
    ONE(int32_t, max_width)                      \
    ONE(int32_t, gpu_max_generation)             \
    ONE(int32_t, minor_number)                   \
    ONE(int32_t, architecture)                   \
    ONE(int32_t, utilisation_percent)            \
    ONE(int32_t, memory_utilisation_percent)     \
    ONE(int32_t, sm_clock_mhz)                   \
    ONE(int32_t, max_sm_clock_mhz)               \
    ONE(int32_t, memory_clock_mhz)               \
    ONE(int32_t, max_memory_clock_mhz)           \
    ONE(int32_t, power_mw)                       \
    ONE(int32_t, power_limit_mw)                 \
    ONE(int32_t, temperature_celsius)            \
    ONE(int32_t, replay_counter)                 \
    ONE(int32_t, replay_rollovers)               \
    ONE(int32_t, link_recoveries)                \
    ONE(int32_t, mig_enabled)                    \
    ONE(int32_t, mig_instances)                  \
    ONE(int32_t, virtualization_mode)            \
    ONE(int32_t, c2c_enabled)                    \
    ONE(int32_t, c2c_links)                      \
    ONE(int32_t, supports_gpm_cumulative)        \
    ONE(int32_t, supports_gpm_rate)              \
    ONE(int32_t, supports_field_counter)         \
    ONE(int32_t, supports_throughput)            \
    ONE(int32_t, supports_nvlink)                \
    ONE(int32_t, field_counter_bits)             \
    ONE(int32_t, field_value_type)               \
    ONE(int32_t, field_counter_error)            \
    ONE(int32_t, gpm_metric_error)               \
    ONE(int32_t, broken_gpm_zero)                \
    ONE(int32_t, broken_gpm_frozen)              \
    ONE(int32_t, broken_field_zero)              \
    ONE(int32_t, broken_field_frozen)            \
    ONE(int32_t, blank_sentinel)                 \
    ONE(int32_t, throughput_block_us)            \
    ONE(int32_t, field_pair_cost_us)             \
    ONE(int32_t, unsupported_field_cost_us)      \
    ONE(int32_t, gpm_sample_cost_us)             \
    ONE(int32_t, lost)                           \
    ONE(int32_t, lost_after_calls)               \
    ONE(int32_t, abort_after_calls)              \
    ONE(int32_t, segfault_after_calls)           \
    ONE(int32_t, hang)                           \
    MANY(char, uuid, 96)                         \
    MANY(char, name, 96)                         \
    MANY(char, bus_id, 32)

#define DRIVER_FIELDS(ONE, MANY)          \
    ONE(uint32_t, magic)                  \
    ONE(uint32_t, layout_bytes)           \
    ONE(uint64_t, calls)                  \
    ONE(uint64_t, inits)                  \
    ONE(uint64_t, shutdowns)              \
    ONE(int32_t, gpu_count)               \
    ONE(int32_t, init_result)             \
    ONE(int32_t, init_hang)               \
    ONE(int32_t, init_delay_us)           \
    ONE(int32_t, count_error)             \
    ONE(int32_t, all_calls_result)        \
    ONE(int32_t, abort_after_calls)       \
    ONE(int32_t, segfault_after_calls)    \
    ONE(int32_t, call_delay_us)           \
    ONE(int32_t, delays_burn_cpu)         \
    ONE(int32_t, throughput_serialised)   \
    ONE(int32_t, throughput_unit_bytes)   \
    ONE(int32_t, gpm_metric_end)          \
    ONE(int32_t, cuda_version)            \
    MANY(char, driver_version, 80)        \
    MANY(char, nvml_version, 80)          \
    MANY(struct fake_gpu, gpus, FAKE_MAX_GPUS)

#define DECLARE_ONE(type, name) type name;
#define DECLARE_MANY(type, name, count) type name[count];

struct fake_gpu {
    GPU_FIELDS(DECLARE_ONE, DECLARE_MANY)
};
struct fake_driver {
    DRIVER_FIELDS(DECLARE_ONE, DECLARE_MANY)
};

#endif
