// Servers keep the address of what belongs to a connection with its epoll event. The threads share a heap, so where that lies depends on
// how they meet there.
//# expect: pass
#include "../say.h"
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

enum { THREADS = 3, CONNECTIONS = 4, ROUNDS = 30 };

struct connection {
    int ends[2];
    int number;
    char *name;
};

static struct connection *open_connection(int thread, int number) {
    struct connection *connection = malloc(sizeof *connection + (size_t)(number % 3) * 40);
    connection->name = malloc(16 + (size_t)number % 7 * 16);
    snprintf(connection->name, 16, "%d-%d", thread, number);
    connection->number = number;
    if (pipe(connection->ends) != 0)
        _exit(2);
    return connection;
}

static void *serve(void *argument) {
    int thread = *(int *)argument, sum = 0;
    int events = epoll_create1(EPOLL_CLOEXEC);
    for (int round = 0; round < ROUNDS; round++) {
        struct connection *connections[CONNECTIONS];
        for (int i = 0; i < CONNECTIONS; i++) {
            connections[i] = open_connection(thread, round * CONNECTIONS + i);
            struct epoll_event event = {.events = EPOLLIN, .data.ptr = connections[i]};
            if (i % 2) {
                // Given first with something else, and then with what counts.
                struct epoll_event other = {.events = EPOLLIN, .data.fd = i};
                epoll_ctl(events, EPOLL_CTL_ADD, connections[i]->ends[0], &other);
            }
            if (epoll_ctl(events, i % 2 ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, connections[i]->ends[0], &event) != 0)
                _exit(3);
            if (write(connections[i]->ends[1], "x", 1) != 1)
                _exit(4);
        }
        for (int done = 0; done < CONNECTIONS;) {
            struct epoll_event ready[CONNECTIONS];
            int count = epoll_wait(events, ready, CONNECTIONS, -1);
            for (int i = 0; i < count; i++) {
                struct connection *connection = ready[i].data.ptr;
                char byte;
                if (read(connection->ends[0], &byte, 1) != 1)
                    _exit(5);
                sum += connection->number + (int)strlen(connection->name);
                close(connection->ends[0]);
                close(connection->ends[1]);
                free(connection->name);
                free(connection);
                done++;
            }
        }
    }
    say("thread %d: %d\n", thread, sum);
    close(events);
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    int numbers[THREADS];
#ifdef M_ARENA_MAX
    mallopt(M_ARENA_MAX, 1);
#endif
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, serve, &numbers[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
