// A server with a queue of requests, workers, a table of what was looked up before and counts of all that was done, each under its lock; the
// last requests take something from an account that is looked at in one critical section and changed in another (as in Apache 45605 and MySQL 12845).
//# fails: exit 3
#include "../say.h"
#include <pthread.h>

enum { REQUESTS = 40, ROWS = 4000, WORKERS = 3, ROOM = 4, SLOTS = 16, PAYMENTS = 2 };

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER, table_lock = PTHREAD_MUTEX_INITIALIZER,
                       count_lock = PTHREAD_MUTEX_INITIALIZER, account_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER, not_full = PTHREAD_COND_INITIALIZER;
static int queue[ROOM], first, waiting;
static struct {
    int key;
    unsigned answer;
} table[SLOTS];
static unsigned rows[1024];
static int found, computed, served, account = 10;

static void put(int request) {
    pthread_mutex_lock(&queue_lock);
    while (waiting == ROOM)
        pthread_cond_wait(&not_full, &queue_lock);
    queue[(first + waiting++) % ROOM] = request;
    pthread_cond_signal(&not_empty);
    pthread_mutex_unlock(&queue_lock);
}

static int take(void) {
    pthread_mutex_lock(&queue_lock);
    while (!waiting)
        pthread_cond_wait(&not_empty, &queue_lock);
    int request = queue[first];
    first = (first + 1) % ROOM;
    waiting--;
    pthread_cond_signal(&not_full);
    pthread_mutex_unlock(&queue_lock);
    return request;
}

/* What a request comes to, from the table or from all rows. */
static unsigned look_up(int key) {
    pthread_mutex_lock(&table_lock);
    unsigned answer = table[key % SLOTS].answer;
    int is_known = table[key % SLOTS].key == key;
    pthread_mutex_unlock(&table_lock);
    if (!is_known) {
        answer = (unsigned)key;
        for (int i = 0; i < ROWS; i++)
            answer = answer * 31 + rows[(unsigned)(i * key) % 1024];
        pthread_mutex_lock(&table_lock);
        table[key % SLOTS].key = key;
        table[key % SLOTS].answer = answer;
        pthread_mutex_unlock(&table_lock);
    }
    pthread_mutex_lock(&count_lock);
    *(is_known ? &found : &computed) += 1;
    served++;
    pthread_mutex_unlock(&count_lock);
    return answer;
}

static void pay(void) {
    pthread_mutex_lock(&account_lock);
    int is_enough = account >= 10;
    pthread_mutex_unlock(&account_lock);
    compute(3000000);
    if (is_enough) {
        pthread_mutex_lock(&account_lock);
        account -= 10;
        pthread_mutex_unlock(&account_lock);
    }
    compute(3000000);
    say(is_enough ? "paid\n" : "refused\n");
}

static void *work(void *argument) {
    for (int request; (request = take()) >= 0;) {
        say("request %d\n", request);
        if (request >= REQUESTS)
            pay();
        else
            say("answer %d: %u\n", request, look_up(1 + request * 7 % 40));
    }
    return argument;
}

int main(void) {
    pthread_t workers[WORKERS];
    for (int i = 0; i < 1024; i++)
        rows[i] = (unsigned)i * 2654435761u;
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&workers[i], NULL, work, NULL);
    for (int request = 0; request < REQUESTS + PAYMENTS; request++)
        put(request);
    for (int i = 0; i < WORKERS; i++)
        put(-1);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    say("%d requests, %d left\n", served, account);
    return account < 0 ? 3 : 0;
}
