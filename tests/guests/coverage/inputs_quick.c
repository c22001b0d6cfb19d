// The calls that scope inputs records by its quick way: with data of every length, with errors, with names, shown and not shown;
// with signals that come at them, and with vector registers that a system call does not change.
//# threads: 1
//# scopes: inputs
//# expect: pass
#define _GNU_SOURCE
#include "../guest.h"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define LARGE 200000
#define SIGNALS 20

static char bytes[LARGE], back[LARGE];

/* Every length up to a few words, and some around the limits of short entries. */
static uint64_t lengths(void) {
    static const size_t others[] = {127, 128, 129, 1000, 65535, 65536, LARGE};
    char name[] = "inputs-quick-XXXXXX";
    int file = mkstemp(name);
    REQUIRE(file >= 0 && getrandom(bytes, 256, 0) == 256);
    for (size_t i = 256; i < LARGE; i++)
        bytes[i] = (char)(bytes[i % 256] + (int)i);
    uint64_t hash = 0;
    for (size_t i = 0; i < 80 + COUNT(others); i++) {
        size_t count = i < 80 ? i : others[i - 80];
        REQUIRE(pwrite(file, bytes + i, count < LARGE - i ? count : LARGE - i, 0) >= 0);
        memset(back, 0, count);
        ssize_t got = i % 2 ? pread(file, back + i % 8, count < LARGE - 8 ? count : LARGE - 8, 0)
                            : (lseek(file, 0, SEEK_SET), read(file, back, count));
        hash = mix(mix_bytes(hash, back, count), (uint64_t)got);
    }
    hash = mix(hash, (uint64_t)lseek(file, -1, SEEK_SET) + (uint64_t)errno);
    hash = mix(hash, (uint64_t)lseek(file, (off_t)1 << 40, SEEK_SET));
    hash = mix(hash, (uint64_t)read(-1, back, 1) + (uint64_t)errno);
    REQUIRE(read(file, back, 100) == 0);
    close(file);
    unlink(name);
    return hash;
}

static uint64_t sockets(void) {
    uint64_t hash = 0;
    int pair[2], queue = epoll_create1(0);
    REQUIRE(queue >= 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.u64 = 77}, events[4];
    REQUIRE(epoll_ctl(queue, EPOLL_CTL_ADD, pair[0], &event) == 0);
    for (int i = 0; i < 40; i++) {
        REQUIRE(recv(pair[0], back, 10, 0) == -1 && errno == EAGAIN);
        struct iovec parts[2] = {{bytes, 3}, {bytes + 100, (size_t)i}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        ssize_t sent = i % 3 == 0   ? sendmsg(pair[1], &message, 0)
                       : i % 3 == 1 ? writev(pair[1], parts, 2)
                                    : send(pair[1], bytes, 3 + (size_t)i, 0);
        REQUIRE(sent == 3 + i);
        int ready = epoll_wait(queue, events, COUNT(events), 1000);
        REQUIRE(ready == 1);
        hash = mix(hash, events[0].events + events[0].data.u64);
        hash = mix(hash, (uint64_t)recv(pair[0], back, sizeof back, 0));
        hash = mix_bytes(hash, back, (size_t)sent);
    }
    /* With the name of the sender. */
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int one = socket(AF_INET, SOCK_DGRAM, 0), other = socket(AF_INET, SOCK_DGRAM, 0);
    REQUIRE(bind(one, (struct sockaddr *)&address, length) == 0);
    REQUIRE(getsockname(one, (struct sockaddr *)&address, &length) == 0);
    for (size_t i = 1; i < 20; i++) {
        REQUIRE(sendto(other, bytes, i, 0, (struct sockaddr *)&address, sizeof address) == (ssize_t)i);
        struct sockaddr_in sender;
        socklen_t room = sizeof sender;
        int named = i % 2;
        ssize_t got = recvfrom(one, back, sizeof back, 0, named ? (struct sockaddr *)&sender : NULL, named ? &room : NULL);
        hash = mix(mix_bytes(hash, back, i), (uint64_t)got + (named ? sender.sin_port : 0));
    }
    close(one), close(other), close(queue), close(pair[0]), close(pair[1]);
    return hash;
}

static uint64_t others(void) {
    uint64_t hash = 0;
    DIR *folder = opendir(".");
    for (struct dirent *entry; (entry = readdir(folder));)
        hash = mix(hash, entry->d_ino);
    closedir(folder);
    /* Clocks that go on within a second and beyond it, back to another kind of clock, and to places far apart. */
    static struct timespec far;
    struct timespec near[3], pause = {0, 1000};
    for (int i = 0; i < 3000; i++) {
        struct timespec *place = i % 7 ? &near[i % 3] : &far;
        clock_gettime(i % 100 == 99 ? CLOCK_REALTIME : CLOCK_MONOTONIC, place);
        hash = mix(hash, (uint64_t)place->tv_sec + (uint64_t)place->tv_nsec);
        if (i % 1000 == 0)
            nanosleep(i == 1000 ? &(struct timespec){1, 0} : &pause, NULL);
    }
    /* Shown, and no longer shown, and shown again. */
    REQUIRE(write(1, "one\n", 4) == 4);
    int kept = dup(1), nowhere = open("/dev/null", O_WRONLY);
    REQUIRE(dup2(nowhere, 1) == 1 && write(1, "lost\n", 5) == 5 && dup2(kept, 1) == 1);
    struct iovec parts[2] = {{"two\n", 4}, {"three\n", 6}};
    REQUIRE(writev(1, parts, 2) == 10);
    return hash;
}

static volatile unsigned long steps, steps_at_signal[SIGNALS];
static volatile int signals;

static void on_alarm(int number) {
    (void)number;
    if (signals < SIGNALS)
        steps_at_signal[signals++] = steps;
}

/* A step is a call that is not logged, or one that is. */
static void interrupted(void) {
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval every = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int zeros = open("/dev/zero", O_RDONLY);
    setitimer(ITIMER_REAL, &every, NULL);
    while (signals < SIGNALS) {
        steps++;
        if (steps % 5 == 0)
            REQUIRE(read(zeros, back, steps % 50) == (ssize_t)(steps % 50));
        else
            madvise(page, 4096, MADV_NORMAL);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    for (int i = 0; i < SIGNALS; i++)
        printf("signal %d after %lu steps\n", i, steps_at_signal[i]);
}

/* libc's own syscall(), with all vector registers in use around it. */
static long with_vectors(long number, long first, const void *second, long third) {
    static void *call;
    if (!call)
        call = dlsym(dlopen("libc.so.6", RTLD_LAZY), "syscall");
    static unsigned char before[256], after[256];
    static unsigned char next;
    for (size_t i = 0; i < sizeof before; i++)
        before[i] = next += 7;
    register long result __asm__("rax");
    register long a __asm__("rdi") = number;
    register long b __asm__("rsi") = first;
    register const void *c __asm__("rdx") = second;
    register long d __asm__("rcx") = third;
    register const unsigned char *from __asm__("rbx") = before;
    register unsigned char *to __asm__("r12") = after;
    register void *function __asm__("r14") = call;
#define EACH(one)                                                                                                       \
    one(0) one(1) one(2) one(3) one(4) one(5) one(6) one(7) one(8) one(9) one(10) one(11) one(12) one(13) one(14) one(15)
#define LOAD(i) "movdqu 16*" #i "(%%rbx), %%xmm" #i "\n"
#define STORE(i) "movdqu %%xmm" #i ", 16*" #i "(%%r12)\n"
#define USED(i) , "xmm" #i
    __asm__ volatile("movq %%rsp, %%r13\n"
                     "leaq -128(%%rsp), %%rsp\n"
                     "andq $-16, %%rsp\n" EACH(LOAD) "call *%%r14\n" EACH(STORE) "movq %%r13, %%rsp\n"
                     : "=r"(result), "+r"(a), "+r"(b), "+r"(c), "+r"(d)
                     : "r"(from), "r"(to), "r"(function)
                     : "r8", "r9", "r10", "r11", "r13", "memory", "cc" EACH(USED));
    REQUIRE(memcmp(before, after, sizeof before) == 0);
    return result;
}

static uint64_t vectors(void) {
    uint64_t hash = 0;
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    for (long i = 1; i < 400; i++) {
        REQUIRE(with_vectors(SYS_write, ends[1], bytes, i) == i);
        hash = mix(hash, (uint64_t)with_vectors(SYS_read, ends[0], back, i));
        hash = mix_bytes(hash, back, (size_t)i);
        hash = mix(hash, (uint64_t)with_vectors(SYS_getpid, 0, NULL, 0));
        REQUIRE(with_vectors(SYS_sched_yield, 0, NULL, 0) == 0);
        REQUIRE(with_vectors(SYS_lseek, ends[0], NULL, SEEK_SET) == -1 && errno == ESPIPE);
    }
    return hash;
}

int main(void) {
    uint64_t hash = mix(lengths(), sockets());
    hash = mix(hash, others());
    hash = mix(hash, vectors());
    interrupted();
    print_result(hash);
    return 0;
}
