// `inputs HOW [NAME]`: main gets something from outside in one of many ways, while another thread takes a lock; then it takes the lock, too,
// and prints that it did, by one call of `write`. What it got decides nothing.
//# threads: 2
#define _GNU_SOURCE
#include "../guest.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned taken;
static char first[4096], second[4096];

static void *body(void *argument) {
    (void)argument;
    for (unsigned i = 0; i < 20; i++) {
        pthread_mutex_lock(&lock);
        taken++;
        pthread_mutex_unlock(&lock);
    }
    return 0;
}

static int opened(const char *name) {
    int file = open(name, O_RDONLY);
    REQUIRE(file >= 0);
    return file;
}

/* To somebody on this machine who listens there. */
static int connected(const char *port) {
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int peer = socket(AF_INET, SOCK_STREAM, 0);
    REQUIRE(connect(peer, (struct sockaddr *)&name, sizeof name) == 0);
    return peer;
}

static void get(const char *how, const char *name) {
    struct iovec parts[2] = {{first, 3}, {second, sizeof second}};
    struct stat status;
    struct timespec now;
    if (!strcmp(how, "read"))
        REQUIRE(read(opened(name), first, sizeof first) >= 0);
    else if (!strcmp(how, "pread"))
        REQUIRE(pread(opened(name), first, sizeof first, 1) >= 0);
    else if (!strcmp(how, "readv"))
        REQUIRE(readv(opened(name), parts, 2) >= 0);
    else if (!strcmp(how, "recv"))
        REQUIRE(recv(connected(name), first, 4, MSG_WAITALL) >= 0);
    else if (!strcmp(how, "recvmsg")) {
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 1};
        REQUIRE(recvmsg(connected(name), &message, 0) >= 0);
    } else if (!strcmp(how, "poll")) {
        struct pollfd asked = {connected(name), POLLIN, 0};
        REQUIRE(poll(&asked, 1, 300) >= 0);
    } else if (!strcmp(how, "stdin"))
        while (fgets(first, sizeof first, stdin))
            ;
    else if (!strcmp(how, "map"))
        REQUIRE(mmap(0, 4096, PROT_READ, MAP_PRIVATE, opened(name), 0) != MAP_FAILED);
    else if (!strcmp(how, "stat"))
        (void)!stat(name, &status);
    else if (!strcmp(how, "open"))
        (void)!open(name, O_RDONLY);
    else if (!strcmp(how, "names")) {
        DIR *directory = opendir(name);
        REQUIRE(directory);
        while (readdir(directory))
            ;
        closedir(directory);
    } else if (!strcmp(how, "link"))
        REQUIRE(readlink(name, first, sizeof first) > 0);
    else if (!strcmp(how, "random"))
        REQUIRE(getrandom(first, 16, 0) == 16);
    else if (!strcmp(how, "auxiliary"))
        memcpy(first, (void *)getauxval(AT_RANDOM), 16);
    else if (!strcmp(how, "live")) {
        clock_gettime(CLOCK_REALTIME, &now);
        memcpy(first, &now, sizeof now);
        int self = getpid(), thread = gettid(), processor = sched_getcpu();
        snprintf(second, sizeof second, "%d %d %d", self, thread, processor);
    } else
        REQUIRE(!"a way that is known");
}

int main(int argc, char *argv[]) {
    REQUIRE(argc >= 2);
    pthread_t other;
    pthread_create(&other, 0, body, 0);
    get(argv[1], argc > 2 ? argv[2] : "");
    pthread_mutex_lock(&lock);
    REQUIRE(write(1, "got it\n", 7) == 7);
    pthread_mutex_unlock(&lock);
    pthread_join(other, 0);
    printf("%u\n", taken);
    return 0;
}
