// `reads FILE`: the first number in FILE says how often a thread takes the lock, so another content is another synchronisation;
// the second one is only printed.
//# threads: 2
#include "../guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned taken;
static unsigned times, letter;

static void *body(void *argument) {
    (void)argument;
    for (unsigned i = 0; i < times; i++) {
        pthread_mutex_lock(&lock);
        taken++;
        pthread_mutex_unlock(&lock);
    }
    return 0;
}

int main(int argc, char *argv[]) {
    REQUIRE(argc == 2);
    FILE *file = fopen(argv[1], "r");
    REQUIRE(file && fscanf(file, "%u %u", &times, &letter) == 2);
    fclose(file);
    pthread_t other;
    pthread_create(&other, 0, body, 0);
    body(0);
    pthread_join(other, 0);
    printf("%u %u\n", taken, letter);
    return 0;
}
