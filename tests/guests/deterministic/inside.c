// Functions whose accesses come after events of theirs: what is read from a file is stored when it is there, and an array that is sorted when all was compared, by
// a function that takes a lock. Other threads read and write the same memory.
//# threads: 3
#include "../guest.h"
#include <fcntl.h>
#include <unistd.h>

enum { THREADS = 3, STEPS = 200 };

static char line[256];
static int numbers[16];
static unsigned compared;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int by_value(const void *a, const void *b) {
    pthread_mutex_lock(&lock);
    compared++;
    pthread_mutex_unlock(&lock);
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

static void *body(void *argument) {
    uint64_t hash = (uintptr_t)argument, random = 7 * (hash + 1);
    FILE *stream = fopen("/proc/self/exe", "r");
    int file = open("/proc/self/exe", O_RDONLY);
    setvbuf(stream, 0, _IOFBF, 64);
    for (unsigned i = 0; i < STEPS; i++) {
        switch (next_random(&random) % 5) {
        case 0: hash = mix(hash, (uint64_t)read(file, line, 60)); break;
        case 1: hash = mix(hash, fread(line, 1, 60, stream)); break;
        case 2: hash = mix(hash, fgets(line, 80, stream) != 0); break;
        case 3: qsort(numbers, COUNT(numbers), sizeof numbers[0], by_value); break;
        default: numbers[next_random(&random) % COUNT(numbers)] = (int)next_random(&random) % 1000;
        }
        hash = mix_bytes(hash, line, 60);
        hash = mix_bytes(hash, numbers, sizeof numbers);
    }
    fclose(stream);
    close(file);
    return (void *)hash;
}

int main(void) {
    uint64_t hash = run_threads(THREADS, body);
    print_result(mix(hash, compared));
}
