#include "raw.h"

static uint64_t at_load;

__attribute__((constructor)) static void begin(void) {
    raw_call(SYS_getrandom, (long)&at_load, sizeof at_load, 0, 0);
}

uint64_t loaded_inputs(uint64_t hash);

uint64_t loaded_inputs(uint64_t hash) { return mix(raw_inputs(hash), at_load); }
