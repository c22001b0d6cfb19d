#include "../../guest.h"

extern volatile uint64_t counter;
uint64_t counter_bump(uint64_t by);
uint64_t table_touch(uint64_t index, uint64_t value);
