// An event loop as programs have it: the main thread waits for an epoll; workers take jobs from a queue, put results into another, and say so by a counter of
// events; a thread that makes jobs sends them through a pipe. Results are printed in the order in which they came.
//# threads: 5
#define _GNU_SOURCE
#include "../guest.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define WORKERS 3
#define JOBS 40

struct job {
    struct job *next;
    uint64_t number, result;
    int worker;
};

struct queue {
    struct job *first, **last;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static struct queue todo = {NULL, &todo.first}, done = {NULL, &done.first};
static int is_over, finished, requests[2];

struct source {
    int fd;
    void (*ready)(struct source *);
};

static void push(struct queue *queue, struct job *job) {
    job->next = NULL;
    *queue->last = job;
    queue->last = &job->next;
}

static struct job *pop(struct queue *queue) {
    struct job *job = queue->first;
    if (job && !(queue->first = job->next))
        queue->last = &queue->first;
    return job;
}

static void *worker(void *argument) {
    for (;;) {
        pthread_mutex_lock(&lock);
        while (!todo.first && !is_over)
            pthread_cond_wait(&more, &lock);
        struct job *job = pop(&todo);
        pthread_mutex_unlock(&lock);
        if (!job)
            return NULL;
        uint64_t hash = job->number;
        for (unsigned i = 0; i < 2000 * (job->number % 5); i++)
            hash = mix(hash, i);
        job->result = hash;
        job->worker = (int)(uintptr_t)argument;
        pthread_mutex_lock(&lock);
        push(&done, job);
        pthread_mutex_unlock(&lock);
        REQUIRE(eventfd_write(finished, 1) == 0);
    }
}

static void *client(void *unused) {
    (void)unused;
    for (uint64_t i = 0; i < JOBS; i++) {
        REQUIRE(write(requests[1], &i, sizeof i) == sizeof i);
        if (i % 6 == 0)
            usleep(300);
    }
    close(requests[1]);
    return NULL;
}

static unsigned answered, wakes;
static int poller, is_closed;

static void take_requests(struct source *source) {
    uint64_t number;
    ssize_t bytes;
    while ((bytes = read(source->fd, &number, sizeof number)) == sizeof number) {
        struct job *job = calloc(1, sizeof *job);
        job->number = number;
        pthread_mutex_lock(&lock);
        push(&todo, job);
        pthread_cond_signal(&more);
        pthread_mutex_unlock(&lock);
    }
    if (bytes == 0) {
        epoll_ctl(poller, EPOLL_CTL_DEL, source->fd, NULL);
        close(source->fd);
        is_closed = 1;
    } else
        REQUIRE(errno == EAGAIN);
}

static void take_results(struct source *source) {
    eventfd_t count;
    struct job *job;
    if (eventfd_read(source->fd, &count) < 0)
        return;
    printf("%llu:", (unsigned long long)count);
    for (;;) {
        pthread_mutex_lock(&lock);
        job = pop(&done);
        pthread_mutex_unlock(&lock);
        if (!job)
            break;
        printf(" %llu by %d", (unsigned long long)job->number, job->worker);
        answered++;
        free(job);
    }
    printf("\n");
}

int main(void) {
    pthread_t workers[WORKERS], sender;
    finished = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    REQUIRE(finished >= 0 && pipe(requests) == 0);
    fcntl(requests[0], F_SETFL, O_NONBLOCK);
    poller = epoll_create1(EPOLL_CLOEXEC);
    struct source sources[2] = {{requests[0], take_requests}, {finished, take_results}};
    for (int i = 0; i < 2; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &sources[i]};
        REQUIRE(epoll_ctl(poller, EPOLL_CTL_ADD, sources[i].fd, &event) == 0);
    }
    for (uintptr_t i = 0; i < WORKERS; i++)
        REQUIRE(pthread_create(&workers[i], NULL, worker, (void *)i) == 0);
    REQUIRE(pthread_create(&sender, NULL, client, NULL) == 0);
    while (!is_closed || answered < JOBS) {
        struct epoll_event events[16];
        int count = epoll_wait(poller, events, 16, -1);
        if (count < 0 && errno == EINTR)
            continue;
        REQUIRE(count > 0);
        wakes++;
        for (int i = 0; i < count; i++) {
            struct source *source = events[i].data.ptr;
            source->ready(source);
        }
    }
    pthread_mutex_lock(&lock);
    is_over = 1;
    pthread_cond_broadcast(&more);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    pthread_join(sender, NULL);
    printf("woke up %u times\n", wakes);
    return 0;
}
