// `ends STATUS` ends with it, `ends -SIGNAL` dies of that, and with FILE behind it, when there is FILE.
//# threads: 2
#include "../guest.h"
#include <signal.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned taken;

static void *body(void *argument) {
    (void)argument;
    for (int i = 0; i < 10; i++) {
        pthread_mutex_lock(&lock);
        taken++;
        pthread_mutex_unlock(&lock);
    }
    return 0;
}

int main(int argc, char *argv[]) {
    REQUIRE(argc > 1);
    pthread_t other;
    pthread_create(&other, 0, body, 0);
    body(0);
    pthread_join(other, 0);
    printf("%u\n", taken);
    fflush(stdout);
    if (argc > 2)
        while (access(argv[2], F_OK) != 0)
            usleep(1000);
    int how = atoi(argv[1]);
    if (how < 0)
        raise(-how);
    return how;
}
