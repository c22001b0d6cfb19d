// Functions of libc that read or write memory which other threads rewrite: numbers in texts, formatted output and input, pieces, sorting, time.
// Every buffer keeps a NUL at its end that nobody touches.
//# threads: 4
//# flags: -O1 -fno-builtin
//# expect: pass
#define _GNU_SOURCE
#include "../guest.h"
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdarg.h>
#include <time.h>

enum { THREADS = 4, STEPS = 250, ROOM = 96 };

static char text[4][4 * ROOM];
static int numbers[24];
static time_t moments[2];
static struct tm dates[2];
static const char *const words[] = {"17", "-4711 and more", "  0x2a,3.5e2;", "1.25 a:b,,c", "999999999999999999999", "10.0.0.7"};

static uint64_t place(const char *found, const char *start) { return found ? (uint64_t)(found - start) : 999; }

static uint64_t bits(double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static int by_value(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

static int print_list(char *to, size_t room, const char *format, ...) {
    va_list list;
    va_start(list, format);
    int length = vsnprintf(to, room, format, list);
    va_end(list);
    return length;
}

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me, random = 19 * (me + 1);
    for (int i = 0; i < STEPS; i++) {
        char *a = text[next_random(&random) % 4];
        char *b = text[next_random(&random) % 4];
        const char *word = words[next_random(&random) % COUNT(words)];
        char *end = NULL;
        switch (next_random(&random) % 20) {
        case 0: hash = mix(hash, (uint64_t)strtol(a, &end, 0)), hash = mix(hash, place(end, a)); break;
        case 1: hash = mix(hash, strtoull(a, &end, 10)), hash = mix(hash, place(end, a)); break;
        case 2: hash = mix(hash, bits(strtod(a, &end))), hash = mix(hash, place(end, a)); break;
        case 3: hash = mix(hash, (uint64_t)atoi(a)), hash = mix(hash, (uint64_t)atoll(b)); break;
        case 4: hash = mix(hash, (uint64_t)snprintf(a, ROOM, "%s|%d|%.*s", b, i, 5, word)); break;
        case 5: hash = mix(hash, (uint64_t)snprintf(a, 9, "%5s %f %Lf %s", word, 1.5, 2.5L, b)); break;
        case 6: hash = mix(hash, (uint64_t)sprintf(a, "%.20s %lu%%", b, 77lu)); break;
        case 7: hash = mix(hash, (uint64_t)print_list(a, 40, "%d %d %d %d %d %d %s %.3s", 1, 2, 3, 4, 5, 6, word, b)); break;
        case 8: {
            int one = -1, at = -1;
            char rest[4 * ROOM] = "";
            hash = mix(hash, (uint64_t)sscanf(a, "%d%n%15[^;]", &one, &at, rest));
            hash = mix(mix_bytes(hash, rest, strlen(rest)), (uint64_t)one ^ (uint64_t)at << 32);
            break;
        }
        case 9: hash = mix(hash, (uint64_t)sscanf(word, "%d %20s", &numbers[i % 24], b)); break;
        case 10: qsort(numbers, 24, sizeof numbers[0], by_value); break;
        case 11: numbers[next_random(&random) % 24] = (int)next_random(&random); break;
        case 12: {
            char *rest = a, *piece = strsep(&rest, ",;");
            hash = mix(hash, place(piece, a)), hash = mix(hash, place(rest, a));
            break;
        }
        case 13: {
            char *state, *piece = strtok_r(a, " ,;", &state);
            while (piece) {
                hash = mix(hash, place(piece, a));
                piece = strtok_r(NULL, " ,;", &state);
            }
            break;
        }
        case 14: hash = mix(hash, strspn(a, "0123456789 ")), hash = mix(hash, strcspn(b, ",;|")); break;
        case 15: hash = mix(hash, place(strpbrk(a, "|;"), a)); break;
        case 16: moments[i % 2] = (time_t)(next_random(&random) % 2000000000), gmtime_r(&moments[me % 2], &dates[i % 2]); break;
        case 17: hash = mix(hash, (uint64_t)timegm(&dates[me % 2])), strftime(a, ROOM, "%Y-%m-%d %H:%M:%S", &dates[i % 2]); break;
        case 18: {
            struct in_addr address = {0};
            hash = mix(hash, (uint64_t)inet_pton(AF_INET, a, &address)), hash = mix(hash, address.s_addr);
            inet_ntop(AF_INET, &address, b, ROOM);
            break;
        }
        default: strcpy(a, word);
        }
    }
    return (void *)hash;
}

int main(void) {
    // Which thread reads the file of the time zone is not recorded.
    setenv("TZ", "UTC", 1);
    mktime(&dates[0]);
    for (size_t i = 0; i < COUNT(text); i++)
        strcpy(text[i], words[i]);
    uint64_t hash = run_threads(THREADS, body);
    hash = mix_bytes(hash, numbers, sizeof numbers);
    print_result(mix_bytes(hash, text, sizeof text));
}
