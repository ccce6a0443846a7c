/* How many bytes have passed: exact, whenever the rates are changed. */
#include "gate.h"

#include <sched.h>

#define PATIENCE_NS 1000000000u /* for a writer that died halfway; the old set is whole */

static uint64_t active_ns(const struct fake_leg *leg, uint64_t elapsed_ns) {
    if (leg->period_ns == 0)
        return elapsed_ns;
    uint64_t rest_ns = elapsed_ns % leg->period_ns;
    uint64_t whole_ns = elapsed_ns / leg->period_ns * leg->on_ns;
    return whole_ns + (rest_ns < leg->on_ns ? rest_ns : leg->on_ns);
}

EXPORT uint64_t stallscope_fake_passed_bytes(const struct fake_leg *leg, uint64_t at_ns) {
    uint64_t elapsed_ns = at_ns > leg->since_ns ? at_ns - leg->since_ns : 0;
    unsigned __int128 scaled =
        (unsigned __int128)active_ns(leg, elapsed_ns) * leg->bytes_per_second;
    return leg->base_bytes + (uint64_t)(scaled / 1000000000u);
}

static int is_moving(const struct fake_leg *leg, uint64_t at_ns) {
    if (leg->bytes_per_second == 0 || at_ns < leg->since_ns)
        return 0;
    return leg->period_ns == 0 || (at_ns - leg->since_ns) % leg->period_ns < leg->on_ns;
}

static struct counts count_set(const struct fake_leg *set) {
    struct counts counts = {.at_ns = now_ns()};
    for (int flow = 0; flow < FLOW_COUNT; flow++) {
        counts.bytes[flow] = stallscope_fake_passed_bytes(&set[flow], counts.at_ns);
        counts.moving[flow] = is_moving(&set[flow], counts.at_ns);
    }
    return counts;
}

static uint64_t await_even(const uint64_t *turn) {
    uint64_t end_ns = now_ns() + PATIENCE_NS;
    uint64_t seen = __atomic_load_n(turn, __ATOMIC_ACQUIRE);
    while (seen & 1 && now_ns() < end_ns) {
        sched_yield();
        seen = __atomic_load_n(turn, __ATOMIC_ACQUIRE);
    }
    return seen;
}

/* The moment is taken while `turn` stands still. The writer dates a new set after it made `turn`
 * odd, so no count ever uses the old rates for a moment of the new set, or runs backwards. */
struct counts count_bytes(const struct fake_gpu *gpu) {
    const struct fake_traffic *traffic = &gpu->traffic;
    for (;;) {
        uint64_t turn = await_even(&traffic->turn);
        struct counts counts = count_set(traffic->sets[turn / 2 % 2]);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        if (__atomic_load_n(&traffic->turn, __ATOMIC_RELAXED) == turn)
            return counts;
    }
}
