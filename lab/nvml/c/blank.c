/* Values that mean "there is none" and were exported as numbers (guilbaults/slurm-job-exporter#30). */
#include "gate.h"

#include <math.h>

enum blank { BLANK_NONE, BLANK_ALL_ONES, BLANK_DCGM, BLANK_NEAR_TOP };

uint32_t blank_u32(const struct fake_gpu *gpu, uint32_t value) {
    switch (gpu->blank_sentinel) {
    case BLANK_ALL_ONES:
        return UINT32_MAX;
    case BLANK_DCGM:
        return 0x7ffffff0u;
    case BLANK_NEAR_TOP:
        return 0xfffffff0u;
    default:
        return value;
    }
}

uint64_t blank_u64(const struct fake_gpu *gpu, uint64_t value) {
    switch (gpu->blank_sentinel) {
    case BLANK_ALL_ONES:
        return UINT64_MAX;
    case BLANK_DCGM:
        return 0x7ffffffffffffff0u;
    case BLANK_NEAR_TOP:
        return 0xfffffffffffffff0u;
    default:
        return value;
    }
}

double blank_double(const struct fake_gpu *gpu, double value) {
    switch (gpu->blank_sentinel) {
    case BLANK_ALL_ONES:
        return NAN;
    case BLANK_DCGM:
        return 140737488355328.0; /* 2^47, DCGM's blank for doubles */
    case BLANK_NEAR_TOP:
        return INFINITY;
    default:
        return value;
    }
}
