/* What every exported call passes, and what several files share. */
#ifndef STALLSCOPE_GATE_H
#define STALLSCOPE_GATE_H

#include "control.h"
#include "nvml_subset.h"

#define EXPORT __attribute__((visibility("default")))

/* A handle points at one of these; `instance` is -1 for the GPU itself. */
struct nvmlDevice_st {
    int gpu;
    int instance;
};

extern struct fake_driver *machine;

/* Maps the control file named by STALLSCOPE_FAKE_NVML; says on stderr why it cannot. */
nvmlReturn_t map_machine(void);

/* Count the call, play its faults, and say whether it may go on. */
nvmlReturn_t enter_library(void);
nvmlReturn_t enter_gpu(nvmlDevice_t device, enum group group, struct fake_gpu **gpu);

/* The handle of a GPU, or of one of its MIG instances. */
nvmlDevice_t handle_of(int gpu, int instance);

void set_initialised(int initialised);
void spend_us(int32_t us);
uint64_t now_ns(void);

/* Fills `out` when the call may go on; a blank sentinel takes the value's place when asked for. */
nvmlReturn_t give(nvmlDevice_t device, enum group group, size_t offset, unsigned int *out);
nvmlReturn_t give_text(const char *text, char *out, unsigned int length);

/* What stands for "no value" under `blank_sentinel`, else the value. */
uint32_t blank_u32(const struct fake_gpu *gpu, uint32_t value);
uint64_t blank_u64(const struct fake_gpu *gpu, uint64_t value);
double blank_double(const struct fake_gpu *gpu, double value);

/* What had passed at one moment, in all directions, and what was moving then. */
struct counts {
    uint64_t at_ns;
    uint64_t bytes[FLOW_COUNT];
    int moving[FLOW_COUNT];
};

struct counts count_bytes(const struct fake_gpu *gpu);

#endif
