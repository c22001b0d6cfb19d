/* What a program can tell Refrain about itself. `refrain cc` and `refrain c++` find this header; compiled by others, or run without
   Refrain's runtime, all of it does nothing. */
#ifndef REFRAIN_H
#define REFRAIN_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In Refrain's runtime; not there in other programs. */
void __refrain_input(const void *address, size_t bytes) __attribute__((weak));

/* These bytes have just come in from a source that Refrain does not see: a library that it did not build, memory that is shared
   with another process, a mapped device. They are recorded, brought back in a replay, and compared where `refrain run` enforces a schedule. */
static inline void refrain_input(const void *address, size_t bytes) {
    if (__refrain_input)
        __refrain_input(address, bytes);
}

#ifdef __cplusplus
}
#endif

#endif
