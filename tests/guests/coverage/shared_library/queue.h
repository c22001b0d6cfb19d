#include "../../guest.h"

extern volatile uint64_t queue_length;
void queue_push(uint64_t item);
uint64_t queue_pop(void);
uint64_t queue_visit(uint64_t (*callback)(uint64_t));
