// PEREGRINE's figure 3: each thread works on its part of the data and adds to `result` under a lock; main prints it without having
// joined the others. `figure3 THREADS SIZE MODE` prints the sum, or less.
//# threads: 2
#include "../guest.h"

int size, nthread;
unsigned long result;
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

NOINLINE void *worker(void *arg) {
    (void)arg;
    char *data = malloc(size / nthread);
    for (int i = 0; i < size / nthread; ++i)
        data[i] = i + 1;
    unsigned long sum = 0;
    for (int i = 0; i < size / nthread; ++i)
        sum += data[i];
    pthread_mutex_lock(&mutex);
    result += sum; // L15
    pthread_mutex_unlock(&mutex);
    return 0;
}

int main(int argc, char *argv[]) {
    REQUIRE(argc == 4);
    nthread = atoi(argv[1]);
    size = atoi(argv[2]);
    REQUIRE(nthread > 0 && size >= nthread);
    for (int i = 1; i < nthread; ++i) {
        pthread_t thread;
        pthread_create(&thread, 0, worker, 0);
    }
    worker(0);
    if (atoi(argv[3]) == 1)
        result += 1000; // L8: races with L15
    printf("result = %lu\n", result); // L9: races with L15
    return 0;
}
