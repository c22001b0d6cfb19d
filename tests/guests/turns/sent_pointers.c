// A pool of workers that get their work as addresses through a pipe, and send it back through a pair of sockets; with copies of descriptors, in
// parts, by several buffers. All share a heap, so addresses depend on how they meet there.
//# expect: pass
#define _GNU_SOURCE
#include "../say.h"
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { WORKERS = 3, JOBS = 120, AHEAD = 6 };

struct job {
    int number;
    char *text;
};

static int work[2], done[2], datagrams[2];

static void *worker(void *argument) {
    for (;;) {
        struct job *job;
        if (read(work[0], &job, sizeof job) != sizeof job)
            return argument;
        char *scratch = malloc(64 + (size_t)(job->number % 5) * 48);
        snprintf(scratch, 64, "job %d", job->number);
        compute(job->number % 7 * 1000);
        job->text = malloc(strlen(scratch) + 1);
        strcpy(job->text, scratch);
        free(scratch);
        if (job->number % 3 == 0) {
            struct iovec parts[2] = {{&job, 3}, {(char *)&job + 3, 5}};
            if (writev(done[1], parts, 2) != 8)
                _exit(2);
        } else if (send(done[1], &job, sizeof job, 0) != sizeof job) {
            _exit(3);
        }
    }
}

/* To itself: datagrams of which the rest is lost; and what is read in parts. */
static void *echo(void *argument) {
    int parts[2];
    if (pipe2(parts, O_CLOEXEC) != 0)
        _exit(10);
    for (int i = 0; i < 50; i++) {
        char *block = malloc(24 + (size_t)(i % 4) * 32);
        char *sent[3] = {block, block + 1, block + 2}, *got[2];
        *block = (char)i;
        if (send(datagrams[1], sent, sizeof sent, 0) != sizeof sent || recv(datagrams[0], got, sizeof got, MSG_PEEK) != sizeof got ||
            *got[0] != (char)i || recv(datagrams[0], got, sizeof got, 0) != sizeof got || got[1] != block + 1)
            _exit(4);
        if (write(parts[1], sent, sizeof sent) != sizeof sent || read(parts[0], got, 4) != 4 || read(parts[0], (char *)got + 4, 12) != 12 ||
            got[1] != block + 1 || read(parts[0], got, 8) != 8 || got[0] != block + 2)
            _exit(11);
        got[0] -= 2;
        free(got[0]);
    }
    return argument;
}

int main(void) {
    pthread_t workers[WORKERS + 1];
    int first[2];
#ifdef M_ARENA_MAX
    mallopt(M_ARENA_MAX, 1);
#endif
    if (pipe(first) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, done) != 0 || socketpair(AF_UNIX, SOCK_DGRAM, 0, datagrams) != 0)
        return 5;
    work[0] = fcntl(first[0], F_DUPFD, 20);
    work[1] = dup2(first[1], 30);
    close(first[0]);
    close(first[1]);
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&workers[i], NULL, worker, NULL);
    pthread_create(&workers[WORKERS], NULL, echo, NULL);
    int sum = 0;
    for (int i = 0, back = 0; back < JOBS;) {
        if (i < JOBS && i < back + AHEAD) {
            struct job *job = malloc(sizeof *job + (size_t)(i % 4) * 24);
            job->number = i++;
            if (write(work[1], &job, sizeof job) != sizeof job)
                return 6;
            continue;
        }
        struct job *job;
        if (recv(done[0], &job, sizeof job, MSG_WAITALL) != sizeof job)
            return 7;
        sum += job->number * (int)strlen(job->text);
        if (back++ % 40 == 0)
            say("%s\n", job->text);
        free(job->text);
        free(job);
    }
    close(work[1]);
    for (int i = 0; i < WORKERS + 1; i++)
        pthread_join(workers[i], NULL);
    say("%d\n", sum);
    return 0;
}
