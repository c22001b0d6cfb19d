// Synchronisations one right behind the other, of different kinds and on different objects, by two threads at a time. What each line does
// is said behind it, and compared with the schedule: none may have what belongs to the next one.
//# threads: 2
#include "../guest.h"
#include <semaphore.h>

struct objects {
    pthread_mutex_t a, b;
    sem_t s, t;
    pthread_rwlock_t r;
};

static struct objects of_main, of_thread;

__attribute__((noinline)) static void use(struct objects *o) {
    pthread_mutex_lock(&o->a);    // step: MutexLock a
    pthread_mutex_lock(&o->b);    // step: MutexLock b
    pthread_mutex_unlock(&o->b);  // step: MutexUnlock b
    pthread_mutex_trylock(&o->b); // step: MutexTryLock b
    pthread_mutex_unlock(&o->a);  // step: MutexUnlock a
    pthread_mutex_unlock(&o->b);  // step: MutexUnlock b
    sem_post(&o->s);              // step: SemPost s
    sem_post(&o->t);              // step: SemPost t
    sem_wait(&o->t);              // step: SemWait t
    sem_wait(&o->s);              // step: SemWait s
    pthread_rwlock_rdlock(&o->r); // step: RwReadLock r
    pthread_rwlock_unlock(&o->r); // step: RwUnlock r
    pthread_rwlock_wrlock(&o->r); // step: RwWriteLock r
    pthread_rwlock_unlock(&o->r); // step: RwUnlock r
}

static void set_up(struct objects *o) {
    pthread_mutex_init(&o->a, 0);
    pthread_mutex_init(&o->b, 0);
    sem_init(&o->s, 0, 0);
    sem_init(&o->t, 0, 0);
    pthread_rwlock_init(&o->r, 0);
}

static void *body(void *argument) {
    (void)argument;
    for (int i = 0; i < 5; i++)
        use(&of_thread);
    return 0;
}

int main(void) {
    pthread_t thread;
    set_up(&of_main);
    set_up(&of_thread);
    pthread_create(&thread, 0, body, 0);
    for (int i = 0; i < 5; i++)
        use(&of_main);
    pthread_join(thread, 0);
    printf("done\n");
    return 0;
}
