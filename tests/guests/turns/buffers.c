// What a thread allocates lies elsewhere when threads come to the allocator in another order: what is read must go where it is
// asked for now. By read, readv, recvmsg, and a mapped file.
//# expect: pass
#include "../say.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

static void *work(void *argument) {
    long me = (long)argument;
    int sockets[2], sum = 0;
    char *keep[64];
    for (int i = 0; i < 64; i++)
        memset(keep[i] = malloc((size_t)(100 + 50 * i + 7 * me)), (int)me, 100);
    char *first = malloc(20000), *second = malloc(300);
    int file = open("/proc/self/cmdline", O_RDONLY);
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets) != 0)
        _exit(2);
    struct iovec parts[2] = {{first, 3}, {second, 300}};
    ssize_t bytes = readv(file, parts, 2);
    for (ssize_t i = 0; i < bytes; i++)
        sum += i < 3 ? first[i] : second[i - 3];
    say("thread %ld: readv %zd %d\n", me, bytes, sum);
    struct iovec whole = {first, 20000};
    struct msghdr message = {.msg_iov = &whole, .msg_iovlen = 1};
    if (write(sockets[0], "a message", 9) != 9 || recvmsg(sockets[1], &message, 0) != 9)
        _exit(3);
    say("thread %ld: recvmsg %.9s\n", me, first);
    int zeros = open("/bin/sh", O_RDONLY);
    char *mapped = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, zeros, 0);
    say("thread %ld: mmap %.3s\n", me, mapped + 1);
    munmap(mapped, 4096);
    for (int i = 0; i < 64; i++)
        free(keep[i]);
    free(first);
    free(second);
    return NULL;
}

int main(void) {
    pthread_t threads[6];
    for (long i = 0; i < 6; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
