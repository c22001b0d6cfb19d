// memcpy, memmove, memset, mempcpy, memcmp and memchr of many lengths over memory that other threads change meanwhile.
//# threads: 4
//# flags: -O2
//# expect: pass
#define _GNU_SOURCE
#include "../guest.h"

enum { THREADS = 4, STEPS = 600, BYTES = 1024 };

static unsigned char area[BYTES];

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me, random = me + 1;
    unsigned char local[BYTES];
    for (int i = 0; i < STEPS; i++) {
        size_t from = next_random(&random) % (BYTES - 256);
        size_t to = next_random(&random) % (BYTES - 256);
        size_t count = next_random(&random) % 256;
        switch (next_random(&random) % 7) {
        case 0:
            memcpy(local, area + from, count);
            hash = mix_bytes(hash, local, count);
            break;
        case 1:
            memset(local, (int)hash, count);
            memcpy(area + to, local, count);
            break;
        case 2:
            memmove(area + to, area + from, count); /* They may overlap. */
            break;
        case 3:
            memset(area + to, (int)(hash >> 8), count);
            break;
        case 4: {
            int order = memcmp(area + from, area + to, count);
            hash = mix(hash, (uint64_t)(order > 0) - (uint64_t)(order < 0));
            break;
        }
        case 5: {
            unsigned char *found = memchr(area + from, (int)(hash & 7), count);
            hash = mix(hash, found ? (uint64_t)(found - area) : BYTES);
            break;
        }
        default:
            hash = mix(hash, (uint64_t)((unsigned char *)mempcpy(local, area + from, 16) - local));
            hash = mix_bytes(hash, local, 16);
        }
    }
    return (void *)hash;
}

int main(void) {
    for (size_t i = 0; i < BYTES; i++)
        area[i] = (unsigned char)(i * 7);
    uint64_t hash = run_threads(THREADS, body);
    print_result(mix_bytes(hash, area, sizeof area));
}
