// A thread looks under the lock whether there is something, and takes it under the lock; in between it was taken away.
//# threads: 2
//# fails: signal SEGV
#include "../guest.h"
#include <unistd.h>

struct shelf {
    pthread_mutex_t lock;
    int *item;
};

static NOINLINE int has_item(struct shelf *shelf) {
    pthread_mutex_lock(&shelf->lock);
    int has = shelf->item != NULL;
    pthread_mutex_unlock(&shelf->lock);
    return has;
}

static NOINLINE int use_item(struct shelf *shelf) {
    pthread_mutex_lock(&shelf->lock);
    int used = (*shelf->item)++;
    pthread_mutex_unlock(&shelf->lock);
    return used;
}

static void *clear(void *argument) {
    struct shelf *shelf = argument;
    usleep(50000);
    pthread_mutex_lock(&shelf->lock);
    shelf->item = NULL;
    pthread_mutex_unlock(&shelf->lock);
    return NULL;
}

int main(void) {
    struct shelf *shelf = malloc(sizeof *shelf);
    pthread_mutex_init(&shelf->lock, NULL);
    shelf->item = calloc(1, sizeof *shelf->item);
    pthread_t thread;
    pthread_create(&thread, NULL, clear, shelf);
    if (has_item(shelf)) {
        usleep(100000);
        printf("%d\n", use_item(shelf));
    }
    pthread_join(thread, NULL);
}
