// Functions of libc that read what they write, in memory for which threads race: what becomes of it is the same whether they work on copies or not. C
// does not say what that is, and libc's functions say another thing than copies do.
//# threads: 3
#include "../guest.h"
#include <stdarg.h>

enum { THREADS = 3, STEPS = 400, ROOM = 400 };

static char text[ROOM];

static void print_list(char *to, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(to, 60, format, list);
    va_end(list);
}

static void *body(void *argument) {
    uint64_t hash = (uintptr_t)argument, random = 31 * (hash + 1);
    for (unsigned i = 0; i < STEPS; i++) {
        char *to = text + next_random(&random) % 13, *from = text + next_random(&random) % 17;
        switch (next_random(&random) % 9) {
        case 0: hash = mix(hash, (uint64_t)snprintf(to, 60, "%s|%u", from, i)); break;
        case 1: hash = mix(hash, (uint64_t)sprintf(to, "%u %.40s", i, from)); break;
        case 2: print_list(to, "%s and %u", from, i); break;
        case 3: strcpy(to, from); break;
        case 4: text[40] = 0, strcat(to, from); break;
        case 5: strncpy(to, from, 30); break;
        case 6: hash = mix(hash, (uint64_t)sscanf(from, "%20s %20s", to, text + 5)); break;
        case 7: memcpy(to, from, 150); break;
        default: snprintf(to, 60, "a new text, of %u words and more", i);
        }
        // Where all texts end.
        memset(text + 120, 0, 50);
        hash = mix_bytes(hash, text, 60);
    }
    return (void *)hash;
}

int main(void) {
    strcpy(text, "a text at the beginning");
    print_result(run_threads(THREADS, body));
}
