/* One gate for all calls: counting, delays and the faults that a test has asked for. */
#include "gate.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ALL_HANDLES (FAKE_MAX_GPUS * (1 + FAKE_MAX_INSTANCES))

struct fake_driver *machine;
static int initialised;
static struct nvmlDevice_st handles[ALL_HANDLES];

static nvmlReturn_t refuse(const char *path, const char *why) {
    fprintf(stderr, "fake libnvidia-ml: STALLSCOPE_FAKE_NVML=%s: %s\n", path ? path : "", why);
    return NVML_ERROR_DRIVER_NOT_LOADED;
}

static struct fake_driver *map_file(int file) {
    struct stat about;
    if (fstat(file, &about) != 0 || about.st_size != (off_t)sizeof(struct fake_driver))
        return NULL;
    void *found =
        mmap(NULL, sizeof(struct fake_driver), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return found == MAP_FAILED ? NULL : found;
}

nvmlReturn_t map_machine(void) {
    if (machine)
        return NVML_SUCCESS;
    const char *path = getenv("STALLSCOPE_FAKE_NVML");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0)
        return refuse(path, "cannot be opened");
    struct fake_driver *found = map_file(file);
    close(file);
    if (!found || found->magic != FAKE_MAGIC || found->layout_bytes != sizeof *found)
        return refuse(path, "is no control file of this build");
    machine = found;
    return NVML_SUCCESS;
}

uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void spend_us(int32_t us) {
    if (us <= 0)
        return;
    uint64_t end = now_ns() + (uint64_t)us * 1000u;
    if (machine->delays_burn_cpu) {
        while (now_ns() < end) {
        }
        return;
    }
    struct timespec until = {.tv_sec = (time_t)(end / 1000000000u),
                             .tv_nsec = (long)(end % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0) {
    }
}

static void wait_while(const int32_t *flag) {
    while (__atomic_load_n(flag, __ATOMIC_ACQUIRE))
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

/* Counts a fuse down; true for the one call that it ends at. 0 is no fuse. */
static int burns_out(int32_t *fuse) {
    int32_t left = __atomic_load_n(fuse, __ATOMIC_RELAXED);
    while (left > 0)
        if (__atomic_compare_exchange_n(fuse, &left, left - 1, 0, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            return left == 1;
    return 0;
}

static void play_crashes(int32_t *abort_fuse, int32_t *segfault_fuse) {
    if (burns_out(abort_fuse))
        abort();
    if (burns_out(segfault_fuse)) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
}

void set_initialised(int now) {
    __atomic_store_n(&initialised, now, __ATOMIC_SEQ_CST);
}

nvmlReturn_t enter_library(void) {
    if (!machine || !__atomic_load_n(&initialised, __ATOMIC_SEQ_CST))
        return NVML_ERROR_UNINITIALIZED;
    __atomic_fetch_add(&machine->calls, 1, __ATOMIC_RELAXED);
    play_crashes(&machine->abort_after_calls, &machine->segfault_after_calls);
    spend_us(machine->call_delay_us);
    return (nvmlReturn_t)machine->all_calls_result;
}

nvmlDevice_t handle_of(int gpu, int instance) {
    struct nvmlDevice_st *handle = &handles[gpu * (1 + FAKE_MAX_INSTANCES) + 1 + instance];
    handle->gpu = gpu;
    handle->instance = instance;
    return handle;
}

/* The link and its counters belong to the whole GPU (NVIDIA/DCGM#88). */
static int works_on_instance(enum group group) {
    return group == GROUP_IDENTITY || group == GROUP_MIG || group == GROUP_MEMORY ||
           group == GROUP_PROCESSES || group == GROUP_FIELDS || group == GROUP_GPM ||
           group == GROUP_VIRTUALISATION;
}

static int is_hidden_from_guest(enum group group) {
    return group == GROUP_LINK || group == GROUP_THROUGHPUT || group == GROUP_REPLAY ||
           group == GROUP_GPM;
}

static nvmlReturn_t limits(nvmlDevice_t device, enum group group, const struct fake_gpu *gpu) {
    if (device->instance >= 0 && !works_on_instance(group))
        return NVML_ERROR_NOT_SUPPORTED;
    if (gpu->virtualization_mode == NVML_GPU_VIRTUALIZATION_MODE_VGPU &&
        is_hidden_from_guest(group))
        return NVML_ERROR_NOT_SUPPORTED;
    if (gpu->mig_enabled && group == GROUP_UTILISATION)
        return NVML_ERROR_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

static nvmlReturn_t play_gpu_faults(struct fake_gpu *gpu) {
    play_crashes(&gpu->abort_after_calls, &gpu->segfault_after_calls);
    if (burns_out(&gpu->lost_after_calls))
        gpu->lost = 1;
    wait_while(&gpu->hang);
    return gpu->lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

nvmlReturn_t enter_gpu(nvmlDevice_t device, enum group group, struct fake_gpu **gpu) {
    nvmlReturn_t result = enter_library();
    if (result != NVML_SUCCESS)
        return result;
    if (device < handles || device >= handles + ALL_HANDLES)
        return NVML_ERROR_INVALID_ARGUMENT;
    *gpu = &machine->gpus[device->gpu];
    __atomic_fetch_add(&(*gpu)->calls, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&(*gpu)->group_calls[group], 1, __ATOMIC_RELAXED);
    result = play_gpu_faults(*gpu);
    if (result == NVML_SUCCESS)
        result = (nvmlReturn_t)(*gpu)->error_codes[group];
    return result == NVML_SUCCESS ? limits(device, group, *gpu) : result;
}

nvmlReturn_t give(nvmlDevice_t device, enum group group, size_t offset, unsigned int *out) {
    struct fake_gpu *gpu;
    nvmlReturn_t result = enter_gpu(device, group, &gpu);
    if (result == NVML_SUCCESS)
        *out = blank_u32(gpu, *(const uint32_t *)((const char *)gpu + offset));
    return result;
}

nvmlReturn_t give_text(const char *text, char *out, unsigned int length) {
    if (strlen(text) >= length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(out, text);
    return NVML_SUCCESS;
}
