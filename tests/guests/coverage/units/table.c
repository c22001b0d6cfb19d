#include "units.h"

static volatile uint32_t table[32];

uint64_t table_touch(uint64_t index, uint64_t value) {
    table[index % COUNT(table)] ^= (uint32_t)value;
    return table[(index + 1) % COUNT(table)];
}
