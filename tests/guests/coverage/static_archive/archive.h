#include "../../guest.h"

#ifdef __cplusplus
extern "C" {
#endif
void bag_put(uint64_t value);
uint64_t bag_sum(void);
uint64_t census_add(uint64_t kind);
#ifdef __cplusplus
}
#endif
