#include "raw.h"

uint64_t linked_inputs(uint64_t hash);

uint64_t linked_inputs(uint64_t hash) { return raw_inputs(hash); }
