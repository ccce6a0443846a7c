/* Where the fields of the control structure lie, for the test that holds its mirror to them. */
#include "gate.h"

#include <string.h>

struct place {
    const char *structure, *field;
    size_t offset, size;
};

#define PLACE(structure, field) \
    {#structure, #field, offsetof(struct structure, field), sizeof(((struct structure *)0)->field)},
#define GPU_ONE(type, name) PLACE(fake_gpu, name)
#define GPU_MANY(type, name, count) PLACE(fake_gpu, name)
#define DRIVER_ONE(type, name) PLACE(fake_driver, name)
#define DRIVER_MANY(type, name, count) PLACE(fake_driver, name)

static const struct place places[] = {
    GPU_FIELDS(GPU_ONE, GPU_MANY) DRIVER_FIELDS(DRIVER_ONE, DRIVER_MANY)
    PLACE(fake_leg, base_bytes) PLACE(fake_leg, bytes_per_second) PLACE(fake_leg, since_ns)
    PLACE(fake_leg, on_ns) PLACE(fake_leg, period_ns)
    PLACE(fake_traffic, turn) PLACE(fake_traffic, sets)
};

EXPORT size_t stallscope_fake_places(void) {
    return sizeof places / sizeof *places;
}

/* Offset of a field, and its size; (size_t)-1 when there is none of that name. */
EXPORT size_t stallscope_fake_offset(const char *structure, const char *field, size_t *size) {
    for (size_t index = 0; index < sizeof places / sizeof *places; index++)
        if (strcmp(places[index].structure, structure) == 0 &&
            strcmp(places[index].field, field) == 0) {
            *size = places[index].size;
            return places[index].offset;
        }
    return (size_t)-1;
}

EXPORT size_t stallscope_fake_sizeof(const char *structure) {
    if (strcmp(structure, "fake_leg") == 0)
        return sizeof(struct fake_leg);
    if (strcmp(structure, "fake_traffic") == 0)
        return sizeof(struct fake_traffic);
    if (strcmp(structure, "fake_gpu") == 0)
        return sizeof(struct fake_gpu);
    return strcmp(structure, "fake_driver") == 0 ? sizeof(struct fake_driver) : 0;
}
