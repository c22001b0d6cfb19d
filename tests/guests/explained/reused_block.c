// A block is freed and allocated again, and then handed over as it should be. What the other thread fails of is the
// limit, which nobody protects.
//# threads: 2
//# fails: assert
#include "../guest.h"
#include <unistd.h>

struct box {
    long unset[6];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct box *volatile handed_over;
static volatile long limit;

static void *take(void *argument) {
    usleep(50000);
    pthread_mutex_lock(&lock);
    struct box *box = handed_over;
    pthread_mutex_unlock(&lock);
    long most = limit;
    /* Nobody has set it, so it has what is left of the block's earlier life. */
    long seen = ((volatile struct box *)box)->unset[2];
    REQUIRE(most == 0 && seen == 0);
    return argument;
}

int main(void) {
    volatile struct box *first = malloc(sizeof *first);
    pthread_t thread;
    pthread_create(&thread, NULL, take, NULL);
    first->unset[2] = 5;
    free((void *)first);
    struct box *second = malloc(sizeof *second);
    pthread_mutex_lock(&lock);
    handed_over = second;
    pthread_mutex_unlock(&lock);
    limit = 7;
    pthread_join(thread, NULL);
}
