#include "../../guest.h"

static volatile uint64_t state;

uint64_t plugin_step(uint64_t value) {
    state = mix(state, value);
    return state;
}
