#include "archive.h"

static volatile uint64_t bag[16];

void bag_put(uint64_t value) { bag[value % COUNT(bag)] += value; }

uint64_t bag_sum(void) {
    uint64_t sum = 0;
    for (size_t i = 0; i < COUNT(bag); i++)
        sum += bag[i];
    return sum;
}
