/* Initialisation, versions and error texts. */
#include "gate.h"

#include <stdio.h>
#include <time.h>

static int users;

static nvmlReturn_t start(void) {
    nvmlReturn_t result = map_machine();
    if (result != NVML_SUCCESS)
        return result;
    __atomic_fetch_add(&machine->calls, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&machine->inits, 1, __ATOMIC_RELAXED);
    while (__atomic_load_n(&machine->init_hang, __ATOMIC_ACQUIRE))
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    spend_us(machine->init_delay_us);
    if (machine->init_result != NVML_SUCCESS)
        return (nvmlReturn_t)machine->init_result;
    return (nvmlReturn_t)machine->all_calls_result;
}

EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    nvmlReturn_t result = start();
    if (result == NVML_SUCCESS)
        set_initialised(__atomic_add_fetch(&users, 1, __ATOMIC_SEQ_CST) > 0);
    return result;
}

EXPORT nvmlReturn_t nvmlInit_v2(void) {
    return nvmlInitWithFlags(0);
}

EXPORT nvmlReturn_t nvmlShutdown(void) {
    if (__atomic_load_n(&users, __ATOMIC_SEQ_CST) == 0)
        return NVML_ERROR_UNINITIALIZED;
    __atomic_fetch_add(&machine->shutdowns, 1, __ATOMIC_RELAXED);
    set_initialised(__atomic_sub_fetch(&users, 1, __ATOMIC_SEQ_CST) > 0);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    nvmlReturn_t result = enter_library();
    return result == NVML_SUCCESS ? give_text(machine->driver_version, version, length) : result;
}

EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length) {
    nvmlReturn_t result = map_machine();
    return result == NVML_SUCCESS ? give_text(machine->nvml_version, version, length) : result;
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) {
    nvmlReturn_t result = enter_library();
    if (result == NVML_SUCCESS)
        *version = machine->cuda_version;
    return result;
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
    return nvmlSystemGetCudaDriverVersion(version);
}

EXPORT const char *nvmlErrorString(nvmlReturn_t result) {
    static _Thread_local char text[48];
    snprintf(text, sizeof text, "make-believe error %d", (int)result);
    return text;
}
