/* A server with a thread for each of its few connections. It answers lines with a running sum that all threads share under a lock, until a line says
   "stop". `cargo xtask soak` is its client; the first argument is the file in which it writes its port. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS = 4 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned long sum;
static atomic_ulong answered;

static void *serve(void *argument)
{
    int connection = (int)(long)argument;
    char line[256];
    for (;;) {
        ssize_t bytes = read(connection, line, sizeof line - 1);
        if (bytes <= 0)
            break;
        line[bytes] = 0;
        char *copy = malloc((size_t)bytes + 1);
        memcpy(copy, line, (size_t)bytes + 1);
        pthread_mutex_lock(&mutex);
        sum = sum * 31 + strtoul(copy, NULL, 10);
        unsigned long now = sum;
        pthread_mutex_unlock(&mutex);
        int is_last = strncmp(copy, "stop", 4) == 0;
        free(copy);
        atomic_fetch_add(&answered, 1);
        int length = snprintf(line, sizeof line, "%lu\n", now);
        if (write(connection, line, (size_t)length) != length || is_last)
            break;
    }
    close(connection);
    return NULL;
}

int main(int count, char **arguments)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    int door = socket(AF_INET, SOCK_STREAM, 0);
    if (count < 2 || bind(door, (struct sockaddr *)&address, size) || listen(door, CONNECTIONS)
        || getsockname(door, (struct sockaddr *)&address, &size))
        return 1;
    FILE *file = fopen(arguments[1], "w");
    if (!file)
        return 1;
    fprintf(file, "%d\n", ntohs(address.sin_port));
    fclose(file);
    pthread_t threads[CONNECTIONS];
    for (long i = 0; i < CONNECTIONS; i++) {
        int connection = accept(door, NULL, NULL);
        pthread_create(&threads[i], NULL, serve, (void *)(long)connection);
    }
    for (int i = 0; i < CONNECTIONS; i++)
        pthread_join(threads[i], NULL);
    printf("%lu answers, sum %lu\n", (unsigned long)answered, sum);
    return 0;
}
