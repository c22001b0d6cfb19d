// The determinism probe. Every thread reads two shared words that depend on what it has read so far, mixes them, and
// writes the result to a third; so any change of the interleaving, however small and early, changes everything after
// it, and with it the signature printed at the end. Native runs practically never print the same signature twice.
//# threads: 2
//# flags: -O2
//# expect: pass
#include "../guest.h"

#ifndef THREADS
#define THREADS 2
#endif
#ifndef STEPS
#define STEPS (40000 / THREADS)
#endif
#ifndef PAUSE
#define PAUSE 200
#endif

enum { WORDS = 64 };

static volatile uint32_t words[WORDS];

static void *body(void *argument) {
    uint32_t state = 0x9e3779b9u * ((uint32_t)(uintptr_t)argument + 1);
    for (int i = 0; i < STEPS; i++) {
        uint32_t a = words[state % WORDS];
        uint32_t b = words[(state >> 8) % WORDS];
        state = (state ^ a) * 0x85ebca6bu + (b << 7 | b >> 25);
        state ^= state >> 15;
        words[(state >> 16) % WORDS] = state;
        for (int pause = 0; pause < PAUSE; pause++) { /* Private: the threads overlap longer, the log does not grow. */
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
        }
    }
    return (void *)(uintptr_t)state;
}

int main(void) {
    for (uint32_t i = 0; i < WORDS; i++)
        words[i] = i * 2654435761u;
    uint64_t hash = run_threads(THREADS, body);
    for (int i = 0; i < WORDS; i++)
        hash = mix(hash, words[i]);
    printf("signature %016llx\n", (unsigned long long)hash);
}
