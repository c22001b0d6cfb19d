// Whole records are copied while others write them: ranges, short and long, race with single stores, and strings with both.
//# threads: 2
#include "../guest.h"

struct record {
    char name[24];
    uint64_t values[40];
};
static struct record shared;
static volatile uint64_t seen;

static void *writer(void *argument) {
    (void)argument;
    start_together(2);
    for (unsigned i = 0; i < 200; i++) {
        struct record next;
        memset(&next, i & 0x7f, sizeof next);
        snprintf(next.name, sizeof next.name, "record %u", i);
        memcpy(&shared, &next, sizeof next);
        shared.values[i % COUNT(shared.values)]++;
    }
    return 0;
}

int main(void) {
    pthread_t other;
    pthread_create(&other, 0, writer, 0);
    start_together(2);
    for (unsigned i = 0; i < 200; i++) {
        struct record copy;
        memcpy(&copy, &shared, sizeof copy);
        seen = mix_bytes(seen, &copy, sizeof copy);
        seen = mix(seen, strlen(shared.name));
    }
    pthread_join(other, 0);
    printf("%016lx\n", (unsigned long)seen);
    return 0;
}
