// The string functions of libc over shared strings that other threads rewrite. Every buffer keeps a NUL at its end that
// nobody touches, so that a torn string is still a string.
//# threads: 4
//# flags: -O1 -fno-builtin
//# expect: pass
#define _GNU_SOURCE
#include "../guest.h"
#include <strings.h>

enum { THREADS = 4, STEPS = 250, ROOM = 96 };

static char text[4][4 * ROOM];
static const char *const words[] = {"alpha", "BETA", "gamma ray", "delta", "an epsilon that is a little longer", "z"};

static uint64_t sign(int order) { return (uint64_t)(order > 0) - (uint64_t)(order < 0); }

static uint64_t place(const char *found, const char *start) { return found ? (uint64_t)(found - start) : 999; }

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me, random = 17 * (me + 1);
    for (int i = 0; i < STEPS; i++) {
        char *a = text[next_random(&random) % 4];
        char *b = text[next_random(&random) % 4];
        const char *word = words[next_random(&random) % COUNT(words)];
        switch (next_random(&random) % 18) {
        case 0: strcpy(a, word); break;
        case 1: strncpy(a, word, 20); break;
        case 2: hash = mix(hash, (uint64_t)(stpcpy(a, word) - a)); break;
        case 3: strncat(a, word, ROOM / 8); a[ROOM] = 0; break;
        case 4: hash = mix(hash, strlen(a)); break;
        case 5: hash = mix(hash, strnlen(a, 9)); break;
        case 6: hash = mix(hash, sign(strcmp(a, b))); break;
        case 7: hash = mix(hash, sign(strncmp(a, b, 3))); break;
        case 8: hash = mix(hash, sign(strcasecmp(a, word))); break;
        case 9: hash = mix(hash, sign(strncasecmp(a, b, 4))); break;
        case 10: hash = mix(hash, place(strchr(a, 'a'), a)); break;
        case 11: hash = mix(hash, place(strrchr(a, 'e'), a)); break;
        case 12: hash = mix(hash, place(strstr(a, "ta"), a)); break;
        case 13: {
            char *copy = strdup(a);
            hash = mix_bytes(hash, copy, strlen(copy));
            free(copy);
            break;
        }
        case 14: {
            char *copy = strndup(a, 7);
            hash = mix_bytes(hash, copy, strlen(copy));
            free(copy);
            break;
        }
        case 15: bzero(a + 3, 9); break;
        case 16: strcat(a, word); a[ROOM] = 0; break;
        default: hash = mix(hash, (uint64_t)(bcmp(a, b, 5) != 0));
        }
    }
    return (void *)hash;
}

int main(void) {
    for (size_t i = 0; i < COUNT(text); i++)
        strcpy(text[i], words[i]);
    uint64_t hash = run_threads(THREADS, body);
    print_result(mix_bytes(hash, text, sizeof text));
}
